"""Places: where messages of a partition stand that were held back behind a gap.

A message whose publisher has left a number out is *held*: it has an offset, and nobody gets it.
When the gap is filled, or given up, it takes its place behind the last message that there is then,
its *anchor*: so the message that filled the gap comes before it, on every subscription and after
every seek. Messages that stand elsewhere than their offset says are *moved*.

Hard state, one for all shares of a partition. A partition that never had a gap has none.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence

from pyroaring import BitMap64

from fanlog import limits
from fanlog.core.records import PlaceRecord
from fanlog.model.resources import Offset, PartitionId

_NONE = BitMap64()


class Places:
    """The places of one partition. Not safe to share between threads."""

    __slots__ = ("_anchors", "_behind", "absent", "held", "moved")

    def __init__(self) -> None:
        self._behind: dict[Offset, Sequence[Offset]] = {}
        #: In order.
        self._anchors: list[Offset] = []
        #: Held back, all of them; what stands behind an anchor; both. Never changed in place.
        self.held = _NONE
        self.moved: Mapping[Offset, Offset] = {}
        self.absent = _NONE

    def __bool__(self) -> bool:
        return bool(self.absent)

    def hold(self, held: BitMap64) -> None:
        """Take other messages that are held back."""
        self.held = held
        self._renew()

    def apply(self, record: PlaceRecord) -> Sequence[Offset]:
        """Change hard state; the messages that stand behind an anchor now, and did not before."""
        before = self._behind.get(record.anchor, ())
        moved = dict(self.moved)
        for offset in before:
            del moved[offset]
        if record.offsets is None:
            if before:
                del self._behind[record.anchor]
                self._anchors.remove(record.anchor)
        else:
            if not before:
                insort(self._anchors, record.anchor)
            self._behind[record.anchor] = record.offsets
            moved |= dict.fromkeys(record.offsets, record.anchor)
        self.moved = moved
        self._renew()
        return [offset for offset in record.offsets or () if offset not in before]

    # Records.

    def place(
        self, partition: PartitionId, anchor: Offset, offsets: Sequence[Offset]
    ) -> PlaceRecord:
        """The record that messages stand behind a later one, or one of themselves."""
        behind = self._behind.get(anchor, ())
        return PlaceRecord(partition, anchor, (*behind, *offsets))

    def trim(self, partition: PartitionId, start: Offset) -> Iterator[PlaceRecord]:
        """The records that forget what the log does not have any more."""
        for anchor in self._anchors[: bisect_left(self._anchors, start)]:
            yield PlaceRecord(partition, anchor, None)

    def remove(self, partition: PartitionId) -> Iterator[PlaceRecord]:
        for anchor in list(self._anchors):
            yield PlaceRecord(partition, anchor, None)

    # For those who go along the log.

    def next_anchor(self, start: Offset) -> Offset | None:
        """The first anchor from an offset on."""
        index = bisect_left(self._anchors, start)
        return self._anchors[index] if index < len(self._anchors) else None

    def until(self, start: Offset, end: Offset) -> Offset:
        """How far one may go from an offset: behind an anchor, what stands there comes first."""
        anchor = self.next_anchor(start)
        return end if anchor is None else min(end, anchor + 1)

    def behind(self, start: Offset, end: Offset) -> Iterator[Offset]:
        """What stands behind the anchors from one offset to before another, in order."""
        low, high = bisect_left(self._anchors, start), bisect_left(self._anchors, end)
        for anchor in self._anchors[low:high]:
            yield from self._behind[anchor]

    def in_order(self) -> Iterator[tuple[Offset, Offset]]:
        """The messages that stand behind others, in the order of places, each with its anchor."""
        for anchor in self._anchors:
            for offset in self._behind[anchor]:
                yield offset, anchor

    def away(self, reached: Offset) -> BitMap64:
        """What is not met by those who have come to an offset: held, or behind a later anchor."""
        return self.held | BitMap64(self.behind(reached, self._end))

    def reach(self, start: Offset) -> Offset:
        """Where to begin so that everything from `start` on is met, moved messages included."""
        while True:
            lowest = min(self.behind(start, self._end), default=start)
            if lowest >= start:
                return start
            start = lowest

    def place_of(self, offset: Offset) -> Offset:
        """The offset that one who goes along the log has to pass to meet a message."""
        return limits.OFFSET_MAX if offset in self.held else self.moved.get(offset, offset)

    def rank(self, offset: Offset) -> tuple[Offset, int]:
        """What orders the messages of the partition."""
        anchor = self.moved.get(offset)
        if anchor is None:
            return offset, -1
        return anchor, self._behind[anchor].index(offset)

    @property
    def _end(self) -> Offset:
        return self._anchors[-1] + 1 if self._anchors else 0

    def _renew(self) -> None:
        self.absent = self.held | BitMap64(self.moved)
