"""The agenda of a partition: what its messages ask for that still matters (`fanlog.model.terms`).

One for all shares of the partition, however many those are. Which messages are to be delivered
later (*pending*), and which have a priority, is hard state, in chunks as cursors have them, written
in the commit of the messages. When a pending message is *due* is soft: it stands in its batch, and
only the batches of pending messages are read again after a restart. Until then they are pending
without a time, so none is delivered early.

Pending messages are no part of any backlog; when they are due every share is told once. Not safe to
share between threads.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Sequence

from pyroaring import BitMap64

from fanlog.core.places import Places
from fanlog.core.records import AgendaChunk, PlaceRecord, TenantChunk
from fanlog.limits import CURSOR_CHUNK_OFFSETS, OFFSET_MAX, TENANTS_MAX, TENANTS_SHARED
from fanlog.model.resources import Offset, PartitionId
from fanlog.model.terms import PRIORITY_MAX, TermKind, Terms

#: The list of pending messages; the one of a priority has its number.
PENDING = 0
#: The list of messages that are held back behind a gap in their publisher's numbers.
HELD = PRIORITY_MAX + 1

_NONE = BitMap64()
#: A message that is due is one number, of its time and its offset: a million take 60 MB.
_OFFSET_BITS = OFFSET_MAX.bit_length()
_OFFSET_MASK = (1 << _OFFSET_BITS) - 1


class Agenda:
    """The agenda of one partition."""

    __slots__ = (
        *("_chunks", "_heap", "_tenant_chunks", "keyed", "partition", "pending", "places"),
        *("tenanted", "tenants", "unread", "urgent"),
    )

    def __init__(self, partition: PartitionId) -> None:
        self.partition = partition
        self._chunks: dict[tuple[int, int], BitMap64] = {}
        #: Not to be delivered yet, by anyone.
        self.pending = BitMap64()
        #: Of those, the ones with an ordering key, and those whose time is not known yet.
        self.keyed = BitMap64()
        self.unread = BitMap64()
        #: Messages with a priority above 0, by it; the highest first.
        self.urgent: dict[int, BitMap64] = {}
        #: Messages of tenants, by the number of the tenant; and those of any.
        self._tenant_chunks: dict[tuple[int, int], BitMap64] = {}
        self.tenants: dict[int, BitMap64] = {}
        self.tenanted = BitMap64()
        self._heap: list[int] = []
        #: Where messages stand that were, or are, held back behind a gap.
        self.places = Places()

    @property
    def is_empty(self) -> bool:
        return not (self._chunks or self._tenant_chunks or self.places)

    @property
    def is_settling(self) -> bool:
        """Whether times are to be read, or hard state has messages that are pending no longer."""
        listed = (bits for (listing, _), bits in self._chunks.items() if listing == PENDING)
        return bool(self.unread) or sum(map(len, listed)) > len(self.pending)

    # Hard state.

    def apply(self, record: AgendaChunk | TenantChunk) -> None:
        """Change hard state. The only method that does."""
        if isinstance(record, TenantChunk):
            self._apply_tenant(record)
            return
        key = record.listing, record.chunk
        before, after = self._chunks.get(key, _NONE), record.offsets or _NONE
        if record.offsets is None:
            self._chunks.pop(key, None)
        else:
            self._chunks[key] = record.offsets
        if record.listing == PENDING:
            # What is due already is not pending any more, and may still be in the chunk.
            self.pending |= after - before
            gone = before - after
            self.pending -= gone
            self.unread -= gone
            return
        if record.listing == HELD:
            self.places.hold((self.places.held - before) | after)
            return
        if record.listing not in self.urgent:
            listed = {**self.urgent, record.listing: BitMap64()}
            self.urgent = dict(sorted(listed.items(), reverse=True))
        self.urgent[record.listing] |= after
        self.urgent[record.listing] -= before - after
        if not self.urgent[record.listing]:
            del self.urgent[record.listing]

    def _apply_tenant(self, record: TenantChunk) -> None:
        tenant, key = record.tenant, (record.tenant, record.chunk)
        before, after = self._tenant_chunks.get(key, _NONE), record.offsets or _NONE
        if record.offsets is None:
            self._tenant_chunks.pop(key, None)
        else:
            self._tenant_chunks[key] = record.offsets
        added, gone = after - before, before - after
        offsets = self.tenants.setdefault(tenant, BitMap64())
        offsets |= added
        offsets -= gone
        self.tenanted |= added
        self.tenanted -= gone
        if not offsets:
            del self.tenants[tenant]

    def _add_tenants(self, base: Offset, terms: Terms) -> Iterator[TenantChunk]:
        column = terms.column(TermKind.TENANT)
        found: defaultdict[tuple[int, int], list[Offset]] = defaultdict(list)
        known = set(self.tenants)
        for index, number in zip(column.indexes, column.values, strict=True):
            if number not in known and len(known) >= TENANTS_MAX:
                # One too many to have turns of its own.
                number = 1 + number % TENANTS_SHARED
            known.add(number)
            found[number, (base + index) // CURSOR_CHUNK_OFFSETS].append(base + index)
        for (tenant, chunk), offsets in found.items():
            listed = self._tenant_chunks.get((tenant, chunk), _NONE) | BitMap64(offsets)
            yield TenantChunk(self.partition, tenant, chunk, listed)

    def add(self, base: Offset, terms: Terms) -> Iterator[AgendaChunk | TenantChunk]:
        """The records that note what messages from `base` on ask for."""
        if TermKind.TENANT in terms.columns:
            yield from self._add_tenants(base, terms)
        found: defaultdict[tuple[int, int], list[Offset]] = defaultdict(list)
        for kind, index, value in terms:
            if kind is TermKind.DELAY or kind is TermKind.DELIVER_AT:
                listing = PENDING
            elif kind is TermKind.PRIORITY:
                assert 0 < value <= PRIORITY_MAX
                listing = value
            else:
                # What a delivery looks up in the batch itself.
                continue
            found[listing, (base + index) // CURSOR_CHUNK_OFFSETS].append(base + index)
        for (listing, chunk), offsets in found.items():
            listed = self._chunks.get((listing, chunk), _NONE) | BitMap64(offsets)
            yield AgendaChunk(self.partition, listing, chunk, listed)

    def hold(self, offsets: BitMap64, released: BitMap64) -> Iterator[AgendaChunk]:
        """The records that hold messages back behind a gap, and release others."""
        for chunk in {offset // CURSOR_CHUNK_OFFSETS for offset in offsets | released}:
            start = chunk * CURSOR_CHUNK_OFFSETS
            within = BitMap64(range(start, start + CURSOR_CHUNK_OFFSETS))
            before = self._chunks.get((HELD, chunk), _NONE)
            listed = (before - released) | (offsets & within)
            if listed != before:
                yield AgendaChunk(self.partition, HELD, chunk, listed or None)

    def settle(self) -> Iterator[AgendaChunk]:
        """The records that forget messages that were pending and are due."""
        for (listing, chunk), listed in list(self._chunks.items()):
            if listing == PENDING and not listed.issubset(self.pending):
                yield AgendaChunk(self.partition, PENDING, chunk, (listed & self.pending) or None)

    def trim(self, start: Offset) -> Iterator[AgendaChunk | PlaceRecord | TenantChunk]:
        """The records that forget offsets below `start`, which the log does not have any more."""
        for (tenant, chunk), listed in list(self._tenant_chunks.items()):
            if chunk * CURSOR_CHUNK_OFFSETS < start and listed.min() < start:
                kept = listed.copy()
                kept.remove_range(0, start)
                yield TenantChunk(self.partition, tenant, chunk, kept or None)
        yield from self.places.trim(self.partition, start)
        for (listing, chunk), listed in list(self._chunks.items()):
            if chunk * CURSOR_CHUNK_OFFSETS < start and listed.min() < start:
                kept = listed.copy()
                kept.remove_range(0, start)
                yield AgendaChunk(self.partition, listing, chunk, kept or None)

    def remove(self) -> Iterator[AgendaChunk | PlaceRecord | TenantChunk]:
        """The records that forget all of it."""
        for tenant, chunk in list(self._tenant_chunks):
            yield TenantChunk(self.partition, tenant, chunk, None)
        yield from self.places.remove(self.partition)
        for listing, chunk in list(self._chunks):
            yield AgendaChunk(self.partition, listing, chunk, None)

    # Soft state: when messages are due.

    def adopt(self, before: Agenda | None) -> None:
        """Take over the times that are known; without any, all are to be read."""
        if before is None:
            self.unread = self.pending.copy()
            return
        self.pending &= before.pending
        self.keyed, self.unread, self._heap = before.keyed, before.unread, before._heap

    def schedule(
        self, base: Offset, dues_ms: Sequence[tuple[int, int]], key_hashes: Sequence[int] | None
    ) -> None:
        """Take the times at which messages of a batch are due, by their indexes."""
        heap, pending = self._heap, self.pending
        for index, due_ms in dues_ms:
            offset = base + index
            if offset in pending:
                heapq.heappush(heap, due_ms << _OFFSET_BITS | offset)
                if key_hashes is not None and key_hashes[index]:
                    self.keyed.add(offset)
        if self.unread:
            self.unread -= BitMap64(base + index for index, _ in dues_ms)

    def next_due_ms(self) -> int | None:
        return self._heap[0] >> _OFFSET_BITS if self._heap else None

    def take_due(self, now_ms: int, most: int) -> tuple[BitMap64, BitMap64]:
        """Let messages that are due be delivered; those of them with an ordering key apart."""
        heap, found = self._heap, BitMap64()
        limit = (now_ms + 1) << _OFFSET_BITS
        while heap and heap[0] < limit and most > 0:
            offset = heapq.heappop(heap) & _OFFSET_MASK
            if offset in self.pending:
                found.add(offset)
            most -= 1
        keyed = found & self.keyed
        self.pending -= found
        self.keyed -= found
        return found, keyed

    def give_up(self, offsets: BitMap64) -> tuple[BitMap64, BitMap64]:
        """Let messages go whose time cannot be read: as damaged ones, or as ordinary ones."""
        found = offsets & self.pending
        self.pending -= found
        self.unread -= offsets
        return found, BitMap64()


class AgendaTable:
    """The agendas of all partitions. Most have none."""

    def __init__(self) -> None:
        self._by_partition: dict[PartitionId, Agenda] = {}

    def __iter__(self) -> Iterator[Agenda]:
        return iter(list(self._by_partition.values()))

    def find(self, partition: PartitionId) -> Agenda | None:
        return self._by_partition.get(partition)

    @property
    def pending(self) -> int:
        """Messages that are pending, over all partitions."""
        return sum(len(agenda.pending) for agenda in self._by_partition.values())

    @property
    def held(self) -> int:
        """Messages that are held back behind gaps, over all partitions."""
        return sum(len(agenda.places.held) for agenda in self._by_partition.values())

    def apply(self, record: AgendaChunk | PlaceRecord | TenantChunk) -> Sequence[Offset]:
        """Change hard state. The only method that does.

        Returns messages that were held back and have their place now.
        """
        agenda = self._by_partition.get(record.partition)
        placed: Sequence[Offset] = ()
        if agenda is None:
            agenda = self._by_partition[record.partition] = Agenda(record.partition)
        if isinstance(record, PlaceRecord):
            placed = agenda.places.apply(record)
        else:
            agenda.apply(record)
        if agenda.is_empty:
            del self._by_partition[record.partition]
        return placed

    def hold(
        self, partition: PartitionId, offsets: BitMap64, released: BitMap64
    ) -> list[AgendaChunk]:
        """The records that hold messages back behind a gap, and release others."""
        return list((self.find(partition) or Agenda(partition)).hold(offsets, released))

    def place(
        self, partition: PartitionId, anchor: Offset, offsets: Sequence[Offset]
    ) -> PlaceRecord:
        """The record of the place of messages that were held back."""
        agenda = self.find(partition)
        places = Places() if agenda is None else agenda.places
        return places.place(partition, anchor, offsets)

    def add(
        self, partition: PartitionId, base: Offset, terms: Terms
    ) -> list[AgendaChunk | TenantChunk]:
        """The records that note what messages ask for; see `Agenda.add`."""
        return list((self.find(partition) or Agenda(partition)).add(base, terms))

    def trim(
        self, partition: PartitionId, start: Offset
    ) -> list[AgendaChunk | PlaceRecord | TenantChunk]:
        """The records that forget what the log does not have any more."""
        agenda = self.find(partition)
        return [] if agenda is None else list(agenda.trim(start))

    def remove(self, partition: PartitionId) -> list[AgendaChunk | PlaceRecord | TenantChunk]:
        """The records that forget a partition, which is dropped."""
        agenda = self._by_partition.get(partition)
        return [] if agenda is None else list(agenda.remove())

    def adopt(self, before: AgendaTable) -> None:
        """Take over the times that were known before hard state was loaded again."""
        for partition, agenda in self._by_partition.items():
            agenda.adopt(before.find(partition))
