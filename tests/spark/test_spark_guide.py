"""The snippets of docs/guides/spark.md run, one after the other, in one program."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import Row

from spark.reading import kept_topic
from spark.streams import finished

pytestmark = [
    # One worker has them all: a second session would cost as much as the tests.
    pytest.mark.xdist_group("spark"),
    # A minute where nothing else runs, and several where much does.
    pytest.mark.timeout(400),
]

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "spark.md"
SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_snippets_run(spark, broker, tmp_path, monkeypatch):
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", "nobody:1")
    topics = {name: kept_topic(broker, name) for name in ("orders", "orders.eu", "reports")}
    for region in ("eu", "us", "eu"):
        broker.publish(topics["orders"], b"{}", region=region)
        broker.publish(topics["orders.eu"], b"{}", region=region)
    program: dict[str, object] = {"spark": spark}
    snippets = SNIPPET.findall(GUIDE.read_text(encoding="utf-8"))
    assert len(snippets) == 6
    given = f'format("fanlog").options(endpoint="{broker.endpoint}", project="test")'
    for snippet in snippets:
        # Where the guide leaves out endpoint and project, this machine's defaults would count.
        code = snippet.replace("127.0.0.1:8085", broker.endpoint).replace("/data/", f"{tmp_path}/")
        code = code.replace('{"endpoint"', '{"project": "test", "endpoint"')
        run = partial(exec, code.replace('format("fanlog")', given), program)
        if "readStream" in snippet:
            finished(lambda run=run: run() or program["query"])
        else:
            run()
    assert spark.read.parquet(f"{tmp_path}/orders").count() == 3
    for _ in range(2):
        program["publish"](spark.createDataFrame([Row(data="once")]), 7)  # type: ignore[operator]
    reports = spark.read.format("fanlog").options(endpoint=broker.endpoint, project="test")
    found = reports.option("topic", "reports").load().selectExpr("cast(data as string)").collect()
    assert sorted(row["data"] for row in found) == [
        "once",
        '{"region":"eu","count":2}',
        '{"region":"us","count":1}',
    ]
