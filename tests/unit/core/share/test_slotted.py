"""A share whose messages are split by key slots, with real members."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from pyroaring import BitMap64

from fanlog import limits
from fanlog.core.assignment import Assignment
from fanlog.core.flow import Credit
from fanlog.model.resources import FilterChange
from unit.core.world import World, dead_letter, subscription

#: The slot of a key is its number.
KEY = 1 << 32
SLOTS = 4


@dataclass
class CountingWorld(World):
    """Counts the batches that are read."""

    reads: list[int] = field(default_factory=list)

    def read(self, ranges):
        found = super().read(ranges)
        self.reads += [view.base_offset for view in found]
        return found


def slotted(ordering="none", **settings):
    assignment = Assignment(SLOTS)
    chosen = subscription(ordering, slots=SLOTS, **settings)
    return CountingWorld(chosen, assignment=assignment), assignment


def member(assignment, name, most=0):
    credit = Credit(most, client=name)
    assignment.join(credit, name)
    return credit


def test_nobody_but_members_gets_anything():
    world, assignment = slotted()
    world.publish(KEY, 0, 0)
    assert world.lease() == []
    assert world.share.has_some(world.end)
    assert len(world.lease(member(assignment, "a"))) == 3


def test_each_member_gets_the_messages_of_its_slots_in_order():
    world, assignment = slotted()
    first, second = member(assignment, "a"), member(assignment, "b")
    keys = [KEY * slot for slot in (1, 2, 3, 1, 2, 3)]
    world.publish(*keys)
    mine = {offset for offset in range(6) if keys[offset] // KEY in assignment.open_to(first)}
    assert set(world.offsets(first)) == mine
    assert set(world.offsets(second)) == set(range(6)) - mine


def test_a_member_with_little_credit_gets_the_oldest_first():
    world, assignment = slotted()
    only = member(assignment, "a")
    world.publish(*(KEY * slot for slot in (3, 1, 2, 3, 1, 2)))
    assert sorted(world.offsets(only, 2)) == [0, 1]
    assert sorted(world.offsets(only, 2)) == [2, 3]
    assert sorted(world.offsets(only, 100)) == [4, 5]


@pytest.mark.parametrize("ordering", ["none", "key"])
def test_a_member_that_takes_nothing_costs_the_others_no_second_look(ordering):
    world, assignment = slotted(ordering)
    slow, quick = member(assignment, "slow", 1), member(assignment, "quick")
    taken = 0
    for _ in range(100):
        world.publish(*(KEY * (1 + number % 3) + number for number in range(30)))
        world.lease(slow, 10)
        ids = world.lease(quick, 1_000)
        taken += len(ids)
        world.ack(1.0, ids)
    assert taken >= 1_000
    # Each batch once for the quick one; the slow one looks at one batch, and then has no credit.
    assert len(world.reads) <= 110
    backlog = world.share._soft.backlog
    remembered = sum(len(getattr(part, "_ready", ())) for part in backlog._parts)
    assert remembered == 0
    assert len(world.share.slots._slot_of) == 1, "what the slow one holds"


def test_a_slot_goes_on_from_its_own_place_with_another_member():
    world, assignment = slotted("key")
    slow = member(assignment, "slow")
    quick = member(assignment, "quick")
    keys = [KEY * (number % 4) + 1 + number % 8 for number in range(200)]
    world.publish(*keys)
    theirs = set(assignment.open_to(slow))
    world.ack(1.0, world.lease(quick, 1_000))
    [first] = world.lease(slow, 1)
    assignment.leave(slow)
    waiting = keys[first[1]] // KEY
    got = world.offsets(quick, 1_000)
    expected = [o for o in range(200) if keys[o] // KEY in theirs - {waiting}]
    assert sorted(got) == expected
    world.ack(1.0, [first])
    rest = [o for o in range(200) if keys[o] // KEY == waiting and o != first[1]]
    assert world.offsets(quick, 1_000) == rest


def test_a_batch_that_cannot_be_read_is_left_out():
    world, assignment = slotted()
    only = member(assignment, "a")
    world.publish(*(KEY * n for n in (1, 2, 3)))
    world.damaged = {world.publish(KEY, KEY)[0]}
    world.publish(*(KEY * n for n in (1, 2, 3)))
    got = set(world.offsets(only)) | set(world.offsets(only))
    assert got == {0, 1, 2, 5, 6, 7}
    assert not world.share.has_some(world.end)


def test_leases_of_before_a_restart_whose_batch_is_damaged_hold_nothing():
    world, assignment = slotted(exactly_once=True)
    world.publish(KEY)
    world.publish(KEY)
    world.lease(member(assignment, "a"), 1, deadline_s=1e9)
    world.assignment = Assignment(SLOTS)
    world.damaged = {0}
    world.restart()
    assert world.offsets(member(world.assignment, "b")) == [1]


def test_a_message_without_attempts_left_is_forwarded_and_its_slot_goes_on():
    world, assignment = slotted("key", attempts=1)
    only = member(assignment, "a")
    world.publish(KEY, KEY)
    world.nack(1.0, world.lease(only, 1))
    [letter] = world.letters
    assert letter.offset == 0
    assert world.offsets(only) == []
    world.decided(world.share.acknowledge_forwarded(BitMap64([0])))
    assert world.offsets(only) == [1]


def test_a_smaller_policy_finds_the_exhausted_among_fresh_messages():
    world, assignment = slotted(attempts=5)
    only = member(assignment, "a")
    world.publish(KEY, KEY)
    world.nack(1.0, world.lease(only, 1))
    world.configure(replace(world.settings, dead_letter=dead_letter(1)))
    world.expire(1.0 + limits.AVERSION_S)
    assert world.offsets(only) == [1]
    assert [letter.offset for letter in world.letters] == [0]


def test_messages_of_others_that_are_nacked_wait_for_their_owner():
    world, assignment = slotted()
    first, second = member(assignment, "a"), member(assignment, "b")
    world.publish(*(KEY * n for n in (1, 2, 3)))
    ids = world.lease(first)
    world.nack(1.0, ids)
    assert world.lease(first) == []
    before = {offset for _, offset in ids}
    assert not before & set(world.offsets(second))
    world.expire(1.0 + limits.AVERSION_S)
    assert set(world.offsets(first)) == before


def test_a_seek_frees_all_slots():
    world, assignment = slotted()
    gone = member(assignment, "a")
    world.publish(KEY, KEY)
    world.lease(gone)
    assignment.leave(gone)
    other = member(assignment, "b")
    assert world.lease(other) == []
    world.decided(world.share.seek(0, 0, generation=world.next_generation()))
    assert world.offsets(other) == [0, 1]
    assert world.share.slots.held == [1]


def test_a_share_that_no_feed_looks_at_keeps_count():
    world, assignment = slotted()
    gone = member(assignment, "a")
    world.publish(KEY)
    ids = world.lease(gone)
    world.share.slots.part()
    assert assignment.holder(1) is None, "it counts for nobody now"
    later = Assignment(SLOTS)
    world.share.slots.join(later)
    other = member(later, "b")
    assert later.open_to(other) == {0, 2, 3}
    world.ack(1.0, ids)
    assert later.open_to(other) == {0, 1, 2, 3}


def test_what_is_remembered_of_batches_is_bounded(monkeypatch):
    monkeypatch.setattr(limits, "KEY_SLOT_BATCHES_MAX", 2)
    world, assignment = slotted()
    only = member(assignment, "a")
    for _ in range(10):
        world.publish(KEY)
    assert len(world.offsets(only)) == 10
    assert len(world.share.slots._cache) == 2


def test_without_the_label_nothing_is_counted():
    assert World(subscription(slots=3)).share.slots.slot_count == 3
    assert World(subscription()).share.slots is None


@pytest.mark.parametrize("ordering", ["none", "key"])
def test_a_filter_that_comes_does_not_judge_what_some_slots_have_met(ordering):
    world, assignment = slotted(ordering)
    ahead, behind = member(assignment, "a"), member(assignment, "b")
    keys = [KEY * (number % SLOTS) + 1 for number in range(8)]
    world.publish(*keys)
    ids = world.lease(ahead)
    last = max(offset for _, offset in ids)
    change = FilterChange(filter="", before_sequence=world.end)
    world.configure(replace(world.settings, filter="attributes:x", filter_changes=(change,)))
    # What was met without a filter and comes back is handed out again: it has to be judged.
    world.nack(1.0, ids)
    world.expire(limits.AVERSION_S + 1.0)
    assert last < world.share.routed_to
    assert world.lease(ahead) != []
    theirs = {o for o in range(last) if keys[o] // KEY in assignment.open_to(behind)}
    assert {offset for _, offset in world.lease(behind)} == theirs
