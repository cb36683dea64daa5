"""The unordered backlog: fresh, released, held and unreadable offsets."""

from __future__ import annotations

from pyroaring import BitMap64

from fanlog.core.cursor import Cursor
from fanlog.core.flow import Credit, LeaseBudget
from fanlog.core.share.aversion import Aversions
from fanlog.core.share.backlog import without
from fanlog.core.share.packer import Packer
from fanlog.core.share.unordered import UnorderedBacklog
from unit.core.world import Exhausted, independent, view

ME = Credit()
BATCHES = [view(0, [0] * 4), view(4, [0] * 4), view(8, [0] * 4)]


def backlog(floor: int = 0, held: tuple[int, ...] = ()) -> UnorderedBacklog:
    return UnorderedBacklog(floor, BitMap64(held), Aversions(), Exhausted(), independent())


def take(
    made: UnorderedBacklog, cursor: Cursor, limit: int, views: list | None = None
) -> list[int]:
    packer = Packer(LeaseBudget(limit, 1_000), ME)
    made.take(cursor, 12, BATCHES if views is None else views, packer)
    return [offset for run in packer.runs for offset in range(run.start, run.end)]


def test_fresh_messages_go_out_in_order_and_once():
    made, cursor = backlog(), Cursor()
    assert made.plan(cursor, 12, 5, ME) == [(0, 5)]
    assert take(made, cursor, 5) == [0, 1, 2, 3, 4]
    assert made.next_offset == made.progress == 5
    assert take(made, cursor, 100) == [5, 6, 7, 8, 9, 10, 11]
    assert not made.has_some(cursor, 12)
    assert made.has_some(cursor, 13)
    assert take(made, cursor, 0) == []


def test_what_came_back_goes_first():
    made, cursor = backlog(), Cursor()
    take(made, cursor, 6)
    made.release(BitMap64([1, 4]))
    assert made.plan(cursor, 12, 3, ME) == [(1, 2), (4, 5), (6, 7)]
    assert take(made, cursor, 3) == [1, 4, 6]
    assert take(made, cursor, 1) == [7]


def test_acknowledged_ones_are_passed_over():
    made = backlog()
    cursor = Cursor(0, {0: BitMap64([1, 2, 5])})
    assert made.plan(cursor, 12, 4, ME) == [(0, 1), (3, 5), (6, 7)]
    assert take(made, cursor, 4) == [0, 3, 4, 6]


def test_held_ones_wait_until_released():
    made, cursor = backlog(held=(1, 9)), Cursor()
    assert take(made, cursor, 3) == [0, 2, 3]
    made.release(BitMap64([1, 9]))
    assert take(made, cursor, 100) == [1, *range(4, 12)]


def test_only_what_was_read_is_taken():
    made, cursor = backlog(), Cursor()
    assert take(made, cursor, 12, BATCHES[:1]) == [0, 1, 2, 3]
    assert take(made, cursor, 12, BATCHES[2:]) == []
    assert take(made, cursor, 12, BATCHES[1:]) == list(range(4, 12))


def test_unreadable_ones_are_left_out_wherever_they_lie():
    made, cursor = backlog(), Cursor(0, {0: BitMap64([2, 3])})
    assert take(made, cursor, 2) == [0, 1]
    # The fresh ones begin at 4, behind two that are acknowledged.
    made.skip(4, 8)
    assert made.plan(cursor, 12, 9, ME) == [(8, 12)]
    assert take(made, cursor, 9, BATCHES[2:]) == [8, 9, 10, 11]
    made.release(BitMap64([8, 9]))
    made.skip(8, 9)
    assert take(made, cursor, 9) == [9]


def test_acknowledged_late_and_gone():
    made, cursor = backlog(held=(11,)), Cursor()
    take(made, cursor, 6)
    made.release(BitMap64([1, 2, 3]))
    assert made.late(BitMap64([2]), BitMap64()) == BitMap64([2])
    made.discard(BitMap64([2]))
    assert made.close(2) == BitMap64()
    assert made.plan(cursor, 6, 9, ME) == [(3, 4)]
    made.close(8)
    assert made.next_offset == 8
    made.abandon(ME)
    assert not made.has_some(Cursor(8), 8)


def test_without():
    def left(ranges: list[tuple[int, int]], *held: int) -> list[tuple[int, int]]:
        return list(without(iter(ranges), BitMap64(held)))

    assert left([(0, 5), (7, 9)]) == [(0, 5), (7, 9)]
    assert left([(0, 5), (7, 9)], 0, 2, 4, 8) == [(1, 2), (3, 4), (7, 8)]
    assert left([(0, 2)], 0, 1) == []
    assert left([(3, 6)], 1, 9) == [(3, 6)]
    assert left([(3, 6)], 1) == [(3, 6)]
