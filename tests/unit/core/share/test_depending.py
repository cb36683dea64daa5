"""Messages of a share that wait for others: the corners that a server does not show."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyroaring import BitMap64

from fanlog import limits
from fanlog.core.flow import Credit
from fanlog.core.share import Share, State
from fanlog.model.dependencies import Cause, cause_of
from fanlog.model.ids import message_id
from fanlog.model.resources import PartitionId
from unit.core.world import PARTITION, World, subscription

OTHER = PartitionId(8)


def cause(offset: int, partition: PartitionId = PARTITION) -> Cause:
    return Cause(partition, offset)


def world(ordering="none", *keys: int, causes: dict[int, list[Cause]], **settings) -> World:
    made = World(subscription(ordering, **settings))
    made.publish(*keys)
    made.causes = causes
    return made


def test_a_number_is_an_id():
    assert cause_of(int(message_id(7, 41))) == cause(41)
    assert cause(41).id == "7000000000041"


@pytest.mark.parametrize("ordering", ["none", "key", "strict"])
def test_a_cause_in_another_partition(ordering):
    it = world(ordering, 0, 0, causes={0: [cause(3, OTHER)]})
    other = Share(it.settings, OTHER)
    it.share.siblings = other.siblings = {PARTITION: it.share, OTHER: other}
    assert it.offsets() == [1]
    assert it.share.awaited.offsets == BitMap64()
    assert other.awaited.offsets == BitMap64([3])
    assert other.take_let_go() == ()
    for record in other.acknowledge_exported(BitMap64([3])).records:
        other.apply(record)
    assert other.take_let_go() == [it.share]
    assert other.take_let_go() == ()
    assert it.state_of(0) is State.BACKLOG
    assert it.offsets() == [0]


def test_a_partition_that_is_left_lets_go():
    it = world("none", 0, causes={0: [cause(3, OTHER)]})
    other = Share(it.settings, OTHER)
    siblings = {PARTITION: it.share, OTHER: other}
    it.share.siblings = other.siblings = siblings
    assert it.offsets() == []
    other.remove()
    del siblings[OTHER]
    assert it.offsets() == [0]


def test_a_partition_that_it_does_not_read_holds_up_nothing():
    assert world("none", 0, causes={0: [cause(3, OTHER)]}).offsets() == [0]


def test_one_that_waits_leaves_no_trace_when_it_is_gone():
    it = world("none", 0, 0, 0, causes={1: [cause(0)], 2: [cause(0)]})
    it.lease()
    assert it.share.awaited.offsets == BitMap64([0])
    it.decided(it.share.discard(BitMap64([1])))
    assert it.share.awaited.offsets == BitMap64([0])
    it.decided(it.share.seek(3, 0, generation=it.next_generation()))
    assert it.share.awaited.offsets == BitMap64()
    assert it.share.next_deadline() is None


def test_the_wait_counts_from_the_first_cause():
    labels = {"fanlog-dependency-timeout": "20"}
    it = world("none", 0, 0, 0, causes={2: [cause(0), cause(1)]}, labels=labels)
    it.now = 100.0
    ids = it.lease(deadline_s=1e9)
    it.ack(110.0, ids[:1])
    it.now = 110.0
    assert it.lease() == []
    assert it.state_of(2) is State.DEPENDING
    assert it.share.next_deadline() == 120.0
    assert it.expire(119.0).overdue == 0
    assert it.expire(120.0).overdue == 1
    assert it.offsets() == [2]


@pytest.mark.parametrize("ordering", ["none", "key"])
@pytest.mark.parametrize("key", [0, 5])
def test_more_than_there_is_room_for(monkeypatch, ordering, key):
    monkeypatch.setattr(limits, "DEPENDING_MAX", 2)
    count = 8
    keys = [0, *(key and key + n for n in range(1, count)), 0]
    it = world(ordering, *keys, causes={n: [cause(0)] for n in range(1, count)})
    [first] = it.lease(max_messages=1, deadline_s=1e9)
    found = []
    for _ in range(5):
        found += it.lease(max_messages=4)
    assert [offset for _, offset in found] in ([], [count])
    assert it.share.stats(it.end).depending == 2
    it.ack(1.0, [first])
    got = [offset for _, offset in found]
    for _ in range(10):
        got += it.offsets(max_messages=4)
    assert sorted(got) == [*range(1, count), count]


@pytest.mark.parametrize("ordering", ["none", "key"])
def test_a_reopened_cause_is_waited_for_when_the_turn_comes_again(ordering):
    it = world(ordering, 0, 5, causes={1: [cause(0)]})
    it.ack(1.0, it.lease())
    [effect] = it.lease()
    it.decided(it.share.reopen(1.0, BitMap64([0]), generation=it.next_generation()))
    assert it.state_of(1) is State.OUTSTANDING
    it.nack(2.0, [effect])
    ids = it.lease()
    assert [offset for _, offset in ids] == [0]
    assert it.lease() == []
    assert it.state_of(1) is State.DEPENDING
    it.ack(3.0, ids)
    assert it.offsets() == [1]


def test_a_grant_follows_the_commit_of_the_acknowledgement_that_it_waited_for():
    it = world("none", 0, 0, causes={1: [cause(0)]})
    it.ack(1.0, it.lease())
    consumer = Credit()
    arguments = {"generation": it.next_generation(), "deadline_s": 10.0, "causes": it.causes}
    views = it.read([(1, 2)])
    decision = it.share.lease(consumer, 2, views, consumer.budget(9, 999), **arguments)
    assert decision.grant is not None
    assert decision.follows_commits


def test_filtered_out_while_it_is_awaited():
    it = World(replace(subscription(), filter="some"))
    it.publish(0, 0, 0)
    it.causes = {0: [cause(2)]}
    it.share.route(2, BitMap64([0, 1]))
    assert it.offsets() == [1]
    assert it.state_of(0) is State.DEPENDING
    it.share.route(3, BitMap64())
    it.decided(it.share.settle_passed())
    assert it.offsets() == [0]
