"""Cursors by plain values: floors, chunk boundaries, seeks and copies."""

from __future__ import annotations

import pytest
from pyroaring import BitMap64

from fanlog.core.cursor import Cursor, CursorChange, runs

CHUNK = 65_536
END = 3 * CHUNK


def apply(cursor: Cursor, change: CursorChange) -> Cursor:
    cursor.apply_head(change.mark)
    for chunk, bits in change.chunks.items():
        cursor.apply_chunk(chunk, bits)
    return cursor


def acked(cursor: Cursor, *offsets: int) -> Cursor:
    return apply(cursor, cursor.acknowledge(BitMap64(offsets)))


def open_in(cursor: Cursor, start: int, end: int) -> list[tuple[int, int]]:
    return list(cursor.unacked_ranges(start, end))


def test_the_floor_moves_over_what_is_acknowledged():
    cursor = acked(Cursor(), 1, 2, 4)
    assert (cursor.floor, cursor.acked_above_mark) == (0, 3)
    assert [o in cursor for o in range(6)] == [False, True, True, False, True, False]
    acked(cursor, 0)
    assert (cursor.floor, cursor.acked_above_mark) == (3, 1)
    acked(cursor, 3)
    assert (cursor.floor, cursor.chunks) == (5, {})


def test_a_verb_changes_nothing_by_itself():
    cursor = acked(Cursor(), 5)
    before = dict(cursor.chunks)
    cursor.acknowledge(BitMap64([0, 1, 6]))
    cursor.seek(0, 0)
    cursor.copy_from(Cursor(9), at_least=0)
    assert (cursor.floor, cursor.chunks) == (0, before)
    assert list(before[0]) == [5]


def test_what_is_acknowledged_already_is_no_change():
    cursor = acked(Cursor(10), 12)
    assert cursor.acknowledge(BitMap64([3, 12])) == CursorChange(10, {})
    assert cursor.acknowledge(BitMap64()) == CursorChange(10, {})
    assert cursor.acknowledge(BitMap64([1, 2])) == CursorChange(10, {})


def test_offsets_below_the_floor_do_not_come_back_in_a_chunk():
    cursor = Cursor(CHUNK + 5)
    change = cursor.acknowledge(BitMap64([1, CHUNK + 2, CHUNK + 7]))
    assert change.chunks == {1: BitMap64([CHUNK + 7])}


