"""The most bytes that records take in the log: a commit is bounded by them before it is applied.

Records that come by the thousand are not encoded for it; their bound is near enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from pyroaring import BitMap64

from fanlog.core.records import Record
from fanlog.core.records.partitions import (
    AddressRecord,
    AgendaChunk,
    DedupEntry,
    NumbersRecord,
    PublisherRecord,
    TenantChunk,
    Trimmed,
)
from fanlog.core.records.shares import (
    Activity,
    AttemptsChunk,
    CursorChunk,
    CursorHead,
    LeaseHeld,
)

#: Of a record with a few numbers and nothing else, its key and what an engine adds included.
SMALL_BYTES: Final = 160
#: Bits that are stored together, the most bytes that they take, and what is added to them.
_CONTAINER_SHIFT: Final = 16
_CONTAINER_BYTES: Final = 8_192
_CONTAINER_HEAD_BYTES: Final = 40
_COUNT_BYTES: Final = 3


def state_bytes(records: Iterable[Record], value_of: Callable[[Record], bytes | None]) -> int:
    """At least as many bytes as the records take; `value_of` gives the value of a record."""
    total = 0
    for record in records:
        bound = _BOUNDS.get(type(record))
        if bound is None:
            total += SMALL_BYTES + 2 * len(record.key()) + len(value_of(record) or b"")
        else:
            total += bound(record)
    return total


def bitmap_bytes_max(bits: BitMap64 | None) -> int:
    """At least as many bytes as a set of offsets takes."""
    if not bits:
        return 0
    count = len(bits)
    containers = min(count, (bits.max() >> _CONTAINER_SHIFT) - (bits.min() >> _CONTAINER_SHIFT) + 1)
    return containers * _CONTAINER_HEAD_BYTES + min(2 * count, containers * _CONTAINER_BYTES)


def _small(_: Record) -> int:
    return SMALL_BYTES


#: By kind; any record of that kind.
_BOUNDS: dict[type[Record], Callable[[Any], int]] = {
    Activity: _small,
    CursorHead: _small,
    DedupEntry: _small,
    PublisherRecord: _small,
    Trimmed: _small,
    CursorChunk: lambda one: SMALL_BYTES + bitmap_bytes_max(one.bits),
    LeaseHeld: lambda one: SMALL_BYTES + bitmap_bytes_max(one.offsets),
    AttemptsChunk: lambda one: SMALL_BYTES + _COUNT_BYTES * len(one.counts or ()),
    AddressRecord: lambda one: SMALL_BYTES + bitmap_bytes_max(one.offsets),
    AgendaChunk: lambda one: SMALL_BYTES + bitmap_bytes_max(one.offsets),
    TenantChunk: lambda one: SMALL_BYTES + bitmap_bytes_max(one.offsets),
    NumbersRecord: lambda one: SMALL_BYTES + len(one.prints or b""),
}
