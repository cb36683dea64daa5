"""A share that is moved: by a seek, and with the start of its log."""

from __future__ import annotations

from fanlog.core.cursor import Cursor
from fanlog.core.flow import Credit
from fanlog.core.share import ShareStats
from unit.core.world import World, states, subscription


class TestSeek:
    def test_everything_handed_out_is_void(self):
        world = World(subscription(exactly_once=True))
        world.publish(0, 0, 0)
        credit = Credit(max_messages=2)
        ids = world.lease(credit, deadline_s=10.0)
        world.decided(world.share.seek(1, 0, generation=world.next_generation()))
        assert credit.messages == 0
        assert world.held == set()
        assert world.ack(1, ids).invalid == ids
        assert world.offsets() == [1, 2]

    def test_past_the_end_and_back(self):
        world = World(subscription())
        world.publish(0, 0)
        world.decided(world.share.seek(2, 2, generation=world.next_generation()))
        assert states(world) == "AA"
        world.publish(0)
        assert world.offsets() == [2]
        world.decided(world.share.seek(0, 0, generation=world.next_generation()))
        assert world.offsets() == [0, 1, 2]

    def test_a_snapshot_holds_what_was_unacknowledged_and_what_came_later(self):
        world = World(subscription())
        world.publish(0, 0, 0)
        ids = world.lease()
        world.ack(1, ids[1:2])
        cursor = world.share.cursor
        snapshot = Cursor(cursor.floor, cursor.chunks)
        world.ack(2, ids)
        world.publish(0)
        world.decided(world.share.restore(snapshot, 0, generation=world.next_generation()))
        assert world.offsets() == [0, 2, 3]
        world.decided(world.share.restore(snapshot, 2, generation=world.next_generation()))
        assert world.offsets() == [2, 3]

    def test_the_fence_outlives_a_restart(self):
        world = World(subscription())
        world.publish(0)
        ids = world.lease()
        world.decided(world.share.seek(0, 0, generation=world.next_generation()))
        world.restart()
        assert world.ack(1, ids).count == 0
        assert world.ack(1, world.lease()).count == 1


class TestAdvance:
    def test_not_backwards(self):
        world = World(subscription())
        world.publish(0, 0)
        world.decided(world.share.advance(1))
        assert world.share.advance(1).records == []
        assert world.share.stats(world.end) == ShareStats(1, 1, 0, 0, 0)

    def test_leases_end_with_their_messages(self):
        world = World(subscription(exactly_once=True))
        world.publish(0, 0, 0)
        ids = world.lease(deadline_s=10.0)
        world.decided(world.share.advance(2))
        assert world.held == {2}
        assert world.ack(1, ids[:1]).invalid == ids[:1]
        assert world.expire(10.0).count == 1
        assert world.offsets() == [2]

    def test_beyond_what_was_met(self):
        world = World(subscription())
        world.publish(0, 0)
        world.publish(0, 0)
        world.decided(world.share.advance(3))
        world.log_start = 2
        assert world.offsets() == [3]
