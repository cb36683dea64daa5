"""Hard-state records and their versioned bytes.

A record is one keyed value of hard state: writing a key again replaces its value, and a record
without a value removes it. The log stores the pairs; the broker's whole hard state is what the
records, applied in any order of keys, rebuild.

Keys are short and ordered: a kind byte, then big-endian numbers. Values begin with a version byte.
`docs/internals/data_files.md` has the table.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import asdict, dataclass
from typing import ClassVar

from pyroaring import BitMap64

from fanlog.core import (
    address_records,
    bulk_records,
    catalog_records,
    export_records,
    lake_records,
    replay_records,
)
from fanlog.core.address_records import AddressRecord
from fanlog.core.bulk_records import BulkRecord
from fanlog.core.catalog_records import CatalogRecord
from fanlog.core.export_records import ExportRecord
from fanlog.core.lake_records import LakeState
from fanlog.core.replay_records import ReopenedChunk, RequestRecord
from fanlog.core.shape import check_shape
from fanlog.model.jobs import Job
from fanlog.model.resources import Offset, PartitionId

VERSION = 1
_VERSION_BYTE = bytes([VERSION])

_ID = struct.Struct(">Q")
_OWNER = struct.Struct(">QI")
_PARTITION = struct.Struct(">I")
_DEDUP_VALUE = struct.Struct("<Qd")
_DIGEST_BYTES = 16
_CHUNK = struct.Struct(">QIQ")
_LEASE = struct.Struct(">QIQI")
_HEAD_VALUE = struct.Struct("<QQ")
_LEASE_VALUE = struct.Struct("<d")
_TIME_VALUE = struct.Struct("<d")
_COUNT = struct.Struct("<HB")


class UnknownRecord(ValueError):
    """A key or version this build does not know: the data was written by a newer one."""


class DamagedRecord(ValueError):
    """The bytes are not what this build wrote under that key."""


@dataclass(frozen=True, slots=True)
class CursorHead:
    """Where a cursor stands in a partition; `owner` is a subscription's or a snapshot's id."""

    KIND: ClassVar[bytes] = b"H"
    owner: int
    partition: PartitionId
    #: Lowest offset not acknowledged; None removes the cursor.
    floor: Offset | None
    #: Ack ids of generations below this are void: a seek came between.
    fence: int = 0

    def key(self) -> bytes:
        return self.KIND + _OWNER.pack(self.owner, self.partition)

    def value(self) -> bytes | None:
        if self.floor is None:
            return None
        return _VERSION_BYTE + _HEAD_VALUE.pack(self.floor, self.fence)


@dataclass(frozen=True, slots=True)
class CursorChunk:
    """Acknowledged offsets above the floor within one chunk; `bits` is never changed in place."""

    KIND: ClassVar[bytes] = b"C"
    owner: int
    partition: PartitionId
    chunk: int
    bits: BitMap64 | None

    def key(self) -> bytes:
        return self.KIND + _CHUNK.pack(self.owner, self.partition, self.chunk)

    def value(self) -> bytes | None:
        return None if self.bits is None else _VERSION_BYTE + _bitmap_bytes(self.bits)


@dataclass(frozen=True, slots=True)
class AttemptsChunk:
    """Failed deliveries of one chunk: index within the chunk and count, only those above zero."""

    KIND: ClassVar[bytes] = b"A"
    owner: int
    partition: PartitionId
    chunk: int
    counts: tuple[tuple[int, int], ...] | None

    def key(self) -> bytes:
        return self.KIND + _CHUNK.pack(self.owner, self.partition, self.chunk)

    def value(self) -> bytes | None:
        if self.counts is None:
            return None
        return _VERSION_BYTE + b"".join(_COUNT.pack(index, count) for index, count in self.counts)


@dataclass(frozen=True, slots=True)
class LeaseHeld:
    """A lease under exactly-once: it outlives the process, so that nothing is delivered twice."""

    KIND: ClassVar[bytes] = b"L"
    owner: int
    partition: PartitionId
    generation: int
    #: A lease whose messages got different deadlines is held in parts.
    part: int
    deadline_s: float
    #: Offsets leased and not settled; None when the lease is over.
    offsets: BitMap64 | None

    def key(self) -> bytes:
        return self.KIND + _LEASE.pack(self.owner, self.partition, self.generation, self.part)

    def value(self) -> bytes | None:
        if self.offsets is None:
            return None
        deadline = _LEASE_VALUE.pack(self.deadline_s)
        return _VERSION_BYTE + deadline + _bitmap_bytes(self.offsets)


@dataclass(frozen=True, slots=True)
class Activity:
    """When a subscription was last used, coarsely: idle ones expire."""

    KIND: ClassVar[bytes] = b"U"
    owner: int
    last_active_s: float | None

    def key(self) -> bytes:
        return self.KIND + _ID.pack(self.owner)

    def value(self) -> bytes | None:
        if self.last_active_s is None:
            return None
        return _VERSION_BYTE + _TIME_VALUE.pack(self.last_active_s)


@dataclass(frozen=True, slots=True)
class DedupEntry:
    """A dedup id that was published lately, by its hash: which message it became."""

    KIND: ClassVar[bytes] = b"D"
    partition: PartitionId
    digest: bytes
    #: None forgets it.
    offset: Offset | None
    expires_s: float

    def key(self) -> bytes:
        return self.KIND + _PARTITION.pack(self.partition) + self.digest

    def value(self) -> bytes | None:
        if self.offset is None:
            return None
        return _VERSION_BYTE + _DEDUP_VALUE.pack(self.offset, self.expires_s)


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job, by its name's hash: names are longer than keys may be."""

    KIND: ClassVar[bytes] = b"J"
    name: str
    job: Job | None

    def key(self) -> bytes:
        return self.KIND + hashlib.blake2b(self.name.encode(), digest_size=_DIGEST_BYTES).digest()

    def value(self) -> bytes | None:
        if self.job is None:
            return None
        return _VERSION_BYTE + json.dumps(asdict(self.job), separators=(",", ":")).encode()