@pytest.mark.parametrize("offset", [CHUNK - 1, CHUNK, CHUNK + 1])
def test_each_side_of_a_chunk_boundary(offset):
    cursor = acked(Cursor(), offset)
    assert list(cursor.chunks) == [offset // CHUNK]
    assert offset in cursor
    assert offset - 1 not in cursor
    assert offset + 1 not in cursor
    assert [o for r in open_in(cursor, offset - 2, offset + 3) for o in range(*r)] == [
        o for o in range(offset - 2, offset + 3) if o != offset
    ]


def test_the_floor_crosses_chunks_in_one_step():
    cursor = acked(Cursor(), *range(1, 2 * CHUNK + 3))
    assert cursor.floor == 0
    change = cursor.acknowledge(BitMap64([0]))
    assert change == CursorChange(2 * CHUNK + 3, {0: None, 1: None, 2: None})


def test_the_floor_stops_exactly_at_a_boundary():
    cursor = acked(Cursor(CHUNK - 1), CHUNK - 1)
    assert (cursor.floor, cursor.chunks) == (CHUNK, {})
    cursor = acked(Cursor(CHUNK - 2), CHUNK - 1, CHUNK + 1)
    assert acked(cursor, CHUNK - 2).floor == CHUNK
    assert list(cursor.chunks) == [1]


def test_only_touched_chunks_are_in_a_change():
    cursor = acked(Cursor(), 10, CHUNK + 10, 2 * CHUNK + 10)
    assert list(cursor.acknowledge(BitMap64([CHUNK + 11])).chunks) == [1]
    spread = cursor.acknowledge(BitMap64([11, 2 * CHUNK + 11]))
    assert list(spread.chunks) == [0, 2]


def test_untouched_chunks_are_one_range():
    assert open_in(Cursor(), 5, 10 * CHUNK) == [(5, 10 * CHUNK)]
    cursor = acked(Cursor(), 2 * CHUNK)
    assert open_in(cursor, 0, 4 * CHUNK) == [
        (0, 2 * CHUNK),
        (2 * CHUNK + 1, 3 * CHUNK),
        (3 * CHUNK, 4 * CHUNK),
    ]
    assert open_in(cursor, 7, 7) == []
    assert open_in(Cursor(9), 0, 12) == [(9, 12)]


def test_all_below_a_bound_can_be_acknowledged_with_others():
    cursor = acked(Cursor(), 6, CHUNK + 1)
    change = cursor.acknowledge(BitMap64([5, CHUNK]), below=5)
    assert change == CursorChange(7, {0: None, 1: BitMap64([CHUNK, CHUNK + 1])})
    assert cursor.acknowledge(BitMap64(), below=CHUNK + 1).mark == CHUNK + 2
    assert Cursor(9).acknowledge(BitMap64(), below=3) == CursorChange(9, {})


class TestSeek:
    """`retained_from` is where acknowledged messages can still come back."""

    def test_forward_acknowledges_all_before(self):
        cursor = acked(Cursor(), 3, 8)
        assert cursor.seek(6, 0) == CursorChange(6, {0: None})
        assert cursor.seek(END, END) == CursorChange(END, {0: None})

    def test_back_into_what_is_retained_reopens_it(self):
        cursor = acked(Cursor(20), 22)
        assert cursor.seek(10, 5) == CursorChange(10, {0: None})
        assert cursor.seek(10, 10) == CursorChange(10, {0: None})

    def test_back_below_what_is_retained_reopens_the_rest(self):
        assert Cursor(20).seek(5, 12) == CursorChange(12, {})
        assert Cursor(20).seek(5, 20) == CursorChange(20, {})

    def test_what_is_acknowledged_and_not_retained_stays_so(self):
        cursor = acked(Cursor(4), 6, 7, 12)
        change = cursor.seek(0, 10)
        assert change == CursorChange(4, {0: BitMap64([6, 7])})

    def test_between_the_floor_and_what_is_retained(self):
        cursor = acked(Cursor(4), 6, 7, 9, 12)
        assert cursor.seek(6, 10) == CursorChange(8, {0: BitMap64([9])})
        # Nothing retained at all: seeking back opens nothing.
        assert apply(cursor, cursor.seek(0, END)).floor == 4
        assert list(cursor.chunks[0]) == [6, 7, 9, 12]

    def test_across_chunks(self):
        cursor = acked(Cursor(), 5, CHUNK - 1, CHUNK, CHUNK + 9)
        change = cursor.seek(CHUNK - 1, CHUNK + 5)
        assert change == CursorChange(CHUNK + 1, {0: None, 1: None})


def test_a_copy_is_equal_to_the_other():
    mine, other = acked(Cursor(50), 60, CHUNK + 1), acked(Cursor(3), 5, 2 * CHUNK)
    copy = apply(mine, mine.copy_from(other, at_least=0))
    assert (copy.floor, copy.chunks) == (3, other.chunks)


def test_a_copy_is_closed_below_a_bound():
    other = acked(Cursor(3), 5, 6, 9)
    assert Cursor().copy_from(other, at_least=4) == CursorChange(4, {0: BitMap64([5, 6, 9])})
    assert Cursor().copy_from(other, at_least=5) == CursorChange(7, {0: BitMap64([9])})
    assert Cursor().copy_from(other, at_least=CHUNK) == CursorChange(CHUNK, {})


def test_runs():
    assert list(runs(BitMap64())) == []
    assert list(runs(BitMap64([0, 1, 2, 5, 7, 8]))) == [(0, 3), (5, 6), (7, 9)]
    far = 2**40
    assert list(runs(BitMap64([far - 1, far, far + 2]))) == [(far - 1, far + 1), (far + 2, far + 3)]


def test_open_offsets_are_all_that_is_not_acknowledged():
    cursor = Cursor(2, {0: BitMap64([4, 5])})
    assert cursor.open_offsets(8) == BitMap64([2, 3, 6, 7])
    assert cursor.open_offsets(1) == BitMap64()
    assert Cursor(3).open_offsets(5) == BitMap64([3, 4])
    change = cursor.reopened.add(BitMap64([0, 4]), fence=1, since_s=0.0, is_wanted=False)
    for chunk, opened in change.items():
        cursor.apply_reopened(chunk, opened)
    assert cursor.open_offsets(5) == BitMap64([0, 2, 3, 4])
