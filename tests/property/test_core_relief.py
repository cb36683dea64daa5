"""A share whose backlog lets go of messages, against the model of one, whatever else happens."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import rule, run_state_machine_as_test

from fanlog import limits
from fanlog.core.share import relief
from property.test_core_share import ShareMachine


class RelievedMachine(ShareMachine):
    """The same share, with relief."""

    @rule(count=st.integers(1, 4), is_newest=st.booleans())
    def relieve(self, count: int, is_newest: bool) -> None:
        """A full backlog lets go of messages that nobody has, the oldest or the newest."""
        model, free = self.model, self.world.share.free_offsets(self.model.end)
        assert not any(model.is_taken(offset) for offset in free)
        lost = {o for o in model.unacked if o < model.end and not model.is_taken(o)}
        assert {o for o in lost if not model.is_exhausted(o)} <= set(free) <= model.unacked
        gone = relief.newest(free, count) if is_newest else relief.oldest(free, count)
        decision = self.world.decided(self.world.share.relieve(gone))
        assert decision.count == min(count, len(free))
        model.close(set(gone))
        for offset in sorted(model.soft):
            model.harden(offset)
        self.take_letters()


@pytest.mark.parametrize("exactly_once", [False, True], ids=["at-least-once", "exactly-once"])
@pytest.mark.parametrize("ordering", ["none", "key", "strict"])
def test_what_is_dropped_is_gone_and_all_else_comes(ordering, exactly_once, monkeypatch):
    monkeypatch.setattr("fanlog.core.cursor.CURSOR_CHUNK_OFFSETS", 8)
    monkeypatch.setattr("fanlog.core.reopening.CURSOR_CHUNK_OFFSETS", 8)
    monkeypatch.setattr(limits, "KEY_WAITING_MAX", 3)
    monkeypatch.setattr(limits, "WAITING_MAX", 6)
    run_state_machine_as_test(
        lambda: RelievedMachine(ordering, exactly_once, 0),
        settings=settings(
            max_examples=30,
            stateful_step_count=40,
            phases=[Phase.explicit, Phase.generate],
        ),
    )
