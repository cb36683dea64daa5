"""Leases: which consumer holds which offsets, and until when.

One lease is the content of one answer: one generation, runs of offsets, one deadline. Messages of a
lease are settled one by one (`open` shrinks); a deadline changed for some of them splits the lease
in parts of the same generation. Soft state; under exactly-once the share writes each change down as
a `LeaseHeld` record before it counts.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyroaring import BitMap64

from fanlog.core.cursor import Cursor
from fanlog.core.flow import Credit
from fanlog.core.records import LeaseHeld
from fanlog.core.subscription_window import SubscriptionWindow
from fanlog.model.resources import Offset


@dataclass(frozen=True, slots=True)
class LeasedRun:
    """Consecutive offsets of one batch: `starts[offset - base]` is where a message begins."""

    start: Offset
    end: Offset
    base: Offset
    starts: Sequence[int]

    @property
    def size_bytes(self) -> int:
        return self.starts[self.end - self.base] - self.starts[self.start - self.base]


class Lease:
    """One lease, or a part of one. `open` has its offsets that are neither settled nor expired."""

    __slots__ = (
        *("credit", "deadline_s", "generation", "granted_s"),
        *("open", "part", "published_s", "runs"),
    )

    def __init__(
        self,
        generation: int,
        part: int,
        deadline_s: float,
        open_offsets: BitMap64,
        runs: Sequence[LeasedRun],
        credit: Credit | None,
        granted_s: float = math.nan,
        published_s: float = math.nan,
    ) -> None:
        self.generation = generation
        self.part = part
        self.deadline_s = deadline_s
        self.open = open_offsets
        self.runs = runs
        #: The window that it counts against; None once its consumer is gone.
        self.credit = credit
        #: When it was granted; not a number for a lease of before a restart.
        self.granted_s = granted_s
        #: When its messages were published, see `Share.lease`; not a number where that is unknown.
        self.published_s = published_s

    def settle(self, offsets: BitMap64) -> None:
        """Take `offsets` out and give their credit back."""
        if self.credit is not None:
            # Weighing takes a look at each run: only for a consumer that counts bytes.
            size_bytes = self.size_of(offsets) if self.credit.max_bytes else 0
            self.credit.give(len(offsets), size_bytes)
        self.open = self.open - offsets

    def size_of(self, offsets: BitMap64) -> int:
        """Bytes of some of its messages; 0 for a lease of before a restart."""
        size = 0
        for run in self.runs:
            if offsets.contains_range(run.start, run.end):
                size += run.size_bytes
                continue
            for offset in offsets & BitMap64(range(run.start, run.end)):
                index = offset - run.base
                size += run.starts[index + 1] - run.starts[index]
        return size


#: A lease, and those of its offsets that a request names.
Matched = tuple[Lease, BitMap64]
#: Offsets of one request, by the generation their ack ids name.
ByGeneration = Mapping[int, Sequence[Offset]]


class LeaseTable:
    """All leases of one share, by generation and by deadline."""

    __slots__ = ("_by_generation", "_heap", "changed", "on_end", "window")

    def __init__(self) -> None:
        #: The window of the subscription; None where there is none, or no consumer.
        self.window: SubscriptionWindow | None = None
        #: Is told of messages whose lease has ended; None where nothing depends on it.
        self.on_end: Callable[[BitMap64], None] | None = None
        self._by_generation: dict[int, list[Lease]] = {}
        self._heap: list[tuple[float, int, int]] = []
        #: Leases (generation, part) that changed in the running verb: the share makes records of
        #: them under exactly-once, and clears the set.
        self.changed: set[tuple[int, int]] = set()

    @classmethod
    def restored(cls, held: Iterable[LeaseHeld], cursor: Cursor, latest_s: float) -> LeaseTable:
        """The leases of before a restart, less acknowledged offsets; none ends after `latest_s`."""
        table = cls()
        # As their keys are, in whichever order they were held: one state has one table.
        for one in sorted(held, key=lambda one: (one.generation, one.part)):
            assert one.offsets is not None
            offsets = BitMap64(o for o in one.offsets if o not in cursor)
            if offsets:
                deadline_s = min(one.deadline_s, latest_s)
                table.add(Lease(one.generation, one.part, deadline_s, offsets, (), None))
        table.changed.clear()
        return table

    def __iter__(self) -> Iterator[Lease]:
        for parts in self._by_generation.values():
            yield from parts

    def __len__(self) -> int:
        return sum(len(parts) for parts in self._by_generation.values())

    @property
    def outstanding(self) -> int:
        return sum(len(lease.open) for lease in self)

    @property
    def offsets(self) -> BitMap64:
        """All leased offsets."""
        return BitMap64().union(*(lease.open for lease in self))

    def count_in(self, window: SubscriptionWindow | None) -> None:
        """Count what is leased in a window, now and from now on; in none with None."""
        before, self.window = self.window, window
        for lease in self:
            held = len(lease.open), lease.size_of(lease.open)
            if before is not None:
                before.give(*held)
            if window is not None:
                window.take(*held)

    def parts(self, generation: int) -> Sequence[Lease]:
        return self._by_generation.get(generation, ())

    def part(self, generation: int, part: int) -> Lease | None:
        for lease in self._by_generation.get(generation, ()):
            if lease.part == part:
                return lease
        return None

    def matching(self, generation: int, offsets: BitMap64) -> list[Matched]:
        """The offsets among `offsets` that are leased under `generation`, by part."""
        parts = self.parts(generation)
        return [(lease, held) for lease in parts if (held := lease.open & offsets)]

    def named(
        self, by_generation: ByGeneration, *, after_s: float
    ) -> tuple[list[Matched], list[tuple[int, Offset]]]:
        """The leases that ack ids name, if they end after `after_s`; and the ids that name none."""
        found: list[Matched] = []
        others: list[tuple[int, Offset]] = []
        for generation, offsets in by_generation.items():
            wanted = BitMap64(offsets)
            for lease, held in self.matching(generation, wanted):
                if lease.deadline_s > after_s:
                    found.append((lease, held))
                    wanted -= held
            others += [(generation, offset) for offset in wanted]
        return found, others

    def named_at_all(
        self, by_generation: ByGeneration, fence: int, without: BitMap64
    ) -> tuple[list[Matched], BitMap64]:
        """The leased offsets that ack ids name, under whichever generation; and those not leased.

        At least once an old ack id acknowledges the message even if another consumer has it now.
        Ids of before `fence`, the last seek, count for nothing, nor do offsets in `without`.
        """
        found: list[Matched] = []
        seen, stale = without, BitMap64()
        for generation, offsets in by_generation.items():
            if generation < fence:
                continue
            wanted = BitMap64(offsets)
            if seen:
                wanted -= seen
            for lease, held in self.matching(generation, wanted):
                found.append((lease, held))
                wanted -= held
                seen = seen | held
            stale |= wanted
        if stale:
            stale -= seen
            for lease, held in self.holding(stale):
                found.append((lease, held))
                stale -= held
        return found, stale

    def without_void(
        self, by_generation: ByGeneration, void: Callable[[int, BitMap64], BitMap64]
    ) -> ByGeneration:
        """Leave out ack ids that are `void`, except those of a live lease.

        An ack id of before its message was reopened says nothing about the reopened message. A
        lease that was live through the reopening does.
        """
        kept: dict[int, Sequence[Offset]] = {}
        for generation, offsets in by_generation.items():
            named = BitMap64(offsets)
            left_out = void(generation, named)
            for _, held in self.matching(generation, left_out):
                left_out -= held
            kept[generation] = list(named - left_out)
        return kept

    @staticmethod
    def offsets_of(runs: Sequence[LeasedRun]) -> BitMap64:
        offsets = BitMap64()
        for run in runs:
            offsets.add_range(run.start, run.end)
        return offsets

    def grant(self, lease: Lease) -> None:
        """Add a new lease, of which nothing is settled yet, and count it where it counts."""
        self.add(lease)
        messages, size_bytes = len(lease.open), sum([run.size_bytes for run in lease.runs])
        if lease.credit is not None:
            lease.credit.take(messages, size_bytes)
        if self.window is not None:
            self.window.take(messages, size_bytes)

    def add(self, lease: Lease) -> None:
        self._by_generation.setdefault(lease.generation, []).append(lease)
        self._push(lease)
        self.changed.add((lease.generation, lease.part))

    def mark_all_changed(self) -> None:
        """Have a record made of every lease: they become hard state."""
        self.changed.update((lease.generation, lease.part) for lease in self)

    def settle(self, lease: Lease, offsets: BitMap64) -> None:
        """Take out `offsets`, which are acknowledged or released; an empty lease is over."""
        if self.window is not None:
            self.window.give(len(offsets), lease.size_of(offsets))
        lease.settle(offsets)
        if self.on_end is not None:
            self.on_end(offsets)
        self.changed.add((lease.generation, lease.part))
        if not lease.open:
            parts = self._by_generation[lease.generation]
            parts.remove(lease)
            if not parts:
                del self._by_generation[lease.generation]

    def settle_all(self, matched: Sequence[Matched]) -> BitMap64:
        """Settle each of `matched`; return all their offsets."""
        for lease, offsets in matched:
            self.settle(lease, offsets)
        return BitMap64().union(*(offsets for _, offsets in matched))

    def of(self, consumer: Credit, *, after: int = -1) -> list[Lease]:
        """The leases of a consumer of generations later than `after`. Linear in leases."""
        return [x for x in self if x.credit is consumer and x.generation > after]

    def abandon(self, consumer: Credit) -> None:
        """A consumer is gone: its leases count against no credit."""
        for lease in self.of(consumer):
            lease.credit = None

    def extend(self, lease: Lease, offsets: BitMap64, deadline_s: float) -> None:
        """Give `offsets` of `lease` a new deadline; the rest of it keeps its own."""
        if len(offsets) == len(lease.open):
            lease.deadline_s = deadline_s
            self.changed.add((lease.generation, lease.part))
            self._push(lease)
            return
        lease.open = lease.open - offsets
        self.changed.add((lease.generation, lease.part))
        part = 1 + max(p.part for p in self.parts(lease.generation))
        number, runs, credit = lease.generation, lease.runs, lease.credit
        times = lease.granted_s, lease.published_s
        self.add(Lease(number, part, deadline_s, offsets, runs, credit, *times))

    def holding(self, offsets: BitMap64) -> list[Matched]:
        """The leases that hold some of `offsets`. Linear in leases: for the rare paths only."""
        return [(lease, held) for lease in self if (held := lease.open & offsets)]

    def release(self, offsets: BitMap64) -> BitMap64:
        """Settle `offsets` in every lease; return those that were leased. Linear in leases."""
        released = BitMap64()
        for lease, held in self.holding(offsets):
            self.settle(lease, held)
            released |= held
        return released

    def due(self, now: float) -> list[Lease]:
        """The leases past their deadline. They stay in the table until they are settled."""
        due: dict[tuple[int, int], Lease] = {}
        while self._heap and self._heap[0][0] <= now:
            _, generation, number = heapq.heappop(self._heap)
            lease = self.part(generation, number)
            # An extended lease left its old deadline in the heap: removing it there would take a
            # search for each extension.
            if lease is not None and lease.deadline_s <= now:
                due[generation, number] = lease
        return list(due.values())

    def next_deadline(self) -> float | None:
        while self._heap:
            deadline_s, generation, number = self._heap[0]
            lease = self.part(generation, number)
            if lease is not None and lease.deadline_s <= deadline_s:
                return deadline_s
            heapq.heappop(self._heap)
        return None

    def clear(self) -> None:
        """Drop every lease and give all credit back."""
        for lease in list(self):
            self.settle(lease, lease.open)
        self._heap.clear()

    def _push(self, lease: Lease) -> None:
        heapq.heappush(self._heap, (lease.deadline_s, lease.generation, lease.part))


def take_out(live: list[Matched], offsets: BitMap64) -> list[tuple[int, Offset]]:
    """Take `offsets` out of the matches of a request; return the ids that named them."""
    if not offsets:
        return []
    taken = [(lease.generation, o) for lease, some in live for o in some & offsets]
    live[:] = [(lease, rest) for lease, some in live if (rest := some - offsets)]
    return taken
