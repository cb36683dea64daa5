"""The hard-state record of what a lake does not have any more, with everybody's knowledge.

As `fanlog.core.records`, which decodes it too.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar

from pyroaring import BitMap64

from fanlog.model import PartitionId

_VERSION_BYTE = b"\x01"
_PARTITION = struct.Struct(">I")


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


def decode(kind: bytes, rest: bytes, body: bytes) -> LostRecord | None:
    """The record of a key and a value without its version; None for a kind of somebody else.

    Raises:
        ValueError, struct.error: It cannot be read.
    """
    if kind != LostRecord.KIND:
        return None
    return LostRecord(PartitionId(*_PARTITION.unpack(rest)), BitMap64.deserialize(body))
