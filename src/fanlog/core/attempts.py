"""How often each message failed on one subscription: nacks and expired leases.

Hard state under a dead letter policy (the share writes the chunks it touches), soft otherwise:
without a policy the counts only shape the back-off.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyroaring import BitMap64

from fanlog.limits import ATTEMPTS_CHUNK_OFFSETS
from fanlog.model.resources import Offset

#: Counts are stored in a byte.
COUNT_MAX = 255
#: One chunk: index within it and count, only those above zero.
Counts = tuple[tuple[int, int], ...]


class Attempts:
    """Counts by offset, in chunks; a chunk exists only while it holds a count."""

    __slots__ = ("_chunks",)

    def __init__(self) -> None:
        self._chunks: dict[int, dict[int, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def __getitem__(self, offset: Offset) -> int:
        chunk = self._chunks.get(offset // ATTEMPTS_CHUNK_OFFSETS)
        return 0 if chunk is None else chunk.get(offset % ATTEMPTS_CHUNK_OFFSETS, 0)

    def increase(self, offsets: Iterable[Offset]) -> dict[int, Counts]:
        """The chunks that change when each of `offsets` is counted once more, as they are then."""
        touched: dict[int, dict[int, int]] = {}
        for offset in offsets:
            number, index = divmod(offset, ATTEMPTS_CHUNK_OFFSETS)
            if number not in touched:
                touched[number] = dict(self._chunks.get(number, {}))
            chunk = touched[number]
            chunk[index] = min(COUNT_MAX, chunk.get(index, 0) + 1)
        return {number: tuple(sorted(chunk.items())) for number, chunk in touched.items()}

    def clear(self, offsets: BitMap64) -> dict[int, Counts | None]:
        """The chunks that change when no failure of `offsets` is counted, as they are then."""
        touched: dict[int, Counts | None] = {}
        for number, chunk in self._chunks.items():
            first = number * ATTEMPTS_CHUNK_OFFSETS
            kept = tuple(sorted(one for one in chunk.items() if first + one[0] not in offsets))
            if len(kept) < len(chunk):
                touched[number] = kept or None
        return touched

    def chunks_below(self, floor: Offset) -> list[int]:
        """Chunks that lie wholly below `floor`: nothing in them can fail again."""
        if not self._chunks:
            return []
        return [n for n in self._chunks if (n + 1) * ATTEMPTS_CHUNK_OFFSETS <= floor]

    def items(self) -> list[tuple[int, Counts | None]]:
        """All chunks, as they are written."""
        return [(number, tuple(sorted(chunk.items()))) for number, chunk in self._chunks.items()]

    def numbers(self) -> list[int]:
        return list(self._chunks)

    def apply(self, number: int, counts: Counts | None) -> None:
        if counts is None:
            self._chunks.pop(number, None)
        else:
            self._chunks[number] = dict(counts)
