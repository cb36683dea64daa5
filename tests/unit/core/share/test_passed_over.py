"""What a filter leaves out of a share: never delivered, never in the way, written down in time."""

from __future__ import annotations

from dataclasses import replace

from pyroaring import BitMap64

from fanlog.core.cursor import Cursor
from fanlog.core.records import CursorChunk, CursorHead
from fanlog.core.share.passed_over import PassedOver
from fanlog.model.resources import FilterChange
from unit.core.world import World, subscription


def filtered(ordering="none", **settings) -> World:
    return World(replace(subscription(ordering, **settings), filter="attributes:x"))


def route(world: World, *wanted: int, end: int | None = None) -> None:
    world.share.route(world.end if end is None else end, BitMap64(wanted))


# The part itself.


def test_nothing_is_open_before_it_is_judged():
    passed_over = PassedOver(Cursor(3), 3)
    assert list(passed_over.unacked_ranges(3, 10)) == []
    passed_over.route(6, BitMap64([4]))
    assert list(passed_over.unacked_ranges(3, 10)) == [(4, 5)]
    assert (passed_over.first_open, passed_over.routed_to) == (4, 6)
    assert [offset in passed_over for offset in range(2, 7)] == [True, True, False, True, False]


def test_what_was_judged_is_not_judged_again():
    passed_over = PassedOver(Cursor(), 0)
    passed_over.route(5, BitMap64([1]))
    passed_over.route(3, BitMap64([2]))
    assert list(passed_over.unacked_ranges(0, 5)) == [(1, 2)]


def test_what_is_acknowledged_already_is_not_kept_beside_the_cursor():
    cursor = Cursor(2, {0: BitMap64([4, 5])})
    passed_over = PassedOver(cursor, 0)
    passed_over.route(8, BitMap64([3]))
    assert list(passed_over.offsets) == [2, 6, 7]


def test_the_first_open_one_is_where_judging_goes_on_when_nothing_is_wanted():
    passed_over = PassedOver(Cursor(), 0)
    passed_over.route(9, BitMap64())
    assert passed_over.first_open == 9


def test_ranges_longer_than_a_portion(monkeypatch):
    monkeypatch.setattr("fanlog.core.share.passed_over.CURSOR_CHUNK_OFFSETS", 4)
    passed_over = PassedOver(Cursor(), 0)
    passed_over.route(12, BitMap64([1, 3, 4, 9]))
    found = [o for start, stop in passed_over.unacked_ranges(0, 12) for o in range(start, stop)]
    assert found == [1, 3, 4, 9]


def test_after_a_reopening_judging_goes_on_at_the_next_open_one(monkeypatch):
    monkeypatch.setattr("fanlog.core.share.passed_over.CURSOR_CHUNK_OFFSETS", 4)
    cursor = Cursor(40)
    opened = cursor.reopened.add(BitMap64([3]), fence=1, since_s=0.0, is_wanted=False)
    for chunk, bits in opened.items():
        cursor.apply_reopened(chunk, bits)
    passed_over = PassedOver(cursor, 3)
    passed_over.route(4, BitMap64([3]))
    assert passed_over.routed_to == 40
    assert passed_over.first_open == 3


def test_closing_takes_along_what_was_left_out_below():
    passed_over = PassedOver(Cursor(), 0)
    passed_over.route(6, BitMap64())
    passed_over.close(4)
    assert list(passed_over.offsets) == [4, 5]
    passed_over.close(9)
    assert (list(passed_over.offsets), passed_over.routed_to) == ([], 9)


# As a share uses it.


def test_only_what_is_wanted_is_handed_out():
    world = filtered()
    world.publish(0, 0, 0, 0)
    assert world.share.has_some(world.end), "there may be something: it is to be judged"
    assert world.offsets() == []
    route(world, 1, 3)
    assert world.offsets() == [1, 3]
    assert not world.share.has_some(world.end)


def test_passing_over_writes_nothing_until_the_next_ack():
    world = filtered()
    world.publish(0, 0, 0, 0)
    before = dict(world.store)
    route(world, 1)
    ids = world.lease()
    assert world.store == before
    world.ack(0.0, ids)
    assert world.share.cursor.floor == 4
    assert world.share.settle_passed().records == []


