"""Priorities: of what may be handed out the highest go first, and no message starves."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanlog.core.agenda import Agenda
from fanlog.core.flow import Credit
from fanlog.limits import PRIORITY_FLOOR_PART
from fanlog.model.resources import Ordering
from fanlog.model.terms import TermKind, Terms
from unit.core.world import PARTITION, Id, View, World, subscription

ACTIONS = ("lease", "lease", "lease and nack", "ack", "nack", "publish")
PRIORITIES = st.lists(st.integers(0, 9), min_size=1, max_size=12)


class UrgentWorld(World):
    """A world whose messages have priorities."""

    def __post_init__(self) -> None:
        self.priorities: list[int] = []
        self.agenda = Agenda(PARTITION)
        super().__post_init__()
        self.share.attend(self.agenda)

    def publish_urgent(self, priorities: Sequence[int]) -> None:
        base = self.publish(*[0] * len(priorities))[0]
        self.priorities += priorities
        terms = Terms.of(
            (index, TermKind.PRIORITY, priority)
            for index, priority in enumerate(priorities)
            if priority
        )
        if terms is not None:
            for record in self.agenda.add(base, terms):
                self.agenda.apply(record)

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[View]:
        # Urgent messages are planned first.
        return super().read(sorted(ranges))

    def turns(self, may_come: list[int], most: int, *, owed: bool) -> tuple[set[int], int]:
        """Urgent messages that an answer is to have, and the oldest of the others if it has room.

        Args:
            owed: The answers before had no room for the oldest message.
        """
        part = max(1, most // PRIORITY_FLOOR_PART)
        room = most - part if owed or most >= PRIORITY_FLOOR_PART else most
        others = may_come[part:] if owed else may_come
        urgent = sorted(
            (offset for offset in others if self.priorities[offset]),
            key=lambda offset: (-self.priorities[offset], offset),
        )
        first = set(urgent[:room])
        if owed:
            return first, may_come[0]
        left = [offset for offset in may_come if offset not in first]
        has_room = left and len(first) < most
        return first, left[0] if has_room else min(first, default=may_come[0])


@pytest.mark.parametrize("ordering", ["none", "key"])
@given(data=st.data())
def test_the_highest_first_and_none_starves(ordering: Ordering, data: st.DataObject) -> None:
    world = UrgentWorld(subscription(ordering))
    world.publish_urgent(data.draw(PRIORITIES))
    out: dict[int, Id] = {}
    #: Messages handed out since the oldest was.
    since_oldest = 0

    def lease(most: int) -> None:
        nonlocal since_oldest
        may_come = [offset for offset in world.unacked if offset not in out]
        # A consumer of its own each time: it is averse to nothing.
        ids = world.lease(Credit(), most, deadline_s=1e9)
        came = {offset for _, offset in ids}
        assert len(came) == len(ids) == min(most, len(may_come))
        if may_come:
            # Either the most urgent had the first turn, or the oldest.
            turns = [world.turns(may_come, most, owed=owed) for owed in (False, True)]
            assert any(urgent <= came and oldest in came for urgent, oldest in turns)
            since_oldest = 0 if may_come[0] in came else since_oldest + len(came)
            assert since_oldest < 2 * PRIORITY_FLOOR_PART
        out.update((one[1], one) for one in ids)

    for action in data.draw(st.lists(st.sampled_from(ACTIONS), max_size=40)):
        some = [out[offset] for offset in sorted(out)][: data.draw(st.integers(1, 5))]
        match action:
            case "lease":
                lease(data.draw(st.integers(1, 20)))
            case "lease and nack":
                for _ in range(data.draw(st.integers(1, 2 * PRIORITY_FLOOR_PART))):
                    lease(1)
                    world.nack(1.0, out.values())
                    out.clear()
            case "ack":
                world.ack(1.0, some)
                out = {offset: one for offset, one in out.items() if one not in some}
            case "nack":
                world.nack(1.0, out.values())
                out = {}
            case "publish":
                world.publish_urgent(data.draw(PRIORITIES))
    world.ack(1.0, out.values())
    out.clear()
    for _ in range(len(world.unacked) + 1):
        lease(3)
        world.ack(1.0, out.values())
        out.clear()
    assert world.unacked == []
