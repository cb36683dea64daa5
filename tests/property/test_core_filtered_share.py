"""A share with a filter that is changed again and again, against the naive model.

To the model a message that the filter does not want is acknowledged as soon as it is judged, and
open again after a crash unless that was written down. Which filter judges a message is decided by
when it was published, or by the last seek: offsets stand for the commits here.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pyroaring import BitMap64

from fanlog import limits
from fanlog.model.resources import FilterChange
from property.test_core_share import ShareMachine, messages

#: No filter, filters that want messages by their size, and one that wants none.
TEXTS = ["", "0", "1", "not 2", "none"]
CHANGES_MAX = 4


def wants(text: str, size: int) -> bool:
    match text:
        case "":
            return True
        case "none":
            return False
        case "not 2":
            return size % 3 != 2
        case _:
            return size % 3 == int(text)


class FilteredShareMachine(ShareMachine):
    @initialize(
        has_retry=st.booleans(),
        attempts=st.sampled_from([None, 1, 2]),
        first=messages,
        text=st.sampled_from(TEXTS),
    )
    def create(
        self, has_retry: bool, attempts: int | None, first: list[tuple[int, int]], text: str
    ) -> None:
        super().create(has_retry, attempts, first)
        #: Left out, and perhaps not written down yet.
        self.passed: set[int] = set()
        self.refilter(text)

    # Rules.

    @rule(count=st.integers(1, 12))
    def route(self, count: int) -> None:
        """The filter judges some more."""
        self.route_to(min(self.model.end, self.world.share.routed_to + count))

    @rule(text=st.sampled_from(TEXTS))
    def refilter(self, text: str) -> None:
        """What is published from now on is judged by another filter."""
        before = self.world.settings
        if text == before.filter or len(before.filter_changes) >= CHANGES_MAX:
            return
        change = FilterChange(filter=before.filter, before_sequence=self.model.end)
        changes = (*before.filter_changes, change)
        self.configure(text, changes)

    @rule()
    def forget_filters(self) -> None:
        """Filters that no message is left to be judged by are let go of."""
        first = min(self.world.share.first_open, self.model.end)
        changes = self.world.settings.filter_changes
        kept = tuple(change for change in changes if change.before_sequence > first)
        if kept != changes:
            self.configure(self.world.settings.filter, kept)

    @rule()
    def settle_passed(self) -> None:
        self.world.decided(self.world.share.settle_passed())
        assert set(self.world.unacked) == self.model.unacked
        self.passed.clear()

    @precondition(lambda self: self.world.share.unplaced)
    @rule()
    def place_restored(self) -> None:
        self.route_to(self.world.share.unplaced.max() + 1)
        super().place_restored()

    @rule(scan=st.booleans())
    def crash(self, scan: bool) -> None:
        super().crash(False)
        cursor = self.world.share.cursor
        self.model.unacked |= {offset for offset in self.passed if offset not in cursor}
        self.judge_anew()
        if scan and self.world.share.unplaced:
            self.place_restored()

    # As the base does it, and as the broker does it with a filter.

    def seek(self, where: float, retained: float) -> None:
        self.settle_passed()
        super().seek(where, retained)
        self.moved()

    def take_snapshot(self) -> None:
        self.route_to(self.model.end)
        self.settle_passed()
        super().take_snapshot()

    def restore(self) -> None:
        super().restore()
        self.moved()

    def reopen(self, picks: set[int], is_wanted: bool) -> None:
        self.settle_passed()
        before = min(self.model.routed_to, self.model.end)
        judged = {o for o in self.model.unacked if o < before}
        super().reopen(picks, is_wanted)
        self.model.routed_to = self.world.share.routed_to
        self.model.judged |= judged

    def advance(self, share: float, kept_s: float) -> None:
        super().advance(share, kept_s)
        self.model.routed_to = self.world.share.routed_to

    def moved(self) -> None:
        """After a jump all is judged by the present filter."""
        self.judge_anew()
        if self.world.settings.filter_changes:
            self.configure(self.world.settings.filter, ())

    def judge_anew(self) -> None:
        share = self.world.share
        self.passed.clear()
        if self.world.settings.is_filtered:
            assert share.routed_to == share.cursor.floor
        self.model.routed_to = share.routed_to

    def configure(self, text: str, changes: tuple[FilterChange, ...]) -> None:
        changed = replace(self.world.settings, filter=text, filter_changes=changes)
        self.world.configure(changed)
        self.model.settings = changed
        self.model.routed_to = self.world.share.routed_to
        if not changed.is_filtered:
            assert set(self.world.unacked) == self.model.unacked
            assert self.model.routed_to == limits.OFFSET_MAX

    def route_to(self, end: int) -> None:
        share = self.world.share
        start = share.routed_to
        if start >= end:
            return
        wanted = {offset for offset in range(start, end) if self.is_wanted(offset)}
        share.route(end, BitMap64(wanted))
        assert share.routed_to == end or share.cursor.reopened
        left_out = {o for o in range(start, end) if o in self.model.unacked} - wanted
        # What is held was wanted when it was handed out, and the answer is the same.
        assert not left_out & self.model.leased.keys()
        self.model.close(left_out)
        self.passed |= left_out
        self.model.routed_to = share.routed_to

    def is_wanted(self, offset: int) -> bool:
        if self.world.share.cursor.reopened.wanted(offset, offset + 1):
            return True
        chosen = self.world.settings
        for change in chosen.filter_changes:
            if offset < change.before_sequence:
                return wants(change.filter, self.model.sizes[offset])
        return wants(chosen.filter, self.model.sizes[offset])

    # Invariants.

    @invariant()
    def the_cursor_is_the_set(self) -> None:
        assert set(self.world.unacked) - self.passed == self.model.unacked
        cursor = self.world.share.cursor
        for bits in cursor.chunks.values():
            assert bits
            assert bits.min() > cursor.mark

    @invariant()
    def the_first_open_one_is_open(self) -> None:
        share = self.world.share
        judged = [offset for offset in self.model.unacked if offset < share.routed_to]
        expected = min(judged, default=max(share.cursor.floor, share.routed_to))
        if self.world.settings.is_filtered:
            assert share.first_open == expected

    def teardown(self) -> None:
        """Whatever happened, what is wanted is delivered in the end, and the rest is not."""
        if not hasattr(self, "world"):
            return
        self.route_to(self.model.end)
        super().teardown()
        self.settle_passed()
        assert self.world.unacked == []


@pytest.mark.parametrize("slots", [0, 3], ids=["whole", "slotted"])
@pytest.mark.parametrize("exactly_once", [False, True], ids=["at-least-once", "exactly-once"])
@pytest.mark.parametrize("ordering", ["none", "key", "strict"])
def test_a_share_with_a_filter_behaves_like_the_model(ordering, exactly_once, slots, monkeypatch):
    monkeypatch.setattr("fanlog.core.cursor.CURSOR_CHUNK_OFFSETS", 8)
    monkeypatch.setattr("fanlog.core.reopening.CURSOR_CHUNK_OFFSETS", 8)
    monkeypatch.setattr("fanlog.core.share.passed_over.CURSOR_CHUNK_OFFSETS", 8)
    monkeypatch.setattr("fanlog.core.attempts.ATTEMPTS_CHUNK_OFFSETS", 4)
    monkeypatch.setattr(limits, "KEY_WAITING_MAX", 3)
    monkeypatch.setattr(limits, "WAITING_MAX", 6)
    run_state_machine_as_test(
        lambda: FilteredShareMachine(ordering, exactly_once, slots),
        # Shrinking a long run takes minutes: add Phase.shrink to look into a failure.
        settings=settings(
            max_examples=20 if slots else 40,
            stateful_step_count=50,
            phases=[Phase.explicit, Phase.generate],
        ),
    )
