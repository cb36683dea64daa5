"""What one share could deliver next, when order does not matter. Soft state.

Offsets are in the backlog while they are unacknowledged and neither leased nor delayed. Most of a
backlog is simply everything from `next_offset` on: only what was handed out and came back is kept
as a set. `fanlog.core.ordering` has the backlog that keeps keys in order; both have these methods.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Protocol

from pyroaring import BitMap64

from fanlog.core.aversion import Aversions
from fanlog.core.cursor import Range, runs
from fanlog.core.flow import Budget, Credit
from fanlog.core.lease import Run
from fanlog.model.resources import Offset


class Slots(Protocol):
    """What the core sees of a batch: where messages start and whose keys they have."""

    @property
    def base_offset(self) -> Offset: ...
    @property
    def end_offset(self) -> Offset: ...
    @property
    def starts(self) -> Sequence[int]: ...
    @property
    def key_hashes(self) -> Sequence[int] | None: ...


class Openness(Protocol):
    """What is open to be handed out: a cursor, or less than that."""

    @property
    def floor(self) -> Offset: ...
    def __contains__(self, offset: Offset) -> bool: ...
    def unacked_ranges(self, start: Offset, end: Offset) -> Iterator[Range]: ...


class Packer:
    """Fills one answer up to its budget."""

    __slots__ = ("_budget", "count", "runs", "size_bytes")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.runs: list[Run] = []
        self.count = 0
        self.size_bytes = 0

    @property
    def is_full(self) -> bool:
        return self.count >= self._budget.messages

    def add(self, slots: Slots, start: Offset, end: Offset) -> Offset:
        """Take offsets from `start` on, at most to `end`; return where the budget ended."""
        starts, base = slots.starts, slots.base_offset
        first = start - base
        count = min(end - start, self._budget.messages - self.count)
        last_byte = starts[first] + self._budget.size_bytes - self.size_bytes
        fitting = bisect_right(starts, last_byte, first, first + count + 1) - 1 - first
        if fitting <= 0:
            if count <= 0 or not self._takes_first(starts[first + 1] - starts[first]):
                return start
            fitting = 1
        run = Run(start, start + fitting, base, starts)
        previous = self.runs[-1] if self.runs else None
        if previous is not None and previous.end == start and previous.starts is starts:
            run = Run(previous.start, run.end, base, starts)
            self.size_bytes -= previous.size_bytes
            self.runs.pop()
        self.runs.append(run)
        self.count += fitting
        self.size_bytes += run.size_bytes
        return start + fitting

    def _takes_first(self, size_bytes: int) -> bool:
        """Whether a message too large for the answer goes out all the same, as its first."""
        if self.count > 0:
            return False
        return self._budget.at_least_one or size_bytes <= self._budget.first_bytes


class Backlog:
    """The unordered backlog."""

    __slots__ = ("_aversions", "_held", "_ready", "_skipped_count", "next_offset")

    def __init__(self, floor: Offset, held: BitMap64, aversions: Aversions) -> None:
        #: First offset never handed out since the start or the last seek.
        self.next_offset = floor
        self._ready = BitMap64()
        # Ahead of `next_offset`, yet not to be handed out: leases that outlived a restart, and
        # what cannot be read.
        self._held = held.copy()
        self._aversions = aversions
        self._skipped_count = 0

    @property
    def progress(self) -> int:
        """Grows whenever messages were met or left out, whether or not any was handed out."""
        return self.next_offset + self._skipped_count

    def has_some(self, cursor: Openness, end: Offset) -> bool:
        return bool(self._ready) or next(self._fresh(cursor, end), None) is not None

    def plan(self, cursor: Openness, end: Offset, limit: int, consumer: Credit) -> list[Range]:
        """Ranges worth reading for the next answer, ascending, about `limit` offsets."""
        averse = self._aversions.of(consumer)
        ready = self._ready - averse if averse else self._ready
        ranges = list(runs(BitMap64(islice(ready, limit)))) if ready else []
        limit -= sum(stop - start for start, stop in ranges)
        for start, stop in self._fresh(cursor, end, averse):
            if limit <= 0:
                break
            ranges.append((start, min(stop, start + limit)))
            limit -= stop - start
        return ranges

    def take(
        self,
        cursor: Openness,
        end: Offset,
        views: Sequence[Slots],
        packer: Packer,
        limit: int,
        consumer: Credit,
    ) -> None:
        """Move what fits the answer from the backlog into `packer`."""
        # Ranges and views both ascend, so one walk over the views is enough.
        remaining = iter(views)
        slots = next(remaining, None)
        for start, stop in self.plan(cursor, end, limit, consumer):
            while start < stop:
                while slots is not None and slots.end_offset <= start:
                    slots = next(remaining, None)
                if slots is None or start < slots.base_offset:
                    return
                part_end = min(stop, slots.end_offset)
                reached = packer.add(slots, start, part_end)
                self._taken(cursor, start, reached)
                if reached < part_end:
                    return
                start = reached

    def release(self, offsets: BitMap64) -> None:
        """Offsets that are free again: nacked, expired, or their back-off is over."""
        self._held -= offsets
        self._ready |= offsets
        if self._ready and self._ready.max() >= self.next_offset:
            # Never handed out in this life: `next_offset` will come by.
            self._ready.remove_range(self.next_offset, self._ready.max() + 1)

    def go_back(self, opened: BitMap64, busy: BitMap64, delayed: BitMap64) -> None:
        """Meet `opened`, and all after it, once more, but for what is `busy` or `delayed`."""
        start = opened.min()
        self._held -= opened
        if start < self.next_offset:
            self._ready.remove_range(start, self.next_offset)
            # What cannot be read will be found out again.
            self._held = busy | delayed
            self.next_offset = start

    def late(self, offsets: BitMap64, delayed: BitMap64) -> BitMap64:
        """Those of `offsets`, which nobody holds, that may be acknowledged all the same."""
        return offsets

    def discard(self, offsets: BitMap64) -> None:
        """Offsets that were acknowledged late."""
        self._ready -= offsets

    def close(self, floor: Offset) -> BitMap64:
        """Everything below `floor` is gone; return what became acknowledged by that."""
        self.next_offset = max(self.next_offset, floor)
        self._ready.remove_range(0, floor)
        self._held.remove_range(0, floor)
        return BitMap64()

    def drop(self, offsets: BitMap64) -> BitMap64:
        """Offsets that nobody shall have any more; return as `close` does."""
        self._ready -= offsets
        self._held -= offsets
        return BitMap64()

    def skip(self, start: Offset, end: Offset) -> None:
        """Offsets that cannot be read: leave them out until the next start."""
        before = len(self._held) - len(self._ready)
        self._ready.remove_range(start, end)
        self._held.add_range(start, end)
        self._skipped_count += len(self._held) - len(self._ready) - before

    def abandon(self, consumer: Credit) -> None:
        """A consumer is gone. Without order, nothing waited for it."""

    def _fresh(
        self, cursor: Openness, end: Offset, averse: BitMap64 | None = None
    ) -> Iterator[Range]:
        held = self._held | averse if averse else self._held
        return without(cursor.unacked_ranges(self.next_offset, end), held)

    def _taken(self, cursor: Openness, start: Offset, end: Offset) -> None:
        if end > self.next_offset:
            # Passed by for an aversion, after the backlog went back: `next_offset` leaves them.
            if start > self.next_offset:
                for averse_start, averse_end in self._fresh(cursor, start):
                    self._ready.add_range(averse_start, averse_end)
            self.next_offset = end
        elif end > start:
            self._ready.remove_range(start, end)


def without(ranges: Iterator[Range], held: BitMap64) -> Iterator[Range]:
    """What is left of `ranges` outside `held`."""
    if not held:
        yield from ranges
        return
    last = held.max()
    for start, stop in ranges:
        if start <= last:
            for hole in held.iter_equal_or_larger(start):
                if hole >= stop:
                    break
                if hole > start:
                    yield start, hole
                start = hole + 1
        if start < stop:
            yield start, stop
