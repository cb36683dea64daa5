"""The open offsets of a share: not acknowledged, and not passed over.

Most shares have neither a filter nor messages that are addressed to others: their open offsets are
those of the cursor, and `PassedOver` costs them nothing. Soft state over the cursor.
"""

from __future__ import annotations

from pyroaring import BitMap64

from fanlog import limits
from fanlog.core.addressing import NOTHING_ADDRESSED, Addressed
from fanlog.core.share.backlog import Openness
from fanlog.core.share.passed_over import PassedOver
from fanlog.core.share.state import ShareState
from fanlog.model.resources import Offset

_NONE = BitMap64()


class OpenOffsets:
    """The offsets that the backlog of one share may hand out, by cursor, filter and addresses."""

    __slots__ = ("_cursor", "_passed_over", "_state", "addressed")

    def __init__(self, state: ShareState) -> None:
        self._state = state
        self._cursor = state.cursor
        self._passed_over: PassedOver | None = None
        #: Which messages are for one subscription alone.
        self.addressed = NOTHING_ADDRESSED

    @property
    def view(self) -> Openness:
        """The cursor, less the offsets that are passed over."""
        return self._cursor if self._passed_over is None else self._passed_over

    def until(self, end: Offset) -> tuple[Openness, Offset]:
        """The view, and how far it counts: at most to `end`, and not beyond the judged offsets."""
        if self._passed_over is None:
            return self._cursor, end
        return self._passed_over, min(end, self._passed_over.routed_to)

    @property
    def routed_to(self) -> Offset:
        """First offset that the filter has not judged; beyond all of them without a filter."""
        return limits.OFFSET_MAX if self._passed_over is None else self._passed_over.routed_to

    @property
    def first_open(self) -> Offset:
        return self._cursor.floor if self._passed_over is None else self._passed_over.first_open

    @property
    def passed_over(self) -> BitMap64:
        """The offsets that are passed over and not in the cursor yet. Not to be changed."""
        return _NONE if self._passed_over is None else self._passed_over.offsets

    def take_passed_over(self) -> BitMap64:
        """Take them out; the caller sees to it that they get into the cursor."""
        return BitMap64() if self._passed_over is None else self._passed_over.take()

    def restart(self, judge_from: Offset = 0) -> None:
        """Begin anew; a filter, if there is one, judges from `judge_from` or the floor on."""
        if self._state.settings.is_filtered:
            routed_to = max(self._cursor.floor, judge_from)
            self._passed_over = PassedOver(self._cursor, routed_to, self.addressed)
        elif self.addressed.others:
            self._passed_over = PassedOver(self._cursor, limits.OFFSET_MAX, self.addressed)
        else:
            self._passed_over = None

    def route(self, end: Offset, matching: BitMap64) -> None:
        assert self._passed_over is not None
        self._passed_over.route(end, matching)

    def ahead(self, start: Offset, end: Offset, matching: BitMap64) -> BitMap64:
        """The offsets of a stretch that would be open, did the filter want `matching` of it."""
        assert self._passed_over is not None
        unacked = BitMap64()
        for first, last in self._cursor.unacked_ranges(start, end):
            unacked.add_range(first, last)
        return unacked & self._passed_over.wanted(start, end, matching)

    def address(self, addressed: Addressed) -> None:
        self.addressed = addressed
        if self._passed_over is not None:
            self._passed_over.address(addressed)
        elif addressed.others:
            self.restart()

    def pass_over(self, offsets: BitMap64) -> None:
        known = self.addressed
        if not offsets.issubset(known.others):
            self.address(Addressed(known.own - offsets, known.others | offsets))

    def reopen(self, opened: BitMap64) -> None:
        """Have the filter judge messages that are reopened, and all after them, once more."""
        if self._passed_over is not None:
            self._passed_over.reopen(opened)

    def close(self, floor: Offset) -> None:
        """Everything below `floor` is acknowledged."""
        if self._passed_over is not None:
            self._passed_over.close(floor)
