"""The hard-state record of what is addressed. As `fanlog.core.records`, which decodes it too."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar

from pyroaring import BitMap64

from fanlog.model.resources import PartitionId

_VERSION_BYTE = b"\x01"
_KEY = struct.Struct(">IQ")


@dataclass(frozen=True, slots=True)
class AddressRecord:
    """Offsets of one partition that are for one subscription alone, which may be gone."""

    KIND: ClassVar[bytes] = b"Y"
    partition: PartitionId
    addressee: int
    #: None when there are none any more; never changed in place.
    offsets: BitMap64 | None

    def key(self) -> bytes:
        return self.KIND + _KEY.pack(self.partition, self.addressee)

    def value(self) -> bytes | None:
        if self.offsets is None:
            return None
        compact = self.offsets.copy()
        compact.run_optimize()
        return _VERSION_BYTE + compact.serialize()


def decode(kind: bytes, rest: bytes, body: bytes) -> AddressRecord | None:
    """The record of a key and a value without its version; None for a kind of somebody else.

    Raises:
        ValueError, struct.error: It cannot be read.
    """
    if kind != AddressRecord.KIND:
        return None
    partition, addressee = _KEY.unpack(rest)
    offsets = BitMap64.deserialize(body)
    if not offsets or not addressee:
        raise ValueError("it has nothing that is addressed, or addresses nobody")
    return AddressRecord(PartitionId(partition), addressee, offsets)