ShareRecord = CursorHead | CursorChunk | ReopenedChunk | AttemptsChunk | LeaseHeld
Record = (
    CatalogRecord
    | ShareRecord
    | Activity
    | DedupEntry
    | JobRecord
    | ExportRecord
    | BulkRecord
    | LakeState
    | RequestRecord
    | AddressRecord
)


def decode(key: bytes, value: bytes) -> Record:
    """The record that `key` and `value` were made from.

    Raises:
        UnknownRecord: The kind or the version is not known here.
        DamagedRecord: The rest cannot be read.
    """
    if not value or value[0] != VERSION:
        raise UnknownRecord(
            f"state record {key!r} has version {value[:1]!r}; this build reads version {VERSION}"
        )
    try:
        record = _decode(key[:1], key[1:], value[1:])
    except (struct.error, ValueError, LookupError, TypeError, RecursionError) as error:
        raise DamagedRecord(f"state record {key!r} cannot be read: {error}") from error
    if record is None:
        raise UnknownRecord(f"state record {key!r} is of a kind this build does not know")
    return record


def _decode(kind: bytes, rest: bytes, body: bytes) -> Record | None:
    match kind:
        case CursorHead.KIND:
            owner, partition = _OWNER.unpack(rest)
            floor, fence = _HEAD_VALUE.unpack(body)
            return CursorHead(owner, partition, floor, fence)
        case CursorChunk.KIND:
            owner, partition, chunk = _CHUNK.unpack(rest)
            return CursorChunk(owner, partition, chunk, BitMap64.deserialize(body))
        case AttemptsChunk.KIND:
            owner, partition, chunk = _CHUNK.unpack(rest)
            return AttemptsChunk(owner, partition, chunk, tuple(_COUNT.iter_unpack(body)))
        case LeaseHeld.KIND:
            owner, partition, generation, part = _LEASE.unpack(rest)
            deadline_s = _LEASE_VALUE.unpack_from(body)[0]
            offsets = BitMap64.deserialize(body[_LEASE_VALUE.size :])
            return LeaseHeld(owner, partition, generation, part, deadline_s, offsets)
        case DedupEntry.KIND if len(rest) == _PARTITION.size + _DIGEST_BYTES:
            partition = PartitionId(_PARTITION.unpack_from(rest)[0])
            offset, expires_s = _DEDUP_VALUE.unpack(body)
            return DedupEntry(partition, rest[_PARTITION.size :], offset, expires_s)
        case JobRecord.KIND:
            job = Job(**json.loads(body))
            check_shape(job)
            record = JobRecord(job.name, job)
            if record.key()[1:] != rest:
                raise ValueError("it is another job than its key says")
            return record
        case Activity.KIND:
            return Activity(_ID.unpack(rest)[0], _TIME_VALUE.unpack(body)[0])
    return (
        catalog_records.decode(kind, rest, body)
        or bulk_records.decode(kind, rest, body)
        or export_records.decode(kind, rest, body)
        or replay_records.decode(kind, rest, body)
        or lake_records.decode(kind, rest, body)
        or address_records.decode(kind, rest, body)
    )


def _bitmap_bytes(bits: BitMap64) -> bytes:
    compact = bits.copy()
    compact.run_optimize()
    return compact.serialize()
