"""Logs on a real Kafka whose caches and partitions are not what they should be.

After each fault the partition is counted: every commit that was answered is there once, and at any
offset one node owns.
"""

from __future__ import annotations

import shutil
import struct
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from bench.kafka import Kafka
from crc32c import crc32c

from fanlog.errors import CommitFailed, CommitTooLarge, Fenced
from fanlog.log.api import Bounds, Trim
from fanlog.log.kafka.client import KafkaOptions
from fanlog.log.kafka.partition import KafkaPartition
from fanlog.log.kafka.topic import prepare_topic
from fanlog.log.replicated import entries
from fanlog.log.replicated.api import NO_TERM
from fanlog.log.replicated.bodies import Renewal, TakeOver
from fanlog.log.replicated.checkpoints import UpkeepPace
from fanlog.log.replicated.entries import NO_CHAIN, Head
from fanlog.log.replicated.partition import Fetched
from fanlog.log.replicated.replicated import ReplicatedLog
from fanlog.testing.author import ONE, Author
from fanlog.testing.damage import damage_meta
from kafka.changes import PATIENCE_S, change_setting, delete_topic
from kafka.kafka_logs import TOPIC, KafkaLogs, everything
from kafka.serving import until
from kafka.tally import Tally, check_partition, read_records

#: Checkpoints and snapshots every few commits, so that the partition is trimmed.
OFTEN = UpkeepPace(checkpoint_bytes=3_000, snapshot_bytes_min=6_000, snapshot_factor=0, pause_s=0.0)


@pytest.fixture
def logs(kafka: Kafka, options: KafkaOptions, tmp_path: Path) -> Iterator[KafkaLogs]:
    with closing(KafkaLogs(kafka, options, tmp_path)) as logs:
        yield logs


def check(logs: KafkaLogs) -> Tally:
    return check_partition(logs.options, logs.history, [TOPIC], [])


def take_over_of(logs: KafkaLogs, term: int, name: str, nonce: int) -> bytes:
    """A take-over record, as a node would send it that knows of that term."""
    card = b'{"name":"%s","link":"127.0.0.1:1","api":"127.0.0.1:2"}' % name.encode()
    body = TakeOver(identity=bytes(16), nonce=bytes([nonce]) * 16, card=card)
    tag = entries.cluster_tag(logs.options.cluster)
    return entries.encode(tag, Head(term, -1, 0, NO_CHAIN), body)[0]


# Caches.


def test_a_cache_that_is_deleted_torn_or_older_is_made_good(logs: KafkaLogs):
    north = logs.owner("north")
    south = logs.make("south")
    logs.publish(north, b"a", b"b")
    logs.read_all(south, north)
    south.close()
    older = logs.cache_dir("older")
    shutil.copytree(logs.cache_dir("south"), older)
    logs.publish(north, b"c")

    def again() -> None:
        node = logs.make("south")
        logs.read_all(node, north)
        node.close()

    again()
    for content in (older, None):
        shutil.rmtree(logs.cache_dir("south"))
        if content is not None:
            shutil.copytree(content, logs.cache_dir("south"))
        again()
    damage_meta(logs.cache_dir("south") / "log", b"replica")
    again()
    with open(logs.cache_dir("south") / "log" / "data.mdb", "r+b") as file:
        file.truncate(20_000)
    again()
    # It is as good as any other: it may own.
    north.step_down()
    node = logs.owner("south")
    logs.publish(node, b"d")
    assert node.bounds(ONE) == Bounds(0, 4)
    assert list(check(logs).owners.values()) == ["north", "south"]


