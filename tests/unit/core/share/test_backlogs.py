"""Both backlogs through the one protocol: messages without a key do the same in either."""

from __future__ import annotations

import pytest
from pyroaring import BitMap64

from fanlog.core.cursor import Cursor
from fanlog.core.flow import Credit, LeaseBudget
from fanlog.core.share.aversion import Aversions
from fanlog.core.share.backlog import Backlog
from fanlog.core.share.lease import Lease
from fanlog.core.share.ordered import OrderedBacklog
from fanlog.core.share.packer import Packer
from fanlog.core.share.unordered import UnorderedBacklog
from unit.core.world import Exhausted, independent, view

ME = Credit()
BATCHES = [view(0, [0] * 4), view(4, [0] * 4), view(8, [0] * 4)]


class Bench:
    """A backlog over three batches of four messages without keys."""

    def __init__(self, kind: str, *exhausted: int, held: tuple[int, ...] = ()) -> None:
        self.cursor, self.aversions = Cursor(), Aversions()
        self.exhausted = Exhausted(*exhausted)
        self.backlog: Backlog
        if kind == "none":
            self.backlog = UnorderedBacklog(
                0, BitMap64(held), self.aversions, self.exhausted, independent()
            )
        else:
            strict = kind == "strict"
            self.backlog = OrderedBacklog(
                *(0, BitMap64(held), self.aversions, self.exhausted, independent()),
                strict=strict,
            )

    def take(self, limit: int, consumer: Credit = ME) -> list[int]:
        packer = Packer(LeaseBudget(limit, 1_000), consumer)
        self.backlog.take(self.cursor, 12, BATCHES, packer)
        return [offset for run in packer.runs for offset in range(run.start, run.end)]

    def plan(self, limit: int, consumer: Credit = ME) -> list[tuple[int, int]]:
        return self.backlog.plan(self.cursor, 12, limit, consumer)

    @property
    def has_some(self) -> bool:
        return self.backlog.has_some(self.cursor, 12)


@pytest.fixture(params=["none", "key", "strict"])
def kind(request):
    return request.param


def never(offset: int) -> bool:
    raise AssertionError(f"{offset} has no key to be held up")


def test_fresh_messages_go_out_in_order_and_once(kind):
    bench = Bench(kind)
    assert bench.plan(5) == [(0, 5)]
    assert bench.take(5) == [0, 1, 2, 3, 4]
    assert bench.backlog.next_offset == 5
    assert bench.take(100) == [5, 6, 7, 8, 9, 10, 11]
    assert not bench.has_some
    assert bench.take(1) == []


def test_a_limit_of_nothing_takes_nothing(kind):
    bench = Bench(kind)
    assert bench.plan(0) == []
    assert bench.take(0) == []
    assert bench.backlog.next_offset == 0


def test_no_message_without_a_key_is_held_up_by_another(kind):
    bench = Bench(kind)
    bench.take(3)
    assert bench.backlog.outstanding == BitMap64()
    assert bench.backlog.unplaced == BitMap64()
    assert bench.backlog.acknowledge(BitMap64([2])) == BitMap64([2])
    assert bench.backlog.would_be_early([BitMap64([1]), BitMap64([2])]) == BitMap64()
    assert bench.backlog.recall(BitMap64([0, 2]), never) == BitMap64([0, 2])
    assert bench.backlog.recalled == BitMap64()


def test_released_messages_go_first(kind):
    bench = Bench(kind)
    bench.take(6)
    bench.backlog.release(BitMap64([1, 4]))
    assert bench.plan(3) == [(1, 2), (4, 5), (6, 7)]
    assert bench.take(3) == [1, 4, 6]


def test_a_message_not_met_yet_is_not_released_twice(kind):
    bench = Bench(kind)
    bench.take(2)
    bench.backlog.release(BitMap64([1, 7]))
    assert bench.take(100) == [1, *range(2, 12)]


def test_unreadable_messages_are_left_out_and_that_is_progress(kind):
    bench = Bench(kind)
    bench.take(2)
    before = bench.backlog.progress
    bench.backlog.skip(2, 8)
    assert bench.backlog.progress > before
    again = bench.backlog.progress
    bench.backlog.skip(2, 8)
    assert bench.backlog.progress == again
    assert bench.take(100) == [8, 9, 10, 11]


def test_late_acknowledgements_count_for_messages_that_came_back(kind):
    bench = Bench(kind)
    bench.take(4)
    bench.backlog.release(BitMap64([1, 2]))
    assert bench.backlog.late(BitMap64([1, 3]), BitMap64([3])) == BitMap64([1, 3])
    bench.backlog.discard(BitMap64([1]))
    assert bench.take(1) == [2]


@pytest.mark.parametrize("floor", [2, 4, 9, 12])
def test_nothing_below_a_closed_floor_is_delivered(kind, floor):
    bench = Bench(kind)
    bench.take(3)
    bench.backlog.release(BitMap64([0, 1, 2]))
    bench.cursor.apply_head(floor)
    assert bench.backlog.close(floor) == BitMap64()
    assert bench.take(100) == list(range(floor, 12))


