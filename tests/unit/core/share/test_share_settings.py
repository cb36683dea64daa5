"""A share whose subscription is changed, made or deleted."""

from __future__ import annotations

from dataclasses import replace

from pyroaring import BitMap64

from fanlog.core.flow import Credit
from fanlog.core.records import AttemptsChunk, CursorHead, LeaseHeld
from fanlog.core.share import Share
from unit.core.world import PARTITION, World, states, subscription


class TestSettings:
    def test_a_policy_removed_takes_its_records_along(self):
        world = World(subscription(attempts=5))
        world.publish(0)
        world.nack(1, world.lease())
        decision = world.configure(replace(world.settings, dead_letter=None))
        assert decision.records == [AttemptsChunk(3, PARTITION, 0, None)]
        assert not world.share.has_attempts
        assert [key[:1] for key in world.store] == [b"H"]

    def test_exactly_once_writes_down_the_leases_there_are(self):
        world = World(subscription())
        world.publish(0, 0)
        ids = world.lease(deadline_s=10.0)
        once = replace(world.settings, enable_exactly_once=True)
        assert world.configure(once).records == [
            LeaseHeld(3, PARTITION, 1, 0, 10.0, BitMap64([0, 1]))
        ]
        world.restart()
        assert world.offsets() == []
        assert world.ack(5, ids[:1]).invalid == []
        never = replace(world.settings, enable_exactly_once=False)
        assert world.configure(never).records == [LeaseHeld(3, PARTITION, 1, 0, 0.0, None)]
        assert world.held == set()
        assert states(world) == "OA"

    def test_strict_is_taken_on_without_touching_leases(self):
        world = World(subscription("key"))
        world.publish(1, 1, 1)
        credit = Credit()
        world.lease(credit, 1)
        world.configure(subscription("strict"))
        assert world.lease(credit, 1) == []
        world.configure(subscription("key"))
        assert [offset for _, offset in world.lease(credit, 1)] == [1]

    def test_nothing_changed_is_no_record(self):
        world = World(subscription(attempts=2))
        assert world.configure(world.settings).records == []

    def test_removal_leaves_nothing(self):
        world = World(subscription(exactly_once=True, attempts=5))
        world.publish(0, 0, 0, 0)
        credit = Credit()
        ids = world.lease(credit)
        world.ack(1, ids[1:2])
        world.nack(1, ids[2:3])
        assert {key[:1] for key in world.store} == {b"H", b"C", b"A", b"L"}
        for record in world.share.remove():
            assert record.value() is None
            world.share.apply(record)
            del world.store[record.key()]
        assert world.store == {}
        assert credit.messages == 0

    def test_created_at_a_floor(self):
        share = Share(subscription(), PARTITION, floor=7)
        assert share.create().records == [CursorHead(3, PARTITION, 7, 0)]
        assert share.next_offset == 7
