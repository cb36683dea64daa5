"""Tables of the index: given a value, the slots filed under all predicates that the value meets.

Each table is a mapping from a predicate's key to one slot, a value of the caller's, with a method
that finds slots by a value. Its cost grows with the number of slots found, and with the logarithm
of the number of keys; adding and deleting move a chunk of keys at most.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from math import inf, nextafter
from struct import Struct
from typing import Any, Generic, Protocol, TypeVar

#: A chunk of a sorted list that grows past this is cut in halves.
CHUNK_MAX = 512
#: So many intervals are looked at one by one; more are sorted.
LOOSE_MAX = 8
#: Slots that are remembered for the values between two bounds.
REMEMBERED_MAX = 16
#: How much of a string decides where its intervals are filed.
STRING_BYTES = 48

Slot = TypeVar("Slot")
#: Numbers in one table, strings in another, or pairs of either: values with an order.
Bound = Any


class SlotTable(Protocol[Slot]):
    """The part of a dict's methods that all tables have."""

    def get(self, key: Bound, /) -> Slot | None: ...
    def __setitem__(self, key: Bound, slot: Slot, /) -> None: ...
    def __delitem__(self, key: Bound, /) -> None: ...
    def __len__(self) -> int: ...


class PrefixTable(Generic[Slot]):
    """Prefixes, hashed: one look-up for each length that some prefix has."""

    __slots__ = ("_lengths", "_prefix_counts", "_slots")

    def __init__(self) -> None:
        self._slots: dict[str, Slot] = {}
        self._prefix_counts: dict[int, int] = {}
        self._lengths: list[int] = []

    def __len__(self) -> int:
        return len(self._slots)

    def get(self, prefix: str) -> Slot | None:
        return self._slots.get(prefix)

    def __setitem__(self, prefix: str, slot: Slot) -> None:
        if prefix not in self._slots:
            length = len(prefix)
            self._prefix_counts[length] = self._prefix_counts.get(length, 0) + 1
            self._lengths = sorted(self._prefix_counts)
        self._slots[prefix] = slot

    def __delitem__(self, prefix: str) -> None:
        del self._slots[prefix]
        self._prefix_counts[len(prefix)] -= 1
        if not self._prefix_counts[len(prefix)]:
            del self._prefix_counts[len(prefix)]
            self._lengths = sorted(self._prefix_counts)

    def find(self, text: str) -> list[Slot]:
        found = []
        slots, size = self._slots, len(text)
        for length in self._lengths:
            if length > size:
                break
            slot = slots.get(text[:length])
            if slot is not None:
                found.append(slot)
        return found


