"""Records of shares, and of the cursors of snapshots: acknowledgements, attempts and leases.

The *owner* of a record is a subscription or a snapshot; attempts and leases are of subscriptions
only. A cursor is written in chunks, so that an acknowledgement rewrites one of them and not all.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from pyroaring import BitMap64

from fanlog.core.records.codec import BITMAP, Form, Stored, numbers, pack_bitmap, record
from fanlog.core.reopening import OpenChunk
from fanlog.model.resources import Offset, PartitionId

_DEADLINE = struct.Struct("<d")
_COUNT = struct.Struct("<HB")
_REOPENING = struct.Struct("<QdI")

_CHUNK_KEY = numbers(">QIQ")


@record("H", key=numbers(">QI"), value=numbers("<QQ"))
@dataclass(frozen=True, slots=True)
class CursorHead(Stored):
    """Where a cursor stands in a partition."""

    owner: int
    partition: PartitionId
    #: Lowest offset not acknowledged; None removes the cursor.
    floor: Offset | None
    #: Ack ids of generations below this are void: a seek came between.
    fence: int = 0


@record("C", key=_CHUNK_KEY, value=BITMAP)
@dataclass(frozen=True, slots=True)
class CursorChunk(Stored):
    """Acknowledged offsets above the floor within one chunk; `bits` is never changed in place."""

    owner: int
    partition: PartitionId
    chunk: int
    bits: BitMap64 | None


def _pack_opened(opened: OpenChunk) -> bytes:
    bits = pack_bitmap(opened.bits)
    head = _REOPENING.pack(opened.fence, opened.since_s, len(bits))
    return head + bits + (pack_bitmap(opened.wanted) if opened.wanted else b"")


def _unpack_opened(body: bytes) -> tuple[OpenChunk]:
    fence, since_s, size = _REOPENING.unpack_from(body)
    bits = BitMap64.deserialize(body[_REOPENING.size : _REOPENING.size + size])
    rest = body[_REOPENING.size + size :]
    wanted = BitMap64.deserialize(rest) if rest else BitMap64()
    if not bits or not wanted.issubset(bits):
        raise ValueError("it has nothing that is reopened, or wants what is not")
    return (OpenChunk(bits, fence, since_s, wanted),)


@record("O", key=_CHUNK_KEY, value=Form(_pack_opened, _unpack_opened))
@dataclass(frozen=True, slots=True)
class ReopenedChunk(Stored):
    """Offsets of one chunk that were acknowledged and are not any more."""

    owner: int
    partition: PartitionId
    chunk: int
    opened: OpenChunk | None

    def check(self) -> None:
        if self.opened is not None and not self.opened.is_of(self.chunk):
            raise ValueError("it has offsets of another chunk")


def _pack_counts(counts: tuple[tuple[int, int], ...]) -> bytes:
    return b"".join(_COUNT.pack(index, count) for index, count in counts)


def _unpack_counts(body: bytes) -> tuple[tuple[tuple[int, int], ...]]:
    return (tuple(_COUNT.iter_unpack(body)),)


@record("A", key=_CHUNK_KEY, value=Form(_pack_counts, _unpack_counts))
@dataclass(frozen=True, slots=True)
class AttemptsChunk(Stored):
    """Failed deliveries of one chunk: index within the chunk and count, only those above zero."""

    owner: int
    partition: PartitionId
    chunk: int
    counts: tuple[tuple[int, int], ...] | None


def _pack_lease(deadline_s: float, offsets: BitMap64) -> bytes:
    return _DEADLINE.pack(deadline_s) + pack_bitmap(offsets)


def _unpack_lease(body: bytes) -> tuple[float, BitMap64]:
    (deadline_s,) = _DEADLINE.unpack_from(body)
    return deadline_s, BitMap64.deserialize(body[_DEADLINE.size :])


@record("L", key=numbers(">QIQI"), value=Form(_pack_lease, _unpack_lease, 2), removed_by="offsets")
@dataclass(frozen=True, slots=True)
class LeaseHeld(Stored):
    """A lease under exactly-once: it outlives the process, so that nothing is delivered twice."""

    owner: int
    partition: PartitionId
    generation: int
    #: A lease whose messages got different deadlines is held in parts.
    part: int
    deadline_s: float
    #: Offsets leased and not settled; None when the lease is over.
    offsets: BitMap64 | None


@record("U", key=numbers(">Q"), value=numbers("<d"))
@dataclass(frozen=True, slots=True)
class Activity(Stored):
    """When a subscription was last used, coarsely: idle ones expire."""

    owner: int
    last_active_s: float | None


#: The records of one share, or of one snapshot's cursor in one partition.
ShareRecord = CursorHead | CursorChunk | ReopenedChunk | AttemptsChunk | LeaseHeld