def test_settling_moves_the_floor_to_what_is_wanted():
    world = filtered()
    world.publish(*[0] * 6)
    route(world, 2, 4)
    records = world.decided(world.share.settle_passed()).records
    assert [type(record) for record in records] == [CursorHead, CursorChunk]
    assert world.share.cursor.floor == 2
    assert world.unacked == [2, 4]
    assert world.offsets() == [2, 4]


def test_the_backlog_is_what_is_wanted_and_what_is_not_judged():
    world = filtered()
    world.publish(*[0] * 10)
    route(world, 1, 2, end=6)
    assert world.share.stats(world.end).backlog == 2 + 4
    route(world, 1, 2)
    assert world.share.stats(world.end).backlog == 2
    world.decided(world.share.settle_passed())
    assert world.share.stats(world.end).backlog == 2


def test_after_a_restart_it_is_judged_again_and_counts_once():
    world = filtered()
    world.publish(*[0] * 10)
    route(world, 0, 5)
    _, late = world.lease()
    world.ack(0.0, [late])
    world.restart()
    assert world.share.routed_to == 0
    route(world, 0, 5)
    assert world.share.stats(world.end).backlog == 1
    assert world.offsets() == [0]


def test_an_ack_from_before_a_restart_may_come_before_anything_is_judged():
    world = filtered()
    world.publish(*[0] * 6)
    route(world, 0, 1, 5)
    ids = world.lease()
    world.restart()
    world.ack(0.0, ids[:2])
    assert world.share.cursor.floor == 2
    route(world, 0, 1, 5)
    assert world.share.stats(world.end).backlog == 1
    assert world.offsets() == [5]
    world.ack(0.0, ids[2:])
    assert world.share.cursor.floor == 6


def test_a_key_goes_on_over_what_is_left_out():
    world = filtered("key")
    world.publish(1, 1, 1, 1, 1)
    route(world, 1, 3)
    ids = world.lease()
    assert [offset for _, offset in ids] == [1, 3]
    world.nack(0.0, ids[:1])
    again = world.lease()
    assert [offset for _, offset in again] == [1, 3]
    world.ack(0.0, again)
    assert world.share.cursor.floor == 5


def test_a_restored_lease_finds_its_key_over_what_is_left_out():
    world = filtered("key", exactly_once=True)
    world.publish(1, 1, 1, 1)
    route(world, 1, 3)
    ids = world.lease(deadline_s=100.0)
    world.restart(scan=False)
    route(world, 1, 3)
    world.place_restored()
    assert not world.ack(0.0, ids).is_refused
    assert world.share.cursor.floor == 4


def test_a_filter_that_comes_later_leaves_what_was_met_alone():
    world = World(subscription())
    world.publish(0, 0, 0)
    first = world.lease(max_messages=2)
    change = FilterChange(filter="", before_sequence=9)
    world.configure(replace(world.settings, filter="attributes:x", filter_changes=(change,)))
    assert world.share.routed_to == 2
    world.nack(0.0, first)
    route(world)
    assert world.offsets() == [0, 1]


def test_a_filter_that_goes_has_its_say_written_down():
    world = filtered()
    world.publish(0, 0, 0)
    route(world, 1, end=2)
    world.configure(replace(world.settings, filter=""))
    assert world.unacked == [1, 2]
    assert world.offsets() == [1, 2]
    world.restart()
    assert world.unacked == [1, 2]


def test_seeking_lets_it_be_judged_anew():
    world = filtered()
    world.publish(*[0] * 6)
    route(world, 1, 4)
    world.decided(world.share.settle_passed())
    world.decided(world.share.seek(0, 0, generation=world.next_generation()))
    assert world.share.routed_to == 0
    assert world.unacked == list(range(6))
    route(world, 0, 5)
    assert world.offsets() == [0, 5]


def test_a_message_that_expires_before_it_is_judged():
    world = filtered()
    world.publish(*[0] * 6)
    world.decided(world.share.advance(4))
    assert world.share.routed_to == 4
    route(world, 1, 5)
    assert world.offsets() == [5]
    assert world.share.stats(world.end).backlog == 1


def test_a_snapshot_of_another_cursor_is_judged_from_its_floor_on():
    world = filtered()
    world.publish(*[0] * 6)
    route(world)
    world.decided(world.share.settle_passed())
    generation = world.next_generation()
    world.decided(world.share.restore(Cursor(2, {0: BitMap64([4])}), 0, generation=generation))
    route(world, 0, 3, 4, 5)
    assert world.offsets() == [3, 5]
