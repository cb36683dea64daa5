"""The backlog that keeps the messages of a key in order. Soft state.

The rule: while any message of a key is outstanding, no message of that key goes to another consumer
than the one that holds it; and when one comes back, all later ones of that key come back too. So
the outstanding messages of a key are always a run of it that begins at its first unsettled message,
and an acknowledgement is hard only when all earlier ones of its key are.

A key that has messages outstanding is *busy*: later messages of it that are met meanwhile wait
(`fanlog.core.share.keys`). Messages without a key do not wait for others.

When messages are reopened the backlog *goes back* to the first of them and meets all after it once
more, except those that it met before and that are leased, delayed or ready (`_met`). An outstanding
message may then have an earlier one of its key behind it; the key is closed until its outstanding
messages are settled.

Leases of before a restart are *unplaced* until the scan meets them, for their keys are not known
before. A message of such a lease that fails meanwhile is simply met as a fresh one; later messages
of its key that are still leased are recalled when they are met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from pyroaring import BitMap64

from fanlog.core.cursor import Range, runs
from fanlog.core.flow import Credit
from fanlog.core.share.along_places import AlongPlaces
from fanlog.core.share.aversion import Aversions
from fanlog.core.share.backlog import Exhausted, Openness, find, outside, without
from fanlog.core.share.depending import Depending
from fanlog.core.share.keys import Key, Keys
from fanlog.core.share.packer import Packer, Slots
from fanlog.core.share.urgency import in_order
from fanlog.model.resources import Offset, Ordering


class OrderedBacklog(AlongPlaces):
    """See `Backlog` for the methods."""

    __slots__ = (
        "_aversions",
        "_depending",
        "_exhausted",
        "_keyless",
        "_met",
        "_skipped",
        "keys",
        "progress",
        "recalled",
        "strict",
        "to_forward",
        "unplaced",
    )

    def __init__(
        self,
        floor: Offset,
        held: BitMap64,
        aversions: Aversions,
        exhausted: Exhausted,
        depending: Depending,
        *,
        strict: bool,
    ) -> None:
        super().__init__(floor)
        self.progress = 0
        #: One message of a key at a time.
        self.strict = strict
        self._exhausted = exhausted
        self._depending = depending
        self._aversions = aversions
        #: Messages without a key that came back, or that a scan met.
        self._keyless = BitMap64()
        self.keys = Keys(exhausted)
        self.to_forward = self.keys.to_forward
        self.unplaced = held.copy()
        #: Ahead of `next_offset` since the backlog went back, and met before: not met again.
        self._met = BitMap64()
        #: Cannot be read.
        self._skipped = BitMap64()
        self.recalled = BitMap64()

    @property
    def outstanding(self) -> BitMap64:
        return BitMap64(self.keys.hash_of)

    def behind(self, offset: Offset, key_hash: int) -> Offset | None:
        key = self.keys.by_hash.get(key_hash)
        if key_hash == 0 or key is None:
            return None
        held = [*(o for o in key.outstanding if o not in key.acked), *islice(key.waiting, 1)]
        return next((o for o in held if o != offset and (o < offset or o in key.outstanding)), None)

    def configure(self, ordering: Ordering) -> None:
        assert ordering != "none"
        self.strict = ordering == "strict"

    # Delivery.

    def has_some(self, cursor: Openness, end: Offset) -> bool:
        self._come_to_places(cursor, end)
        if self._keyless or self.to_forward or self._next_up:
            return True
        if any(self._is_free(key) for key in self.keys.queued.values()):
            return True
        return next(self._fresh(cursor, end), None) is not None

    def _urgent_set(self, consumer: Credit) -> tuple[BitMap64, Sequence[BitMap64]]:
        return self._keyless, (
            *(self._met - self._keyless, self._skipped, self.unplaced),
            *(BitMap64(self.keys.blocked), self._aversions.of(consumer)),
        )

    def _plan_oldest(
        self, cursor: Openness, end: Offset, limit: int, consumer: Credit
    ) -> list[Range]:
        keyless = self._keyless - self._aversions.of(consumer)
        ahead = self._ahead() & keyless
        keyless -= ahead
        wanted = BitMap64(islice(keyless, limit))
        fronts: list[Range] = []
        for key in self.keys.queued.values():
            if len(wanted) + len(fronts) >= limit:
                break
            if not self._is_open(key, consumer):
                continue
            most = 1 if self.strict else limit - len(wanted) - len(fronts)
            if self.keys.places:
                # Not in the order of offsets: the first must be read first, or none could go.
                fronts += ((offset, offset + 1) for offset in islice(key.waiting, most))
            else:
                wanted.update(islice(key.waiting, most))
            if not key.waiting and key.rescan_from is not None:
                # Noted, so that `skip` finds a scan that begins at unreadable messages.
                start = key.rescan_from = max(key.rescan_from, cursor.floor)
                wanted.add_range(start, max(start, min(start + limit, self.next_offset)))
        ranges = list(runs(wanted))
        limit -= len(wanted) + len(fronts)
        for start, stop in self._fresh(cursor, end):
            if limit <= 0:
                break
            ranges.append((start, min(stop, start + limit)))
            limit -= stop - start
        if ahead and limit > 0:
            ranges += runs(BitMap64(islice(ahead, limit)))
        # Messages without a key may be ready ahead of where the backlog went back to.
        return fronts + (sorted(ranges) if self._met else ranges)

    def take(self, cursor: Openness, end: Offset, views: Sequence[Slots], packer: Packer) -> None:
        self._come_to_places(cursor, end)
        if self.keys.places:
            views = in_order(views)
        urgent: Sequence[Offset] = ()
        if self.agenda is not None:
            urgent = self._urgent(self.agenda, cursor, end, packer.limit, packer.consumer)
        if urgent:
            views = in_order(views)
            self._turns.fill(
                packer,
                lambda: self._take_urgent(urgent, views, packer),
                lambda: self._take_oldest(cursor, end, views, packer),
            )
        else:
            self._take_oldest(cursor, end, views, packer)

    def _take_urgent(
        self, urgent: Sequence[Offset], views: Sequence[Slots], packer: Packer
    ) -> None:
        """Hand out messages without a key ahead of others; they are met with that."""
        for offset in urgent:
            is_back = offset in self._keyless
            if not is_back and (offset < self.next_offset or offset in self._met):
                # The oldest of this answer, too.
                continue
            slots = find(views, offset)
            if offset in self._exhausted:
                self.to_forward.append(offset)
            elif offset in self._depending:
                if not self._depending.hold(offset):
                    continue
            elif slots is None or packer.add(slots, offset, offset + 1) == offset:
                return
            self._keyless.discard(offset)
            if offset >= self.next_offset:
                self._met.add(offset)

    def _take_oldest(
        self, cursor: Openness, end: Offset, views: Sequence[Slots], packer: Packer
    ) -> None:
        ahead = self._ahead()
        self._take_keyless(self._keyless - ahead, views, packer)
        queued = self.keys.queued
        for number, key in list(queued.items()):
            if packer.is_full:
                return
            if self._take_waiting(number, key, cursor, views, packer):
                # Let the other keys have their turn first next time.
                queued[number] = queued.pop(number)
        if self._next_up:
            self._meet_next_up(views, packer)
        self._take_fresh(cursor, end, views, packer)
        self._take_keyless(ahead, views, packer)

    def _ahead(self) -> BitMap64:
        """Urgent messages that came back; those that were not met in between are older."""
        found = BitMap64()
        if self._keyless and self.agenda is not None:
            for bits in self.agenda.urgent.values():
                found |= bits & self._keyless
            found.remove_range(0, self.next_offset)
        return found

    def scan(self, cursor: Openness, end: Offset, views: Sequence[Slots]) -> None:
        self._come_to_places(cursor, end)
        if self.keys.places:
            views = in_order(views)
        if self._next_up:
            self._meet_next_up(views, None)
        self._take_fresh(cursor, end, views, None)

    def skip(self, start: Offset, end: Offset) -> None:
        before = len(self._skipped)
        self._skipped.add_range(start, end)
        self.progress += len(self._skipped) - before
        if start <= self.next_offset < end:
            self._go_to(end)
        self._leave_next_up(lambda offset: start <= offset < end)
        self._leave_out(start, end)

    def go_on(self, cursor: Openness, end: Offset, consumer: Credit | None) -> bool:
        """Go on at `end`, unless a message before it is not met."""
        if next(self._fresh(cursor, end), None) is not None:
            return False
        self._go_to(max(self.next_offset, end))
        return True

    def abandon(self, consumer: Credit) -> None:
        # The messages that it holds of a key still hold up the rest of the key: they may yet be
        # acknowledged. No other consumer becomes the owner before they are settled.
        for key in self.keys.by_hash.values():
            if key.owner is consumer:
                key.owner = None

    # Acknowledgements.

    def acknowledge(self, offsets: Iterable[Offset]) -> BitMap64:
        return self.keys.acknowledge(offsets)

    def would_be_early(self, acked: Sequence[BitMap64]) -> BitMap64:
        offsets = BitMap64().union(*acked)
        # Before a lease is placed it is unknown which messages come before it.
        return (offsets & self.unplaced) | self.keys.early(offsets)

    def late(self, offsets: BitMap64, delayed: BitMap64) -> BitMap64:
        # A message of a key that came back is due again together with all later ones: only those
        # without a key can be acknowledged alone.
        return offsets & (self._keyless | (delayed - BitMap64(self.keys.blocked)))

    def discard(self, offsets: BitMap64) -> None:
        self._keyless -= offsets
        self._leave_next_up(offsets.__contains__)

    # Messages that come back.

    def recall(self, offsets: BitMap64, delay: Callable[[Offset], bool]) -> BitMap64:
        keyless, unplaced = BitMap64(), BitMap64()
        heads: dict[int, Offset] = {}
        for offset in offsets:
            number = self.keys.hash_of.get(offset)
            if number is None:
                if offset in self.unplaced:
                    self.unplaced.discard(offset)
                    unplaced.add(offset)
                elif offset not in self.recalled:
                    keyless.add(offset)
                continue
            key = self.keys.by_hash[number]
            key.is_restored = False
            self.recalled |= self._take_back(key, offset)
            self.keys.queued[number] = key
            if self._is_passed(offset):
                heads[number] = offset
            else:
                unplaced.add(offset)
                self.keys.settle(number, key)
        for number, offset in heads.items():
            if delay(offset):
                self.keys.blocked[offset] = number
            self.keys.settle(number, self.keys.by_hash[number])
        for offset in unplaced:
            # It will be met as a fresh message, and its key be known then.
            if delay(offset):
                self.keys.blocked[offset] = 0
        return keyless

    def _take_back(self, key: Key, offset: Offset) -> BitMap64:
        taken = self.keys.take_back(key, offset, self.next_offset)
        # Where the backlog went back, it is to meet them again.
        self._met -= BitMap64(one for one in taken if not self._is_passed(one))
        return taken

    def release(self, offsets: BitMap64) -> None:
        for offset in offsets:
            number = self.keys.blocked.pop(offset, None)
            if number:
                self.keys.settle(number, self.keys.by_hash[number])
            elif self._is_passed(offset) or offset in self._met:
                self._keyless.add(offset)

    def let_go(self, loose: BitMap64, keyed: BitMap64) -> None:
        self.release(loose)

    def come_due(
        self, offsets: BitMap64, keyed: BitMap64, busy: BitMap64, delayed: BitMap64
    ) -> None:
        if self.agenda is not None and self.agenda.places:
            offsets = offsets - self.agenda.places.away(self.next_offset)
        # Those of a key wait in its list, in their place; they are not held back any more.
        for offset in offsets - keyed:
            if self._is_passed(offset) or offset in self._met:
                self._keyless.add(offset)
        self.progress += 1

    def reopen(
        self, opened: BitMap64, busy: BitMap64, delayed: BitMap64, *, is_filtered: bool
    ) -> None:
        # Their keys are not known, filter or not: they have to be met, and all after them, for a
        # later message of the same key must not go first.
        start = opened.min()
        if self.agenda is not None and self.agenda.places:
            start = self.agenda.places.reach(start)
        self._met -= opened
        if start >= self.next_offset:
            return
        keys = self.keys
        self._met = (busy | delayed | self._keyless) - self.unplaced - BitMap64(keys.blocked)
        self._met.update(keys.hash_of, self.to_forward)
        self._met.remove_range(0, start)
        keys.thin_out(lambda offset: offset < start, lambda scan: scan if scan < start else None)
        for offset in keys.blocked:
            if offset >= start:
                keys.blocked[offset] = 0
        # What stands behind an earlier one is not met again.
        self._leave_next_up(lambda offset: offset >= start)
        self.next_offset = start
        self.progress += 1

    # Messages that leave without an acknowledgement.

    def close(self, floor: Offset) -> BitMap64:
        self._go_to(max(self.next_offset, floor))
        self._leave_next_up(lambda offset: offset < floor)
        self._leave_out(0, floor)
        self.to_forward[:] = [offset for offset in self.to_forward if offset >= floor]
        return self.acknowledge([offset for offset in self.keys.hash_of if offset < floor])

    def drop(self, offsets: BitMap64) -> BitMap64:
        if not offsets:
            return BitMap64()
        self._keyless -= offsets
        self._leave_next_up(offsets.__contains__)
        self.unplaced -= offsets
        self._met -= offsets
        self.keys.unblock(lambda offset: offset not in offsets)
        self.keys.thin_out(lambda offset: offset not in offsets)
        self.to_forward[:] = [offset for offset in self.to_forward if offset not in offsets]
        # Outstanding ones count as acknowledged: their keys go on.
        return self.acknowledge([offset for offset in self.keys.hash_of if offset in offsets])

    def _leave_out(self, start: Offset, end: Offset) -> None:
        """Forget all messages of the range but the outstanding ones."""
        before = len(self._keyless) + self.keys.waiting_count
        self._keyless.remove_range(start, end)
        self.unplaced.remove_range(start, end)

        def keeps(offset: Offset) -> bool:
            return not start <= offset < end

        def move(scan: Offset) -> Offset | None:
            if keeps(scan):
                return scan
            return end if end < self.next_offset else None

        self.keys.unblock(keeps)
        self.progress += self.keys.thin_out(keeps, move)
        self.progress += before - len(self._keyless) - self.keys.waiting_count

    # Private: which consumer may get the next message of a key.

    def _is_open(self, key: Key, consumer: Credit) -> bool:
        """Whether `consumer` may get the next message of the key."""
        if not self._is_free(key) or (key.outstanding and key.owner is not consumer):
            return False
        if key.waiting and key.waiting[0] in self._aversions.of(consumer):
            return False
        # One without attempts left waits until it is first, and is forwarded then.
        return not (key.outstanding and key.waiting and key.waiting[0] in self._exhausted)

    def _is_free(self, key: Key) -> bool:
        """Whether some consumer may get the next message of the key."""
        if key.waiting and key.waiting[0] in self.keys.blocked:
            return False
        if self.agenda is not None and key.waiting and key.waiting[0] in self.agenda.pending:
            # It holds up all later ones of its key until it is due.
            return False
        if key.waiting and key.waiting[0] in self._depending.keyed:
            # So does one that waits for another message.
            return False
        if key.waiting and key.outstanding and key.waiting[0] < key.outstanding[-1]:
            # Reopened while later ones were outstanding: it comes right after those.
            return False
        # Strict means that a consumer must answer for one message before it gets the next.
        return not key.outstanding or (key.owner is not None and not self.strict)

    def _is_next(self, key: Key, consumer: Credit, offset: Offset) -> bool:
        """Whether a fresh message may go to `consumer` at once."""
        if key.waiting or key.rescan_from is not None or offset in self._exhausted:
            return False
        if key.outstanding and key.outstanding[-1] > offset:
            return False
        if self.agenda is not None and offset in self.agenda.pending:
            return False
        return offset not in self._aversions.of(consumer) and self._is_open(key, consumer)

    def _has_to_wait(self, offset: Offset) -> bool:
        """Whether the next message of a key waits for another message; it is put aside then."""
        if offset not in self._depending:
            return False
        self._depending.hold(offset, is_keyed=True)
        return True

    # Private: one answer.

    def _fresh(self, cursor: Openness, end: Offset) -> Iterator[Range]:
        if self.agenda is not None and self.agenda.places:
            held = self._skipped | self._met | self.agenda.places.absent
            return outside(cursor.unacked_ranges(self.next_offset, self._until(end)), held)
        fresh = without(cursor.unacked_ranges(self.next_offset, end), self._skipped)
        if not self._met:
            return fresh
        # Urgent messages that were handed out ahead are met, maybe very many.
        return without(fresh, self._met) if self.agenda is None else outside(fresh, self._met)

    def _take_keyless(self, free: BitMap64, views: Sequence[Slots], packer: Packer) -> None:
        """Hand out messages without a key that are free again."""
        if not free:
            return
        taken = BitMap64()
        for offset in free - self._aversions.of(packer.consumer):
            slots = find(views, offset)
            if offset in self._exhausted:
                self.to_forward.append(offset)
            elif offset in self._depending:
                if not self._depending.hold(offset):
                    continue
            elif slots is None or packer.add(slots, offset, offset + 1) == offset:
                break
            taken.add(offset)
        self._keyless -= taken

    def _take_waiting(
        self, number: int, key: Key, cursor: Openness, views: Sequence[Slots], packer: Packer
    ) -> bool:
        """Hand out messages that wait of one key; whether the key has more after that."""
        before = packer.count
        while self._is_open(key, packer.consumer):
            if not key.waiting:
                self.progress += self.keys.rescan(number, key, cursor, views, self.next_offset)
                if key.waiting:
                    # The message that was found may be held back itself.
                    continue
            if not key.waiting or key.waiting[0] in self._exhausted:
                break
            offset = key.waiting[0]
            slots = find(views, offset)
            if self._depending.causes and self._has_to_wait(offset):
                break
            if slots is None or packer.add(slots, offset, offset + 1) == offset:
                break
            self.keys.pop_waiting(key)
            self.keys.hand_out(number, key, offset, packer.consumer)
        self.keys.settle(number, key)
        return packer.count > before and number in self.keys.queued

    def _take_fresh(
        self, cursor: Openness, end: Offset, views: Sequence[Slots], packer: Packer | None
    ) -> None:
        """Meet fresh messages in order; hand out those that may go, let the rest wait."""
        before = self.next_offset
        end = self._until(end)
        for slots in views:
            stop = min(end, slots.end_offset)
            fresh = self._fresh(cursor, stop)
            first = next(fresh, None)
            if first is not None and slots.base_offset <= first[0]:
                # All of them before any is met: meeting changes what they are made of.
                self._go_to(self._meet_all([first, *fresh], stop, slots, packer))
                if self.next_offset < stop:
                    break
        self.progress += self.next_offset - before
        if self._met and self._met.max() < self.next_offset and not self._has_anchors():
            self._met.clear()

    # Private: messages that were held back behind a gap.

    def _come_to_places(self, cursor: Openness, end: Offset) -> None:
        self.keys.places = None if self.agenda is None else self.agenda.places
        super()._come_to_places(cursor, end)

    def _is_met(self, offset: Offset) -> bool:
        known = offset in self._keyless or offset in self._met or offset in self._skipped
        return known or offset in self.keys.hash_of

    def _meet_next_up(self, views: Sequence[Slots], packer: Packer | None) -> None:
        def meet(slots: Slots, offset: Offset) -> bool:
            hashes = slots.key_hashes
            number = 0 if hashes is None else hashes[offset - slots.base_offset]
            # A list that is full is filled again by offsets, and would never have it.
            if number and not self.keys.has_room(number):
                return False
            self.progress += 1
            return self._meet(offset, number, slots, packer)

        self._take_next_up(views, meet)

    def _meet_all(
        self, fresh: Sequence[Range], stop: Offset, slots: Slots, packer: Packer | None
    ) -> Offset:
        """Meet fresh messages of one view; return the first that did not fit, or `stop`."""
        hashes, base = slots.key_hashes, slots.base_offset
        for range_start, range_end in fresh:
            for offset in range(range_start, range_end):
                number = hashes[offset - base] if hashes is not None else 0
                if not self._meet(offset, number, slots, packer):
                    return offset
        return stop

    def _meet(self, offset: Offset, number: int, slots: Slots, packer: Packer | None) -> bool:
        """One fresh message; False when it would go out and the answer is full."""
        if offset in self.unplaced:
            self._place(offset, number)
            return True
        if number == 0:
            return self._meet_keyless(offset, slots, packer)
        keys = self.keys
        key = keys.by_hash.get(number)
        if key is None:
            key = keys.by_hash[number] = Key()
        if offset in keys.blocked:
            keys.blocked[offset] = number
        elif (
            packer is not None
            and self._is_next(key, packer.consumer, offset)
            and not (self._depending.causes and self._has_to_wait(offset))
        ):
            if packer.add(slots, offset, offset + 1) == offset:
                keys.settle(number, key)
                return False
            keys.hand_out(number, key, offset, packer.consumer)
            return True
        keys.let_wait(number, key, offset)
        keys.settle(number, key)
        return True

    def _meet_keyless(self, offset: Offset, slots: Slots, packer: Packer | None) -> bool:
        if offset in self.keys.blocked:
            # Its back-off stands for it alone: `release` will offer it.
            del self.keys.blocked[offset]
        elif self.agenda is not None and offset in self.agenda.pending:
            # `come_due` will offer it.
            pass
        elif offset in self._exhausted:
            self.to_forward.append(offset)
        elif offset in self._depending:
            if not self._depending.hold(offset):
                self._keyless.add(offset)
        elif packer is None or offset in self._aversions.of(packer.consumer):
            self._keyless.add(offset)
        else:
            return packer.add(slots, offset, offset + 1) > offset
        return True

    def _place(self, offset: Offset, number: int) -> None:
        """A lease of before the restart has found its key."""
        self.unplaced.discard(offset)
        if number == 0:
            return
        key = self.keys.by_hash.get(number)
        if key is None:
            key = self.keys.by_hash[number] = Key()
            key.is_restored = True
        if key.is_restored and not key.has_waiting:
            self.keys.hand_out(number, key, offset, None)
        else:
            # An earlier one of its key failed before either of them was met.
            self.recalled.add(offset)
            self.keys.let_wait(number, key, offset)
