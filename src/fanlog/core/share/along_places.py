"""Going along a log in which some messages stand behind later ones (`fanlog.core.places`).

What two kinds of backlogs have in common. A backlog leaves such messages out where their offset is,
goes no further than to the next anchor, and takes what stands behind it before it goes on: that is
*next up*.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

from pyroaring import BitMap64

from fanlog.core.cursor import Range
from fanlog.core.flow import Credit
from fanlog.core.share.backlog import AgendaView, Openness, find
from fanlog.core.share.packer import Slots
from fanlog.core.share.urgency import Turns, urgent_offsets
from fanlog.model.resources import Offset


class AlongPlaces(ABC):
    """The place of a backlog in the log, and what is next up."""

    __slots__ = ("_next_up", "_turns", "agenda", "next_offset")

    def __init__(self, floor: Offset) -> None:
        #: What messages of the partition ask for; None when none does.
        self.agenda: AgendaView | None = None
        #: First offset that was not met since the start or the last seek.
        self.next_offset = floor
        #: Come before all from `next_offset` on.
        self._next_up: list[Offset] = []
        self._turns = Turns()

    @property
    def reached(self) -> Offset:
        """See `Backlog`."""
        return self.next_offset

    # What is to be read for an answer.

    def plan(self, cursor: Openness, end: Offset, limit: int, consumer: Credit) -> list[Range]:
        if self.agenda is None and not self._next_up:
            return self._plan_oldest(cursor, end, limit, consumer)
        self._come_to_places(cursor, end)
        ranges = self._plan_oldest(cursor, end, limit, consumer)
        ranges += [(offset, offset + 1) for offset in self._next_up[:limit]]
        if self.agenda is not None:
            urgent = self._urgent(self.agenda, cursor, end, limit, consumer)
            if urgent:
                return self._turns.ranges(urgent, ranges, limit)
        return ranges

    def _urgent(
        self, agenda: AgendaView, cursor: Openness, end: Offset, limit: int, consumer: Credit
    ) -> Sequence[Offset]:
        """The urgent messages that may be handed out now, the most urgent first."""
        if not agenda.urgent:
            return ()
        back, withheld = self._urgent_set(consumer)
        return urgent_offsets(
            agenda,
            cursor,
            end,
            back=back,
            next_offset=self.next_offset,
            withheld=(*withheld, agenda.places.absent),
            most=limit,
        )

    @abstractmethod
    def _plan_oldest(
        self, cursor: Openness, end: Offset, limit: int, consumer: Credit
    ) -> list[Range]:
        """Which of the oldest are to be read for an answer."""

    @abstractmethod
    def _urgent_set(self, consumer: Credit) -> tuple[BitMap64, Sequence[BitMap64]]:
        """Messages before `next_offset` that may be handed out ahead of others; and who may not."""

    # Places.

    @abstractmethod
    def _fresh(self, cursor: Openness, end: Offset) -> Iterator[Range]:
        """What was not met yet and is open, in order."""

    @abstractmethod
    def _is_met(self, offset: Offset) -> bool:
        """Whether a message that stands behind an anchor is leased, delayed or offered already."""

    def take_places(
        self, anchor: Offset, offsets: Sequence[Offset], busy: BitMap64, delayed: BitMap64
    ) -> None:
        """Offer open messages that were held back behind a gap, in their order, behind `anchor`."""
        if anchor < self.next_offset:
            self._next_up += [offset for offset in offsets if not self._is_met(offset)]

    @property
    def next_up(self) -> Sequence[Offset]:
        """What stands behind the anchor that was come to, and was not met yet."""
        return self._next_up

    def _is_passed(self, offset: Offset) -> bool:
        """Whether the place of a message was come by: it is not met as a fresh one any more."""
        if self.agenda is None or not self.agenda.places:
            return offset < self.next_offset
        if offset in self._next_up:
            return False
        return self.agenda.places.place_of(offset) < self.next_offset

    def _until(self, end: Offset) -> Offset:
        """How far one may go now."""
        if self.agenda is None or not self.agenda.places:
            return end
        if self._next_up:
            return self.next_offset
        return self.agenda.places.until(self.next_offset, end)

    def _take_next_up(self, views: Sequence[Slots], take: Callable[[Slots, Offset], bool]) -> None:
        """Hand what is next up to `take`, until that has no room for it."""
        while self._next_up:
            slots = find(views, self._next_up[0])
            if slots is None or not take(slots, self._next_up[0]):
                return
            del self._next_up[0]

    def _come_to_places(self, cursor: Openness, end: Offset) -> None:
        """Go on past anchors before which there is nothing left, to what stands behind them."""
        if self.agenda is None or not (self._next_up or self.agenda.places):
            return
        while True:
            self._leave_next_up(cursor.__contains__)
            anchor = self.agenda.places.next_anchor(self.next_offset)
            if self._next_up or anchor is None or anchor >= end:
                return
            if next(self._fresh(cursor, anchor + 1), None) is not None:
                return
            self._go_to(anchor + 1)

    def _go_to(self, offset: Offset) -> None:
        """Nothing before an offset is to be met as fresh any more."""
        if self.agenda is not None and self.agenda.places:
            behind = self.agenda.places.behind(self.next_offset, offset)
            self._next_up += [one for one in behind if not self._is_met(one)]
        self.next_offset = offset

    def _leave_next_up(self, is_gone: Callable[[Offset], bool]) -> None:
        if self._next_up:
            self._next_up = [one for one in self._next_up if not is_gone(one)]

    def _has_anchors(self) -> bool:
        """Whether some message that was met before may stand behind one that is still to come."""
        if self.agenda is None or not self.agenda.places:
            return False
        return self.agenda.places.next_anchor(self.next_offset) is not None