def test_a_cache_that_is_newer_than_kafka_is_begun_again(logs: KafkaLogs):
    """Kafka lost the end of the topic, as with an election of a leader that was not in sync."""
    north = logs.owner("north")
    logs.publish(north, b"a")
    kept = records_of(logs)
    logs.publish(north, b"b")
    logs.publish(north, b"c")
    everything_there = everything(north)
    north.close()
    delete_topic(logs.kafka, logs.options)
    prepare_topic(logs.options, wait_s=PATIENCE_S)
    for record in kept:
        logs.put(record.value)
    again = logs.make("north")
    again.start_following()
    until(lambda: again.standing.started_over == 1, "it believes its cache")
    until(lambda: again.standing.applied_offset == len(kept), "it does not read what there is")
    again.stop_following()
    assert everything(again) != everything_there
    assert again.bounds(ONE) == Bounds(0, 1)
    logs.take_over(again)
    logs.publish(again, b"d")
    other = logs.make("south")
    logs.read_all(other, again)


def records_of(logs: KafkaLogs) -> list[Fetched]:
    topic_id = prepare_topic(logs.options, wait_s=PATIENCE_S).topic_id
    with closing(KafkaPartition(logs.options, topic_id)) as partition:
        return list(read_records(partition))


# Take-overs.


def test_a_take_over_that_arrives_late_is_void_or_begins_a_term_without_an_owner(logs: KafkaLogs):
    north = logs.owner("north")
    logs.publish(north, b"a")
    first = north.standing.term
    # Of a node that knew of no term: somebody was faster.
    logs.put(take_over_of(logs, NO_TERM, "late", 1))
    logs.publish(north, b"b")
    assert north.standing.role == "owning"
    # Of one that knew of this term, and has given up by now.
    logs.put(take_over_of(logs, first, "late", 2))
    with pytest.raises(Fenced):
        logs.publish(north, b"x")
    assert north.standing.role == "following"
    logs.take_over(north)
    logs.publish(north, b"c")
    assert list(check(logs).owners.values()) == ["north", "late", "north"]


def test_a_take_over_that_arrives_twice_begins_one_term(logs: KafkaLogs):
    north = logs.owner("north")
    logs.publish(north, b"a")
    south = logs.make("south")
    logs.read_all(south, north)
    produced = record_produced(south)
    logs.take_over(south)
    logs.publish(south, b"b")
    [take_over] = [value for value in produced if is_take_over(logs, value)]
    logs.put(take_over)
    logs.publish(south, b"c")
    assert south.standing.role == "owning"
    with pytest.raises(CommitFailed):
        logs.publish(north, b"x")
    tally = check(logs)
    assert list(tally.owners.values()) == ["north", "south"]
    assert tally.void > 0


def record_produced(log: ReplicatedLog) -> list[bytes]:
    """All values that the log produces from now on."""
    partition, produced = log._replica.partition, list[bytes]()
    produce = partition.produce

    def recording(value: bytes) -> object:
        produced.append(value)
        return produce(value)

    partition.produce = recording  # type: ignore[method-assign, assignment]
    return produced


def is_take_over(logs: KafkaLogs, value: bytes) -> bool:
    return isinstance(
        entries.decode(entries.cluster_tag(logs.options.cluster), value).body, TakeOver
    )


def test_of_two_nodes_that_both_believe_one_is_answered(logs: KafkaLogs):
    """Each commits as if the other was not there."""
    north = logs.owner("north")
    south = logs.make("south")
    logs.read_all(south, north)
    nodes, refused = [north, south], 0
    for number in range(6):
        for node in nodes:
            if number % 3 == 2:
                node.take_over()
            try:
                logs.publish(node, b"%d" % number)
            except CommitFailed:
                refused += 1
    assert refused
    tally = check(logs)
    assert len(tally.owners) > 2
    assert set(tally.owners.values()) == {"north", "south"}


# The partition.


