"""Streams, planned and read as Spark does it, without Spark."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
)

from acceptance.served import PATIENCE_S
from fanlog.broker.clock import ManualClock
from fanlog.client import CallFailed, connection
from fanlog.errors import DataLoss, FailedPrecondition, Unimplemented
from fanlog.spark import stream
from spark.reading import kept_topic, payloads, rows, stream_reader

HOUR_S = 3600
ALL = ReadAllAvailable()


def batch(reader, start, end):
    return payloads(rows(reader, reader.partitions(start, end)))


def follow(reader, start, limit=ALL):
    """All batches until there is nothing more; and where that is."""
    found = []
    while (end := reader.latestOffset(start, limit)) != start:
        end = json.loads(json.dumps(end))
        found.append(batch(reader, start, end))
        start = end
    return found, start


def joined(batches):
    return [data for each in batches for data in each]


def test_from_now_on(broker):
    topic = kept_topic(broker)
    broker.publish(topic, b"before")
    reader = stream_reader(broker, topic=topic)
    start = reader.initialOffset()
    assert reader.latestOffset(start, ALL) == start
    broker.publish(topic, b"1")
    broker.publish(topic, b"2", b"3")
    found, end = follow(reader, start)
    assert found == [[b"1", b"2", b"3"]]
    # The same again, whatever came since.
    broker.publish(topic, b"4")
    assert batch(stream_reader(broker, topic=topic), start, end) == [b"1", b"2", b"3"]
    assert reader.reportLatestOffset()["sequence"] > end["sequence"]


def test_from_the_beginning_and_from_offsets(broker):
    topic = kept_topic(broker)
    for number in range(4):
        broker.publish(topic, b"%d" % number)
    for given, expected in (
        ("earliest", [b"0", b"1", b"2", b"3"]),
        (json.dumps({topic: 2}), [b"2", b"3"]),
        (json.dumps({topic: -2}), [b"0", b"1", b"2", b"3"]),
        (json.dumps({topic: -1}), []),
    ):
        reader = stream_reader(broker, topic=topic, startingOffsets=given)
        found, _ = follow(reader, reader.initialOffset())
        assert joined(found) == expected


def test_from_a_time(start_broker):
    broker = start_broker(ManualClock())
    topic = kept_topic(broker)
    for number in range(4):
        broker.publish(topic, b"%d" % number)
        broker.advance(60)
    time_ms = int((broker.clock.now() - 120) * 1_000)
    reader = stream_reader(broker, topic=topic, startingTimestamp=time_ms)
    found, _ = follow(reader, reader.initialOffset(), ReadMaxRows(1))
    assert found == [[b"2"], [b"3"]]


def test_limits_round_up_to_whole_commits(broker):
    topic = kept_topic(broker)
    for number in range(6):
        broker.publish(topic, b"%d" % number, b"x")
    reader = stream_reader(broker, topic=topic, startingOffsets="earliest", maxMessagesPerTrigger=3)
    assert reader.getDefaultReadLimit() == ReadMaxRows(3)
    assert stream_reader(broker, topic=topic).getDefaultReadLimit() == ALL
    found, _ = follow(reader, reader.initialOffset(), ReadMaxRows(3))
    assert [len(each) for each in found] == [4, 4, 4]
    assert follow(reader, reader.initialOffset(), ReadMaxRows(100))[0] == [joined(found)]
    assert len(follow(reader, reader.initialOffset(), ReadMaxBytes(1))[0]) == 6
    with pytest.raises(Unimplemented, match="ReadMaxFiles"):
        reader.latestOffset(reader.initialOffset(), ReadMaxFiles(1))


def test_available_now_ends_where_it_was_asked(broker):
    topic = kept_topic(broker)
    broker.publish(topic, b"1")
    broker.publish(topic, b"2")
    reader = stream_reader(broker, topic=topic, startingOffsets="earliest")
    reader.prepareForTriggerAvailableNow()
    broker.publish(topic, b"3")
    found, end = follow(reader, reader.initialOffset(), ReadMaxRows(1))
    assert found == [[b"1"], [b"2"]]
    found, _ = follow(stream_reader(broker, topic=topic), end)
    assert found == [[b"3"]]


def test_new_topics_of_a_pattern_join(broker):
    first = kept_topic(broker, "joining.one")
    reader = stream_reader(broker, topicPattern="joining.*")
    start = reader.initialOffset()
    second = kept_topic(broker, "joining.two")
    broker.publish(second, b"2")
    broker.publish(first, b"1")
    found, _ = follow(reader, start)
    assert [sorted(each) for each in found] == [[b"1", b"2"]]


def test_the_filter_of_a_subscription_is_that_of_the_plan(broker):
    topic = kept_topic(broker)
    name = broker.subscription(topic, filter='attributes.colour = "red"')
    reader = stream_reader(broker, subscription=name)
    start = reader.initialOffset()
    broker.publish(topic, b"red", colour="red")
    broker.publish(topic, b"blue", colour="blue")
    end = reader.latestOffset(start, ALL)
    assert batch(reader, start, end) == [b"red"]
    broker.subscriber.update_subscription(
        request={
            "subscription": {"name": name, "filter": 'attributes.colour = "blue"'},
            "update_mask": {"paths": ["filter"]},
        }
    )
    assert batch(reader, start, end) == [b"red"]


def test_many_partitions_are_one_number(broker, monkeypatch):
    monkeypatch.setattr(stream, "OFFSETS_MAX", 2)
    names = [kept_topic(broker, f"wide.{number}") for number in range(4)]
    for name in names:
        broker.publish(name, name[-1].encode())
    given = json.dumps({names[0]: 1, names[3]: 2})
    reader = stream_reader(broker, topicPattern="wide.*", startingOffsets=given)
    start = reader.initialOffset()
    assert len(start["offsets"]) == 4
    found, end = follow(reader, start, ReadMaxRows(1))
    assert joined(found) == [b"1", b"2"]
    # What is still ahead is remembered, the rest is passed.
    assert list(end["offsets"].values()) == [2]
    broker.publish(names[3], b"below", b"at")
    found, end = follow(reader, end)
    assert joined(found) == [b"at"]
    assert "offsets" not in end


def test_what_was_lost_while_the_query_was_away(start_broker, caplog):
    broker = start_broker(ManualClock())
    topic, idle = kept_topic(broker, hours=1), kept_topic(broker, hours=1)
    broker.publish(idle, b"idle")
    broker.publish(topic, b"0")
    options = {"topics": f"{topic},{idle}", "startingOffsets": "earliest"}
    reader = stream_reader(broker, **options)
    _, start = follow(reader, reader.initialOffset())
    broker.publish(topic, b"1")
    broker.advance(2 * HOUR_S)
    broker.publish(topic, b"2")
    broker.sweep()
    reader = stream_reader(broker, **options)
    end = reader.latestOffset(start, ALL)
    # What was read before it went is not lost.
    with pytest.raises(DataLoss, match=rf"lost: {topic} partition \d+ offsets 1 to 1: "):
        reader.partitions(start, end)
    lenient = stream_reader(broker, failOnDataLoss="false", **options)
    assert batch(lenient, start, end) == [b"2"]
    assert "offsets 1 to 1" in caplog.text


def test_a_deleted_topic_is_a_loss(broker):
    topic, other = kept_topic(broker, "gone.one"), kept_topic(broker, "gone.two")
    reader = stream_reader(broker, topicPattern="gone.*")
    start = reader.initialOffset()
    broker.publish(topic, b"1")
    end = reader.latestOffset(start, ALL)
    broker.publisher.delete_topic(request={"topic": topic})
    with pytest.raises(DataLoss, match="a topic that was deleted, partition"):
        reader.partitions(start, end)
    assert other


def test_a_checkpoint_of_another_log(start_broker):
    one, other = start_broker(), start_broker()
    starts = []
    for broker in (one, other):
        topic = kept_topic(broker, "orders")
        broker.publish(topic, b"1")
        starts.append(stream_reader(broker, topic="orders").initialOffset())
    reader = stream_reader(other, topic="orders")
    with pytest.raises(FailedPrecondition, match="the checkpoint is of the log"):
        reader.latestOffset(starts[0], ALL)
    later = starts[1] | {"sequence": 1_000}
    with pytest.raises(FailedPrecondition, match="restored from an older copy"):
        reader.latestOffset(later, ALL)


class TestABrokerThatIsAway:
    def test_whoever_forgot_to_start_it_hears_so_at_once(self, start_broker, monkeypatch):
        monkeypatch.setattr(connection, "PAUSE_S", 3600.0)
        broker = start_broker()
        reader = stream_reader(broker, topic="orders", startingOffsets="earliest")
        broker.stop()
        with pytest.raises(CallFailed, match="cannot be reached"):
            reader.initialOffset()
        with pytest.raises(CallFailed, match="cannot be reached"):
            reader.latestOffset({"sequence": 0, "log": "log"}, ALL)

    def test_one_that_was_there_is_waited_for(self, start_broker, monkeypatch):
        broker = start_broker()
        broker.restart()  # From now on the port is the same.
        topic = kept_topic(broker)
        reader = stream_reader(broker, topic=topic)
        start = reader.initialOffset()
        broker.publish(topic, b"1")
        paused, is_back = threading.Event(), threading.Event()

        def pause(_: float) -> None:
            paused.set()
            assert is_back.wait(PATIENCE_S)

        monkeypatch.setattr(connection.time, "sleep", pause)
        broker.stop()
        with ThreadPoolExecutor(1) as threads:
            asked = threads.submit(reader.latestOffset, start, ALL)
            assert paused.wait(PATIENCE_S)
            broker.start()
            is_back.set()
            end = asked.result(PATIENCE_S)
        assert batch(reader, start, end) == [b"1"]
        broker.stop()
        monkeypatch.setattr(stream, "PATIENCE_S", 0.0)
        with pytest.raises(CallFailed, match="cannot be reached"):
            reader.latestOffset(end, ALL)
