"""What the pipeline tells Spark, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from fanlog.pipeline.session import configuration

LOG4J = Path("/somewhere/log4j2.properties")
DRIVER_JAVA = "spark.driver.extraJavaOptions"


def configured(master: str = "local[*]", **given: str) -> dict[str, str]:
    return dict(configuration(master, memory="1g", log4j=LOG4J, given=given))


@pytest.mark.parametrize(
    ("master", "host"),
    [
        ("local", "127.0.0.1"),
        ("local[*]", "127.0.0.1"),
        ("spark://127.0.0.1:7077", "127.0.0.1"),
        ("spark://localhost:7077,127.0.0.2:7077", "127.0.0.1"),
        ("spark://localhost.example.org:7077", None),
        ("spark://127.0.0.1:7077,spark.example.org:7077", None),
        ("k8s://https://127.0.0.1:6443", None),
        ("yarn", None),
    ],
)
def test_where_all_is_on_this_machine_nobody_else_reaches_the_driver(master, host):
    found = configured(master)
    assert found.get("spark.driver.host") == found.get("spark.driver.bindAddress") == host


def test_what_is_given_comes_first():
    given = {"spark.driver.host": "192.0.2.1", "spark.driver.memory": "4g"}
    found = configured(**given)
    assert given.items() <= found.items()


def test_options_for_java_are_added_to_ours():
    """Or else Spark would log to the terminal."""
    ours = configured()[DRIVER_JAVA]
    assert ours == f"-Dlog4j2.configurationFile={LOG4J}"
    assert configured(**{DRIVER_JAVA: "-Xss4m"})[DRIVER_JAVA] == f"{ours} -Xss4m"
