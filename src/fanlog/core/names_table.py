"""Resource names in order, so that pages of a list stay stable while resources come and go."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Generic, TypeVar

Id = TypeVar("Id")


class NamesTable(Generic[Id]):
    """Ids of resources by name, and the names in order."""

    def __init__(self) -> None:
        self.ids: dict[str, Id] = {}
        self._sorted: list[str] = []

    def add(self, name: str, resource_id: Id) -> None:
        if name not in self.ids:
            insort(self._sorted, name)
        self.ids[name] = resource_id

    def remove(self, name: str) -> None:
        del self.ids[name]
        del self._sorted[bisect_left(self._sorted, name)]

    def names_after(self, prefix: str, after: str) -> Iterator[str]:
        """Names with `prefix` that come after `after`, in order."""
        index = bisect_right(self._sorted, after) if after else bisect_left(self._sorted, prefix)
        while index < len(self._sorted) and self._sorted[index].startswith(prefix):
            yield self._sorted[index]
            index += 1
