"""Outcomes of a running broker become tables: as Spark does it, without Spark; and once with it."""

from __future__ import annotations

import asyncio
import shutil
import time
from datetime import timedelta

import pytest
from deltalake import DeltaTable
from pyspark.sql.streaming.datasource import ReadAllAvailable

from fanlog.broker.clock import ManualClock
from fanlog.lake.location import Location
from fanlog.lake.tables import DELIVERY_STATS, TOPIC_STATS, open_table
from fanlog.model.outcomes import TOPIC
from fanlog.model.specs import TopicSpec
from fanlog.pipeline.flows.flow import Flow
from fanlog.pipeline.flows.stats import SOURCE, StatsFlow, Told, commit_stats
from fanlog.wire.publish import build_body
from spark.reading import kept_topic, rows, stream_reader
from spark.streams import PATIENCE_S, finished

ALL = ReadAllAvailable()


@pytest.fixture
def location(tmp_path):
    return Location.parse(str(tmp_path / "stats"))


def end_minute(server) -> None:
    server.advance(60 - server.clock.now() % 60)
    server.run(_told(server))


async def _told(server) -> None:
    for _ in range(10):
        await asyncio.sleep(0)
    async with server.broker.outcomes._telling:
        pass


def run(server, location, start=None):
    """One batch of the flow, with all there is; where it ends."""
    reader = stream_reader(server, **SOURCE)
    start = start or reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    found = rows(reader, reader.partitions(start, end)).to_pylist()
    told = [Told(row["partition"], row["offset"], row["data"]) for row in found]
    commit_stats(location, start["log"], told)
    return end


def table(location, which):
    return open_table(location, which).to_pyarrow_table().sort_by("minute").to_pylist()


def test_from_the_broker_to_the_tables(start_broker, location, tmp_path):
    server = start_broker(ManualClock(), lake=str(tmp_path / "lake"))
    topic = kept_topic(server)
    subscription = server.subscription(topic, ack_deadline_seconds=600)
    server.publish(topic, b"1", b"2", b"3")
    server.ack(subscription, server.pull(subscription, 2))
    end_minute(server)
    end = run(server, location)
    server.publish(topic, b"4")
    end_minute(server)
    run(server, location, end)
    # The checkpoint is lost: everything is read again, and nothing is new.
    run(server, location)
    topics, deliveries = table(location, TOPIC_STATS), table(location, DELIVERY_STATS)
    assert [(row["topic"], row["messages"]) for row in topics] == [(topic, 3), (topic, 1)]
    told = [(row["delivered"], row["acknowledged"], row["backlog"]) for row in deliveries]
    assert told == [(2, 2, 1), (0, 0, 2)]
    assert {row["subscription"] for row in deliveries} == {subscription}


def test_the_topic_need_not_be_there_yet(start_broker, location):
    server = start_broker(ManualClock())
    server.publish(kept_topic(server), b"1")
    end = run(server, location)
    # As the broker does it: callers change nothing in the service's own project.
    spec = TopicSpec(name=TOPIC, message_retention_s=3600.0)
    server.run(server.broker.topics.create(spec))
    told = (
        b'{"version": 1, "minute": "2026-11-16T09:30:00Z", "topics": '
        b'[{"topic": "t", "messages": 1, "bytes": 2}], "subscriptions": []}'
    )
    server.run(server.broker.publish(TOPIC, build_body([(told, {}, "")])))
    run(server, location, end)
    assert [row["topic"] for row in table(location, TOPIC_STATS)] == ["t"]


def plain(location, which, *columns):
    """Rows of a table by minute, as anybody would read it, without Fanlog."""
    found = DeltaTable(f"{location.uri}/{which.name}").to_pyarrow_table(
        columns=["minute", *columns]
    )
    return [tuple(row.values()) for row in found.sort_by("minute").to_pylist()]


def is_told(location):
    """Whether a minute is in both tables, the second of which is written last."""
    return DeltaTable.is_deltatable(f"{location.uri}/{DELIVERY_STATS.name}") and plain(
        location, DELIVERY_STATS
    )


@pytest.mark.slow
def test_with_spark(spark, start_broker, location, tmp_path):
    """From deliveries to tables by the flow, in three starts, the last without a checkpoint."""
    server = start_broker(ManualClock(), lake=str(tmp_path / "lake"))
    topic = kept_topic(server)
    subscription = server.subscription(topic, ack_deadline_seconds=10)
    checkpoints = tmp_path / "checkpoints"
    stats = StatsFlow(spark, server.endpoint, location, checkpoints)
    # Three are published, and one of them is delivered twice.
    server.publish(topic, b"1", b"22", b"333")
    _, *others = server.await_pull(subscription)
    server.ack(subscription, others)
    server.advance(11)
    server.drain(subscription, 1)
    end_minute(server)
    # It runs on until it is stopped.
    flow = Flow("stats", lambda: stats.start(every_s=0.1), monotonic=time.monotonic)
    before_s = time.time()
    flow.start()
    try:
        late_s = time.monotonic() + PATIENCE_S
        while not is_told(location):
            assert time.monotonic() < late_s, flow.error
            time.sleep(0.05)
        # How a pipeline says it is: the batch is Spark's to tell, once it has ended.
        while (report := flow.report()).batch is None:
            assert time.monotonic() < late_s, report
            time.sleep(0.05)
    finally:
        flow.stop()
    assert (report.name, report.state, report.failures) == ("stats", "RUNNING", 0)
    assert report.started_s is not None
    assert report.batch_s is not None
    # Spark rounds down to milliseconds.
    assert before_s <= report.started_s <= report.batch_s + PATIENCE_S
    assert before_s - 1 <= report.batch_s <= time.time()
    server.publish(topic, b"4444", b"55555")
    end_minute(server)
    finished(lambda: stats.start(only_now=True))
    # Nothing happens in the third minute, and then something does again.
    end_minute(server)
    server.drain(subscription, 2)
    end_minute(server)
    shutil.rmtree(checkpoints)
    finished(lambda: stats.start(only_now=True))
    topics = plain(location, TOPIC_STATS, "topic", "messages")
    assert [row[1:] for row in topics] == [(topic, 3), (topic, 2)]
    columns = ["delivered", "redelivered", "acknowledged", "backlog"]
    deliveries = plain(location, DELIVERY_STATS, "subscription", *columns)
    assert [row[1:] for row in deliveries] == [
        (subscription, 4, 1, 3, 0),
        (subscription, 0, 0, 0, 2),
        (subscription, 2, 0, 2, 0),
    ]
    first = topics[0][0]
    minutes = [(row[0] - first) // timedelta(minutes=1) for row in [*topics, *deliveries]]
    assert minutes == [0, 1, 0, 1, 3]
