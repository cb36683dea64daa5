"""The backlog of a share whose messages are split by key slots. Soft state.

Each key slot has a backlog of its own, as if it were a share of its own: with its own place in the
log, its own messages that came back and its own keys. So a member that takes nothing holds up no
other, however far the others go on: what it has to take stays on disk, and its place is a number.
And when a slot moves, nothing moves but the right to take from it.

Members that stand at the same place read the same batches, which the log keeps in memory; a batch
is split once for all of them.

Leases of before a restart are *unplaced* until their messages are read, for their slots are not
known before; until then nothing is handed out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import islice

from pyroaring import BitMap64

from fanlog.core.cursor import Range, runs
from fanlog.core.flow import Credit
from fanlog.core.places import Places
from fanlog.core.share.backlog import AgendaView, Openness, without
from fanlog.core.share.depending import Depending
from fanlog.core.share.ordered import OrderedBacklog
from fanlog.core.share.packer import Packer, Slots
from fanlog.core.share.slot_holds import SlotHolds
from fanlog.core.share.unordered import UnorderedBacklog
from fanlog.model.resources import Offset, Ordering

PartBacklog = UnorderedBacklog | OrderedBacklog
#: Makes the backlog of one slot: from a floor on, less the messages that are held.
MakeBacklog = Callable[[Offset, BitMap64], PartBacklog]

_NONE = BitMap64()


class SlottedBacklog:
    """See `Backlog` for the methods."""

    __slots__ = (
        "_adrift",
        "_agenda",
        "_depending",
        "_floor",
        "_make",
        "_ordering",
        "_parts",
        "_placed",
        "_returned",
        "_scanning",
        "_skipped",
        "_slots",
        "_unplaced",
        "progress",
        "recalled",
        "to_forward",
    )

    def __init__(
        self,
        floor: Offset,
        held: BitMap64,
        slots: SlotHolds,
        depending: Depending,
        make: MakeBacklog,
        ordering: Ordering,
    ) -> None:
        self._slots = slots
        self._depending = depending
        self._make = make
        self._agenda: _Unhurried | None = None
        self._ordering = ordering
        self._floor = floor
        #: Leases of before a restart whose slots are not known; and messages that were among them,
        #: failed, and wait for their back-off.
        self._unplaced = held.copy()
        self._adrift = BitMap64()
        #: Of both, those that were read meanwhile, by their slot.
        self._placed: dict[int, BitMap64] = {}
        #: The backlog of each slot; none while a message is to be placed.
        self._parts: list[PartBacklog] = []
        #: Slots of which leases of before a restart are still to find their keys.
        self._scanning: set[int] = set()
        #: Slots that may have messages before the place where they stand.
        self._returned: set[int] = set()
        #: Cannot be read.
        self._skipped = BitMap64()
        self.progress = 0
        self.to_forward: list[Offset] = []
        self.recalled = BitMap64()
        self._end_placing()

    @property
    def next_offset(self) -> Offset:
        if not self._parts:
            return self._to_place.min()
        scanning = [self._parts[slot] for slot in self._scanning if self._parts[slot].unplaced]
        return min(part.next_offset for part in scanning or self._parts)

    @property
    def reached(self) -> Offset:
        return max((part.next_offset for part in self._parts), default=self.next_offset)

    @property
    def outstanding(self) -> BitMap64:
        return BitMap64().union(*(part.outstanding for part in self._parts))

    @property
    def unplaced(self) -> BitMap64:
        if not self._parts:
            return self._unplaced
        self._scanning = {slot for slot in self._scanning if self._parts[slot].unplaced}
        return BitMap64().union(*(self._parts[slot].unplaced for slot in self._scanning))

    @property
    def next_up(self) -> Sequence[Offset]:
        return ()

    @property
    def agenda(self) -> AgendaView | None:
        return self._agenda

    @agenda.setter
    def agenda(self, agenda: AgendaView | None) -> None:
        self._agenda = None if agenda is None else _Unhurried(agenda)
        for part in self._parts:
            part.agenda = self._agenda

    def behind(self, offset: Offset, key_hash: int) -> Offset | None:
        found = (part.behind(offset, key_hash) for part in self._parts)
        return next((one for one in found if one is not None), None)

    def configure(self, ordering: Ordering) -> None:
        self._ordering = ordering
        for part in self._parts:
            part.configure(ordering)

    # Delivery.

    def has_some(self, cursor: Openness, end: Offset) -> bool:
        if not self._parts:
            return True
        if any(self._has_returned(slot, cursor) for slot in self._returned):
            return True
        first = min(part.next_offset for part in self._parts)
        return first < end and next(self._readable(cursor, first, end), None) is not None

    def plan(self, cursor: Openness, end: Offset, limit: int, consumer: Credit) -> list[Range]:
        if not self._parts:
            return list(runs(BitMap64(islice(self._to_place, limit))))
        mine = self._slots.open_to(consumer)
        if not mine:
            return []
        wanted = BitMap64()
        for slot in sorted(self._returned & mine):
            if not self._has_returned(slot, cursor):
                self._returned.discard(slot)
                continue
            part = self._parts[slot]
            for start, stop in part.plan(cursor, part.next_offset, limit - len(wanted), consumer):
                wanted.add_range(start, stop)
            if len(wanted) >= limit:
                return list(runs(wanted))
        # Of what is read, only so much is for this consumer.
        room = (limit - len(wanted)) * -(-self._slots.slot_count // len(mine))
        first = min(self._parts[slot].next_offset for slot in mine)
        ranges: list[Range] = []
        for start, stop in self._readable(cursor, first, end):
            if room <= 0:
                break
            ranges.append((start, min(stop, start + room)))
            room -= stop - start
        if not wanted:
            return ranges
        for start, stop in ranges:
            wanted.add_range(start, stop)
        return list(runs(wanted))

    def take(self, cursor: Openness, end: Offset, views: Sequence[Slots], packer: Packer) -> None:
        if not self._parts:
            self._place(views)
            return
        mine = self._slots.open_to(packer.consumer)
        if not mine:
            return
        for slot in sorted(self._returned & mine):
            if packer.is_full:
                break
            part = self._parts[slot]
            before = part.progress
            part.take(cursor, part.next_offset, views, packer)
            self.progress += part.progress - before
            self._collect(slot)
        self._take_fresh(cursor, end, views, packer, mine)
        self._hold(views, packer)

    def scan(self, cursor: Openness, end: Offset, views: Sequence[Slots]) -> None:
        if not self._parts:
            self._place(views)
        reached = self.next_offset
        for view in views if self._scanning else ():
            stop = min(end, view.end_offset)
            if self._is_gap(cursor, reached, view.base_offset):
                break
            unacked = _unacked(cursor, view.base_offset, stop)
            for slot in sorted(self._scanning):
                part = self._parts[slot]
                picked = _Picked(cursor, self._of_slot(view, slot) & unacked)
                part.scan(picked, stop, (view,))
                part.go_on(picked, stop, None)
                self._collect(slot)
            reached = max(reached, stop)

    def skip(self, start: Offset, end: Offset) -> None:
        before = len(self._skipped)
        self._skipped.add_range(start, end)
        self.progress += len(self._skipped) - before
        for part in self._parts:
            part.skip(start, end)
        self._unplaced.remove_range(start, end)
        self._adrift.remove_range(start, end)
        self._end_placing()

    def abandon(self, consumer: Credit) -> None:
        for part in self._parts:
            part.abandon(consumer)

    # Acknowledgements.

    def acknowledge(self, offsets: BitMap64) -> BitMap64:
        by_slot, hard = self._slots.split(offsets)
        for slot, some in by_slot.items():
            hard |= self._parts[slot].acknowledge(some) if self._parts else some
            self._collect(slot)
        self._slots.forget(hard)
        self._end_lease(hard)
        return hard

    def would_be_early(self, acked: Sequence[BitMap64]) -> BitMap64:
        offsets = BitMap64().union(*acked)
        if self._ordering == "none":
            return BitMap64()
        early = offsets & self._unplaced
        by_slot, _ = self._slots.split(offsets)
        for slot, some in by_slot.items():
            if self._parts:
                early |= self._parts[slot].would_be_early([some])
        return early

    def late(self, offsets: BitMap64, delayed: BitMap64) -> BitMap64:
        if not self._parts:
            return BitMap64() if self._ordering != "none" else offsets - self._unplaced
        by_slot, others = self._slots.split(offsets)
        late = BitMap64()
        for slot, some in by_slot.items():
            late |= self._parts[slot].late(some, delayed)
        if others:
            nothing = BitMap64()
            late = late.union(*(part.late(others, nothing) for part in self._parts))
        return late

    def discard(self, offsets: BitMap64) -> None:
        for part in self._parts:
            part.discard(offsets)
        self._slots.forget(offsets)
        self._adrift -= offsets
        self._end_placing()

    # Messages that come back.

    def recall(self, offsets: BitMap64, delay: Callable[[Offset], bool]) -> BitMap64:
        keyless = BitMap64()
        if not self._parts:
            # They will be met as fresh messages, and their keys be known then.
            self._adrift.update(offset for offset in offsets if delay(offset))
            self._slots.forget(offsets)
            self._unplaced -= offsets
            self._end_placing()
            return keyless
        for slot, some in self._slots.split(offsets)[0].items():
            keyless |= self._parts[slot].recall(some, delay)
            self._collect(slot)
        return keyless

    def release(self, offsets: BitMap64) -> None:
        self._adrift -= offsets
        for slot, some in self._slots.split(offsets)[0].items():
            if self._parts:
                self._parts[slot].release(some)
                self._collect(slot)
            self._slots.forget(some)
        self._end_placing()

    def let_go(self, loose: BitMap64, keyed: BitMap64) -> None:
        for slot, some in self._slots.split(loose | keyed)[0].items():
            if self._parts:
                self._parts[slot].let_go(some & loose, some & keyed)
                self._collect(slot)
            self._slots.forget(some)

    def come_due(
        self, offsets: BitMap64, keyed: BitMap64, busy: BitMap64, delayed: BitMap64
    ) -> None:
        # As for those that are reopened, their slots are not known.
        self.reopen(offsets, busy, delayed, is_filtered=True)

    def take_places(
        self, anchor: Offset, offsets: Sequence[Offset], busy: BitMap64, delayed: BitMap64
    ) -> None:
        # As for those that are reopened, their slots are not known.
        self.reopen(BitMap64(offsets), busy, delayed, is_filtered=True)

    def reopen(
        self, opened: BitMap64, busy: BitMap64, delayed: BitMap64, *, is_filtered: bool
    ) -> None:
        # Their slots are not known, filter or not: they have to be met.
        for part in self._parts:
            part.reopen(opened, busy, delayed, is_filtered=True)
        self._floor = min(self._floor, opened.min())
        self._skipped -= opened
        self._returned.update(range(len(self._parts)))
        self.progress += 1

    # Messages that leave without an acknowledgement.

    def close(self, floor: Offset) -> BitMap64:
        hard = BitMap64()
        for slot, part in enumerate(self._parts):
            hard |= part.close(floor)
            self._collect(slot)
        self._floor = max(self._floor, floor)
        self._skipped.remove_range(0, floor)
        self._unplaced.remove_range(0, floor)
        self._adrift.remove_range(0, floor)
        self._slots.forget_below(floor)
        self._slots.forget(hard)
        self._end_placing()
        return hard

    def drop(self, offsets: BitMap64) -> BitMap64:
        hard = BitMap64()
        if offsets:
            for slot, part in enumerate(self._parts):
                hard |= part.drop(offsets)
                self._collect(slot)
            self._slots.forget(offsets | hard)
            self._end_lease(offsets)
        return hard

    # Private: what came back, and what is met.

    def _has_returned(self, slot: int, cursor: Openness) -> bool:
        part = self._parts[slot]
        return part.has_some(cursor, part.next_offset)

    def _readable(self, cursor: Openness, start: Offset, end: Offset) -> Iterator[Range]:
        return without(cursor.unacked_ranges(start, end), self._skipped)

    def _take_fresh(
        self,
        cursor: Openness,
        end: Offset,
        views: Sequence[Slots],
        packer: Packer,
        mine: Set[int],
    ) -> None:
        """Meet the messages of the views in order, as far as they fit the answer."""
        parts = self._parts
        before = sum(parts[slot].next_offset for slot in mine)
        reached = min(parts[slot].next_offset for slot in mine)
        behind: set[int] = set()
        for view in views:
            stop = min(end, view.end_offset)
            if stop <= reached:
                continue
            if packer.is_full or behind:
                break
            if self._is_gap(cursor, reached, min(view.base_offset, end)):
                break
            found = self._slots.of_batch(view)
            begin = max(reached, view.base_offset) - view.base_offset
            count = _count_until(found, begin, mine, packer.limit - packer.count)
            stop = min(stop, view.base_offset + begin + count)
            unacked = _unacked(cursor, view.base_offset + begin, stop)
            for slot in sorted(mine & set(found[begin : stop - view.base_offset])):
                picked = _Picked(cursor, self._of_slot(view, slot) & unacked)
                part = parts[slot]
                # What came back goes first; only then other views are needed, too.
                source = views if self._has_returned(slot, cursor) else (view,)
                met = part.progress
                part.take(picked, stop, source, packer)
                self.progress += part.progress - met
                if not part.go_on(picked, stop, packer.consumer):
                    behind.add(slot)
                self._collect(slot)
            reached = stop
        for slot in mine - behind:
            part = parts[slot]
            part.next_offset = max(part.next_offset, reached)
        self.progress += sum(parts[slot].next_offset for slot in mine) - before

    def _is_gap(self, cursor: Openness, start: Offset, end: Offset) -> bool:
        """Whether there are messages in between that were to be read and are not here."""
        return start < end and next(self._readable(cursor, start, end), None) is not None

    def _of_slot(self, view: Slots, slot: int) -> BitMap64:
        """The messages of a view that are of one slot."""
        found, base = self._slots.of_batch(view), view.base_offset
        offsets = BitMap64()
        index = found.find(slot)
        while index >= 0:
            offsets.add(base + index)
            index = found.find(slot, index + 1)
        return offsets

    def _hold(self, views: Sequence[Slots], packer: Packer) -> None:
        """Note whose messages these are now."""
        by_base = {view.base_offset: view for view in views}
        for run in packer.runs:
            found = self._slots.of_batch(by_base[run.base])
            for offset in range(run.start, run.end):
                self._slots.hold(offset, found[offset - run.base], packer.consumer)

    def _collect(self, slot: int) -> None:
        """Take over what the backlog of a slot noted while a method of it ran."""
        self._returned.add(slot)
        if not self._parts:
            return
        part = self._parts[slot]
        if part.to_forward:
            for offset in part.to_forward:
                self._slots.note(offset, slot)
            self.to_forward += part.to_forward
            part.to_forward.clear()
        if part.recalled:
            self.recalled |= part.recalled
            part.recalled.clear()
        if self._depending.noted:
            for offset in self._depending.noted:
                self._slots.note(offset, slot)
            self._depending.noted.clear()

    # Private: leases of before a restart.

    @property
    def _to_place(self) -> BitMap64:
        placed = BitMap64().union(*self._placed.values())
        return (self._unplaced | self._adrift) - placed

    def _place(self, views: Sequence[Slots]) -> None:
        """Leases of before a restart find their slots."""
        for view in views:
            found, base = self._slots.of_batch(view), view.base_offset
            for offset in self._to_place & BitMap64(range(base, view.end_offset)):
                slot = found[offset - base]
                self._placed.setdefault(slot, BitMap64()).add(offset)
                if offset in self._unplaced:
                    self._slots.hold(offset, slot, None)
                self.progress += 1
        self._end_placing()

    def _end_lease(self, gone: BitMap64) -> None:
        """Messages that are settled need no place."""
        self._unplaced -= gone
        self._adrift -= gone
        self._end_placing()

    def _end_placing(self) -> None:
        """Give each slot its backlog once all leases of before a restart have their slots."""
        if self._parts or self._to_place:
            return
        everything = self._unplaced | self._adrift
        nothing = BitMap64()
        for slot in range(self._slots.slot_count):
            held = self._placed.get(slot, nothing) & everything
            part = self._make(self._floor, held)
            part.agenda = self._agenda
            # Messages that wait for their back-off are not leased.
            adrift = held & self._adrift
            part.recall(adrift, lambda _: True)
            for offset in adrift:
                self._slots.note(offset, slot)
            for start, stop in runs(self._skipped):
                part.skip(start, stop)
            self._parts.append(part)
            if part.unplaced:
                self._scanning.add(slot)
        self._unplaced, self._adrift, self._placed = BitMap64(), BitMap64(), {}
        self._returned.update(range(len(self._parts)))


class _Unhurried:
    """An agenda without priorities and places: each slot is served in the order of the log."""

    __slots__ = ("_agenda", "_held", "urgent")

    def __init__(self, agenda: AgendaView) -> None:
        self._agenda = agenda
        self._held = Places()
        self.urgent: Mapping[int, BitMap64] = {}

    @property
    def pending(self) -> BitMap64:
        return self._agenda.pending

    @property
    def places(self) -> Places:
        """Messages that are held back; those that were stand where their offset says."""
        self._held.hold(self._agenda.places.held)
        return self._held

    @property
    def tenants(self) -> Mapping[int, BitMap64]:
        return {}

    @property
    def tenanted(self) -> BitMap64:
        return _NONE


class _Picked:
    """A cursor of which only some offsets are open."""

    __slots__ = ("_cursor", "_offsets")

    def __init__(self, cursor: Openness, offsets: BitMap64) -> None:
        self._cursor = cursor
        self._offsets = offsets

    @property
    def floor(self) -> Offset:
        return self._cursor.floor

    def __contains__(self, offset: Offset) -> bool:
        # Messages that came back are asked about, too: of them the cursor knows.
        return offset in self._cursor

    def acknowledged(self, offsets: BitMap64) -> BitMap64:
        return self._cursor.acknowledged(offsets)

    def unacked_ranges(self, start: Offset, end: Offset) -> Iterator[Range]:
        return runs(self._offsets & BitMap64(range(start, end)))


def _count_until(found: bytes, begin: int, mine: Set[int], room: int) -> int:
    """How many messages from `begin` on have at most `room` of one's own among them."""
    if len(found) - begin <= room:
        return len(found) - begin
    for index in range(begin, len(found)):
        if found[index] in mine:
            room -= 1
            if room < 0:
                return index - begin
    return len(found) - begin


def _unacked(cursor: Openness, start: Offset, end: Offset) -> BitMap64:
    offsets = BitMap64()
    for first, stop in cursor.unacked_ranges(start, end):
        offsets.add_range(first, stop)
    return offsets
