"""The terms of a batch as bytes: the columns of `fanlog.model.terms`, one after the other.

    length (u32) of what follows | column | column …
    column: kind (u8) | count (u32) | index (u32) of each | value (u64) of each

Numbers are little-endian. Kinds ascend. A kind that this build does not know makes a batch
unreadable to it: ignoring what a message asks for would break a promise.
"""

from __future__ import annotations

import struct
import sys
from array import array

from fanlog.model.terms import TermColumn, TermKind, Terms

_LENGTH = struct.Struct("<I")
_COLUMN = struct.Struct("<BI")
_INDEX_BYTES, _VALUE_BYTES = 4, 8
_ENTRY_BYTES = _INDEX_BYTES + _VALUE_BYTES
_SWAP = sys.byteorder == "big"


def bytes_max(terms: Terms) -> int:
    """As many bytes as they have at most, also when they are cut or joined to others."""
    entries = sum(len(column.indexes) for column in terms.columns.values())
    return _LENGTH.size + _COLUMN.size * len(terms.columns) + _ENTRY_BYTES * entries


def encode(terms: Terms) -> bytes:
    parts = [b""]
    for kind, (indexes, values) in terms.columns.items():
        parts += (_COLUMN.pack(kind, len(indexes)), _bytes(indexes), _bytes(values))
    parts[0] = _LENGTH.pack(sum(map(len, parts)))
    return b"".join(parts)


def decode(block: memoryview, position: int, message_count: int) -> tuple[Terms, int]:
    """The terms that begin at a position of a block, and where they end.

    Raises:
        ValueError: They pass the end of the block, or are not as `encode` writes them.
    """
    try:
        (size,) = _LENGTH.unpack_from(block, position)
        position += _LENGTH.size
        end = position + size
        columns: dict[TermKind, TermColumn] = {}
        while position < end:
            number, count = _COLUMN.unpack_from(block, position)
            position += _COLUMN.size
            middle = position + _INDEX_BYTES * count
            stop = middle + _VALUE_BYTES * count
            if not count or stop > min(end, len(block)):
                raise ValueError("its terms pass their end, or a column has none")
            indexes, values = array("I"), array("Q")
            indexes.frombytes(block[position:middle])
            values.frombytes(block[middle:stop])
            if _SWAP:  # pragma: no cover - a machine of the other byte order
                indexes.byteswap()
                values.byteswap()
            if number not in TermKind.__members__.values():
                raise ValueError(f"it has terms of a kind that this build does not know: {number}")
            _check(number, indexes, columns, message_count)
            columns[TermKind(number)] = TermColumn(indexes, values)
            position = stop
    except struct.error as error:
        raise ValueError(f"its terms cannot be read: {error}") from error
    if not columns or position != end:
        raise ValueError("it says that it has terms, and has none")
    return Terms(columns), position


def _check(
    number: int, indexes: array[int], columns: dict[TermKind, TermColumn], message_count: int
) -> None:
    if columns and number <= max(columns):
        raise ValueError("its terms are out of order")
    if indexes[-1] >= message_count or list(indexes) != sorted(indexes):
        raise ValueError("its terms are of messages that it does not have")


def _bytes(numbers: array[int]) -> bytes:
    if _SWAP:  # pragma: no cover - a machine of the other byte order
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()