class SortedTable(Generic[Slot]):
    """Keys in order, in chunks, so that a large table need not move as a whole."""

    __slots__ = ("_count", "_firsts", "_keys", "_slots")

    def __init__(self) -> None:
        self._count = 0
        #: The first key of each chunk; its keys; their slots.
        self._firsts: list[Bound] = []
        self._keys: list[list[Bound]] = []
        self._slots: list[list[Slot]] = []

    def __len__(self) -> int:
        return self._count

    def get(self, key: Bound) -> Slot | None:
        chunk, place, is_there = self._find(key)
        return self._slots[chunk][place] if is_there else None

    def __setitem__(self, key: Bound, slot: Slot) -> None:
        chunk, place, is_there = self._find(key)
        if is_there:
            self._slots[chunk][place] = slot
            return
        self._count += 1
        if not self._keys:
            self._firsts, self._keys, self._slots = [key], [[key]], [[slot]]
            return
        keys, slots = self._keys[chunk], self._slots[chunk]
        keys.insert(place, key)
        slots.insert(place, slot)
        self._firsts[chunk] = keys[0]
        if len(keys) > CHUNK_MAX:
            self._cut(chunk)

    def __delitem__(self, key: Bound) -> None:
        chunk, place, is_there = self._find(key)
        if not is_there:
            raise KeyError(key)
        self._count -= 1
        keys = self._keys[chunk]
        del keys[place], self._slots[chunk][place]
        if keys:
            self._firsts[chunk] = keys[0]
        else:
            del self._firsts[chunk], self._keys[chunk], self._slots[chunk]

    def floor(self, value: Bound) -> Bound | None:
        """The greatest key that is not greater; None if there is none."""
        chunk = bisect_right(self._firsts, value)
        if not chunk:
            return None
        keys = self._keys[chunk - 1]
        return keys[bisect_right(keys, value) - 1]

    def below(self, bound: Bound) -> list[Slot]:
        """The slots of all keys less than this."""
        chunk = bisect_left(self._firsts, bound) - 1
        if chunk < 0:
            return []
        found = self._slots[chunk][: bisect_left(self._keys[chunk], bound)]
        for slots in self._slots[:chunk]:
            found += slots
        return found

    def since(self, bound: Bound) -> list[Slot]:
        """The slots of all other keys."""
        chunk = max(0, bisect_left(self._firsts, bound) - 1)
        if chunk == len(self._firsts):
            return []
        found = self._slots[chunk][bisect_left(self._keys[chunk], bound) :]
        for slots in self._slots[chunk + 1 :]:
            found += slots
        return found

    def _find(self, key: Bound) -> tuple[int, int, bool]:
        if not self._keys:
            return 0, 0, False
        # Of the chunks that begin at or below the key, the last; the first chunk, if none does.
        chunk = bisect_left(self._firsts, key)
        if chunk == len(self._firsts) or key < self._firsts[chunk]:
            chunk = max(0, chunk - 1)
        keys = self._keys[chunk]
        place = bisect_left(keys, key)
        return chunk, place, place < len(keys) and not key < keys[place]

    def _cut(self, chunk: int) -> None:
        keys, slots = self._keys[chunk], self._slots[chunk]
        half = len(keys) // 2
        self._keys[chunk : chunk + 1] = [keys[:half], keys[half:]]
        self._slots[chunk : chunk + 1] = [slots[:half], slots[half:]]
        self._firsts.insert(chunk + 1, keys[half])


class RangeTable(Generic[Slot]):
    """Half-open ranges, with one bound or with two: keys are `(low, high)`, None for no bound.

    With one bound, the ranges that hold a value are one end of the sorted bounds. With two, each is
    filed at home: in the smallest cell of a fixed binary division of the line that has room for it.
    All intervals of a home hold its middle, so that those that hold a value left of the middle are
    again one end of the sorted low bounds, and right of it of the high ones. A value looks into one
    cell of each size in use: a few, and never more than a position has bits.

    Between two neighbouring bounds all values are held by the same ranges. The slots found there
    are remembered until the next change, if they are few: many slots cost their caller more than
    the search does.
    """

    __slots__ = (
        "_after",
        "_bounds",
        "_highs",
        "_homes",
        "_lows",
        "_met_from",
        "_position",
        "_range_count",
    )

    def __init__(self, after: Callable[[Bound], Bound], position: Callable[[Bound], int]) -> None:
        #: The next value that there can be.
        self._after = after
        #: Where a value lies on the line; a greater one lies at the same place or further on.
        self._position = position
        self._lows: SortedTable[Slot] = SortedTable()
        self._highs: SortedTable[Slot] = SortedTable()
        #: By the cells' size, as a number of bits, and by their place among those of this size.
        self._homes: dict[int, dict[int, _Home[Slot]]] = {}
        #: Every bound, and how many ranges have it.
        self._bounds: SortedTable[int] = SortedTable()
        #: The slots that values meet from a bound on to the next; None is before the first.
        self._met_from: dict[Bound, list[Slot]] = {}
        self._range_count = 0

    def __len__(self) -> int:
        return self._range_count

    def get(self, key: tuple[Bound, Bound]) -> Slot | None:
        low, high = key
        if high is None:
            return self._lows.get(low)
        if low is None:
            return self._highs.get(high)
        size, place = self._home(low, high)
        home = self._homes.get(size, {}).get(place)
        return None if home is None else home.get(key)

    def __setitem__(self, key: tuple[Bound, Bound], slot: Slot) -> None:
        if self.get(key) is None:
            self._count(key, 1)
        self._met_from = {}
        low, high = key
        if high is None:
            self._lows[low] = slot
        elif low is None:
            self._highs[high] = slot
        else:
            size, place = self._home(low, high)
            homes = self._homes.setdefault(size, {})
            home = homes.setdefault(place, {})
            home[key] = slot
            # Cells of size 0 have no halves; strings in one differ only after `STRING_BYTES`.
            if isinstance(home, dict) and len(home) > LOOSE_MAX and size:
                homes[place] = _SortedHome(home)

    def __delitem__(self, key: tuple[Bound, Bound]) -> None:
        low, high = key
        if high is None:
            del self._lows[low]
        elif low is None:
            del self._highs[high]
        else:
            size, place = self._home(low, high)
            home = self._homes[size][place]
            del home[key]
            if not home:
                del self._homes[size][place]
                if not self._homes[size]:
                    del self._homes[size]
        self._count(key, -1)
        self._met_from = {}

    def find(self, value: Bound) -> list[Slot]:
        """Give the slots of the ranges that hold a value, in a list that is not the caller's."""
        start = self._bounds.floor(value)
        found = self._met_from.get(start)
        if found is None:
            found = self._search(value)
            if len(found) <= REMEMBERED_MAX:
                self._met_from[start] = found
        return found

    def _search(self, value: Bound) -> list[Slot]:
        after = self._after(value)
        found = self._lows.below(after)
        found += self._highs.since(after)
        position = self._position(value)
        for size, homes in self._homes.items():
            home = homes.get(position >> size)
            if home is None:
                continue
            if isinstance(home, dict):
                for (low, high), slot in home.items():
                    if low <= value < high:
                        found.append(slot)
            elif position >> (size - 1) & 1:
                found += home.by_high.since((after,))
            else:
                found += home.by_low.below((after,))
        return found

    def _home(self, low: Bound, high: Bound) -> tuple[int, int]:
        start, end = self._position(low), self._position(high)
        size = (start ^ end).bit_length()
        return size, start >> size

    def _count(self, key: tuple[Bound, Bound], change: int) -> None:
        self._range_count += change
        for bound in key:
            if bound is not None:
                count = (self._bounds.get(bound) or 0) + change
                if count:
                    self._bounds[bound] = count
                else:
                    del self._bounds[bound]


