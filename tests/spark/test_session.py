"""What the pipeline tells Spark; and what it says when Spark does not start."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from acceptance.paired import PATIENCE_S
from acceptance.served import FANLOG, clean_environ
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


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--master", "nonsense"], "Spark does not start on nonsense: SparkException: Master must"),
        (["--memory", "1x"], "on local[*]: Invalid maximum heap size: -Xmx1x"),
        (["--memory", "10m"], "on local[*]: OutOfMemoryError: Java heap space"),
        (["--state-dir", "/proc/nowhere"], "the state folder cannot be written"),
        (["--log-level", "loud"], "'loud' is not one of trace, debug, info, warn, error, off"),
        (["--master", "sc://127.0.0.1:1/nowhere"], "sc://127.0.0.1:1/nowhere cannot be used"),
        (["--master", "sc://127.0.0.1:1", "--memory", "1g"], "--memory: with a Spark Connect"),
    ],
)
def test_one_that_does_not_start(start_broker, tmp_path, flags, says):
    server = start_broker(lake=str(tmp_path / "lake"))
    given = ["--endpoint", server.endpoint, "--state-dir", str(tmp_path / "state"), *flags]
    done = subprocess.run(
        [*FANLOG, "pipeline", *given],
        env=clean_environ(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 1
    assert says in done.stderr
    assert "Traceback" not in done.stderr
