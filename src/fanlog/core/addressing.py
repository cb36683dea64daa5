"""The offsets of messages that are for one subscription alone. Hard state.

A redriven copy is for the subscription that failed. All others on its topic pass it over, as if a
filter had left it out: after a restart, after a seek, and also subscriptions that come later. The
seal of a batch says the same of its messages; the offsets are kept here as well, so that a share
knows without reading the log.
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

    #: For this share's subscription alone: delivered whether or not its filter wants them.
    own: BitMap64 = field(default_factory=BitMap64)
    #: For one other subscription: passed over.
    others: BitMap64 = field(default_factory=BitMap64)


NOTHING_ADDRESSED = Addressed()


class AddressTable:
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

    def view(self, subscription: int, partition: PartitionId) -> Addressed:
        """The addressed offsets as one share needs them: its own, and those of others."""
        found = self._by_partition.get(partition)
        if found is None:
            return NOTHING_ADDRESSED
        own, everything = found.get(subscription), self._all[partition]
        # Shares without copies of their own, ten thousand of them maybe, have one set together.
        return Addressed(others=everything) if own is None else Addressed(own, everything - own)

    def add(
        self, partition: PartitionId, addressee: int, first: Offset, end: Offset
    ) -> AddressRecord:
        """The record that addresses the offsets from `first` to before `end` as well."""
        before = self._by_partition.get(partition, {}).get(addressee, BitMap64())
        return AddressRecord(partition, addressee, before | BitMap64(range(first, end)))

    def trim(self, partition: PartitionId, start: Offset) -> Iterator[AddressRecord]:
        """The records that forget offsets below `start`, which the log does not have any more."""
        for addressee, offsets in self._by_partition.get(partition, {}).items():
            if offsets.min() < start:
                kept = offsets.copy()
                kept.remove_range(0, start)
                yield AddressRecord(partition, addressee, kept or None)

    def remove(self, partition: PartitionId) -> list[AddressRecord]:
        """The records that forget all addressed offsets of a partition."""
        found = self._by_partition.get(partition, {})
        return [AddressRecord(partition, addressee, None) for addressee in found]
