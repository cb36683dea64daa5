"""Stored messages cut into fields, all messages at once.

A body is a run of `messages` fields of a PublishRequest. Protobuf makes an object of each of them,
and another of each map: that is most of the time it takes. Here nothing is made for a message. All
messages are walked in step, the first field of each, then the second of each, by arrays of
positions; the result is positions again, and Arrow cuts the values out of the bytes.

Bytes that the server wrote or found canonical (`fanlog.wire.publish`) are understood: the three
fields a publisher may set, in any order, each attribute with its key before its value. Other bytes
give `None`, and protobuf is to be asked. UTF-8 was checked when the message was published.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_DATA: Final = 0x0A
_ATTRIBUTE: Final = 0x12
_ORDERING_KEY: Final = 0x2A
#: Inside of an attribute.
_KEY: Final = 0x0A
_VALUE: Final = 0x12
#: A length of more than four bytes is longer than any message.
_LENGTH_BYTES_MAX: Final = 4

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of some messages, as arrays with one entry a message."""

    data: pa.Array
    #: Empty for none, as in the lake; so are the maps.
    ordering_keys: pa.Array
    attributes: pa.Array


def cut(content: bytes, starts: Positions) -> Fields | None:
    """Cut the messages of `content`, the first from `starts[0]` on, the last to `starts[-1]`.

    Gives None for bytes that only protobuf understands.
    """
    count = len(starts) - 1
    if count == 0:
        return None
    # A length may be looked for behind the last byte: those bytes are in no message.
    padded = np.frombuffer(content + b"\0" * (_LENGTH_BYTES_MAX + 1), np.uint8)
    ends = starts[1:]
    sizes, begins = _lengths(padded, starts[:-1] + 1)
    if not np.array_equal(begins + sizes, ends):
        return None
    found = _Found(count, begins)
    rows = np.arange(count)
    positions = begins
    while True:
        is_open = positions < ends[rows]
        if not is_open.all():
            rows, positions = rows[is_open], positions[is_open]
        if not len(rows):
            break
        tags = padded[positions]
        sizes, begins = _lengths(padded, positions + 1)
        positions = begins + sizes
        if (positions > ends[rows]).any() or not found.take(padded, tags, rows, begins, positions):
            return None
    return found.fields(pa.py_buffer(content))


class _Found:
    """Where the values are that were met so far."""

    def __init__(self, count: int, begins: Positions) -> None:
        self._count = count
        self._data = (begins.copy(), begins.copy())
        self._keys: tuple[Positions, Positions] | None = None
        self._begins = begins
        #: Row, begin and end of the key, begin and end of the value; one of each for a step.
        self._attributes: list[tuple[Positions, ...]] = []

    def take(
        self,
        padded: npt.NDArray[np.uint8],
        tags: npt.NDArray[np.uint8],
        rows: Positions,
        begins: Positions,
        ends: Positions,
    ) -> bool:
        """Keep the values found in one step; False for a field that should not be there."""
        first = tags[0]
        if (tags == first).all():
            return self._take_kind(padded, int(first), rows, begins, ends)
        for kind in np.unique(tags):
            is_kind = tags == kind
            if not self._take_kind(
                padded, int(kind), rows[is_kind], begins[is_kind], ends[is_kind]
            ):
                return False
        return True

    def _take_kind(
        self,
        padded: npt.NDArray[np.uint8],
        kind: int,
        rows: Positions,
        begins: Positions,
        ends: Positions,
    ) -> bool:
        if kind == _DATA:
            self._data[0][rows], self._data[1][rows] = begins, ends
        elif kind == _ORDERING_KEY:
            if self._keys is None:
                self._keys = (self._begins.copy(), self._begins.copy())
            self._keys[0][rows], self._keys[1][rows] = begins, ends
        elif kind == _ATTRIBUTE:
            key_sizes, keys = _lengths(padded, begins + 1)
            key_ends = keys + key_sizes
            if (padded[begins] != _KEY).any() or (key_ends >= ends).any():
                return False
            value_sizes, values = _lengths(padded, key_ends + 1)
            if (padded[key_ends] != _VALUE).any() or (values + value_sizes != ends).any():
                return False
            self._attributes.append((rows, keys, key_ends, values, ends))
        else:
            return False
        return True

    def fields(self, buffer: pa.Buffer) -> Fields:
        if self._keys is None:
            ordering_keys = pa.repeat("", self._count)
        else:
            ordering_keys = _values(pa.string(), buffer, *self._keys)
        return Fields(
            data=_values(pa.binary(), buffer, *self._data),
            ordering_keys=ordering_keys,
            attributes=self._maps(buffer),
        )

    def _maps(self, buffer: pa.Buffer) -> pa.Array:
        offsets = np.zeros(self._count + 1, np.int32)
        if not self._attributes:
            empty = pa.array([], pa.string())
            return pa.MapArray.from_arrays(pa.array(offsets), empty, empty)
        rows, *places = (np.concatenate(each) for each in zip(*self._attributes, strict=True))
        np.cumsum(np.bincount(rows, minlength=self._count), out=offsets[1:])
        if len(self._attributes) > 1:
            # From step after step to message after message, which is the order of the bytes.
            order = np.argsort(places[0], kind="stable")
            places = [place[order] for place in places]
        keys, key_ends, values, ends = places
        return pa.MapArray.from_arrays(
            pa.array(offsets),
            _values(pa.string(), buffer, keys, key_ends),
            _values(pa.string(), buffer, values, ends),
        )


def _lengths(padded: npt.NDArray[np.uint8], positions: Positions) -> tuple[Positions, Positions]:
    """Read the varint at each position; give the numbers and the positions behind them."""
    positions = np.minimum(positions, len(padded) - _LENGTH_BYTES_MAX)
    read = padded[positions]
    sizes = (read & 0x7F).astype(np.int64)
    positions = positions + 1
    is_open = read >= 0x80
    for shift in range(7, 7 * _LENGTH_BYTES_MAX, 7):
        if not is_open.any():
            return sizes, positions
        read = np.where(is_open, padded[np.minimum(positions, len(padded) - 1)], 0)
        sizes |= (read & 0x7F).astype(np.int64) << shift
        positions = positions + is_open
        is_open = read >= 0x80
    # Longer than anything that is stored: the end is beyond every message.
    sizes[is_open] = len(padded)
    return sizes, positions


def _values(kind: pa.DataType, buffer: pa.Buffer, begins: Positions, ends: Positions) -> pa.Array:
    """Copy the slices out of the buffer. They are in order and do not overlap.

    For a moment the bytes between them count as values, too: every other one is then taken.
    """
    count = len(begins)
    places = np.empty(2 * count, np.int32)
    places[0::2], places[1::2] = begins, ends
    all_of_it = pa.Array.from_buffers(kind, 2 * count - 1, [None, pa.py_buffer(places), buffer])
    return all_of_it.take(pa.array(np.arange(0, 2 * count, 2)))
