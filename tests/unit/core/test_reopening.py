"""Reopening, message by message: what a share does with what was acknowledged."""

from __future__ import annotations

import pytest
from pyroaring import BitMap64

from fanlog.core.cursor import Cursor
from fanlog.core.flow import Credit
from fanlog.core.records import DamagedRecord, ReopenedChunk, decode
from fanlog.core.reopening import OpenChunk, by_chunk
from fanlog.core.share import Decision
from fanlog.limits import CURSOR_CHUNK_OFFSETS as CHUNK
from fanlog.model.resources import PartitionId, RetryPolicy
from unit.core.world import World, subscription


def reopened(world: World, *offsets: int, is_wanted: bool = False) -> Decision:
    return world.decided(
        world.share.reopen(
            100.0, BitMap64(offsets), generation=world.next_generation(), is_wanted=is_wanted
        )
    )


def read(world: World, *keys: int) -> World:
    """Messages that were all acknowledged."""
    world.publish(*keys)
    while ids := world.lease():
        world.ack(1.0, ids)
    return world


class TestUnordered:
    def test_they_come_again_with_what_is_new_behind_them(self):
        world = read(World(subscription()), 0, 0, 0, 0)
        world.publish(0)
        assert reopened(world, 1, 3).count == 2
        assert world.unacked == [1, 3, 4]
        assert world.offsets() == [1, 3, 4]

    def test_only_what_is_acknowledged_counts(self):
        world = World(subscription())
        world.publish(0, 0, 0)
        ids = world.lease(max_messages=2)
        world.ack(1.0, ids[:1])
        decision = reopened(world, 0, 1, 2)
        assert decision.count == 1
        assert [r.opened.bits for r in decision.records if isinstance(r, ReopenedChunk)] == [
            BitMap64([0])
        ]

    def test_nothing_is_no_decision(self):
        world = World(subscription())
        world.publish(0)
        assert reopened(world, 0).records == []

    def test_the_floor_goes_down_and_the_mark_stays(self):
        world = read(World(subscription()), 0, 0, 0, 0)
        reopened(world, 2)
        cursor = world.share.cursor
        assert (cursor.floor, cursor.mark) == (2, 4)
        world.ack(1.0, world.lease())
        assert (cursor.floor, cursor.mark) == (4, 4)
        assert not cursor.reopened
        assert not any(key.startswith(ReopenedChunk.KIND) for key in world.store)

    def test_a_lease_goes_on(self):
        world = read(World(subscription()), 0, 0)
        world.publish(0, 0)
        held = world.lease()
        reopened(world, 0)
        assert world.offsets() == [0]
        world.ack(2.0, held)
        assert world.unacked == [0]

    def test_an_old_ack_id_says_nothing(self):
        world = World(subscription())
        world.publish(0)
        old = world.lease()
        world.ack(1.0, old)
        reopened(world, 0)
        world.ack(1.0, old)
        assert world.unacked == [0]
        new = world.lease()
        # Not even once it is leased under another.
        world.ack(1.0, old)
        assert world.unacked == [0]
        world.ack(1.0, new)
        assert world.unacked == []

    def test_a_second_reopening_leaves_the_lease_of_a_neighbour(self):
        world = read(World(subscription()), 0, 0)
        reopened(world, 0)
        held = world.lease()
        reopened(world, 1)
        world.ack(1.0, held)
        assert world.unacked == [1]

    def test_attempts_are_forgotten(self):
        world = World(subscription(attempts=3))
        world.publish(0, 0)
        world.nack(1.0, world.lease())
        assert world.share.attempts_of(0) == 1
        world.ack(1.0, world.lease(max_messages=1))
        reopened(world, 0)
        assert (world.share.attempts_of(0), world.share.attempts_of(1)) == (0, 1)
        world.restart()
        assert (world.share.attempts_of(0), world.share.attempts_of(1)) == (0, 1)

    def test_attempts_under_retries_alone_too(self):
        world = World(subscription(retry=RetryPolicy(minimum_backoff_s=1, maximum_backoff_s=2)))
        world.publish(0)
        world.nack(1.0, world.lease())
        world.expire(9.0)
        world.ack(9.0, world.lease())
        reopened(world, 0)
        assert world.share.attempts_of(0) == 0

    def test_over_a_restart(self):
        world = read(World(subscription()), *[0] * 10)
        reopened(world, 2, 3, 7)
        world.restart()
        assert world.unacked == [2, 3, 7]
        assert world.offsets() == [2, 3, 7]


class TestOrdered:
    @pytest.mark.parametrize("ordering", ["key", "strict"])
    def test_before_later_ones_of_the_key_that_wait(self, ordering):
        world = read(World(subscription(ordering)), 1, 1)
        world.publish(1, 1)
        held = world.lease(max_messages=1)
        reopened(world, 0)
        assert world.lease() == []
        world.ack(1.0, held)
        assert world.lease(max_messages=1)[0][1] == 0

    def test_what_fails_comes_back_behind(self):
        world = read(World(subscription("key")), 1)
        world.publish(1, 1)
        held = world.lease()
        reopened(world, 0)
        world.nack(1.0, held)
        assert world.offsets() == [0, 1, 2]

    def test_an_ack_behind_it_is_hard(self):
        world = read(World(subscription("key", exactly_once=True)), 1)
        world.publish(1)
        held = world.lease()
        reopened(world, 0)
        assert not world.ack(1.0, held).is_refused
        assert world.unacked == [0]

    def test_another_key_is_not_held_up(self):
        world = read(World(subscription("key")), 1)
        world.publish(1)
        world.lease()
        reopened(world, 0)
        world.publish(2, 0)
        assert world.offsets() == [2, 3]

    def test_one_without_a_key_that_waits_for_its_back_off(self):
        retry = RetryPolicy(minimum_backoff_s=5, maximum_backoff_s=5)
        world = read(World(subscription("key", retry=retry)), 1)
        world.publish(0, 1)
        world.nack(1.0, world.lease(max_messages=1))
        reopened(world, 0)
        consumer = Credit()
        assert world.offsets(consumer) == [0, 2]
        world.expire(7.0)
        assert world.offsets(consumer) == [1]

    def test_a_restored_lease_behind_it_ends(self):
        world = read(World(subscription("key", exactly_once=True)), 1)
        world.publish(1)
        held = world.lease(deadline_s=1e9)
        reopened(world, 0)
        world.restart()
        world.expire(2.0)
        assert world.ack(2.0, held).is_refused
        assert world.offsets() == [0, 1]


