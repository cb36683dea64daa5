"""Records in the topic that no node wrote."""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path

import pytest
from bench.kafka import Kafka
from confluent_kafka import Producer

from fanlog.log.api import Bounds
from fanlog.log.kafka.client import KafkaOptions
from fanlog.log.kafka.partition import KafkaPartition
from fanlog.log.kafka.topic import prepare_topic
from fanlog.log.replicated.replicated import ReplicatedLog
from fanlog.testing.author import ONE, Author
from kafka.changes import PATIENCE_S
from kafka.test_importing import run

#: As a console producer writes them, and a tombstone.
STRAYS = (b"hello", b'{"order": 17}', None, b"x" * 200)


@pytest.fixture
def topic_id(options: KafkaOptions) -> str:
    return prepare_topic(options, wait_s=PATIENCE_S).topic_id


def node_on(options: KafkaOptions, topic_id: str, cache_dir: Path) -> ReplicatedLog:
    return ReplicatedLog(
        cache_dir, lambda: KafkaPartition(options, topic_id), b"node", on_change=lambda: None
    )


def own(log: ReplicatedLog) -> None:
    """Take over; Kafka may be busy with other things."""
    until_s = time.monotonic() + PATIENCE_S
    while not log.take_over():
        assert time.monotonic() < until_s, log.standing
        time.sleep(0.2)


def write(options: KafkaOptions, *values: bytes | None) -> None:
    """Append records past all that a node would do."""
    producer = Producer({"bootstrap.servers": options.servers})
    for value in values:
        producer.produce(options.topic, value, partition=0)
    assert producer.flush(PATIENCE_S) == 0


def read_to(log: ReplicatedLog, offset: int) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while log.standing.applied_offset < offset:
        assert time.monotonic() < until_s, log.standing
        time.sleep(0.02)


def test_a_console_producer_stops_no_node(
    kafka: Kafka, options: KafkaOptions, topic_id: str, tmp_path: Path
):
    with (
        closing(node_on(options, topic_id, tmp_path / "north")) as north,
        closing(node_on(options, topic_id, tmp_path / "south")) as south,
    ):
        own(north)
        south.start_following()
        for number, stray in enumerate(STRAYS):
            write(options, stray)
            # It took the place that the owner's next entry expects.
            Author(north).publish(ONE, b"%d" % number)
        assert north.standing.role == "owning"
        read_to(south, north.standing.applied_offset)
        assert south.bounds(ONE) == north.bounds(ONE) == Bounds(0, len(STRAYS))
        assert (north.standing.stray_records, south.standing.stray_records) == (4, 4)
        write(options, b"behind the last entry")
        north.hand_over("")
        own(south)
        Author(south).publish(ONE, b"and on")
        assert south.bounds(ONE) == Bounds(0, len(STRAYS) + 1)
    where = ["--kafka", options.servers, "--cluster", options.cluster, "--kafka-replicas", "1"]
    report = run("doctor", "--data-dir", tmp_path / "south", *where)
    assert "5 records are no entries of the cluster" in json.dumps(report["findings"])
    assert "the cache and Kafka agree" in json.dumps(report["findings"])


def test_what_may_have_been_an_entry_stops_the_nodes(
    kafka: Kafka, options: KafkaOptions, topic_id: str, tmp_path: Path
):
    with closing(node_on(options, topic_id, tmp_path / "north")) as north:
        own(north)
        Author(north).publish(ONE, b"a")
        end = north.standing.applied_offset
        write(options, b"\xfaFLE" + bytes(80))
        with closing(node_on(options, topic_id, tmp_path / "south")) as south:
            south.start_following()
            until_s = time.monotonic() + PATIENCE_S
            while south.standing.role != "failed":
                assert time.monotonic() < until_s, south.standing
                time.sleep(0.02)
            assert f"the record at offset {end}" in south.standing.sentence
            assert south.bounds(ONE) == Bounds(0, 1)
