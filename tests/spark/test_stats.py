"""Outcomes of a running broker become tables; the topic is read as Spark does, without Spark."""

from __future__ import annotations

import asyncio

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from fanlog.broker.clock import ManualClock
from fanlog.lake.location import Location
from fanlog.lake.tables import DELIVERY_STATS, TOPIC_STATS, open_table
from fanlog.outcomes import TOPIC
from fanlog.pipeline.stats import SOURCE, Told, commit_stats
from spark.reading import kept_topic, rows, stream_reader

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
    server.publisher.create_topic(request={"name": TOPIC, "message_retention_duration": "3600s"})
    server.publish(
        TOPIC,
        b'{"version": 1, "minute": "2026-11-16T09:30:00Z", "topics": '
        b'[{"topic": "t", "messages": 1, "bytes": 2}], "subscriptions": []}',
    )
    run(server, location, end)
    assert [row["topic"] for row in table(location, TOPIC_STATS)] == ["t"]
