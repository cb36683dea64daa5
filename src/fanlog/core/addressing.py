"""Messages that are for one subscription alone: which of a partition's offsets. Hard state.

A redriven copy is for the subscription that failed. All others on its topic pass it over, as if a
filter had left it out: after a restart, after a seek, and also those that come later. That a batch
is addressed stands in its own seal; this is the same, so that a share knows without reading.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pyroaring import BitMap64

from fanlog.core.records import AddressRecord
from fanlog.model.resources import Offset, PartitionId


@dataclass(frozen=True, slots=True)
class Addressed:
    """Addressed offsets of a partition, as one share sees them. Never changed in place."""

    #: For this share's subscription alone: its filter is not asked.
    own: BitMap64 = field(default_factory=BitMap64)
    #: For one other subscription: passed over.
    others: BitMap64 = field(default_factory=BitMap64)


NOTHING_ADDRESSED = Addressed()


class Addresses:
    """The addressed offsets of all partitions. Not safe to share between threads."""

    def __init__(self) -> None:
        self._by_partition: dict[PartitionId, dict[int, BitMap64]] = {}
        self._all: dict[PartitionId, BitMap64] = {}

    def apply(self, record: AddressRecord) -> None:
        """Change hard state. The only method that does."""
        by_addressee = self._by_partition.setdefault(record.partition, {})
        if record.offsets is None:
            by_addressee.pop(record.addressee, None)
        else:
            by_addressee[record.addressee] = record.offsets
        if by_addressee:
            self._all[record.partition] = BitMap64().union(*by_addressee.values())
        else:
            del self._by_partition[record.partition]
            self._all.pop(record.partition, None)

    def seen_by(self, subscription: int, partition: PartitionId) -> Addressed:
        """The addresses as one share needs them: its own copies, and those of others."""
        found = self._by_partition.get(partition)
        if found is None:
            return NOTHING_ADDRESSED
        own, everything = found.get(subscription), self._all[partition]
        # Ten thousand that are not meant have one set between them.
        return Addressed(others=everything) if own is None else Addressed(own, everything - own)

    def added(
        self, partition: PartitionId, addressee: int, first: Offset, end: Offset
    ) -> AddressRecord:
        """The record by which some more offsets are addressed."""
        before = self._by_partition.get(partition, {}).get(addressee, BitMap64())
        return AddressRecord(partition, addressee, before | BitMap64(range(first, end)))

    def trimmed(self, partition: PartitionId, start: Offset) -> Iterator[AddressRecord]:
        """The records by which offsets below `start`, which are gone, are forgotten."""
        for addressee, offsets in self._by_partition.get(partition, {}).items():
            if offsets.min() < start:
                kept = offsets.copy()
                kept.remove_range(0, start)
                yield AddressRecord(partition, addressee, kept or None)

    def removed(self, partition: PartitionId) -> list[AddressRecord]:
        """The records by which everything of a partition is forgotten."""
        found = self._by_partition.get(partition, {})
        return [AddressRecord(partition, addressee, None) for addressee in found]
