"""Values kept for the next time, up to a number of bytes; the one unused for longest goes first."""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class SizedCache(Generic[K, V]):
    """A cache that is bounded by the bytes of its values, not by their number."""

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._values: dict[K, tuple[V, int]] = {}
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """The value of a key, which is the newest now."""
        found = self._values.pop(key, None)
        if found is None:
            return None
        self._values[key] = found
        return found[0]

    def put(self, key: K, value: V, size: int) -> None:
        """Keep a value of so many bytes, and let others go for it; one too large is not kept."""
        self.drop(key)
        if size > self._size_max:
            return
        self._values[key] = value, size
        self.size_bytes += size
        while self.size_bytes > self._size_max:
            self.drop(next(iter(self._values)))

    def drop(self, key: K) -> None:
        found = self._values.pop(key, None)
        if found is not None:
            self.size_bytes -= found[1]
