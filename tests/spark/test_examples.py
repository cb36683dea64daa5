"""The examples with Spark: run in this process, on its session, with a worker beside them."""

from __future__ import annotations

import json
import runpy
import threading
from pathlib import Path

import pytest

from fanlog.client import Client
from fanlog.lake.location import Location
from fanlog.pipeline.context import Context
from fanlog.pipeline.jobs import kinds
from fanlog.pipeline.worker import Worker

EXAMPLES = Path(__file__).parents[2] / "examples" / "5-spark"
BILLING = "projects/examples/subscriptions/billing"


@pytest.fixture(scope="module")
def sales(broker, spark, tmp_path_factory):
    """The topic of the examples, acknowledged once, and a worker."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PUBSUB_EMULATOR_HOST", broker.endpoint)
        run("sales.py")
    location = Location.parse(str(tmp_path_factory.mktemp("lake")))
    context = Context(spark=spark, endpoint=broker.endpoint, location=location)
    worker = Worker(lambda: Client(broker.endpoint), kinds.runners(context), name="w", pull_s=0.2)
    thread = threading.Thread(target=worker.run)
    thread.start()
    yield
    worker.stop()
    thread.join(60)


@pytest.fixture(autouse=True)
def environment(broker, sales, monkeypatch):
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", broker.endpoint)


def run(name):
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")


def test_all_are_run():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        "aggregate.py",
        "backtest.py",
        "query.py",
        "replay.py",
        "sales.py",
    }


def test_query(capsys):
    run("query.py")
    shown = capsys.readouterr().out
    assert "|    eu|     2|  1520|" in shown
    assert "|    us|     1|  5000|" in shown


def test_aggregate(broker, capsys):
    reader = broker.subscription("projects/examples/topics/sales-counts")
    run("aggregate.py")
    assert capsys.readouterr().out == "published the counts\n"
    counts = [json.loads(one.message.data) for one in broker.drain(reader, 2)]
    assert sorted((one["region"], one["count"]) for one in counts) == [("eu", 2), ("us", 1)]


def test_backtest(capsys):
    run("backtest.py")
    assert capsys.readouterr().out == "1 of 3 messages\n"


def test_replay(broker, capsys):
    run("replay.py")
    assert capsys.readouterr().out == "reopened 2\n"
    again = [json.loads(one.message.data)["amount"] for one in broker.drain(BILLING, 2)]
    assert again == [5_000, 1_500]
