"""The acknowledged offsets of one owner in one partition: a floor, and a set above it.

The set is kept in chunks of `limits.CURSOR_CHUNK_OFFSETS`, so that an acknowledgement rewrites the
chunks it touches and nothing else. Verbs return a `CursorChange`, they change nothing; the records
made of it come back through `apply_head`, `apply_chunk` and `apply_reopened`. All of a cursor is
hard state.

Offsets that were acknowledged and then reopened (`fanlog.core.reopening`) lie over the rest: the
*mark* is where the floor would be without them.

Invariants:
1. Every offset below the floor is acknowledged; the floor itself is not.
2. Every offset below the mark is acknowledged or reopened; the floor is the mark, or below it the
   first that is reopened.
3. A chunk holds only offsets above the mark, and is never empty.
4. Bitmaps in `chunks` are shared with records and never changed in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pyroaring import BitMap64

from fanlog.core.reopening import ChunkChanges, OpenChunk, Reopened, by_chunk
from fanlog.limits import CURSOR_CHUNK_OFFSETS
from fanlog.model.resources import Offset

#: A half-open range of offsets.
Range = tuple[Offset, Offset]


@dataclass(frozen=True, slots=True)
class CursorChange:
    """The mark after the change, and each chunk that becomes other (None: empty)."""

    mark: Offset
    chunks: Mapping[int, BitMap64 | None] = field(default_factory=dict)
    reopened: ChunkChanges = field(default_factory=dict)


class Cursor:
    """A floor and the acknowledged offsets above it. Not safe to share between threads."""

    __slots__ = ("chunks", "floor", "mark", "reopened")

    def __init__(self, floor: Offset = 0, chunks: Mapping[int, BitMap64] | None = None) -> None:
        #: Lowest offset that is not acknowledged.
        self.floor = floor
        #: The same, were nothing reopened.
        self.mark = floor
        self.chunks: dict[int, BitMap64] = dict(chunks or {})
        self.reopened = Reopened()

    def __contains__(self, offset: Offset) -> bool:
        if offset < self.floor:
            return True
        if self.reopened and offset in self.reopened:
            return False
        if offset < self.mark:
            return True
        bits = self.chunks.get(offset // CURSOR_CHUNK_OFFSETS)
        return bits is not None and offset in bits

    def open_before(self, end: Offset) -> int:
        """How many offsets before `end` are not acknowledged; all of them are below it."""
        return max(0, end - self.mark - self.acked_above_mark) + len(self.reopened)

    def open_offsets(self, end: Offset) -> BitMap64:
        """Every offset before `end` that is not acknowledged."""
        found = BitMap64(range(self.mark, max(self.mark, end)))
        if self.chunks:
            found -= BitMap64().union(*self.chunks.values())
        return found | self.reopened.within(0, end) if self.reopened else found

    @property
    def acked_above_mark(self) -> int:
        return sum(len(bits) for bits in self.chunks.values())

    def acknowledged(self, offsets: BitMap64) -> BitMap64:
        """Those of `offsets` that are acknowledged."""
        below = offsets.copy()
        if offsets and offsets.max() >= self.mark:
            below.remove_range(self.mark, offsets.max() + 1)
            for number, some in by_chunk(offsets - below):
                bits = self.chunks.get(number)
                if bits is not None:
                    below |= some & bits
        if below and self.reopened:
            below -= self.reopened.within(below.min(), below.max() + 1)
        return below

    def unacked_ranges(self, start: Offset, end: Offset) -> Iterator[Range]:
        """Runs of unacknowledged offsets in `[start, end)`, in order."""
        if not self.reopened:
            return self._never_acked(start, end)
        return self._open_or_reopened(max(start, self.floor), end)

    def _open_or_reopened(self, start: Offset, end: Offset) -> Iterator[Range]:
        """The same, where some are reopened."""
        for number in self.reopened.numbers(start, end):
            low = max(start, number * CURSOR_CHUNK_OFFSETS)
            high = min(end, (number + 1) * CURSOR_CHUNK_OFFSETS)
            yield from self._never_acked(start, low)
            found = self.reopened.chunks[number].bits & BitMap64(range(low, high))
            for first, last in self._never_acked(low, high):
                found.add_range(first, last)
            yield from runs(found)
            start = high
        yield from self._never_acked(start, end)

    def _never_acked(self, start: Offset, end: Offset) -> Iterator[Range]:
        """The same, of offsets that are not reopened."""
        start = max(start, self.mark)
        while start < end:
            chunk = start // CURSOR_CHUNK_OFFSETS
            chunk_end = min(end, (chunk + 1) * CURSOR_CHUNK_OFFSETS)
            bits = self.chunks.get(chunk)
            if bits is None or bits.max() < start:
                # Nothing is acknowledged from here on. Such chunks in a row make one range.
                while chunk_end < end and chunk_end // CURSOR_CHUNK_OFFSETS not in self.chunks:
                    chunk_end = min(end, chunk_end + CURSOR_CHUNK_OFFSETS)
                yield start, chunk_end
            else:
                yield from runs(bits.flip(start, chunk_end) & BitMap64(range(start, chunk_end)))
            start = chunk_end

    def acknowledge(
        self, offsets: BitMap64, *, below: Offset = 0, keeping: BitMap64 | None = None
    ) -> CursorChange:
        """The change that acknowledges `offsets`, and everything below `below`.

        Those already acknowledged change nothing. Of reopened offsets, `keeping` stay so.
        """
        reopened: ChunkChanges = {}
        if self._continues(offsets, below):
            return CursorChange(offsets.max() + 1, {}, reopened)
        if self.reopened:
            closed = self.reopened.within(0, below)
            if keeping is not None:
                closed -= keeping
            reopened = self.reopened.remove(closed | offsets)
        chunks: dict[int, BitMap64 | None] = {}
        if offsets and offsets.max() >= self.mark:
            if offsets.min() < self.mark:
                offsets = offsets & BitMap64(range(self.mark, offsets.max() + 1))
            for chunk, added in by_chunk(offsets):
                bits = self.chunks.get(chunk)
                chunks[chunk] = added if bits is None else bits | added
        return self._settle(max(below, self.mark), chunks, reopened)

    def _continues(self, offsets: BitMap64, below: Offset) -> bool:
        """Whether `offsets` are a run from the mark on, and nothing lies above or is reopened."""
        if self.chunks or self.reopened or below > self.mark or not offsets:
            return False
        return offsets.min() == self.mark and offsets.max() - self.mark + 1 == len(offsets)

    def seek(self, target: Offset, retained_from: Offset) -> CursorChange:
        """The change that acknowledges all below `target` and reopens retained offsets above it.

        Messages in `[target, retained_from)` are not retained once they are acknowledged, so there
        only the still unacknowledged ones are open afterwards.
        """
        if target >= retained_from:
            return CursorChange(
                target, dict.fromkeys(self.chunks), dict.fromkeys(self.reopened.chunks)
            )
        reopened = self.reopened.restrict(target, retained_from)
        if self.mark >= retained_from:
            return CursorChange(retained_from, dict.fromkeys(self.chunks), reopened)
        kept: dict[int, BitMap64 | None] = dict.fromkeys(self.chunks)
        window = BitMap64(range(min(target, self.mark), retained_from))
        for chunk, bits in self.chunks.items():
            kept[chunk] = (bits & window) or None
        return self._settle(max(target, self.mark), kept, reopened)

    def copy_from(self, other: Cursor, *, at_least: Offset) -> CursorChange:
        """The change that makes this cursor equal to `other`, nothing open below `at_least`."""
        chunks: dict[int, BitMap64 | None] = dict.fromkeys(self.chunks)
        chunks.update(other.chunks)
        copied = {
            **other.reopened.chunks,
            **other.reopened.remove(other.reopened.within(0, at_least)),
        }
        reopened: dict[int, OpenChunk | None] = dict.fromkeys(self.reopened.chunks)
        reopened |= {n: opened for n, opened in copied.items() if opened is not None}
        return self._settle(max(other.mark, at_least), chunks, reopened)

    def floor_after(self, change: CursorChange) -> Offset:
        """The floor once `change` is applied."""
        lowest = self.reopened.lowest_after(change.reopened)
        return change.mark if lowest is None else min(lowest, change.mark)

    def apply_head(self, mark: Offset) -> None:
        self.mark = mark
        self._find_floor()

    def apply_chunk(self, chunk: int, bits: BitMap64 | None) -> None:
        if bits is None:
            self.chunks.pop(chunk, None)
        else:
            self.chunks[chunk] = bits

    def apply_reopened(self, chunk: int, opened: OpenChunk | None) -> None:
        self.reopened.apply(chunk, opened)
        self._find_floor()

    def _find_floor(self) -> None:
        lowest = self.reopened.lowest
        self.floor = self.mark if lowest is None else min(lowest, self.mark)

    def _settle(
        self, mark: Offset, chunks: dict[int, BitMap64 | None], reopened: ChunkChanges
    ) -> CursorChange:
        """Move the mark over acknowledged offsets, and drop the parts of chunks that it has passed.

        A cursor that is acknowledged in order so stays one number, however far it comes.
        """

        def bits_of(chunk: int) -> BitMap64 | None:
            return chunks[chunk] if chunk in chunks else self.chunks.get(chunk)

        while True:
            chunk = mark // CURSOR_CHUNK_OFFSETS
            bits = bits_of(chunk)
            if bits is None or mark not in bits:
                break
            gaps = bits.flip(mark, (chunk + 1) * CURSOR_CHUNK_OFFSETS)
            gap = gaps.next_set_bit(mark) if gaps and gaps.max() >= mark else None
            mark = (chunk + 1) * CURSOR_CHUNK_OFFSETS if gap is None else gap
        for chunk in [*self.chunks, *(c for c in chunks if c not in self.chunks)]:
            bits = bits_of(chunk)
            if bits is None or bits.min() >= mark:
                continue
            above = bits & BitMap64(range(mark, (chunk + 1) * CURSOR_CHUNK_OFFSETS))
            chunks[chunk] = above or None
        # A chunk that stays as it is stored, or stays absent, is no change and costs no record.
        changed = {c: bits for c, bits in chunks.items() if bits != self.chunks.get(c)}
        return CursorChange(mark, changed, reopened)


def runs(bits: BitMap64) -> Iterator[Range]:
    """The runs of consecutive numbers. The cost is in the number of runs, not of numbers."""
    # Where one begins and where it ends, in turn.
    edges = iter(bits ^ bits.shift(1))
    return zip(edges, edges, strict=True)
