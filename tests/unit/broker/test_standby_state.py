"""Hard state that is kept ready is the state of the log, as of one commit, or none."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from pyroaring import BitMap64

from fanlog.broker.standby_state import StandbyState
from fanlog.core.hard_state import HardState
from fanlog.core.records import CursorChunk, CursorHead, LeaseHeld, Record, SubscriptionRecord
from fanlog.core.warm_state import WarmState
from fanlog.log.api import Commit
from fanlog.log.memory import MemoryLog
from fanlog.model.resources import PartitionId, Subscription, SubscriptionId, TopicId
from simulator.warmth import differences

HERE = PartitionId(1)


def subscribed(number: int) -> list[Record]:
    subscription = Subscription(
        id=SubscriptionId(number),
        name=f"projects/p/subscriptions/s{number}",
        topic="projects/p/topics/t",
        topic_id=TopicId(1),
        partitions=(HERE,),
        enable_exactly_once=True,
    )
    return [SubscriptionRecord(subscription.id, subscription), CursorHead(number, HERE, 0)]


class Told:
    """A log whose commits a standby's state is told, as its feed does."""

    def __init__(self, state: StandbyState) -> None:
        self.log = MemoryLog()
        self.state = state

    def tell_all(self) -> None:
        self.state.begin()
        self.state.put(list(self.log.state()))
        self.state.reach(self.log.last_sequence)

    def commit(self, *records: Record) -> None:
        sequence = self.log.last_sequence + 1
        written = {record.key(): record.value() for record in records}
        self.log.commit(Commit(sequence=sequence, publish_time_ns=1_000, state=written))
        self.state.put(list(written.items()))
        self.state.reach(sequence)

    def check_taken(self) -> None:
        ready = self.state.take(self.log.last_sequence, 60.0)
        assert ready is not None
        loaded = HardState.load(self.log.state(), latest_deadline_s=60.0)
        assert list(differences(ready.hard, loaded)) == []


@pytest.fixture
def told() -> Told:
    return Told(StandbyState(quiet_s=0.0))


def await_that(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.01)


def test_changes_by_key_are_built_in(told: Told) -> None:
    told.commit(*subscribed(7), *subscribed(8))
    told.tell_all()
    told.commit(CursorHead(7, HERE, 5), CursorChunk(8, HERE, 0, BitMap64([3, 4])))
    told.commit(CursorChunk(8, HERE, 0, None), LeaseHeld(7, HERE, 9, 0, 1e9, BitMap64([5])))
    told.check_taken()


def test_a_thread_builds_and_what_is_stale_is_built_anew(told: Told) -> None:
    told.commit(*subscribed(7))
    told.tell_all()
    told.state.start()
    try:
        await_that(lambda: told.state.is_ready)
        told.commit(*subscribed(8))
        await_that(lambda: told.state.wants_all)
        assert not told.state.is_ready
        told.tell_all()
        await_that(lambda: told.state.is_ready)
        told.commit(CursorHead(8, HERE, 1))
        told.check_taken()
        assert told.state.builds == 2
    finally:
        told.state.stop()


def test_nothing_is_given_that_is_stale(told: Told) -> None:
    told.commit(*subscribed(7))
    told.tell_all()
    told.state.start()
    try:
        await_that(lambda: told.state.is_ready)
        told.commit(*subscribed(8))
        assert told.state.take(told.log.last_sequence, 60.0) is None
    finally:
        told.state.stop()


def test_nothing_is_given_before_all_is_told(told: Told) -> None:
    told.commit(*subscribed(7))
    told.state.begin()
    told.state.put(list(told.log.state()))
    assert told.state.take(told.log.last_sequence, 60.0) is None


def test_nothing_is_given_as_of_another_commit(told: Told) -> None:
    told.commit(*subscribed(7))
    told.tell_all()
    assert told.state.take(told.log.last_sequence + 1, 60.0) is None


def test_what_was_told_of_a_discarded_cache_is_forgotten(told: Told) -> None:
    told.commit(*subscribed(7))
    told.tell_all()
    other = Told(told.state)
    other.commit(*subscribed(8))
    other.tell_all()
    other.check_taken()


def test_it_is_given_away_once(told: Told) -> None:
    told.commit(*subscribed(7))
    told.tell_all()
    told.check_taken()
    assert told.state.take(told.log.last_sequence, 60.0) is None


def test_a_log_that_cannot_be_read_has_no_state(told: Told) -> None:
    told.state.begin()
    told.state.put([(b"S12345678", b"\x01nonsense")])
    told.state.reach(0)
    assert told.state.take(0, 60.0) is None


@pytest.mark.parametrize(
    "changes",
    [
        [(CursorHead(9, HERE, 0).key(), CursorHead(9, HERE, 0).value())],
        [(CursorHead(7, HERE, 0).key(), None)],
        [(CursorChunk(7, HERE, 0, None).key(), b"\x01nonsense")],
        [(b"~unknown", b"\x01")],
    ],
    ids=["a share that comes", "a share that goes", "damage", "an unknown kind"],
)
def test_a_change_that_is_not_by_its_key_makes_it_stale(
    changes: list[tuple[bytes, bytes | None]],
) -> None:
    written = [(record.key(), record.value() or b"") for record in subscribed(7)]
    warm = WarmState(written)
    warm.change(changes)
    assert warm.stale
