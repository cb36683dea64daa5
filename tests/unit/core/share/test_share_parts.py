"""What a share delegates: looks at its state, its open offsets and its soft state."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyroaring import BitMap64

from fanlog import limits
from fanlog.core.addressing import Addressed
from fanlog.core.flow import Credit
from fanlog.core.records import AttemptsChunk
from fanlog.core.share import Decision, State
from unit.core.world import PARTITION, RETRY, World, subscription

FILTERED = replace(subscription(), filter="some")


def acked(world: World) -> list[int]:
    return [offset for offset in range(world.end) if offset in world.share.cursor]


def reopen(world: World, *offsets: int) -> Decision:
    generation = world.next_generation()
    return world.decided(world.share.reopen(1.0, BitMap64(offsets), generation=generation))


class TestFollowsCommits:
    """Answers wait for the commit before them where they may rest on it."""

    @pytest.mark.parametrize(
        ("settings", "expected"),
        [
            (subscription(), False),
            (subscription(attempts=5), False),
            (subscription("key"), False),
            (subscription("key", attempts=5), True),
        ],
    )
    def test_by_settings(self, settings, expected):
        assert World(settings).share.follows_commits is expected

    def test_while_something_is_reopened(self):
        world = World(subscription())
        world.publish(0, 0)
        world.ack(1.0, world.lease())
        reopen(world, 0)
        assert world.share.follows_commits
        world.ack(1.0, world.lease())
        assert not world.share.follows_commits


class TestOpen:
    def test_without_a_filter_the_floor_is_the_first_open(self):
        world = World(subscription())
        world.publish(0, 0, 0)
        assert world.share.first_open == 0
        world.ack(1.0, world.lease(max_messages=2))
        assert world.share.first_open == 2
        assert world.share.routed_to == limits.OFFSET_MAX
        assert [world.share.is_open(offset) for offset in range(3)] == [False, False, True]
        assert list(world.share.open_ranges(0, 3)) == [(2, 3)]

    def test_passed_over_messages_are_not_open(self):
        world = World(FILTERED)
        world.publish(0, 0, 0, 0)
        world.share.route(3, BitMap64([1]))
        assert world.share.first_open == 1
        assert [world.share.is_open(offset) for offset in range(3)] == [False, True, False]
        assert list(world.share.open_ranges(0, 4)) == [(1, 2)]

    def test_a_filter_that_never_came_passes_nothing_over(self):
        world = World(subscription())
        assert not world.share.has_passed
        assert world.share.settle_passed() == Decision()


class TestAddresses:
    def test_nothing_for_others_changes_nothing(self):
        world = World(subscription())
        world.publish(0, 0)
        world.share.address(Addressed(own=BitMap64([1])))
        assert world.share.routed_to == limits.OFFSET_MAX
        assert world.offsets() == [0, 1]

    def test_messages_for_others_are_not_delivered(self):
        world = World(subscription())
        world.publish(0, 0, 0)
        world.share.address(Addressed(others=BitMap64([0, 2])))
        assert world.share.first_open == 1
        assert world.offsets() == [1]

    def test_a_batch_may_say_so_alone(self):
        world = World(subscription())
        world.publish(0, 0, 0)
        world.share.pass_over(BitMap64([1]))
        world.share.pass_over(BitMap64([1]))
        assert world.share.has_passed
        assert world.offsets() == [0, 2]
        world.decided(world.share.settle_passed())
        assert acked(world) == [1]

    def test_a_message_found_to_be_for_another_is_not_its_own(self):
        world = World(FILTERED)
        world.publish(0, 0)
        world.share.address(Addressed(own=BitMap64([0, 1])))
        world.share.pass_over(BitMap64([1]))
        world.share.route(2, BitMap64())
        assert world.offsets() == [0]

    def test_messages_for_others_are_not_reopened(self):
        world = World(subscription())
        world.publish(0, 0)
        world.share.address(Addressed(others=BitMap64([0])))
        world.ack(1.0, world.lease())
        assert reopen(world, 0, 1).count == 1
        assert world.offsets() == [1]

    def test_a_filter_that_goes_leaves_messages_for_others_alone(self):
        world = World(FILTERED)
        world.publish(0, 0, 0)
        world.share.address(Addressed(others=BitMap64([0])))
        world.share.route(3, BitMap64([0, 1]))
        world.configure(subscription())
        assert acked(world) == [0, 2]
        assert not world.share.has_passed
        assert world.offsets() == [1]


class TestSettings:
    def test_settings_may_be_replaced_by_a_record(self):
        """The record of the subscription is applied after `configure`, and on recovery."""
        world = World(subscription())
        world.share.settings = subscription(retry=RETRY)
        world.publish(0)
        world.nack(1.0, world.lease())
        assert world.state_of(0) is State.DELAYED

    def test_counts_of_the_back_off_become_hard_with_a_policy(self):
        world = World(subscription(retry=RETRY))
        world.publish(0, 0)
        ids = world.lease()
        world.nack(1.0, ids[1:])
        assert world.share.attempts_of(1) == 1
        decision = world.configure(subscription(retry=RETRY, attempts=5))
        assert decision.records == [AttemptsChunk(3, PARTITION, 0, ((1, 1),))]
        world.restart()
        assert world.share.attempts_of(1) == 1
        assert world.share.has_attempts

    def test_whether_there_is_order_never_changes(self):
        world = World(subscription())
        with pytest.raises(AssertionError):
            world.share.configure(subscription("key"))


class TestRefusals:
    def test_they_are_found_and_nothing_is_done(self):
        world = World(subscription("key", exactly_once=True))
        world.publish(1, 1, 2)
        (generation, _), *_ = world.lease(deadline_s=10.0)
        named = {generation: [1, 2], 99: [0]}
        found = world.share.find_refusals(1.0, named, is_ack=True)
        assert found.invalid == [(99, 0)]
        assert found.early == [(generation, 1)]
        assert found.records == []
        assert world.share.find_refusals(1.0, named, is_ack=False).early == []
        assert len(world.share.find_refusals(10.0, named, is_ack=False).invalid) == 3
        assert world.share.stats(world.end).outstanding == 3


class TestDeadLetters:
    def test_a_message_is_forwarded_until_its_letter_is_committed(self):
        world = World(subscription(attempts=1))
        world.publish(0)
        assert not world.share.is_forwarding(0)
        world.nack(1.0, world.lease())
        assert world.share.is_forwarding(0)
        world.decided(world.share.acknowledge_forwarded(BitMap64([0])))
        assert not world.share.is_forwarding(0)

    @pytest.mark.parametrize("ordering", ["none", "key"])
    def test_letters_of_other_messages_change_nothing(self, ordering):
        world = World(subscription(ordering, attempts=1))
        world.publish(1, 2)
        assert world.decided(world.share.acknowledge_forwarded(BitMap64([0]))).count == 0
        assert world.decided(world.share.return_unforwarded(1.0, BitMap64([0]))).records == []
        assert world.offsets() == [0, 1]


class TestExported:
    def test_exported_messages_are_acknowledged_without_a_lease(self):
        world = World(subscription())
        world.publish(0, 0, 0)
        decision = world.decided(world.share.acknowledge_exported(BitMap64([0, 1])))
        assert (decision.count, decision.ended) == (2, [])
        assert world.share.cursor.floor == 2

    def test_nothing_exported_is_no_record(self):
        world = World(subscription())
        assert world.share.acknowledge_exported(BitMap64()) == Decision()


class TestDiscard:
    @pytest.mark.parametrize("ordering", ["none", "key", "strict"])
    def test_leased_and_acknowledged_messages_are_not_free(self, ordering):
        world = World(subscription(ordering))
        world.publish(1, 2, 3)
        ids = world.lease(max_messages=2)
        world.ack(1.0, ids[:1])
        every = BitMap64([0, 1, 2])
        assert world.share.free(every) == BitMap64([2])
        assert world.decided(world.share.discard(every)).count == 1
        assert acked(world) == [0, 2]

    def test_an_early_acknowledgement_is_not_free(self):
        world = World(subscription("key"))
        world.publish(1, 1, 2)
        ids = world.lease(max_messages=2)
        world.ack(1.0, ids[1:])
        assert world.share.free(BitMap64([0, 1, 2])) == BitMap64([2])

    @pytest.mark.parametrize("ordering", ["none", "key"])
    def test_nothing_free_is_no_record(self, ordering):
        world = World(subscription(ordering))
        world.publish(1)
        world.lease()
        assert world.share.discard(BitMap64([0])).records == []

    def test_what_waits_of_a_key_is_discarded_before_earlier_ones(self):
        world, holder = World(subscription("key", retry=RETRY)), Credit()
        world.publish(1, 1, 1, 2)
        ids = world.lease(holder, 1)
        assert [offset for _, offset in world.lease(Credit())] == [3]
        world.decided(world.share.discard(BitMap64([1])))
        assert acked(world) == [1]
        world.nack(1.0, ids)
        world.decided(world.share.discard(BitMap64([0])))
        assert world.share.next_deadline() is not None
        assert [offset for _, offset in world.lease(Credit())] == [2]
