"""Bitmaps from outside: what is sound is read, and what is not never reaches the library."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.wire.bitmaps import parse_offsets

ranges = st.lists(
    st.tuples(st.integers(0, 1 << 34), st.integers(1, 200_000), st.integers(1, 40)), max_size=6
)


def some(parts: list[tuple[int, int, int]]) -> BitMap64:
    found = BitMap64()
    for start, length, step in parts:
        found |= BitMap64(range(start, start + length, step))
    return found


@given(ranges, st.booleans())
def test_what_is_sound_is_read(parts, is_compact):
    offsets = some(parts)
    if is_compact:
        offsets.run_optimize()
    assert parse_offsets(offsets.serialize(), "offsets") == offsets


@given(ranges, st.data())
def test_a_changed_byte_is_noticed_or_means_another_set(parts, data):
    raw = bytearray(some(parts).serialize())
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= data.draw(st.integers(1, 255))
    try:
        found = parse_offsets(bytes(raw), "offsets")
    except InvalidArgument:
        return
    # What was taken is a set like any other: written again it is read again.
    assert parse_offsets(found.serialize(), "offsets") == found
    assert len(found) == sum(1 for _ in found)


@given(st.binary(max_size=200))
def test_any_bytes(raw):
    with suppress(InvalidArgument):
        parse_offsets(raw, "offsets")


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw[:-1],
        lambda raw: raw + b"\0",
        lambda raw: b"\3" + raw[1:],
        lambda raw: raw[:12] + b"\0\0" + raw[14:],
    ],
    ids=["cut", "longer", "more parts", "no cookie"],
)
def test_damage_is_named(change):
    raw = BitMap64([1, 2, 3, 1 << 33]).serialize()
    with pytest.raises(InvalidArgument, match="not a 64-bit Roaring bitmap"):
        parse_offsets(change(raw), "offsets[0].bitmap")


def test_a_bitmap_container_that_lies_about_its_size():
    raw = bytearray(BitMap64(range(0, 60_000, 2)).serialize())
    place = raw.index((29_999).to_bytes(2, "little"))
    raw[place : place + 2] = (20_000).to_bytes(2, "little")
    with pytest.raises(InvalidArgument, match="as many values as it says"):
        parse_offsets(bytes(raw), "offsets")


def test_numbers_that_are_no_offsets():
    with pytest.raises(InvalidArgument, match="is no offset"):
        parse_offsets(BitMap64([limits.OFFSET_MAX]).serialize(), "offsets")
