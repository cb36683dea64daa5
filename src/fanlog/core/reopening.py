"""Reopened offsets: acknowledged once, and not any more. A set beside a cursor's floor. Hard state.

A cursor's floor and its chunks hold every offset that was ever acknowledged; *reopened* offsets are
taken out of these again, until they are acknowledged once more. So a window of ten million messages
costs a few hundred small records and no copy, and the chunks between it and the floor stay as they
are.

The set is kept in chunks like the cursor's own. A chunk also says

- `fence`: ack ids of earlier generations speak of deliveries from before that, and are void;
- `since_s`: when it was last reopened: from then on its messages are within retention once more;
- `wanted`: the offsets that the filter does not judge again, for they were delivered once.

Invariants:
1. A reopened offset is acknowledged as far as floor and chunks go.
2. A chunk is never empty, and its `wanted` are of its `bits`.
3. Bitmaps are shared with records and never changed in place.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyroaring import BitMap64

from fanlog.limits import CURSOR_CHUNK_OFFSETS
from fanlog.model.resources import Offset


@dataclass(frozen=True, slots=True)
class OpenChunk:
    """The reopened offsets of one chunk."""

    bits: BitMap64
    #: Ack ids of generations below this are void.
    fence: int
    #: When it was last reopened.
    since_s: float
    #: Those of `bits` that the filter let through when it judged them last.
    wanted: BitMap64 = field(default_factory=BitMap64)

    def is_of(self, number: int) -> bool:
        """Whether all of its offsets are those of that chunk."""
        ends = (self.bits.min(), self.bits.max())
        return all(offset // CURSOR_CHUNK_OFFSETS == number for offset in ends)


#: The new content of chunks that change (None: empty).
ChunkChanges = Mapping[int, OpenChunk | None]


class Reopened:
    """The reopened offsets of one cursor. Not safe to share between threads."""

    __slots__ = ("_numbers", "chunks", "lowest")

    def __init__(self) -> None:
        self.chunks: dict[int, OpenChunk] = {}
        # In order, for the lowest offset is asked for all the time.
        self._numbers: list[int] = []
        #: The first offset; None when there is none.
        self.lowest: Offset | None = None

    def __bool__(self) -> bool:
        return bool(self._numbers)

    def __len__(self) -> int:
        return sum(len(chunk.bits) for chunk in self.chunks.values())

    def __contains__(self, offset: Offset) -> bool:
        chunk = self.chunks.get(offset // CURSOR_CHUNK_OFFSETS)
        return chunk is not None and offset in chunk.bits

    def apply(self, number: int, chunk: OpenChunk | None) -> None:
        if chunk is None:
            if self.chunks.pop(number, None) is not None:
                del self._numbers[bisect_left(self._numbers, number)]
        else:
            if number not in self.chunks:
                insort(self._numbers, number)
            self.chunks[number] = chunk
        self.lowest = self.chunks[self._numbers[0]].bits.min() if self._numbers else None

    # Looking.

    def numbers(self, start: Offset, end: Offset) -> Sequence[int]:
        """Chunks that may have offsets of `[start, end)`, in order."""
        first = bisect_left(self._numbers, start // CURSOR_CHUNK_OFFSETS)
        last = bisect_left(self._numbers, -(-end // CURSOR_CHUNK_OFFSETS))
        return self._numbers[first:last]

    def within(self, start: Offset, end: Offset, *, since_s: float | None = None) -> BitMap64:
        """The reopened offsets of `[start, end)`; with `since_s`, of chunks reopened then or later.

        Those are within retention once more, which counts from when they were reopened.
        """
        numbers = self.numbers(start, end)
        if since_s is not None:
            numbers = [n for n in numbers if self.chunks[n].since_s >= since_s]
        return _clip(self._all(numbers), start, end)

    def wanted(self, start: Offset, end: Offset) -> BitMap64:
        """The reopened offsets of `[start, end)` that the filter does not judge."""
        found = BitMap64()
        for number in self.numbers(start, end):
            found |= self.chunks[number].wanted
        return _clip(found, start, end)

    def void(self, generation: int, offsets: BitMap64) -> BitMap64:
        """Those of `offsets` for which an ack id of `generation` is too old."""
        found = BitMap64()
        for number, some in by_chunk(offsets):
            chunk = self.chunks.get(number)
            if chunk is not None and generation < chunk.fence:
                found |= some & chunk.bits
        return found

    # Changing: the new chunks. Nothing is changed before they are applied.

    def add(
        self, offsets: BitMap64, *, fence: int, since_s: float, is_wanted: bool
    ) -> dict[int, OpenChunk | None]:
        changes: dict[int, OpenChunk | None] = {}
        for number, some in by_chunk(offsets):
            before = self.chunks.get(number)
            if before is None:
                wanted = some if is_wanted else BitMap64()
                changes[number] = OpenChunk(some, fence, since_s, wanted)
                continue
            changes[number] = OpenChunk(
                before.bits | some,
                max(fence, before.fence),
                max(since_s, before.since_s),
                before.wanted | some if is_wanted else before.wanted,
            )
        return changes

    def remove(self, offsets: BitMap64) -> dict[int, OpenChunk | None]:
        """Take out offsets that are acknowledged once more."""
        if not offsets or not self._numbers:
            return {}
        changes: dict[int, OpenChunk | None] = {}
        for number in self.numbers(offsets.min(), offsets.max() + 1):
            before = self.chunks[number]
            if not before.bits.isdisjoint(offsets):
                changes[number] = _shrink(before, before.bits - offsets)
        return changes

    def restrict(self, start: Offset, end: Offset) -> dict[int, OpenChunk | None]:
        """Take out all offsets but those in `[start, end)`."""
        changes: dict[int, OpenChunk | None] = {}
        for number in self._numbers:
            before = self.chunks[number]
            bits = _clip(before.bits.copy(), start, end)
            if bits != before.bits:
                changes[number] = _shrink(before, bits)
        return changes

    def lowest_after(self, changes: ChunkChanges) -> Offset | None:
        """The first offset once `changes` are applied."""
        for number in self._numbers if not changes else sorted({*self._numbers, *changes}):
            chunk = changes[number] if number in changes else self.chunks[number]
            if chunk is not None:
                return int(chunk.bits.min())
        return None

    def _all(self, numbers: Sequence[int]) -> BitMap64:
        found = BitMap64()
        for number in numbers:
            found |= self.chunks[number].bits
        return found


def by_chunk(offsets: BitMap64) -> Iterator[tuple[int, BitMap64]]:
    """Offsets by the chunk they are in; the cost is that of the number of chunks."""
    if not offsets:
        return
    position, last = offsets.min(), offsets.max()
    if position // CURSOR_CHUNK_OFFSETS == last // CURSOR_CHUNK_OFFSETS:
        yield position // CURSOR_CHUNK_OFFSETS, offsets
        return
    while True:
        number = position // CURSOR_CHUNK_OFFSETS
        end = (number + 1) * CURSOR_CHUNK_OFFSETS
        yield number, offsets & BitMap64(range(number * CURSOR_CHUNK_OFFSETS, end))
        if end > last:
            return
        position = offsets.next_set_bit(end)


def _clip(offsets: BitMap64, start: Offset, end: Offset) -> BitMap64:
    if offsets:
        offsets.remove_range(0, start)
    if offsets and offsets.max() >= end:
        offsets.remove_range(end, offsets.max() + 1)
    return offsets


def _shrink(chunk: OpenChunk, bits: BitMap64) -> OpenChunk | None:
    return replace(chunk, bits=bits, wanted=chunk.wanted & bits) if bits else None
