"""What one owner has acknowledged in one partition: a floor, and a set above it.

The set is kept in chunks of `limits.CURSOR_CHUNK_OFFSETS`, so that an acknowledgement rewrites the
chunks it touches and nothing else. Verbs return a `CursorChange`, they change nothing; the records
made of it come back through `apply_head` and `apply_chunk`. All of a cursor is hard state.

Invariants:
1. Every offset below the floor is acknowledged; the floor itself is not.
2. A chunk holds only offsets above the floor, and is never empty.
3. Bitmaps in `chunks` are shared with records and never changed in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pyroaring import BitMap64

from fanlog.limits import CURSOR_CHUNK_OFFSETS
from fanlog.model import Offset

#: A half-open range of offsets.
Range = tuple[Offset, Offset]


@dataclass(frozen=True, slots=True)
class CursorChange:
    """The floor after the change, and each chunk that becomes other (None: empty)."""

    floor: Offset
    chunks: Mapping[int, BitMap64 | None] = field(default_factory=dict)


class Cursor:
    """A floor and what is acknowledged above it. Not safe to share between threads."""

    __slots__ = ("chunks", "floor")

    def __init__(self, floor: Offset = 0, chunks: Mapping[int, BitMap64] | None = None) -> None:
        self.floor = floor
        self.chunks: dict[int, BitMap64] = dict(chunks or {})

    def __contains__(self, offset: Offset) -> bool:
        if offset < self.floor:
            return True
        bits = self.chunks.get(offset // CURSOR_CHUNK_OFFSETS)
        return bits is not None and offset in bits

    @property
    def acked_above_floor(self) -> int:
        return sum(len(bits) for bits in self.chunks.values())

    def unacked_ranges(self, start: Offset, end: Offset) -> Iterator[Range]:
        """Runs of unacknowledged offsets in `[start, end)`, in order."""
        start = max(start, self.floor)
        while start < end:
            chunk = start // CURSOR_CHUNK_OFFSETS
            chunk_end = min(end, (chunk + 1) * CURSOR_CHUNK_OFFSETS)
            bits = self.chunks.get(chunk)
            if bits is None:
                # Untouched chunks in a row make one range.
                while chunk_end < end and chunk_end // CURSOR_CHUNK_OFFSETS not in self.chunks:
                    chunk_end = min(end, chunk_end + CURSOR_CHUNK_OFFSETS)
                yield start, chunk_end
            else:
                yield from runs(bits.flip(start, chunk_end) & BitMap64(range(start, chunk_end)))
            start = chunk_end

    def acknowledge(self, offsets: BitMap64, *, below: Offset = 0) -> CursorChange:
        """The change that acknowledges `offsets`, and everything below `below`.

        Those already acknowledged change nothing.
        """
        chunks: dict[int, BitMap64 | None] = {}
        if offsets and offsets.max() >= self.floor:
            if offsets.min() < self.floor:
                offsets = offsets & BitMap64(range(self.floor, offsets.max() + 1))
            first = offsets.min() // CURSOR_CHUNK_OFFSETS
            last = offsets.max() // CURSOR_CHUNK_OFFSETS
            for chunk in range(first, last + 1):
                added = offsets if first == last else offsets & _chunk_range(chunk)
                if added:
                    bits = self.chunks.get(chunk)
                    chunks[chunk] = added if bits is None else bits | added
        return self._settled(max(below, self.floor), chunks)

    def seek(self, target: Offset, retained_from: Offset) -> CursorChange:
        """The change that acknowledges all below `target` and reopens what is retained above it.

        What lies in `[target, retained_from)` is not retained once acknowledged, so there only
        the still unacknowledged is open afterwards.
        """
        if target >= retained_from:
            return CursorChange(target, dict.fromkeys(self.chunks))
        if self.floor >= retained_from:
            return CursorChange(retained_from, dict.fromkeys(self.chunks))
        kept: dict[int, BitMap64 | None] = dict.fromkeys(self.chunks)
        window = BitMap64(range(min(target, self.floor), retained_from))
        for chunk, bits in self.chunks.items():
            kept[chunk] = (bits & window) or None
        return self._settled(max(target, self.floor), kept)

    def copied_from(self, other: Cursor, *, at_least: Offset) -> CursorChange:
        """The change that makes this cursor equal to `other`, nothing open below `at_least`."""
        chunks: dict[int, BitMap64 | None] = dict.fromkeys(self.chunks)
        chunks.update(other.chunks)
        return self._settled(max(other.floor, at_least), chunks)

    def apply_head(self, floor: Offset) -> None:
        self.floor = floor

    def apply_chunk(self, chunk: int, bits: BitMap64 | None) -> None:
        if bits is None:
            self.chunks.pop(chunk, None)
        else:
            self.chunks[chunk] = bits

    def _settled(self, floor: Offset, chunks: dict[int, BitMap64 | None]) -> CursorChange:
        """Move the floor over what is acknowledged, and drop what it has passed."""

        def bits_of(chunk: int) -> BitMap64 | None:
            return chunks[chunk] if chunk in chunks else self.chunks.get(chunk)

        while True:
            chunk = floor // CURSOR_CHUNK_OFFSETS
            bits = bits_of(chunk)
            if bits is None or floor not in bits:
                break
            gaps = bits.flip(floor, (chunk + 1) * CURSOR_CHUNK_OFFSETS)
            gap = gaps.next_set_bit(floor) if gaps and gaps.max() >= floor else None
            floor = (chunk + 1) * CURSOR_CHUNK_OFFSETS if gap is None else gap
        for chunk in [*self.chunks, *(c for c in chunks if c not in self.chunks)]:
            bits = bits_of(chunk)
            if bits is None or bits.min() >= floor:
                continue
            above = bits & BitMap64(range(floor, (chunk + 1) * CURSOR_CHUNK_OFFSETS))
            chunks[chunk] = above or None
        # What stays as it is stored, or stays absent, is no change.
        changed = {c: bits for c, bits in chunks.items() if bits != self.chunks.get(c)}
        return CursorChange(floor, changed)


def runs(bits: BitMap64) -> Iterator[Range]:
    """The runs of consecutive numbers. What it costs is how many runs there are, not numbers."""
    # Where one begins and where it ends, in turn.
    edges = iter(bits ^ bits.shift(1))
    return zip(edges, edges, strict=True)


def _chunk_range(chunk: int) -> BitMap64:
    return BitMap64(range(chunk * CURSOR_CHUNK_OFFSETS, (chunk + 1) * CURSOR_CHUNK_OFFSETS))
