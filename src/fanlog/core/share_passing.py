"""Messages that a share passes over: left out by its filter, or meant for another subscription.

Soft state over the cursor (`fanlog.core.passing`); a share with neither has none of it.
"""

from __future__ import annotations

from pyroaring import BitMap64

from fanlog import limits
from fanlog.core.addressing import NOTHING_ADDRESSED, Addressed
from fanlog.core.cursor import Cursor, CursorChange
from fanlog.core.decision import Decision
from fanlog.core.passing import Passing
from fanlog.core.records import ShareRecord
from fanlog.core.share_state import ShareState
from fanlog.model.resources import Offset, PartitionId, Subscription


class PassingShare(ShareState):
    """A share that may pass messages over. Not safe to share between threads."""

    def __init__(self, settings: Subscription, partition: PartitionId, floor: Offset = 0) -> None:
        super().__init__(settings, partition, floor)
        self._addressed = NOTHING_ADDRESSED
        self._passing: Passing | None = None

    # Filters.

    @property
    def routed_to(self) -> Offset:
        """First offset that the filter has not judged; without a filter there is none."""
        return limits.OFFSET_MAX if self._passing is None else self._passing.routed_to

    @property
    def first_open(self) -> Offset:
        """Lowest offset that is neither acknowledged nor passed over."""
        return self.cursor.floor if self._passing is None else self._passing.first_open

    def route(self, end: Offset, matching: BitMap64) -> None:
        """The filter has judged what comes before `end`: of that, only `matching` is wanted.

        What is not is acknowledged, though nothing is written about it before the next
        acknowledgement, or `settle_passed`.
        """
        assert self._passing is not None
        self._passing.route(end, matching)

    @property
    def has_passed(self) -> bool:
        """Whether there is something for `settle_passed` to take."""
        return self._passing is not None and bool(self._passing.offsets)

    def settle_passed(self) -> Decision:
        """Take what was passed over into the cursor."""
        if self._passing is None or not self._passing.offsets:
            return Decision()
        return Decision(self._cursor_records(self._acknowledged(BitMap64())))

    # Addresses.

    def address(self, addressed: Addressed) -> None:
        """Some messages are for one subscription alone: this one gets its own, and no others."""
        self._addressed = addressed
        if self._passing is not None:
            self._passing.address(addressed)
        elif addressed.others:
            self._passing = self._new_passing()

    def pass_over(self, offsets: BitMap64) -> None:
        """Messages that were read are for another subscription, and nothing else said so."""
        known = self._addressed
        if not offsets.issubset(known.others):
            self.address(Addressed(known.own - offsets, known.others | offsets))

    # For the share.

    @property
    def _open(self) -> Cursor | Passing:
        return self.cursor if self._passing is None else self._passing

    def _reach(self, end: Offset) -> Offset:
        return end if self._passing is None else min(end, self._passing.routed_to)

    def _new_passing(self, routed_to: Offset = 0) -> Passing | None:
        """As after a start; the filter, if there is one, judges from `routed_to` on."""
        if self.settings.is_filtered:
            return Passing(self.cursor, max(self.cursor.floor, routed_to), self._addressed)
        if self._addressed.others:
            return Passing(self.cursor, limits.OFFSET_MAX, self._addressed)
        return None

    def _configure_passing(self, before: Subscription, next_offset: Offset) -> list[ShareRecord]:
        """There are other settings: begin to judge, or stop it."""
        if self.settings.is_filtered and not before.is_filtered:
            # Messages met until now were met without a filter.
            self._passing = self._new_passing(next_offset)
        elif before.is_filtered and not self.settings.is_filtered:
            records = self.settle_passed().records
            self._passing = self._new_passing()
            if self._passing is not None:
                # All of it is on its way into the cursor.
                self._passing.taken()
            return records
        return []

    def _acknowledged(
        self, offsets: BitMap64, *, below: Offset = 0, keeping: BitMap64 | None = None
    ) -> CursorChange:
        if self._passing is not None and self._passing.offsets:
            offsets = offsets | self._passing.taken()
        return self.cursor.acknowledge(offsets, below=below, keeping=keeping)