class _SortedHome(Generic[Slot]):
    """Many intervals of one home, by either bound."""

    __slots__ = ("by_high", "by_low")

    def __init__(self, intervals: dict[tuple[Bound, Bound], Slot]) -> None:
        self.by_low: SortedTable[Slot] = SortedTable()
        self.by_high: SortedTable[Slot] = SortedTable()
        for key, slot in intervals.items():
            self[key] = slot

    def __len__(self) -> int:
        return len(self.by_low)

    def get(self, key: tuple[Bound, Bound]) -> Slot | None:
        return self.by_low.get(key)

    def __setitem__(self, key: tuple[Bound, Bound], slot: Slot) -> None:
        self.by_low[key] = slot
        self.by_high[key[::-1]] = slot

    def __delitem__(self, key: tuple[Bound, Bound]) -> None:
        del self.by_low[key]
        del self.by_high[key[::-1]]


_Home = dict[tuple[Bound, Bound], Slot] | _SortedHome[Slot]

_DOUBLE, _BITS = Struct(">d").pack, Struct(">q").unpack


def number_ranges() -> RangeTable[Slot]:
    """Make a table of ranges of doubles."""
    return RangeTable(lambda number: nextafter(number, inf), _number_position)


def string_ranges() -> RangeTable[Slot]:
    """Make a table of ranges of strings."""
    return RangeTable(lambda text: text + "\0", _string_position)


def _number_position(number: float) -> int:
    """The bits of a double, turned so that they grow as it does; both zeros are one."""
    bits: int = _BITS(_DOUBLE(number))[0]
    return -bits if bits < 0 else bits + 2**63


def _string_position(text: str) -> int:
    """The first bytes of a string in UTF-8: their order is the order of code points."""
    start = text[:STRING_BYTES].encode("utf-8", "surrogatepass")[:STRING_BYTES]
    return int.from_bytes(start.ljust(STRING_BYTES, b"\0"), "big")
