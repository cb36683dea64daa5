"""Records of partitions: trims, dedup ids, addressed messages, and those that ask for something."""

from __future__ import annotations

from dataclasses import dataclass

from pyroaring import BitMap64

from fanlog.core.records.codec import BITMAP, Stored, numbers, record
from fanlog.model.resources import Offset, PartitionId


@record("B", key=numbers(">I"), value=numbers("<Q"))
@dataclass(frozen=True, slots=True)
class Trimmed(Stored):
    """The last commit of which a partition has let go of a message."""

    partition: PartitionId
    #: None when the partition is gone.
    sequence: int | None


@record("D", key=numbers(">I16s"), value=numbers("<Qd"))
@dataclass(frozen=True, slots=True)
class DedupEntry(Stored):
    """The message that was published with a dedup id lately; the id is kept as its hash."""

    partition: PartitionId
    digest: bytes
    #: None forgets the id.
    offset: Offset | None
    expires_s: float


@record("Y", key=numbers(">IQ"), value=BITMAP)
@dataclass(frozen=True, slots=True)
class AddressRecord(Stored):
    """Offsets of one partition that are for one subscription alone, which may be gone."""

    partition: PartitionId
    addressee: int
    #: None when there are none any more; never changed in place.
    offsets: BitMap64 | None

    def check(self) -> None:
        if not self.offsets or not self.addressee:
            raise ValueError("it has nothing that is addressed, or addresses nobody")


@record("k", key=numbers(">IBQ"), value=BITMAP)
@dataclass(frozen=True, slots=True)
class AgendaChunk(Stored):
    """Offsets of one chunk whose messages ask for the same (`fanlog.core.agenda`)."""

    partition: PartitionId
    #: Which list: 0 of messages to be delivered later, 1 to 9 of those with that priority.
    listing: int
    chunk: int
    #: None when there are none any more; never changed in place.
    offsets: BitMap64 | None

    def check(self) -> None:
        if not self.offsets:
            raise ValueError("it lists nothing")


@record("n", key=numbers(">IQQ"), value=BITMAP)
@dataclass(frozen=True, slots=True)
class TenantChunk(Stored):
    """Offsets of one chunk whose messages are one tenant's (`fanlog.core.agenda`)."""

    partition: PartitionId
    #: The number of the tenant (`fanlog.model.terms.tenant_number`), or of some that share one.
    tenant: int
    chunk: int
    #: None when there are none any more; never changed in place.
    offsets: BitMap64 | None

    def check(self) -> None:
        if not self.offsets or not self.tenant:
            raise ValueError("it lists nothing, or for nobody")


PartitionRecord = Trimmed | DedupEntry | AddressRecord | AgendaChunk | TenantChunk