def test_the_partition_is_trimmed_under_a_reader(logs: KafkaLogs):
    north = logs.owner("north", pace=OFTEN)
    logs.publish(north, b"first")
    south = logs.make("south")
    logs.read_all(south, north)
    behind = south.standing.applied_offset
    # Kafka's client has read ahead of it: it stops for a while.
    south.close()
    partition = north._replica.partition

    def is_trimmed() -> bool:
        begin = north.bounds(ONE).end
        logs.publish(north, b"x" * 500)
        Author(north).commit(
            trims=[Trim(partition=ONE, before=begin)], publish_time_ns=time.time_ns()
        )
        north.prepare()
        north.renew(())
        return partition.bounds(wait_s=PATIENCE_S).start > behind

    until(is_trimmed, "the partition is not trimmed")
    south = logs.make("south")
    logs.read_all(south, north)
    assert south.standing.started_over == 1
    north.hand_over("south")
    logs.take_over(south)
    logs.publish(south, b"and on")


def test_a_commit_that_kafka_finds_too_large_is_refused_and_nothing_else(logs: KafkaLogs):
    """Somebody made the topic's limit smaller."""
    north = logs.owner("north")
    logs.publish(north, b"a")
    change_setting(logs.kafka, logs.options, "max.message.bytes", "100000")
    with pytest.raises(CommitTooLarge):
        logs.publish(north, bytes(200_000))
    logs.publish(north, b"b")
    change_setting(logs.kafka, logs.options, "max.message.bytes", "33554432")
    logs.publish(north, bytes(200_000))
    assert north.bounds(ONE) == Bounds(0, 3)
    assert check(logs).commits == 3


def test_records_of_another_cluster_are_passed_over(logs: KafkaLogs):
    north = logs.owner("north")
    logs.publish(north, b"a")
    foreign, _ = entries.encode(
        entries.cluster_tag("another"), Head(0, 2, 0, NO_CHAIN), Renewal(members=())
    )
    logs.put(foreign)
    logs.publish(north, b"b")
    logs.read_all(logs.make("south"), north)
    assert check(logs).void == 2


@pytest.mark.parametrize("what", ["a newer version", "a damaged entry"])
def test_records_that_cannot_be_read_stop_everyone_with_a_sentence(logs: KafkaLogs, what: str):
    north = logs.owner("north")
    logs.publish(north, b"a")
    kept = check(logs)
    value = take_over_of(logs, north.standing.term, "newer", 1)
    logs.put(newer(value) if what == "a newer version" else value[:-1] + b"?")
    with pytest.raises(CommitFailed):
        logs.publish(north, b"x")
    for node in (north, logs.make("south")):
        node.start_following()
        until(lambda node=node: node.standing.role == "failed", "it reads on")
        expected = "update this node" if what == "a newer version" else "fails its checksum"
        assert expected in node.standing.sentence
        assert not node.take_over()
        # What was answered before is there.
        assert node.bounds(ONE) == Bounds(0, 1)
    assert kept.commits == 1


def newer(value: bytes) -> bytes:
    """A record with a higher version in its head, as a later build would write it."""
    head = bytearray(value[: entries.HEAD_BYTES - 4])
    head[len(entries.MAGIC)] += 1
    return bytes(head) + struct.pack("<I", crc32c(bytes(head))) + value[entries.HEAD_BYTES :]


def test_the_topic_is_deleted(logs: KafkaLogs):
    """Nothing is answered any more, nobody makes another topic, and the caches are kept."""
    logs.options = replace(logs.options, delivery_s=3)
    north = logs.owner("north")
    south = logs.make("south")
    logs.publish(north, b"a")
    logs.read_all(south, north)
    delete_topic(logs.kafka, logs.options)
    with pytest.raises(CommitFailed):
        logs.publish(north, b"x")
    assert north.standing.role == "following"
    assert not south.take_over()
    # Made again it is another one; a node that is started then says what to do.
    prepare_topic(logs.options, wait_s=PATIENCE_S)
    for name in ("north", "south"):
        assert not (south if name == "south" else north).take_over()
    south.close()
    again = logs.make("south")
    again.start_following()
    until(lambda: again.standing.role == "failed", "it follows another log")
    assert "remove the cache" in again.standing.sentence
    assert again.bounds(ONE) == Bounds(0, 1)