def test_dropped_messages_are_not_delivered(kind):
    bench = Bench(kind)
    bench.take(3)
    bench.backlog.release(BitMap64([0, 1, 2]))
    assert bench.backlog.drop(BitMap64()) == BitMap64()
    assert bench.backlog.drop(BitMap64([1])) == BitMap64()
    assert bench.take(2) == [0, 2]


@pytest.mark.parametrize("is_filtered", [False, True])
def test_reopened_messages_come_again_and_busy_ones_do_not(kind, is_filtered):
    bench = Bench(kind)
    bench.take(8)
    bench.backlog.release(BitMap64([6]))
    # Acknowledged were 1, 2, 4 and 5; 0 and 7 are leased, 3 waits, 6 is ready.
    bench.cursor.apply_chunk(0, BitMap64([2, 4]))
    busy, delayed = BitMap64([0, 7]), BitMap64([3])
    bench.backlog.reopen(BitMap64([1, 5]), busy, delayed, is_filtered=is_filtered)
    assert sorted(bench.take(3)) == [1, 5, 6]
    assert bench.take(100) == [8, 9, 10, 11]
    bench.backlog.release(delayed)
    assert bench.take(100) == [3]
    assert not bench.has_some


def test_reopened_ahead_of_all_that_was_met(kind):
    bench = Bench(kind)
    bench.take(2)
    bench.backlog.reopen(BitMap64([6]), BitMap64([0, 1]), BitMap64(), is_filtered=True)
    assert bench.backlog.next_offset == 2
    assert bench.take(100) == list(range(2, 12))


def test_exhausted_messages_are_to_be_forwarded(kind):
    bench = Bench(kind, 1, 2, 5)
    assert bench.take(4) in ([0, 3], [0, 3, 4, 6])
    bench.take(100)
    assert bench.backlog.to_forward == [1, 2, 5]
    bench.backlog.to_forward.clear()
    bench.backlog.release(BitMap64([0]))
    assert bench.take(100) == [0]
    assert bench.backlog.to_forward == []


def test_exhausted_after_it_came_back(kind):
    bench = Bench(kind)
    bench.take(3)
    bench.exhausted.offsets.add(1)
    bench.backlog.release(BitMap64([1, 2]))
    assert bench.take(2) in ([2], [2, 3])
    assert bench.backlog.to_forward == [1]


def test_leases_of_before_a_restart_are_not_delivered(kind):
    bench = Bench(kind, held=(1, 5))
    assert bench.take(100) == [0, 2, 3, 4, *range(6, 12)]
    assert bench.backlog.recalled == BitMap64()
    bench.backlog.recall(BitMap64([1]), never)
    bench.backlog.release(BitMap64([1]))
    assert bench.take(100) == [1]


def test_a_scan_delivers_nothing(kind):
    bench = Bench(kind, held=(1,))
    bench.backlog.scan(bench.cursor, 4, BATCHES)
    assert bench.backlog.unplaced == BitMap64()
    assert bench.take(100) == [0, *range(2, 12)]


def test_an_aversion_leaves_messages_to_others(kind):
    bench, averse = Bench(kind), Credit(client="a")
    bench.take(4, averse)
    lease = Lease(1, 0, 9.0, BitMap64([1, 2]), (), averse)
    bench.aversions.add(0.0, [(lease, BitMap64([1, 2]))])
    bench.backlog.release(BitMap64([0, 1, 2, 3]))
    assert bench.plan(2, averse) == [(0, 1), (3, 4)]
    assert bench.take(2, averse) == [0, 3]
    assert bench.take(2) == [1, 2]


def test_an_aversion_to_messages_that_are_met_once_more(kind):
    """After the backlog went back the averse consumer passes them by, and others get them."""
    bench, averse = Bench(kind), Credit(client="a")
    bench.take(4, averse)
    lease = Lease(1, 0, 9.0, BitMap64([1]), (), averse)
    bench.aversions.add(0.0, [(lease, BitMap64([1]))])
    bench.backlog.release(BitMap64([1]))
    bench.backlog.reopen(BitMap64([0]), BitMap64([2, 3]), BitMap64(), is_filtered=True)
    assert bench.take(2, averse) == [0, 4]
    assert bench.take(1) == [1]


def test_the_settings_may_not_change_whether_there_is_order(kind):
    bench = Bench(kind)
    for ordering in ("none", "key", "strict"):
        if (kind == "none") == (ordering == "none"):
            bench.backlog.configure(ordering)
        else:
            with pytest.raises(AssertionError):
                bench.backlog.configure(ordering)


def test_an_abandoned_consumer_changes_nothing_for_messages_without_a_key(kind):
    bench = Bench(kind)
    bench.take(3)
    bench.backlog.abandon(ME)
    assert bench.take(100) == list(range(3, 12))
