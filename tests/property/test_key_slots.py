"""Key slots: members come and go, two partitions, restarts, and never two holders of one slot."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fanlog import limits
from fanlog.core.assignment import Assignment
from fanlog.core.flow import Credit
from fanlog.core.key_slots import slots_of
from fanlog.model.resources import Ordering
from unit.core.world import PARTITION, Id, World, subscription

SLOTS = 5
DEADLINE_S = 10.0

#: Hashes of keys, of which the upper half says the slot; 0 is no key.
messages = st.lists(st.integers(0, 9).map(lambda key: key * (2**32 + 1)), min_size=1, max_size=12)


class AssignmentMachine(RuleBasedStateMachine):
    def __init__(self, ordering: Ordering, exactly_once: bool) -> None:
        super().__init__()
        self.settings = subscription(ordering, exactly_once=exactly_once, slots=SLOTS)

    @initialize()
    def create(self) -> None:
        self.now = 1_000.0
        self.assignment = Assignment(SLOTS)
        self.worlds = [World(self.settings, assignment=self.assignment) for _ in range(2)]
        #: Members, in the order in which they came.
        self.members: list[Credit] = []
        #: Who holds each message that is out, and its ack id: by partition and offset.
        self.held: dict[tuple[int, int], tuple[Credit, Id]] = {}
        #: Of each key, the last offset that was handed out for the first time.
        self.seen: dict[tuple[int, int], int] = {}

    def slot(self, which: int, offset: int) -> int:
        for view in self.worlds[which].batches:
            if view.base_offset <= offset < view.end_offset:
                count = view.end_offset - view.base_offset
                found = slots_of(PARTITION, view.base_offset, count, view.key_hashes, SLOTS)
                return found[offset - view.base_offset]
        raise AssertionError(offset)

    def owners(self) -> list[object]:
        return [self.assignment.owner(slot) for slot in range(SLOTS)]

    # Rules.

    @rule(which=st.integers(0, 1), keys=messages)
    def publish(self, which: int, keys: list[int]) -> None:
        self.worlds[which].publish(*keys)

    @precondition(lambda self: len(self.members) < 7)
    @rule(client=st.sampled_from([None, "a", "b"]), window=st.sampled_from([0, 2]))
    def join(self, client: str | None, window: int) -> None:
        before, member = self.owners(), Credit(window, client=client)
        self.members.append(member)
        self.assignment.join(member, client)
        after = self.owners()
        changed = [slot for slot in range(SLOTS) if before[slot] is not after[slot]]
        assert all(after[slot] is member for slot in changed)
        assert len(changed) == SLOTS // len(self.members)

    @precondition(lambda self: self.members)
    @rule(pick=st.integers(0, 20), is_half_closed=st.booleans())
    def leave(self, pick: int, is_half_closed: bool) -> None:
        member = self.members.pop(pick % len(self.members))
        before = self.owners()
        self.assignment.leave(member)
        after = self.owners()
        assert all(a is b for a, b in zip(before, after, strict=True) if a is not member)
        assert member not in after
        if not is_half_closed:
            for world in self.worlds:
                world.share.abandon(member)

    @precondition(lambda self: self.members)
    @rule(pick=st.integers(0, 20), which=st.integers(0, 1), most=st.integers(1, 8))
    def take(self, pick: int, which: int, most: int) -> None:
        self.lease(self.members[pick % len(self.members)], which, most)

    def lease(self, member: Credit, which: int, most: int) -> int:
        world = self.worlds[which]
        ids = world.lease(member, most, deadline_s=self.now + DEADLINE_S)
        for generation, offset in ids:
            assert self.assignment.owner(self.slot(which, offset)) is member
            assert (which, offset) not in self.held
            self.held[which, offset] = member, (generation, offset)
        return len(ids)

    @precondition(lambda self: self.held)
    @rule(picks=st.lists(st.integers(0, 50), min_size=1, max_size=6), how=st.integers(0, 3))
    def settle(self, picks: list[int], how: int) -> None:
        for pick in picks:
            if self.held:
                at = sorted(self.held)[pick % len(self.held)]
                _, id_ = self.held[at]
                world = self.worlds[at[0]]
                if how:
                    world.ack(self.now, [id_], partial=True)
                else:
                    world.nack(self.now, [id_], partial=True)
                self.look()

    @rule(seconds=st.sampled_from([1.0, 6.0, 11.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        for world in self.worlds:
            world.expire(self.now)
        self.look()

    @rule()
    def restart(self) -> None:
        """All streams are gone, and so are the leases that are not hard state."""
        self.members = []
        self.assignment = Assignment(SLOTS)
        for world in self.worlds:
            world.assignment = self.assignment
            world.restart(scan=True)
        self.look()

    def look(self) -> None:
        """Forget what nobody holds any more."""
        for which, world in enumerate(self.worlds):
            leased = {
                offset for state, offsets in world.share.offsets_by_state(world.end).items()
                if state.name == "OUTSTANDING" for offset in offsets
            }  # fmt: skip
            self.held = {
                at: held for at, held in self.held.items() if at[0] != which or at[1] in leased
            }

    # Invariants.

    @invariant()
    def no_slot_has_two_holders(self) -> None:
        holders = defaultdict(set)
        for (which, offset), (member, _) in self.held.items():
            holders[self.slot(which, offset)].add(member)
        assert all(len(some) == 1 for some in holders.values())

    @invariant()
    def every_slot_has_an_owner_and_none_has_too_many(self) -> None:
        owners = self.owners()
        if self.members:
            counts = [sum(owner is member for owner in owners) for member in self.members]
            assert sum(counts) == SLOTS
            assert max(counts) - min(counts) <= 1
        else:
            assert owners == [None] * SLOTS

    @invariant()
    def what_is_shown_is_so(self) -> None:
        for member in self.members:
            stats = self.assignment.stats(member)
            assert stats.outstanding == sum(held is member for held, _ in self.held.values())
            held_slots = {
                self.slot(*at) for at, (holder, _) in self.held.items() if holder is not member
            }
            assert set(stats.moving) == {
                slot for slot in held_slots if self.assignment.owner(slot) is member
            }

    def teardown(self) -> None:
        """Whatever happened, all that is left is delivered once everything is settled or over."""
        if not hasattr(self, "worlds"):
            return
        if not self.members:
            self.join(None, 0)
        for _ in range(200):
            self.now += 1_000.0
            for world in self.worlds:
                world.expire(self.now)
            self.look()
            for member in self.members:
                for which in (0, 1):
                    while self.lease(member, which, 100):
                        for at, (_, id_) in list(self.held.items()):
                            self.worlds[at[0]].ack(self.now, [id_])
                        self.look()
            if not any(world.unacked for world in self.worlds):
                return
        raise AssertionError([world.unacked for world in self.worlds])


@pytest.mark.parametrize("exactly_once", [False, True], ids=["at-least-once", "exactly-once"])
@pytest.mark.parametrize("ordering", ["none", "key", "strict"])
def test_no_slot_ever_has_two_holders(ordering, exactly_once, monkeypatch):
    monkeypatch.setattr(limits, "KEY_SLOT_BATCHES_MAX", 3)
    run_state_machine_as_test(
        lambda: AssignmentMachine(ordering, exactly_once),
        settings=settings(
            max_examples=40, stateful_step_count=50, phases=[Phase.explicit, Phase.generate]
        ),
    )
