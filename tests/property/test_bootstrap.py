"""A node that begins with nothing, at any point of any history, ends with what the owner has."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fanlog.log.api import Log, Trim
from fanlog.log.replicated.checkpoints import UpkeepPace
from fanlog.log.replicated.replicated import ReplicatedLog
from fanlog.model.resources import PartitionId
from fanlog.testing.author import ALL_BYTES, Author, make_body
from fanlog.testing.kafka_partition import KafkaTopic
from replica_nodes import ReplicaNodes, read_all, read_some

PARTITIONS = [PartitionId(number) for number in (0, 1, 2, 255, 2**32 - 1)]
KEYS = [b"", b"\x00", b"a", b"ab", b"b", b"\xff" * 3]

#: A few entries between checkpoints, and a few rows or values in a piece.
PACE = UpkeepPace(
    checkpoint_bytes=6_000,
    snapshot_bytes_min=9_000,
    snapshot_factor=0,
    carry_bytes_min=16_000,
    carry_factor=0,
    piece_bytes=60,
    pause_s=0.0,
)

partitions = st.sampled_from(PARTITIONS)
moves = st.one_of(
    st.tuples(
        st.just("commit"),
        st.dictionaries(partitions, st.integers(1, 3), max_size=3),
        st.dictionaries(st.sampled_from(KEYS), st.none() | st.integers(0, 9), max_size=3),
    ),
    st.tuples(st.just("trim"), partitions, st.integers(1, 4)),
    st.tuples(st.just("drop"), partitions),
    st.tuples(st.just("chore")),
    st.tuples(st.just("renew")),
    st.tuples(st.just("take over")),
    st.tuples(st.just("new node")),
    st.tuples(st.just("slow node")),
)


@pytest.fixture(autouse=True, scope="module")
def no_syncs() -> Iterator[None]:
    """Hundreds of caches are made, and no machine is switched off."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


class History:
    """An owner and its rival, which take turns, and nodes that come later."""

    def __init__(self, place: Path) -> None:
        self.topic = KafkaTopic()
        self.nodes = ReplicaNodes(place, self.topic)
        self._logs = [self.nodes.make(name, pace=PACE) for name in ("north", "south")]
        assert self.owner.take_over()
        self._slow: ReplicatedLog | None = None
        self._count = 0
        #: Partitions that were dropped are never used again.
        self._dropped: set[PartitionId] = set()

    @property
    def owner(self) -> ReplicatedLog:
        return self._logs[0]

    def move(self, kind: str, *values: object) -> None:
        match kind, *values:
            case "commit", dict(counts), dict(state):
                self._commit(counts, state)
            case "trim", int(partition), int(count):
                start = self.owner.bounds(PartitionId(partition)).start
                trim = Trim(partition=PartitionId(partition), before=start + count)
                Author(self.owner).commit(trims=[trim])
            case "drop", int(partition):
                self._dropped.add(PartitionId(partition))
                trim = Trim(partition=PartitionId(partition), before=0, dropped=True)
                Author(self.owner).commit(trims=[trim])
            case ("chore",):
                self.owner.prepare()
            case ("renew",):
                self.owner.renew(())
            case ("take over",):
                self._logs.reverse()
                read_all(self.owner)
                assert self.owner.take_over(), self.owner.standing.sentence
                self._logs[1].step_down()
            case ("new node",):
                self.check_new_node()
            case ("slow node",):
                self._slow_node()

    def check_new_node(self) -> None:
        node = self._new_node()
        read_all(node)
        self._check(node)
        node.close()

    def check_slow_node(self) -> None:
        """A node that read a part, and then waited: it may have to begin again meanwhile."""
        if self._slow is not None:
            read_all(self._slow)
            self._check(self._slow)

    def _slow_node(self) -> None:
        if self._slow is None:
            self._slow = self._new_node()
        read_some(self._slow)

    def _new_node(self) -> ReplicatedLog:
        self._count += 1
        return self.nodes.make(f"new-{self._count}")

    def _check(self, node: ReplicatedLog) -> None:
        assert node.standing.is_whole
        assert node.standing.applied_offset == self.owner.standing.applied_offset
        assert everything(node) == everything(self.owner)
        # Nothing is left of what was trimmed, once the next entry is applied.
        self.owner.renew(())
        read_all(node)
        assert batch_count(node) == len(node.positions(0, limit=100_000))

    def _commit(self, counts: dict[PartitionId, int], state: dict[bytes, int | None]) -> None:
        bodies = {
            partition: [make_body(*[b"m%d" % number for number in range(count)])]
            for partition, count in counts.items()
            if partition not in self._dropped
        }
        values = {
            b"k" + key: None if value is None else b"%d" % value * 20
            for key, value in state.items()
        }
        Author(self.owner).commit(bodies, state=values)


