"""Bytes that wait for a peer: how many all of them may be together, and which go first.

For requests that are not whole, each counted with its announced length from its first bytes on, and
for answers that are not read. Where all of them are too many, the oldest goes: it had the most
time. No clock, no loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

#: Hashable.
Item = TypeVar("Item")

#: A fall from at least so many bytes, to a quarter of them, is told.
FALL_BYTES: Final = 64 * 1024 * 1024


class Unfinished(Generic[Item]):
    __slots__ = ("_begun", "_bytes_max", "_high_bytes", "_on_fall", "size_bytes")

    def __init__(self, bytes_max: int, on_fall: Callable[[], object] = bool) -> None:
        """`on_fall` is called when there was much, and most of it is gone."""
        self._bytes_max = bytes_max
        self._on_fall = on_fall
        self._high_bytes = 0
        #: In the order they began: size, and when that was.
        self._begun: dict[Item, tuple[int, float]] = {}
        self.size_bytes = 0

    def put(self, item: Item, size_bytes: int, now: float) -> None:
        """An item has so many bytes."""
        before, began = self._begun.get(item, (0, now))
        self.size_bytes += size_bytes - before
        self._high_bytes = max(self._high_bytes, self.size_bytes)
        self._begun[item] = (size_bytes, min(began, now))

    def whole(self, item: Item, size_bytes: int) -> None:
        """An item is not late any more, and still holds its bytes."""
        if item in self._begun:
            self.put(item, size_bytes, math.inf)
            self._begun[item] = (size_bytes, math.inf)

    def remove(self, item: Item) -> None:
        if self._begun and item in self._begun:
            self.size_bytes -= self._begun.pop(item)[0]
            if self._high_bytes >= FALL_BYTES and self.size_bytes * 4 <= self._high_bytes:
                self._high_bytes = self.size_bytes
                self._on_fall()

    def excess(self) -> Item | None:
        """The oldest item, while all together have too many bytes."""
        return self.oldest() if self.size_bytes > self._bytes_max else None

    def oldest(self) -> Item | None:
        return next(iter(self._begun), None)

    def late(self, before: float) -> list[Item]:
        """Items that began before a time, and are still not whole."""
        return [item for item, (_, began) in self._begun.items() if began < before]

    def __contains__(self, item: Item) -> bool:
        return item in self._begun

    def __iter__(self) -> Iterator[Item]:
        return iter(self._begun)

    def __len__(self) -> int:
        return len(self._begun)
