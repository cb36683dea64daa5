"""The offsets that one share passes over: they count as acknowledged. Soft state.

A filter is judged outside of the core, batch by batch and for many subscriptions at once; a share
is told how far it was judged, and which messages it may have. The others are kept here until the
next acknowledgement takes them into the cursor, so that passing over a message costs no commit.
After a restart they are judged again, with the same answer.

Messages for another subscription alone (`fanlog.core.addressing`) are passed over in the same way,
also if a filter wants them, and where there is no filter: then all is judged (`routed_to` is beyond
every offset).
"""

from __future__ import annotations

from collections.abc import Iterator

from pyroaring import BitMap64

from fanlog.core.addressing import NOTHING_ADDRESSED, Addressed
from fanlog.core.cursor import Cursor, Range, runs
from fanlog.limits import CURSOR_CHUNK_OFFSETS, OFFSET_MAX
from fanlog.model.resources import Offset


class PassedOver:
    """A cursor as the backlog of a filtered share sees it: less is open, and only so far."""

    __slots__ = ("_addressed", "_cursor", "offsets", "routed_to")

    def __init__(
        self, cursor: Cursor, routed_to: Offset, addressed: Addressed = NOTHING_ADDRESSED
    ) -> None:
        self._cursor = cursor
        #: Judged and left out, or for another subscription, and not in the cursor yet.
        self.offsets = BitMap64()
        #: First offset not judged yet: no message is handed out from here on.
        self.routed_to = routed_to
        self._addressed = NOTHING_ADDRESSED
        self.address(addressed)

    @property
    def first_open(self) -> Offset:
        """Lowest offset that is neither acknowledged nor passed over."""
        end = max(self._cursor.floor, self.routed_to)
        if not self._judges:
            # Behind the last that is passed over, the cursor alone counts.
            end = max(self._cursor.floor, self.offsets.max() + 1 if self.offsets else 0)
        first, _ = next(self.unacked_ranges(self._cursor.floor, end), (end, end))
        return first if first < end or self._judges else self._first_unacked(end)

    @property
    def _judges(self) -> bool:
        """Whether there is a filter."""
        return self.routed_to < OFFSET_MAX

    def address(self, addressed: Addressed) -> None:
        """Take the messages that are for one subscription alone, now and for good."""
        added = addressed.others - self._addressed.others
        self._addressed = addressed
        self.offsets |= added - self._cursor.acknowledged(added)
        self.offsets -= addressed.own

    def route(self, end: Offset, matching: BitMap64) -> None:
        """Pass over everything up to `end`, which is judged now, but for `matching`."""
        if end > self.routed_to:
            # After a restart much of it is in the cursor already, and counts there.
            for first, last in self._cursor.unacked_ranges(self.routed_to, end):
                self.offsets.add_range(first, last)
            self.offsets -= self.wanted(self.routed_to, end, matching)
            self.routed_to = self._next_open(end)

    def wanted(self, start: Offset, end: Offset, matching: BitMap64) -> BitMap64:
        """The offsets from `start` to before `end` that are not passed over, by the judgement."""
        wanted = matching | self._addressed.own
        if self._cursor.reopened:
            wanted |= self._cursor.reopened.wanted(start, end)
        return wanted - self._addressed.others

    def reopen(self, offsets: BitMap64) -> None:
        """Have `offsets` judged again, and all that follow; those get the same answer."""
        self.offsets -= offsets
        if self._judges:
            self.routed_to = min(self.routed_to, offsets.min())

    def take(self) -> BitMap64:
        """Take all offsets out; the caller sees to it that they get into the cursor."""
        offsets, self.offsets = self.offsets, BitMap64()
        return offsets

    def close(self, floor: Offset) -> None:
        """Forget everything below `floor`: it is acknowledged."""
        self.offsets.remove_range(0, floor)
        self.routed_to = max(self.routed_to, floor)

    def _next_open(self, offset: Offset) -> Offset:
        # Acknowledged messages need no judgement: between a reopened message and the rest there may
        # be millions of those.
        return self._first_unacked(offset) if self._cursor.reopened else offset

    def _first_unacked(self, offset: Offset) -> Offset:
        """The first offset from there on that is not acknowledged."""
        while True:
            end = offset + CURSOR_CHUNK_OFFSETS
            first, _ = next(self._cursor.unacked_ranges(offset, end), (end, end))
            if first < end:
                return first
            offset = end

    # As in `Cursor`.

    @property
    def floor(self) -> Offset:
        return self._cursor.floor

    def __contains__(self, offset: Offset) -> bool:
        return offset in self._cursor or offset in self.offsets

    def acknowledged(self, offsets: BitMap64) -> BitMap64:
        return self._cursor.acknowledged(offsets) | (offsets & self.offsets)

    def unacked_ranges(self, start: Offset, end: Offset) -> Iterator[Range]:
        for first, last in self._cursor.unacked_ranges(start, min(end, self.routed_to)):
            if not self.offsets:
                yield first, last
                continue
            # In portions: the first few are often all that is asked for.
            for low in range(first, last, CURSOR_CHUNK_OFFSETS):
                high = min(last, low + CURSOR_CHUNK_OFFSETS)
                yield from runs(BitMap64(range(low, high)) - self.offsets)
