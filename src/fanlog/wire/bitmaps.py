"""64-bit Roaring bitmaps from outside, in their portable format.

The library that reads them trusts their headers: a container with a count of five and fifty
thousand values would be written past its end. So every container is checked first, without a look
at its values one by one in Python.

    count of 32-bit parts: 8 bytes; each: the upper 32 bits: 4 bytes, then a bitmap of 32 bits:
    cookie: 4 bytes · with runs: a flag for each container · key and count - 1 of each: 2 + 2 bytes
    · places: 4 bytes each, unless there are runs and fewer than four containers · the containers

All numbers are little-endian.
"""

from __future__ import annotations

import struct
import sys
from array import array

from pyroaring import BitMap64

from fanlog import limits
from fanlog.errors import InvalidArgument

_COOKIE = 12_346
_COOKIE_WITH_RUNS = 12_347
_PLACES_MIN = 4
#: A container with more values than this is a bitmap of so many bytes.
_ARRAY_MAX = 4_096
_BITMAP_BYTES = 8_192
_VALUES = 1 << 16


def parse_offsets(raw: bytes, field: str) -> BitMap64:
    """Read a set of offsets.

    Raises:
        InvalidArgument: It is no such bitmap, or has a value that is no offset.
    """
    try:
        _check(memoryview(raw))
        offsets = BitMap64.deserialize(raw)
    except (struct.error, ValueError, IndexError) as error:
        raise InvalidArgument(
            f"{field}: not a 64-bit Roaring bitmap in the portable format: {error}"
        ) from error
    if offsets and offsets.max() >= limits.OFFSET_MAX:
        raise InvalidArgument(f"{field}: {offsets.max()} is no offset")
    return offsets


def _check(raw: memoryview) -> None:
    [parts] = struct.unpack_from("<Q", raw)
    position, last = 8, -1
    for _ in range(parts):
        [upper] = struct.unpack_from("<I", raw, position)
        if upper <= last:
            raise ValueError("its parts are not in order")
        last = upper
        position = _check_part(raw, position + 4)
    if position != len(raw):
        raise ValueError(f"{len(raw) - position} bytes are left over")


def _check_part(raw: memoryview, position: int) -> int:
    """Look at a bitmap of 32 bits; return where it ends."""
    [cookie] = struct.unpack_from("<I", raw, position)
    start = position
    flags = b""
    if cookie & 0xFFFF == _COOKIE_WITH_RUNS:
        count = (cookie >> 16) + 1
        flags = bytes(raw[position + 4 : position + 4 + (count + 7) // 8])
        position += 4 + len(flags)
        has_places = count >= _PLACES_MIN
    elif cookie == _COOKIE:
        [count] = struct.unpack_from("<I", raw, position + 4)
        if count > _VALUES:
            raise ValueError(f"a part has {count} containers")
        position += 8
        has_places = True
    else:
        raise ValueError(f"a part begins with {cookie}")
    heads = _numbers(raw, position, 2 * count)
    if not _ascends(heads[::2]):
        raise ValueError("containers are not in order")
    position += 4 * count
    places = position
    position += 4 * count if has_places else 0
    for index, less_one in enumerate(heads[1::2]):
        if has_places and struct.unpack_from("<I", raw, places + 4 * index)[0] != position - start:
            raise ValueError("a container is not where it should be")
        is_run = bool(flags) and bool(flags[index // 8] >> index % 8 & 1)
        position = _check_container(raw, position, less_one + 1, is_run=is_run)
    return position


def _check_container(raw: memoryview, position: int, count: int, *, is_run: bool) -> int:
    if is_run:
        [runs] = struct.unpack_from("<H", raw, position)
        numbers = _numbers(raw, position + 2, 2 * runs)
        starts, lengths = numbers[::2], numbers[1::2]
        ends = [start + length for start, length in zip(starts, lengths, strict=True)]
        if sum(lengths) + runs != count or max(ends, default=_VALUES) >= _VALUES:
            raise ValueError("runs are not what they say")
        if any(end >= start for (end, start) in zip(ends, starts[1:], strict=False)):
            raise ValueError("runs are not in order")
        return int(position + 2 + 4 * runs)
    if count <= _ARRAY_MAX:
        if not _ascends(_numbers(raw, position, count)):
            raise ValueError("values are not in order")
        return position + 2 * count
    bits = raw[position : position + _BITMAP_BYTES]
    if len(bits) < _BITMAP_BYTES or int.from_bytes(bits, "little").bit_count() != count:
        raise ValueError("a container does not have as many values as it says")
    return position + _BITMAP_BYTES


def _numbers(raw: memoryview, position: int, count: int) -> array[int]:
    part = raw[position : position + 2 * count]
    if len(part) < 2 * count:
        raise ValueError("it ends too early")
    numbers = array("H", bytes(part))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _ascends(numbers: array[int]) -> bool:
    values = numbers.tolist()
    return values == sorted(set(values))
