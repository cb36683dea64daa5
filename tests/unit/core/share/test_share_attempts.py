"""What a share remembers of failed deliveries, and when it gives up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyroaring import BitMap64

from fanlog.core.redelivery import UNSENT
from unit.core.world import RETRY, World, dead_letter, fail, states, subscription


class TestAttempts:
    def test_failures_are_hard_under_a_dead_letter_policy(self):
        world = World(subscription(attempts=3))
        world.publish(0, 0)
        world.nack(1, world.lease()[:1])
        assert (world.share.attempts_of(0), world.share.attempts_of(1)) == (1, 0)
        world.restart()
        assert world.share.attempts_of(0) == 1
        assert world.share.has_attempts

    def test_failures_are_soft_under_a_retry_policy_alone(self):
        world = World(subscription(retry=RETRY))
        world.publish(0)
        assert world.nack(1, world.lease()).records == []
        assert world.share.attempts_of(0) == 1
        world.restart()
        assert world.share.attempts_of(0) == 0
        assert world.offsets() == [0], "a restart forgets the back-off"

    def test_without_policies_nothing_is_counted(self):
        world = World(subscription())
        world.publish(0)
        assert world.nack(1, world.lease()).records == []
        assert not world.share.has_attempts

    def test_the_back_off_grows_with_each_failure(self):
        world = World(subscription(retry=RETRY))
        world.publish(0)
        now, waits = 0.0, []
        for _ in range(6):
            world.nack(now, world.lease(deadline_s=now + 10))
            deadline = world.share.next_deadline()
            assert deadline is not None
            waits.append(deadline - now)
            now = deadline
            world.expire(now)
        assert waits == [4.0, 8.0, 16.0, 32.0, 60.0, 60.0]

    def test_a_new_start_forwards_what_was_exhausted(self):
        world = World(subscription(attempts=1))
        world.publish(0, 0, 0)
        world.nack(1, world.lease()[1:2])
        world.restart()
        assert world.offsets() == [0, 2]
        assert [letter.reason for letter in world.letters] == ["1 of 1 delivery attempts"]
        assert states(world) == "OOF"

    def test_a_backlog_of_exhausted_ones_is_progress(self):
        world = World(subscription(attempts=3))
        world.publish(0, 0)
        world.nack(1, world.lease(max_messages=1))
        world.configure(replace(world.settings, dead_letter=dead_letter(1)))
        assert world.offsets(max_messages=1) == [1]
        assert [letter.offset for letter in world.letters] == [0]

    def test_not_forwarded_delivered_once_more_then_forwarded(self):
        world = World(subscription(attempts=1))
        world.publish(0)
        fail(world, "nacked")
        world.decided(world.share.return_unforwarded(10.0, BitMap64([0])))
        world.expire(20.0)
        world.letters.clear()
        ids = world.lease(deadline_s=30.0)
        assert [offset for _, offset in ids] == [0]
        assert world.letters == []
        world.nack(21.0, ids)
        assert [(letter.offset, letter.attempts) for letter in world.letters] == [(0, 2)]
        world.decided(world.share.acknowledge_forwarded(BitMap64([0])))
        assert states(world) == "A"

    def test_counts_go_with_the_floor_and_with_a_seek(self):
        world = World(subscription(attempts=5))
        for _ in range(11):
            world.publish(*[0] * 100)
        ids = world.lease(max_messages=1_100)
        world.nack(1, [ids[0], ids[1_050]])
        assert sum(key[:1] == b"A" for key in world.store) == 2
        world.ack(2, [(1, o) for o in range(1_030)])
        assert sum(key[:1] == b"A" for key in world.store) == 1
        world.decided(world.share.seek(0, 0, generation=world.next_generation()))
        assert sum(key[:1] == b"A" for key in world.store) == 0
        assert not world.share.has_attempts

    @pytest.mark.parametrize("ordering", ["none", "key", "strict"])
    def test_what_was_never_sent_was_no_attempt(self, ordering):
        world = World(subscription(ordering, retry=RETRY, attempts=1))
        world.publish(5, 5)
        for _ in range(3):
            ids = world.lease()
            by_generation = {ids[0][0]: [offset for _, offset in ids]}
            decision = world.decided(
                world.share.modify_ack_deadline(1, by_generation, 0, jitter=0.0, nack=UNSENT)
            )
            assert decision.records == []
            # No back-off either: whoever takes next gets it.
            assert states(world) == "BB"
        assert world.letters == []
        assert world.share.attempts_of(0) == 0
