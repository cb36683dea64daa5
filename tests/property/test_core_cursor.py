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
)


def apply(cursor: Cursor, change: CursorChange) -> None:
    cursor.apply_head(change.floor)
    for chunk, bits in change.chunks.items():
        assert bits or chunk in cursor.chunks, "removing what was never written is no change"
        cursor.apply_chunk(chunk, bits)


def check(cursor: Cursor, acked: set[int], chunk_offsets: int) -> None:
    assert {o for o in range(END) if o in cursor} == acked
    ranges = list(cursor.unacked_ranges(0, END))
    assert [o for start, end in ranges for o in range(start, end)] == [
        o for o in range(END) if o not in acked
    ]
    assert all(start < end for start, end in ranges)
    assert cursor.floor not in cursor.chunks.get(cursor.floor // chunk_offsets, ())
    for chunk, bits in cursor.chunks.items():
        assert bits
        assert bits.min() > cursor.floor
        assert {o // chunk_offsets for o in bits} == {chunk}
    assert cursor.acked_above_floor == sum(o > cursor.floor for o in acked)


@settings(max_examples=400)
@given(steps=st.lists(step, max_size=12), chunk_offsets=st.sampled_from([1, 4, 8, 64]))
def test_a_cursor_is_a_set(steps, chunk_offsets):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fanlog.core.cursor.CURSOR_CHUNK_OFFSETS", chunk_offsets)
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
                    apply(other, other.acknowledge(BitMap64(first)))
                    change = cursor.copied_from(other, at_least=second)
                    acked = set(first) | set(range(second))
            apply(cursor, change)
            check(cursor, acked, chunk_offsets)
