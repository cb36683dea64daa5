"""Hard-state records of what a lake has, and of what it does not have any more.

As `fanlog.core.records`, which decodes them too.
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass
from typing import ClassVar

from pyroaring import BitMap64

from fanlog.core.shape import check_shape
from fanlog.model.resources import Offset, PartitionId

_VERSION_BYTE = b"\x01"
_PARTITION = struct.Struct(">I")
_ARCHIVED_VALUE = struct.Struct("<QQ?")


@dataclass(frozen=True, slots=True)
class LakeRecord:
    """Which lake has the archived messages, and how far the broker has seen that for itself."""

    KIND: ClassVar[bytes] = b"Z"
    id: str
    #: Of the table `messages`, when it was last looked at.
    table_version: int
    #: Commits up to and with this one are in it.
    sequence: int

    def key(self) -> bytes:
        return self.KIND

    def value(self) -> bytes | None:
        return _VERSION_BYTE + json.dumps(asdict(self), separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class ArchivedRecord:
    """The offsets of a partition that the lake has: from `start` to before `end`."""

    KIND: ClassVar[bytes] = b"V"
    partition: PartitionId
    #: None forgets them.
    start: Offset | None
    end: Offset = 0
    #: Whether what the archive takes next follows; not once the topic was kept out of it.
    is_open: bool = True

    def key(self) -> bytes:
        return self.KIND + _PARTITION.pack(self.partition)

    def value(self) -> bytes | None:
        if self.start is None:
            return None
        return _VERSION_BYTE + _ARCHIVED_VALUE.pack(self.start, self.end, self.is_open)


@dataclass(frozen=True, slots=True)
class LostRecord:
    """Offsets of a partition that are passed over when the lake cannot give them: it was accepted
    that they are lost.
    """

    KIND: ClassVar[bytes] = b"E"
    partition: PartitionId
    #: None forgets them.
    offsets: BitMap64 | None

    def key(self) -> bytes:
        return self.KIND + _PARTITION.pack(self.partition)

    def value(self) -> bytes | None:
        if self.offsets is None:
            return None
        compact = self.offsets.copy()
        compact.run_optimize()
        return _VERSION_BYTE + compact.serialize()


LakeState = LakeRecord | ArchivedRecord | LostRecord


def decode(kind: bytes, rest: bytes, body: bytes) -> LakeState | None:
    """The record of a key and a value without its version; None for a kind of somebody else.

    Raises:
        ValueError, TypeError, struct.error: It cannot be read.
    """
    match kind:
        case LakeRecord.KIND if not rest:
            lake = LakeRecord(**json.loads(body))
            check_shape(lake)
            return lake
        case ArchivedRecord.KIND:
            partition = PartitionId(*_PARTITION.unpack(rest))
            return ArchivedRecord(partition, *_ARCHIVED_VALUE.unpack(body))
        case LostRecord.KIND:
            partition = PartitionId(*_PARTITION.unpack(rest))
            return LostRecord(partition, BitMap64.deserialize(body))
    return None
