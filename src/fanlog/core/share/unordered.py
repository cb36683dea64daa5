"""The backlog of a share where order does not matter. Soft state.

Most of a backlog is simply everything from `next_offset` on: only messages that were handed out
and came back are kept as a set. So a backlog of a hundred million messages costs one number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from pyroaring import BitMap64

from fanlog.core.cursor import Range, runs
from fanlog.core.flow import Credit
from fanlog.core.share.along_places import AlongPlaces
from fanlog.core.share.aversion import Aversions
from fanlog.core.share.backlog import Exhausted, Openness, find, outside, without
from fanlog.core.share.depending import Depending
from fanlog.core.share.packer import Packer, Slots
from fanlog.core.share.urgency import in_order
from fanlog.limits import OFFSET_MAX
from fanlog.model.resources import Offset, Ordering

_NONE = BitMap64()


class UnorderedBacklog(AlongPlaces):
    """See `Backlog` for the methods."""

    __slots__ = (
        "_aversions",
        "_depending",
        "_exhausted",
        "_held",
        "_ready",
        "_skipped_count",
        "recalled",
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
    ) -> None:
        super().__init__(floor)
        #: Below `next_offset` and free again.
        self._ready = BitMap64()
        #: Ahead of `next_offset`, yet not to be handed out: leases of before a restart, and
        #: messages that cannot be read.
        self._held = held.copy()
        self._aversions = aversions
        self._exhausted = exhausted
        self._depending = depending
        self._skipped_count = 0
        self.to_forward: list[Offset] = []
        # Without keys, a lease of before a restart is as good as any other, and stays.
        self.unplaced = BitMap64()
        self.recalled = BitMap64()

    @property
    def progress(self) -> int:
        return self.next_offset + self._skipped_count

    @property
    def outstanding(self) -> BitMap64:
        return _NONE

    def behind(self, offset: Offset, key_hash: int) -> Offset | None:
        return None

    def configure(self, ordering: Ordering) -> None:
        assert ordering == "none"

    def has_some(self, cursor: Openness, end: Offset) -> bool:
        if self.agenda is not None:
            self._come_to_places(cursor, end)
        if self._ready or self._next_up:
            return True
        # Most often all messages were handed out: then the cursor need not be asked.
        start = self.next_offset
        if start >= end:
            return False
        if self.agenda is None and start not in cursor and start not in self._held:
            # The next one is there: the runs of open ones need not be found.
            return True
        first, _ = next(self._fresh(cursor, end), (end, end))
        if self.agenda is not None:
            # A million pending messages are passed once: they are offered when they are due.
            self._go_to(min(first, self.agenda.places.until(self.next_offset, end)))
        return first < end or bool(self._next_up)

    def _urgent_set(self, consumer: Credit) -> tuple[BitMap64, Sequence[BitMap64]]:
        return self._ready, (self._held, self._aversions.of(consumer))

    def _plan_oldest(
        self, cursor: Openness, end: Offset, limit: int, consumer: Credit
    ) -> list[Range]:
        averse = self._aversions.of(consumer)
        ready = self._ready - averse if averse else self._ready
        # Messages that came back go first: they are the oldest, and the floor waits for them.
        ranges = list(runs(BitMap64(islice(ready, limit)))) if ready else []
        limit -= sum(stop - start for start, stop in ranges)
        for start, stop in self._fresh(cursor, end, averse):
            if limit <= 0:
                break
            ranges.append((start, min(stop, start + limit)))
            limit -= stop - start
        return ranges

    def take(self, cursor: Openness, end: Offset, views: Sequence[Slots], packer: Packer) -> None:
        urgent: Sequence[Offset] = ()
        if self.agenda is not None:
            self._come_to_places(cursor, end)
            urgent = self._urgent(self.agenda, cursor, end, packer.limit, packer.consumer)
        if urgent:
            views = in_order(views)
            self._turns.fill(
                packer,
                lambda: self._pack_urgent(urgent, views, packer),
                lambda: self._pack(cursor, end, views, packer),
            )
        else:
            self._pack(cursor, end, views, packer)
        if self._next_up:
            # An anchor was passed only now, and a seek may have acknowledged what stands there.
            self._leave_next_up(cursor.__contains__)
            self._take_next_up(views, lambda slots, o: packer.add(slots, o, o + 1) > o)
        self._leave_out(packer)

    def _leave_out(self, packer: Packer) -> None:
        """Take out of an answer what is to be forwarded, or waits for others."""
        if self._exhausted.may_exist:
            # Their attempts were used up before a restart, or before the policy became smaller.
            self.to_forward += packer.leave_out(self._exhausted)
        if self._depending.causes:
            hold = self._depending.hold
            # Without room they are free again, and the first to be looked at.
            self.release(BitMap64(o for o in packer.leave_out(self._depending) if not hold(o)))

    def _pack_urgent(
        self, urgent: Sequence[Offset], views: Sequence[Slots], packer: Packer
    ) -> None:
        for offset in urgent:
            is_back = offset in self._ready
            if not is_back and (offset < self.next_offset or offset in self._held):
                # The oldest of this answer, too.
                continue
            slots = find(views, offset)
            if slots is None or packer.add(slots, offset, offset + 1) == offset:
                return
            if offset >= self.next_offset:
                # `next_offset` is to pass it.
                self._held.add(offset)
            else:
                self._ready.discard(offset)

    def _pack(self, cursor: Openness, end: Offset, views: Sequence[Slots], packer: Packer) -> None:
        # Ranges and views both ascend, so one walk over the views is enough.
        remaining = iter(in_order(views) if self._next_up else views)
        slots = next(remaining, None)
        for start, stop in self._plan_oldest(cursor, end, packer.limit, packer.consumer):
            while start < stop:
                while slots is not None and slots.end_offset <= start:
                    slots = next(remaining, None)
                if slots is None or start < slots.base_offset:
                    return
                part_end = min(stop, slots.end_offset)
                reached = packer.add(slots, start, part_end)
                self._leave_to_packer(cursor, start, reached)
                if reached < part_end:
                    return
                start = reached

    def scan(self, cursor: Openness, end: Offset, views: Sequence[Slots]) -> None:
        """Nothing: no lease waits for its key."""

    def skip(self, start: Offset, end: Offset) -> None:
        before = len(self._held) - len(self._ready)
        self._ready.remove_range(start, end)
        self._held.add_range(start, end)
        self._leave_next_up(lambda offset: start <= offset < end)
        self._skipped_count += len(self._held) - len(self._ready) - before

    def go_on(self, cursor: Openness, end: Offset, consumer: Credit | None) -> bool:
        """Go on at `end`, unless a message before it was to be handed out and is not.

        Messages that `consumer` is averse to stay, for others.
        """
        averse = self._aversions.of(consumer)
        if next(self._fresh(cursor, end, averse), None) is not None:
            return False
        for start, stop in self._fresh(cursor, end) if averse else ():
            self._ready.add_range(start, stop)
        self._go_to(max(self.next_offset, end))
        return True

    def abandon(self, consumer: Credit) -> None:
        """Nothing: no message waited for the consumer."""

    def acknowledge(self, offsets: BitMap64) -> BitMap64:
        return offsets

    def would_be_early(self, acked: Sequence[BitMap64]) -> BitMap64:
        return _NONE

    def late(self, offsets: BitMap64, delayed: BitMap64) -> BitMap64:
        return offsets

    def discard(self, offsets: BitMap64) -> None:
        self._ready -= offsets
        self._leave_next_up(offsets.__contains__)

    def recall(self, offsets: BitMap64, delay: Callable[[Offset], bool]) -> BitMap64:
        return offsets

    def release(self, offsets: BitMap64) -> None:
        self._held -= offsets
        self._ready |= offsets
        if self._ready and self._ready.max() >= self.next_offset:
            # Never handed out in this life: `next_offset` will come by.
            self._ready.remove_range(self.next_offset, self._ready.max() + 1)
        if self.agenda is not None and self.agenda.places:
            # Nor those that stand behind an anchor to come.
            moved = offsets & self.agenda.places.absent
            self._ready -= BitMap64(offset for offset in moved if not self._is_passed(offset))

    def let_go(self, loose: BitMap64, keyed: BitMap64) -> None:
        self.release(loose)

    def come_due(
        self, offsets: BitMap64, keyed: BitMap64, busy: BitMap64, delayed: BitMap64
    ) -> None:
        if self.agenda is not None and self.agenda.places:
            # They come when those who go along the log come to their place.
            offsets = offsets - self.agenda.places.away(self.next_offset)
        self._ready |= offsets
        self._ready.remove_range(self.next_offset, OFFSET_MAX + 1)

    def reopen(
        self, opened: BitMap64, busy: BitMap64, delayed: BitMap64, *, is_filtered: bool
    ) -> None:
        if is_filtered:
            # The filter judges from `next_offset` on, and it must judge them before they go out.
            self._go_back(opened, busy, delayed)
        elif self.agenda is not None:
            away = self.agenda.places.away(self.next_offset)
            self.release(opened - self.agenda.pending - away)
        else:
            self.release(opened)

    def _go_back(self, opened: BitMap64, busy: BitMap64, delayed: BitMap64) -> None:
        """Meet `opened`, and all after it, once more, except `busy` and `delayed` offsets."""
        start = opened.min()
        if self.agenda is not None and self.agenda.places:
            start = self.agenda.places.reach(start)
        self._held -= opened
        if start < self.next_offset:
            self._ready.remove_range(start, self.next_offset)
            # What stands behind an earlier one is not met again.
            self._ready.update(offset for offset in self._next_up if offset < start)
            self._next_up.clear()
            # Messages that cannot be read will be found out again.
            self._held = busy | delayed
            self.next_offset = start

    def close(self, floor: Offset) -> BitMap64:
        self._go_to(max(self.next_offset, floor))
        self._leave_next_up(lambda offset: offset < floor)
        self._ready.remove_range(0, floor)
        self._held.remove_range(0, floor)
        return _NONE

    def drop(self, offsets: BitMap64) -> BitMap64:
        self._leave_next_up(offsets.__contains__)
        self._ready -= offsets
        self._held -= offsets
        return _NONE

    def _fresh(
        self, cursor: Openness, end: Offset, averse: BitMap64 | None = None
    ) -> Iterator[Range]:
        held = self._held | averse if averse else self._held
        if self.agenda is None:
            return without(cursor.unacked_ranges(self.next_offset, end), held)
        if self.agenda.places:
            end, held = self._until(end), held | self.agenda.places.absent
        fresh = cursor.unacked_ranges(self.next_offset, end)
        # Urgent messages that were handed out ahead are held, maybe very many.
        return outside(outside(fresh, held), self.agenda.pending)

    # Private: messages that were held back behind a gap.

    def _is_met(self, offset: Offset) -> bool:
        assert self.agenda is not None
        # Those that are pending are offered when they are due.
        return offset in self._ready or offset in self._held or offset in self.agenda.pending

    def _leave_to_packer(self, cursor: Openness, start: Offset, end: Offset) -> None:
        """The packer has the offsets from `start` to before `end`."""
        if end > self.next_offset:
            # The consumer is averse to messages in between: `next_offset` leaves them behind, and
            # they are for others.
            if start > self.next_offset:
                for averse_start, averse_end in self._fresh(cursor, start):
                    self._ready.add_range(averse_start, averse_end)
            self._go_to(end)
        elif end > start:
            self._ready.remove_range(start, end)
