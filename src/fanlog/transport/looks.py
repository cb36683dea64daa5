"""Times at which items are to be looked at: the earliest first, and the others cost nothing.

No clock, no loop.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

#: Hashable.
Item = TypeVar("Item")

#: Entries of items that were removed, or have an earlier time, before they are cleared away.
_STALE_MAX: Final = 100


class Looks(Generic[Item]):
    """One time an item. Soft state."""

    __slots__ = ("_heap", "_number", "_times")

    def __init__(self) -> None:
        #: The time of each item, and the number of its entry.
        self._times: dict[Item, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, Item]] = []
        self._number = 0

    def put(self, item: Item, time: float) -> None:
        """Look at an item at a time, unless it is looked at before."""
        known = self._times.get(item)
        if known is not None and known[0] <= time:
            return
        self._number += 1
        self._times[item] = (time, self._number)
        heappush(self._heap, (time, self._number, item))
        self._clear()

    def remove(self, item: Item) -> None:
        if self._times.pop(item, None) is not None:
            self._clear()

    def due(self, now: float) -> list[Item]:
        """Items whose time has come; they have none any more."""
        found: list[Item] = []
        heap, times = self._heap, self._times
        while heap and heap[0][0] <= now:
            time, number, item = heappop(heap)
            if times.get(item) == (time, number):
                del times[item]
                found.append(item)
        return found

    def _clear(self) -> None:
        """Forget stale entries once they are most: each keeps its item in memory."""
        if len(self._heap) > 2 * len(self._times) + _STALE_MAX:
            self._heap = [(time, number, item) for item, (time, number) in self._times.items()]
            heapify(self._heap)
