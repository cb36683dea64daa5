"""The rules of key slots: who has which, and when one moves."""

from __future__ import annotations

from collections import Counter

from fanlog.core.assignment import GONE, Assignment
from fanlog.core.key_slots import slots_of
from fanlog.model.resources import PartitionId


def owners(assignment: Assignment) -> dict[object, list[int]]:
    found: dict[object, list[int]] = {member: [] for member in assignment}
    for slot in range(assignment.slot_count):
        owner = assignment.owner(slot)
        if owner is not None:
            found[owner].append(slot)
    return found


def assigned(slots: int, *members: str) -> Assignment:
    assignment = Assignment(slots)
    for member in members:
        assignment.join(member, member)
    return assignment


class TestParts:
    def test_the_first_member_has_everything(self):
        assert owners(assigned(4, "a")) == {"a": [0, 1, 2, 3]}

    def test_parts_differ_by_one_at_most(self):
        for count in range(1, 9):
            members = [chr(ord("a") + number) for number in range(count)]
            sizes = [len(slots) for slots in owners(assigned(5, *members)).values()]
            assert sum(sizes) == 5
            assert max(sizes) - min(sizes) <= 1

    def test_members_beyond_the_slots_stand_by_and_step_in(self):
        assignment = assigned(2, "a", "b", "c")
        assert owners(assignment)["c"] == []
        assert assignment.stats("c").slots == ()
        had = owners(assignment)["a"]
        assignment.leave("a")
        assert owners(assignment)["c"] == had

    def test_only_the_slots_of_one_that_leaves_change_their_owner(self):
        assignment = assigned(9, "a", "b", "c")
        before = owners(assignment)
        assignment.leave("b")
        after = owners(assignment)
        assert set(before["a"]) < set(after["a"])
        assert set(before["c"]) < set(after["c"])

    def test_one_that_comes_gets_its_part_and_nothing_else_moves(self):
        assignment = assigned(9, "a", "b")
        before = owners(assignment)
        assignment.moves = 0
        assignment.join("c")
        after = owners(assignment)
        assert set(after["a"]) <= set(before["a"])
        assert set(after["b"]) <= set(before["b"])
        assert len(after["c"]) == 3
        assert assignment.moves == 3

    def test_the_first_and_the_last_member_move_nothing(self):
        assignment = assigned(4, "a")
        assignment.leave("a")
        assert assignment.moves == 0
        assert [assignment.owner(slot) for slot in range(4)] == [None] * 4

    def test_a_client_gets_the_slots_that_it_had_last(self):
        assignment = assigned(8, "a", "b")
        had = owners(assignment)["b"]
        assignment.leave("b")
        assignment.join("b again", "b")
        assert owners(assignment)["b again"] == had

    def test_who_leaves_twice_or_never_came_changes_nothing(self):
        assignment = assigned(4, "a")
        assignment.leave("b")
        assert owners(assignment) == {"a": [0, 1, 2, 3]}


class TestMoves:
    def test_a_slot_that_is_held_is_nobodys_until_it_is_settled(self):
        assignment = assigned(1, "a")
        assignment.hold(0, "a", 2)
        assignment.leave("a")
        assignment.join("b")
        assert assignment.owner(0) == "b"
        assert assignment.open_to("b") == set()
        assert assignment.stats("b").moving == (0,)
        assignment.settle(0)
        assert assignment.open_to("b") == set()
        assignment.settle(0)
        assert assignment.open_to("b") == {0}

    def test_idle_slots_go_first(self):
        assignment = assigned(4, "a")
        for slot in (0, 1, 2):
            assignment.hold(slot, "a")
        assignment.join("b")
        assert 3 in owners(assignment)["b"]
        assert assignment.open_to("b") == {3}

    def test_what_the_owner_waits_for_itself_goes_before_what_is_idle(self):
        assignment = assigned(4, "a")
        assignment.hold(2, "a")
        assignment.leave("a")
        assignment.join("b")
        assignment.join("c")
        assert 2 in owners(assignment)["c"]

    def test_a_slot_on_its_way_goes_back_to_who_still_holds_it(self):
        assignment = assigned(2, "a")
        assignment.hold(0, "a")
        assignment.hold(1, "a")
        assignment.join("b")
        [moving] = assignment.stats("b").moving
        assignment.leave("b")
        assert assignment.open_to("a") == {0, 1}
        assert assignment.owner(moving) == "a"

    def test_what_nobody_here_holds_is_waited_for(self):
        assignment = assigned(2, "a")
        assignment.hold(1, GONE, 3)
        assert assignment.open_to("a") == {0}
        assert assignment.holder(1) is GONE
        assignment.settle(1, 3)
        assert assignment.open_to("a") == {0, 1}
        assert assignment.holder(1) is None


class TestSlots:
    def test_a_key_has_one_slot_wherever_it_stands(self):
        hashes = [7 << 32, 0, 7 << 32 | 5]
        here = slots_of(PartitionId(1), 10, 3, hashes, 64)
        there = slots_of(PartitionId(2), 500, 3, hashes, 64)
        assert (here[0], here[2]) == (there[0], there[2]) == (7, 7)

    def test_without_a_key_it_is_the_message_id_that_counts(self):
        alone = slots_of(PartitionId(1), 11, 1, None, 64)
        among = slots_of(PartitionId(1), 10, 3, [1 << 32, 0, 1 << 32], 64)
        assert among[1] == alone[0]

    def test_slots_are_about_even(self):
        counts = Counter(slots_of(PartitionId(3), 0, 64_000, None, 64))
        assert len(counts) == 64
        assert min(counts.values()) > 700
        assert max(counts.values()) < 1_300
