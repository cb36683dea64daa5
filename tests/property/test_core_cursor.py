"""A cursor against a plain set of acknowledged offsets."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from fanlog.core.cursor import Cursor, CursorChange

END = 40
offset = st.integers(0, END)
some = st.frozensets(st.integers(0, END - 1), max_size=12)

step = st.one_of(
    st.tuples(st.just("acknowledge"), some, st.just(0)),
    st.tuples(st.just("acknowledge"), some, offset),
    st.tuples(st.just("seek"), offset, offset),
    st.tuples(st.just("copy"), some, offset),
    st.tuples(st.just("reopen"), some, st.just(0)),
    st.tuples(st.just("close"), some, offset),
)


def apply(cursor: Cursor, change: CursorChange) -> None:
    cursor.apply_head(change.mark)
    for chunk, bits in change.chunks.items():
        assert bits or chunk in cursor.chunks, "removing what was never written is no change"
        cursor.apply_chunk(chunk, bits)
    for chunk, opened in change.reopened.items():
        assert opened or chunk in cursor.reopened.chunks
        cursor.apply_reopened(chunk, opened)


def reopened(cursor: Cursor, offsets: frozenset[int]) -> CursorChange:
    opened = cursor.acknowledged(BitMap64(offsets))
    changes = cursor.reopened.add(opened, fence=1, since_s=1.0, is_wanted=False)
    return CursorChange(cursor.mark, {}, changes)


def check(cursor: Cursor, acked: set[int], chunk_offsets: int) -> None:
    assert {o for o in range(END) if o in cursor} == acked
    ranges = list(cursor.unacked_ranges(0, END))
    assert [o for start, end in ranges for o in range(start, end)] == [
        o for o in range(END) if o not in acked
    ]
    assert all(start < end for start, end in ranges)
    assert cursor.floor == min(set(range(END)) - acked, default=cursor.floor)
    assert cursor.floor <= cursor.mark
    assert cursor.mark not in cursor.chunks.get(cursor.mark // chunk_offsets, ())
    for chunk, bits in cursor.chunks.items():
        assert bits
        assert bits.min() > cursor.mark
        assert {o // chunk_offsets for o in bits} == {chunk}
    for chunk, opened in cursor.reopened.chunks.items():
        assert opened.bits
        assert {o // chunk_offsets for o in opened.bits} == {chunk}
        assert not opened.bits & BitMap64(acked)
    assert cursor.acknowledged(BitMap64(range(END))) == BitMap64(acked)
    for end in (0, 7, END):
        assert cursor.open_offsets(end) == BitMap64(o for o in range(end) if o not in acked)
    assert cursor.open_before(END) == END - len(acked)


@settings(max_examples=400)
@given(steps=st.lists(step, max_size=12), chunk_offsets=st.sampled_from([1, 4, 8, 64]))
def test_a_cursor_is_a_set(steps, chunk_offsets):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fanlog.core.cursor.CURSOR_CHUNK_OFFSETS", chunk_offsets)
        patched.setattr("fanlog.core.reopening.CURSOR_CHUNK_OFFSETS", chunk_offsets)
        cursor, acked = Cursor(), set()
        for what, first, second in steps:
            match what:
                case "acknowledge":
                    change = cursor.acknowledge(BitMap64(first), below=second)
                    acked |= first | set(range(second))
                case "seek":
                    change = cursor.seek(first, second)
                    acked = {o for o in range(END) if o < first or (o < second and o in acked)}
                case "copy":
                    other = Cursor()
                    apply(other, other.acknowledge(BitMap64(first), below=second // 2))
                    apply(other, reopened(other, first))
                    change = cursor.copy_from(other, at_least=second)
                    acked = set(range(second)) | set(range(second // 2)) - first
                case "reopen":
                    change = reopened(cursor, first)
                    acked -= first
                case "close":
                    change = cursor.acknowledge(BitMap64(), below=second, keeping=BitMap64(first))
                    open_again = {o for o in first if o in cursor.reopened}
                    acked |= set(range(second)) - open_again
            apply(cursor, change)
            check(cursor, acked, chunk_offsets)
