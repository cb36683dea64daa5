"""`KafkaPartition` while nodes of Kafka are killed, paused and started again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from bench.kafka import Kafka, KafkaNode

from fanlog.log.kafka.client import KafkaOptions
from fanlog.log.kafka.partition import KafkaPartition
from fanlog.log.kafka.topic import prepare_topic
from fanlog.log.replicated.partition import (
    Fetched,
    PartitionUnavailable,
    Produced,
    Uncertain,
)
from kafka.changes import PATIENCE_S, admin, leader_of

Open = Callable[[KafkaOptions], KafkaPartition]

MANY = 1 << 30
#: Records that must be acknowledged after a fault before a test goes on.
ENOUGH = 20


@pytest.fixture
def options(three: Kafka, cluster: str) -> KafkaOptions:
    return KafkaOptions(servers=three.servers, cluster=cluster)


class Producing:
    """A thread that produces numbered records, each once the last one was acknowledged."""

    def __init__(self, partition: KafkaPartition) -> None:
        self._partition = partition
        #: By number; in the order they were produced.
        self.outcomes: list[Produced | Uncertain] = []
        #: The longest that one took.
        self.longest_s = 0.0
        self._is_over = False
        self._thread = threading.Thread(target=self._produce)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._is_over = True
            self._thread.join()

    def await_more(self, count: int = ENOUGH) -> None:
        """Return when so many more were acknowledged."""
        wanted, end_s = len(self.outcomes) + count, time.monotonic() + 2 * PATIENCE_S
        while len(self.outcomes) < wanted:
            assert time.monotonic() < end_s, f"{len(self.outcomes)} of {wanted}"
            time.sleep(0.01)

    def _produce(self) -> None:
        while not self._is_over:
            began = time.monotonic()
            self.outcomes.append(self._partition.produce(b"%d" % len(self.outcomes)))
            self.longest_s = max(self.longest_s, time.monotonic() - began)


class Following:
    """A thread that reads all records, as a standby does."""

    def __init__(self, partition: KafkaPartition) -> None:
        self._partition = partition
        self.records: list[Fetched] = []
        #: Fetches that Kafka did not answer.
        self.refused = 0
        self._is_over = False
        self._thread = threading.Thread(target=self._follow)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._is_over = True
            self._thread.join()

    def await_end(self, end: int) -> None:
        end_s = time.monotonic() + 2 * PATIENCE_S
        while len(self.records) < end:
            assert time.monotonic() < end_s, f"{len(self.records)} of {end}"
            time.sleep(0.01)

    def _follow(self) -> None:
        while not self._is_over:
            try:
                self.records += self._partition.fetch(len(self.records), max_bytes=MANY, wait_s=0.2)
            except PartitionUnavailable:
                self.refused += 1


def check(producing: Producing, following: Following) -> None:
    """Every record is there once, where its acknowledgement says, and in order."""
    assert [each.offset for each in following.records] == list(range(len(following.records)))
    assert all(isinstance(each, Produced) for each in producing.outcomes)
    acknowledged = [(each.offset, b"%d" % number) for number, each in enumerate(producing.outcomes)]
    assert [(each.offset, each.value) for each in following.records] == acknowledged


def kill(node: KafkaNode) -> None:
    node.kill()


def pause(node: KafkaNode) -> None:
    node.pause()


def stop(node: KafkaNode) -> None:
    node.begin_to_stop()
    node.end()


@pytest.mark.slow
@pytest.mark.parametrize("fault", [kill, pause, stop])
def test_no_record_is_lost_or_doubled_when_the_leader_changes(
    three: Kafka, options: KafkaOptions, opened: Open, fault: Callable[[KafkaNode], None]
):
    """And the producer outlasts it: no outcome is unknown."""
    producing, following = Producing(opened(options)), Following(opened(options))
    with following.going_on():
        with producing.going_on():
            producing.await_more()
            fault(three.node(leader_of(three, options)))
            producing.await_more()
            three.heal()
            producing.await_more()
        following.await_end(len(producing.outcomes))
    assert producing.longest_s < options.delivery_s
    check(producing, following)


@pytest.mark.slow
def test_a_follower_that_is_killed_stops_nobody(three: Kafka, options: KafkaOptions, opened: Open):
    producing, following = Producing(opened(options)), Following(opened(options))
    leader = leader_of(three, options)
    with following.going_on():
        with producing.going_on():
            producing.await_more()
            next(node for node in three.nodes if node.number != leader).kill()
            producing.await_more()
        following.await_end(len(producing.outcomes))
    check(producing, following)


@pytest.mark.slow
def test_a_topic_is_made_though_a_node_stands_still(three: Kafka, options: KafkaOptions):
    """The one that is asked to make it, and then another one."""
    asked = admin(three).list_topics(timeout=PATIENCE_S).controller_id
    three.node(asked).pause()
    facts = prepare_topic(replace(options, replicas=2), wait_s=2 * PATIENCE_S)
    assert facts.replicas >= 2


@pytest.mark.slow
def test_nothing_is_acknowledged_without_two_replicas(
    three: Kafka, options: KafkaOptions, opened: Open
):
    """The outcome is unknown, and may turn out either way; all goes on when they are back."""
    hasty = replace(options, delivery_s=3)
    partition = opened(hasty)
    assert partition.produce(b"0").offset == 0
    leader = three.node(leader_of(three, options))
    others = [node for node in three.nodes if node is not leader]
    for node in others:
        node.pause()
    outcome = partition.produce(b"1")
    assert isinstance(outcome, Uncertain)
    partition.reset_producer()
    assert isinstance(partition.produce(b"2"), Uncertain)
    partition.reset_producer()
    # None of them counts as there: a reader is not shown what may be lost.
    assert [each.value for each in read_some(partition)] in ([], [b"0"])
    three.heal()
    produced = await_produced(partition, b"3")
    found = [each.value for each in read_to(partition, produced.offset + 1)]
    assert found[0] == b"0"
    assert found[-1] == b"3"
    # Each of the unknown ones is there or not, and at most once.
    assert set(found[1:-1]) <= {b"1", b"2"}
    assert len(set(found)) == len(found)


@pytest.mark.slow
def test_all_of_kafka_may_be_killed(three: Kafka, options: KafkaOptions, opened: Open):
    partition = opened(options)
    for number in range(ENOUGH):
        assert isinstance(partition.produce(b"%d" % number), Produced)
    assert len(read_to(partition, ENOUGH)) == ENOUGH
    for node in three.nodes:
        node.kill()
    with pytest.raises(PartitionUnavailable):
        partition.fetch(ENOUGH, max_bytes=MANY, wait_s=0.1)
    with pytest.raises(PartitionUnavailable):
        partition.bounds(wait_s=0.1)
    # A record that is produced meanwhile waits for Kafka.
    waiting = threading.Thread(target=lambda: outcomes.append(partition.produce(b"meanwhile")))
    outcomes: list[Produced | Uncertain] = []
    waiting.start()
    three.heal()
    waiting.join()
    if not isinstance(outcomes[0], Produced):
        partition.reset_producer()
        outcomes[0] = await_produced(partition, b"meanwhile")
    found = read_to(partition, outcomes[0].offset + 1)
    assert [each.value for each in found[:ENOUGH]] == [b"%d" % number for number in range(ENOUGH)]
    assert found[-1].value == b"meanwhile"


def read_some(partition: KafkaPartition) -> list[Fetched]:
    try:
        return partition.fetch(0, max_bytes=MANY, wait_s=0.1)
    except PartitionUnavailable:
        return []


def read_to(partition: KafkaPartition, end: int) -> list[Fetched]:
    found: list[Fetched] = []
    end_s = time.monotonic() + 2 * PATIENCE_S
    while len(found) < end:
        assert time.monotonic() < end_s
        try:
            found += partition.fetch(len(found), max_bytes=MANY, wait_s=1)
        except PartitionUnavailable:
            continue
    return found


def await_produced(partition: KafkaPartition, value: bytes) -> Produced:
    """Produce it as soon as Kafka takes it; it may be there more than once."""
    end_s = time.monotonic() + 2 * PATIENCE_S
    while not isinstance(outcome := partition.produce(value), Produced):
        assert time.monotonic() < end_s, outcome
        partition.reset_producer()
    return outcome