class TestFiltered:
    def world(self, *wanted: int) -> World:
        from dataclasses import replace

        return World(replace(subscription(), filter="some"))

    def judge(self, world: World, *wanted: int) -> None:
        world.share.route(world.end, BitMap64(wanted))

    def test_it_is_judged_again(self):
        world = self.world()
        world.publish(0, 0, 0, 0)
        self.judge(world, 0, 2)
        world.ack(1.0, world.lease())
        assert world.unacked == []
        assert reopened(world, 0, 1, 2).count == 3
        assert world.lease() == []
        self.judge(world, 0, 2)
        assert world.offsets() == [0, 2]

    def test_unless_it_is_known_to_be_wanted(self):
        world = self.world()
        world.publish(0, 0, 0)
        self.judge(world, 0, 1, 2)
        world.ack(1.0, world.lease())
        reopened(world, 1, is_wanted=True)
        reopened(world, 2)
        self.judge(world)
        assert world.offsets() == [1]
        world.restart()
        self.judge(world)
        assert world.offsets() == [1]

    def test_what_lies_between_is_not_judged(self):
        world = self.world()
        world.publish(*[0] * 50)
        self.judge(world, *range(50))
        world.ack(1.0, world.lease())
        reopened(world, 3, 40)
        assert world.share.routed_to == 3
        world.share.route(4, BitMap64([3]))
        assert world.share.routed_to == 40


class TestRetention:
    def test_what_is_reopened_later_stays(self):
        world = read(World(subscription()), 0, 0, 0)
        world.publish(0, 0)
        reopened(world, 1)
        world.decided(world.share.advance(4, reopened_since_s=100.0))
        assert world.unacked == [1, 4]
        assert world.share.advance(4, reopened_since_s=100.0).records == []
        world.decided(world.share.advance(4, reopened_since_s=100.1))
        assert world.unacked == [4]

    def test_not_what_the_log_has_let_go_of(self):
        world = read(World(subscription()), 0, 0, 0)
        reopened(world, 0, 2)
        world.decided(world.share.advance(1, reopened_since_s=0.0, start=1))
        assert world.unacked == [2]

    def test_leases_of_what_is_gone_end_and_the_others_stay(self):
        world = read(World(subscription("key")), 1, 2)
        world.publish(1, 2)
        reopened(world, 1)
        ids = world.lease()
        assert [offset for _, offset in ids] == [1, 2, 3]
        world.decided(world.share.advance(3, reopened_since_s=100.0))
        assert world.share.stats(world.end).outstanding == 2
        world.ack(1.0, ids)
        assert world.unacked == []


class TestDiscard:
    def test_only_what_nobody_has(self):
        world = World(subscription("key", attempts=1))
        world.publish(1, 1, 0)
        held = world.lease(max_messages=1)
        assert world.share.free(BitMap64([0, 1, 2])) == BitMap64([1, 2])
        assert world.decided(world.share.discard(BitMap64([0, 1]))).count == 1
        world.ack(1.0, held)
        assert world.offsets() == [2]


class TestSets:
    def test_by_chunk_costs_chunks(self):
        far = 10**11
        found = dict(by_chunk(BitMap64([5, CHUNK - 1, CHUNK, far])))
        assert found == {
            0: BitMap64([5, CHUNK - 1]),
            1: BitMap64([CHUNK]),
            far // CHUNK: BitMap64([far]),
        }
        assert dict(by_chunk(BitMap64())) == {}

    def test_ten_million_are_a_few_chunks(self):
        cursor = Cursor(10_000_000)
        window = BitMap64(range(10_000_000))
        changes = cursor.reopened.add(
            cursor.acknowledged(window), fence=1, since_s=0.0, is_wanted=False
        )
        assert len(changes) == -(-10_000_000 // CHUNK)
        for number, opened in changes.items():
            cursor.apply_reopened(number, opened)
            assert opened is not None
            record = ReopenedChunk(1, 2, number, opened)  # type: ignore[arg-type]
            assert len(record.value() or b"") < 100
        assert cursor.open_before(10_000_000) == 10_000_000
        assert next(cursor.unacked_ranges(0, 10_000_000)) == (0, CHUNK)
        change = cursor.acknowledge(BitMap64(range(100)))
        assert list(change.reopened) == [0]

    def test_a_record_with_offsets_of_another_chunk_is_refused(self):
        for bits in ([CHUNK], [5, CHUNK], [3 * CHUNK]):
            record = ReopenedChunk(1, PartitionId(2), 0, OpenChunk(BitMap64(bits), 1, 0.0))
            with pytest.raises(DamagedRecord, match="another chunk"):
                decode(record.key(), record.value() or b"")