def batch_count(log: ReplicatedLog) -> int:
    """How many batches lie in the cache, those that wait to be freed included."""
    count: int = log._replica.cache.look(lambda store, txn: txn.stat(store.batches)["entries"])
    return count


def everything(log: Log) -> tuple[object, ...]:
    partitions = log.partitions()
    read = [
        asyncio.run(log.read(partition, 0, max_bytes=ALL_BYTES)) for partition in sorted(partitions)
    ]
    return (
        log.identity,
        log.last_sequence,
        log.last_publish_time_ns,
        partitions,
        list(log.state()),
        log.positions(0, limit=100_000),
        read,
    )


@settings(max_examples=60)
@given(script=st.lists(moves, max_size=60))
def test_new_nodes_end_with_what_the_owner_has(script: list[tuple[object, ...]]):
    with tempfile.TemporaryDirectory() as place:
        history = History(Path(place))
        try:
            for kind, *values in script:
                assert isinstance(kind, str)
                history.move(kind, *values)
            history.check_new_node()
            history.check_slow_node()
        finally:
            history.nodes.close()


def test_a_long_history_is_trimmed(tmp_path: Path):
    """So the test above tries what it says: the partition does not begin at 0."""
    history = History(tmp_path)
    history.move("commit", {PARTITIONS[3]: 2}, {b"old": 1})
    starts = set()
    for number in range(400):
        counts = {PARTITIONS[number % 2]: 1 + number % 3}
        history.move("commit", counts, {KEYS[number % 6]: number % 10})
        history.move("chore")
        if number % 3 == 0:
            history.move("trim", PARTITIONS[number // 3 % 2], 6)
        if number % 10 == 0:
            history.move("renew")
            starts.add(history.topic.bounds().start)
        if number % 5 == 0:
            history.check_new_node()
        if number % 97 == 96:
            history.move("take over")
    assert len(starts) > 10
    records = history.topic.bounds()
    # The oldest batch lives since the begin, and was carried again and again.
    assert records.end - records.start < 120
    assert history.owner.bounds(PARTITIONS[3]).start == 0
    history.nodes.close()


def test_a_node_is_whole_when_it_has_read_a_snapshot(tmp_path: Path):
    """Before that it takes nothing over, whatever it has."""
    history = History(tmp_path)
    for number in range(100):
        history.move("commit", {PARTITIONS[number % 2]: 1}, {KEYS[number % 6]: number % 10})
        history.move("chore")
        history.move("trim", PARTITIONS[number % 2], 1)
        history.move("renew")
    assert history.topic.bounds().start > 0
    whole = []
    # One record at a time.
    for end in range(history.topic.bounds().start + 1, history.topic.bounds().end + 1):
        part = history.topic.copy(end)
        node = history.nodes.make(f"part-{end}", topic=part)
        read_all(node)
        whole.append(node.standing.is_whole)
        if not node.standing.is_whole:
            assert not node.take_over()
            assert "whole snapshot" in node.standing.sentence
            assert part.bounds().end == end
        node.close()
    assert whole == sorted(whole)
    assert set(whole) == {False, True}
    history.nodes.close()


@pytest.mark.parametrize("count", [1, 30])
def test_a_node_that_was_overtaken_by_trimming_begins_again(tmp_path: Path, count: int):
    history = History(tmp_path)
    history.move("slow node")
    for number in range(count * 10):
        history.move("commit", {PARTITIONS[number % 2]: 1}, {})
        history.move("chore")
        history.move("trim", PARTITIONS[number % 2], 1)
        history.move("renew")
    history.check_slow_node()
    history.nodes.close()
