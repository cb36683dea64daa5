"""`KafkaPartition` against a real Kafka that is well; the connection to it may not be."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import psutil
import pytest
from bench.kafka import Kafka, free_ports
from confluent_kafka import Producer

from chaos.proxy import Proxy
from fanlog import limits
from fanlog.log.kafka.client import KafkaOptions
from fanlog.log.kafka.partition import KafkaPartition, TopicReplaced
from fanlog.log.kafka.questions import TopicMissing
from fanlog.log.kafka.topic import prepare_topic
from fanlog.log.replicated.partition import (
    Fetched,
    OffsetGone,
    PartitionBounds,
    PartitionUnavailable,
    Produced,
    RecordTooLarge,
    Uncertain,
)
from kafka.changes import PATIENCE_S, admin, change_setting, delete_topic

Open = Callable[[KafkaOptions], KafkaPartition]

MANY = 1 << 30


def test_records_lie_in_the_order_they_were_produced(partition: KafkaPartition):
    values = [b"", b"a", b"b" * 1024, bytes(range(256))]
    before_ms = int(time.time() * 1000)
    produced = [partition.produce(value) for value in values]
    after_ms = int(time.time() * 1000)
    assert all(isinstance(each, Produced) for each in produced)
    assert [each.offset for each in produced] == [0, 1, 2, 3]
    assert all(before_ms <= each.append_time_ms <= after_ms for each in produced)
    fetched = fetch_all(partition, 0, 4)
    assert [each.value for each in fetched] == values
    # The acknowledgement and the reader are told the same.
    assert [each[:2] for each in fetched] == [tuple(each) for each in produced]
    assert partition.bounds(wait_s=PATIENCE_S) == PartitionBounds(0, 4)


def test_nothing_is_fetched_at_the_end(partition: KafkaPartition):
    assert partition.fetch(0, max_bytes=MANY, wait_s=0.1) == []
    partition.produce(b"a")
    assert len(fetch_all(partition, 0, 1)) == 1
    assert partition.fetch(1, max_bytes=MANY, wait_s=0) == []


def test_a_record_ends_the_wait_for_it(partition: KafkaPartition):
    assert partition.fetch(0, max_bytes=MANY, wait_s=0.1) == []
    producing = threading.Timer(0.1, partition.produce, [b"a"])
    producing.start()
    began = time.monotonic()
    assert [each.value for each in partition.fetch(0, max_bytes=MANY, wait_s=60)] == [b"a"]
    assert time.monotonic() - began < 30
    producing.join()


def test_a_fetch_has_about_as_many_bytes_as_asked_for(partition: KafkaPartition):
    for _ in range(10):
        partition.produce(b"x" * 1000)
    assert len(fetch(partition, 0, max_bytes=1)) == 1
    assert len(fetch(partition, 1, max_bytes=1000)) == 1
    assert [each.offset for each in fetch(partition, 2, max_bytes=1001)] == [2, 3]
    assert [each.offset for each in fetch_all(partition, 4, 10)] == [4, 5, 6, 7, 8, 9]


def test_reading_may_begin_anywhere(partition: KafkaPartition):
    for number in range(10):
        partition.produce(b"%d" % number)
    for offset in (7, 2, 9, 0, 3, 3):
        assert fetch(partition, offset, max_bytes=1) == [
            Fetched(offset, fetch(partition, offset, max_bytes=1)[0].append_time_ms, b"%d" % offset)
        ]
    assert partition.fetch(10, max_bytes=MANY, wait_s=0) == []


def test_the_largest_record_passes_and_a_larger_one_is_refused(partition: KafkaPartition):
    largest = b"\x00\xff" * (limits.KAFKA_RECORD_BYTES_MAX // 2)
    with pytest.raises(RecordTooLarge, match="33,550,337 bytes; 33,550,336 are allowed"):
        partition.produce(largest + b"!")
    assert partition.produce(largest).offset == 0
    assert partition.produce(b"small").offset == 1
    values = [each.value for each in fetch_all(partition, 0, 2)]
    assert [len(value) for value in values] == [limits.KAFKA_RECORD_BYTES_MAX, 5]
    assert values[0] == largest


def test_a_record_that_kafka_refuses_for_its_size_was_not_appended(
    kafka: Kafka, options: KafkaOptions, partition: KafkaPartition
):
    partition.produce(b"first")
    change_setting(kafka, options, "max.message.bytes", "1000")
    with pytest.raises(RecordTooLarge, match="too large"):
        partition.produce(b"x" * 2000)
    end = partition.bounds(wait_s=PATIENCE_S).end
    # The same producer goes on.
    assert partition.produce(b"next").offset == end
    assert fetch(partition, end, max_bytes=MANY)[0].value == b"next"


def test_deleted_records_are_gone(partition: KafkaPartition):
    for number in range(5):
        partition.produce(b"%d" % number)
    partition.delete_before(3)
    assert partition.bounds(wait_s=PATIENCE_S) == PartitionBounds(3, 5)
    partition.delete_before(1)
    partition.delete_before(3)
    assert partition.bounds(wait_s=PATIENCE_S) == PartitionBounds(3, 5)
    with pytest.raises(OffsetGone, match="offset 2 was deleted: the partition begins at 3"):
        fetch(partition, 2)
    assert [each.value for each in fetch_all(partition, 3, 5)] == [b"3", b"4"]
    partition.delete_before(5)
    assert partition.fetch(5, max_bytes=MANY, wait_s=0) == []
    with pytest.raises(PartitionUnavailable, match="out of range"):
        partition.delete_before(6)


def test_records_deleted_under_a_reader_are_gone(
    options: KafkaOptions, partition: KafkaPartition, opened: Open
):
    reader = opened(options)
    assert reader.fetch(0, max_bytes=MANY, wait_s=0) == []
    for number in range(5):
        partition.produce(b"%d" % number)
    assert len(fetch(reader, 0, max_bytes=1)) == 1
    partition.delete_before(5)
    with pytest.raises(OffsetGone, match="offset 0 was deleted"):
        fetch(reader, 0)
    assert reader.fetch(5, max_bytes=MANY, wait_s=0) == []


def test_an_offset_behind_the_end_is_an_error_and_no_end(partition: KafkaPartition):
    partition.produce(b"a")
    with pytest.raises(OffsetGone, match="offset 7 lies behind the partition's end at 1"):
        partition.fetch(7, max_bytes=MANY, wait_s=0.1)
    assert len(fetch(partition, 0)) == 1


def test_marks_of_transactions_are_gaps(
    kafka: Kafka, options: KafkaOptions, partition: KafkaPartition
):
    """Of another program, which has no business there; an open one holds nothing up."""
    partition.produce(b"a")
    other = Producer({"bootstrap.servers": kafka.servers, "transactional.id": options.cluster})
    other.init_transactions(PATIENCE_S)
    other.begin_transaction()
    other.produce(options.topic, b"stray", partition=0)
    other.flush(PATIENCE_S)
    assert [each.value for each in fetch_all(partition, 0, 2)] == [b"a", b"stray"]
    assert partition.produce(b"b").offset == 2
    other.abort_transaction()
    await_end(partition, 4)
    with pytest.raises(PartitionUnavailable, match="up to 4, and gives none from 3 on"):
        partition.fetch(3, max_bytes=MANY, wait_s=0)
    assert partition.produce(b"c").offset == 4
    assert [each.offset for each in fetch(partition, 3)] == [4]


def test_without_kafka_nothing_can_be_asked(options: KafkaOptions):
    (port,) = free_ports(1)
    nowhere = replace(options, servers=f"127.0.0.1:{port}", delivery_s=1)
    partition = KafkaPartition(nowhere, "any")
    with pytest.raises(PartitionUnavailable, match=r"Kafka: .*Connection refused"):
        partition.fetch(0, max_bytes=MANY, wait_s=0.1)
    with pytest.raises(PartitionUnavailable):
        partition.bounds(wait_s=0.1)
    with pytest.raises(PartitionUnavailable):
        partition.delete_before(1)
    assert isinstance(partition.produce(b"a"), Uncertain)
    partition.reset_producer()
    partition.close()
    with pytest.raises(PartitionUnavailable, match="Connection refused"):
        prepare_topic(nowhere, wait_s=0.1)


def test_an_acknowledgement_that_does_not_come_is_an_unknown_outcome(
    kafka: Kafka, options: KafkaOptions, opened: Open, proxy: Proxy
):
    """And the record is there: whoever takes it for failed has it twice, or lost."""
    opened(options)
    partition = opened(replace(options, servers=kafka.proxied_servers, delivery_s=2))
    assert partition.produce(b"a") == (0, pytest.approx(time.time() * 1000, abs=60_000))
    proxy.mute()
    outcome = partition.produce(b"b")
    assert isinstance(outcome, Uncertain)
    assert "timed out" in outcome.reason
    with pytest.raises(PartitionUnavailable):
        partition.bounds(wait_s=0.1)
    partition.reset_producer()
    proxy.cut(reset=True)
    proxy.flow()
    assert [each.value for each in fetch_all(partition, 0, 2)] == [b"a", b"b"]
    assert partition.produce(b"c").offset == 2


def test_a_record_that_was_sent_may_come_after_the_reset(
    kafka: Kafka, options: KafkaOptions, opened: Open, proxy: Proxy
):
    """The reader of an unknown outcome may see the end without it: so its term must not be over."""
    direct = opened(options)
    partition = opened(replace(options, servers=kafka.proxied_servers, delivery_s=2))
    partition.produce(b"a")
    proxy.stall()
    assert isinstance(partition.produce(b"late"), Uncertain)
    partition.reset_producer()
    assert direct.bounds(wait_s=PATIENCE_S).end == 1
    assert direct.produce(b"b").offset == 1
    proxy.flow()
    await_end(direct, 3)
    assert [each.value for each in fetch_all(direct, 0, 3)] == [b"a", b"b", b"late"]


def test_nothing_is_sent_after_the_reset(
    kafka: Kafka, options: KafkaOptions, opened: Open, proxy: Proxy
):
    """A record that waited for a connection when the producer was reset never comes."""
    direct = opened(options)
    partition = opened(replace(options, servers=kafka.proxied_servers, delivery_s=2))
    partition.produce(b"a")
    proxy.stall()
    proxy.cut(reset=True)
    assert isinstance(partition.produce(b"never"), Uncertain)
    partition.reset_producer()
    proxy.flow()
    assert partition.produce(b"b").offset == 1
    assert [each.value for each in fetch_all(direct, 0, 2)] == [b"a", b"b"]
    assert direct.bounds(wait_s=PATIENCE_S).end == 2


def test_a_warm_producer_takes_over_at_once(partition: KafkaPartition):
    """A cold one waits half a second, or a whole one, for its id."""
    shortest_s = 60.0
    end_s = time.monotonic() + PATIENCE_S
    while shortest_s > 0.2 and time.monotonic() < end_s:
        # Meanwhile the spare one gets warm.
        warming_s = time.monotonic() + 1.5
        while time.monotonic() < warming_s:
            partition.produce(b"a")
        partition.reset_producer()
        began = time.monotonic()
        assert isinstance(partition.produce(b"b"), Produced)
        shortest_s = min(shortest_s, time.monotonic() - began)
    assert shortest_s <= 0.2


def test_a_deleted_topic_is_noticed_and_not_made_anew(
    kafka: Kafka, options: KafkaOptions, opened: Open
):
    """Kafka would make it, if a producer so much as asked: with the settings that lose records."""
    partition = opened(replace(options, delivery_s=2))
    partition.produce(b"a")
    delete_topic(kafka, options)
    with pytest.raises(TopicMissing, match=f"Kafka has no topic {options.topic}"):
        partition.bounds(wait_s=PATIENCE_S)
    assert isinstance(partition.produce(b"b"), Uncertain)
    partition.reset_producer()
    assert isinstance(partition.produce(b"b"), Uncertain)
    with pytest.raises(PartitionUnavailable, match=f"Kafka has no topic {options.topic}"):
        partition.fetch(1, max_bytes=MANY, wait_s=0.1)
    assert options.topic not in admin(kafka).list_topics(timeout=PATIENCE_S).topics


def test_a_topic_that_was_made_again_is_another_one(
    kafka: Kafka, options: KafkaOptions, opened: Open
):
    first = opened(options)
    for value in (b"a", b"b", b"c"):
        first.produce(value)
    assert len(fetch_all(first, 0, 3)) == 3
    delete_topic(kafka, options)
    second = opened(options)
    assert second.produce(b"x").offset == 0
    with pytest.raises(TopicReplaced, match="was deleted and made again: its id was"):
        first.fetch(3, max_bytes=MANY, wait_s=0.1)
    with pytest.raises(TopicReplaced, match="was deleted and made again: its id was"):
        first.bounds(wait_s=PATIENCE_S)


def test_a_partition_leaves_no_thread_behind(options: KafkaOptions, opened: Open):
    opened(options)
    before = threads()
    for _ in range(3):
        partition = opened(options)
        partition.produce(b"a")
        partition.reset_producer()
        partition.produce(b"a")
        assert fetch(partition, 0)
        partition.close()
        partition.close()
    del partition
    assert threads() <= before + 1


def fetch(partition: KafkaPartition, offset: int, *, max_bytes: int = MANY) -> list[Fetched]:
    return partition.fetch(offset, max_bytes=max_bytes, wait_s=PATIENCE_S)


def fetch_all(partition: KafkaPartition, offset: int, end: int) -> list[Fetched]:
    """The records of these offsets, in as many fetches as it takes."""
    found: list[Fetched] = []
    while offset + len(found) < end:
        found += fetch(partition, offset + len(found))
    assert [each.offset for each in found] == list(range(offset, end))
    return found


def await_end(partition: KafkaPartition, end: int) -> None:
    wait_s = time.monotonic() + PATIENCE_S
    while partition.bounds(wait_s=PATIENCE_S).end < end and time.monotonic() < wait_s:
        pass
    assert partition.bounds(wait_s=PATIENCE_S).end == end


def threads() -> int:
    return psutil.Process().num_threads()
