"""Messages that stand behind a later one, whose leases end before the backlog comes to it."""

from __future__ import annotations

import pytest
from pyroaring import BitMap64

from fanlog.core.flow import Credit
from fanlog.core.share import State
from fanlog.model.sequences import Numbered
from unit.core.sequenced import Sequenced
from unit.core.world import RETRY, Id, subscription

#: Offsets: 1 first, then 3 and 4 behind a gap, one that stands by itself, and 2 fills the gap.
FIRST, THIRD, FOURTH, OTHER, SECOND = range(5)


def numbered(number: int, publisher: str = "p") -> Numbered:
    return Numbered(publisher, 0, number, b"12345678")


def leased(world: Sequenced) -> dict[int, Id]:
    """1, 2 and the one by itself were handed out before 3 and 4: the leases of these two."""
    for _ in range(3):
        ids = {one[1]: one for one in world.lease(deadline_s=600.0)}
        if THIRD in ids:
            break
        if OTHER in ids:
            # It fails, and is before the anchor when the share starts again.
            world.nack(0.0, [ids.pop(OTHER)])
        world.ack(0.0, ids.values())
    while FOURTH not in ids:
        ids |= {one[1]: one for one in world.lease(deadline_s=600.0)}
    if OTHER in ids:
        world.nack(0.0, [ids.pop(OTHER)])
    assert set(ids) == {THIRD, FOURTH}
    return ids


def taken(world: Sequenced, most: int = 10) -> list[int]:
    return [offset for _, offset in world.lease(None, most, deadline_s=world.now + 600.0)]


def world_of(ordering, retry=None) -> Sequenced:
    world = Sequenced(subscription(ordering, exactly_once=True, retry=retry))
    world.begin()
    for number, publisher, key in ((1, "p", 1), (3, "p", 1), (4, "p", 1), (1, "q", 0), (2, "p", 1)):
        world.say([numbered(number, publisher)], [key])
    return world


@pytest.mark.parametrize("scans", [False, True])
@pytest.mark.parametrize("ordering", ["none", "key"])
@pytest.mark.parametrize("retry", [None, RETRY], ids=["at once", "after a while"])
def test_a_lease_of_before_the_restart_that_ends_before_the_anchor(ordering, retry, scans):
    world = world_of(ordering, retry)
    out = leased(world)
    world.now = 100.0
    world.restart()
    if scans:
        world.place_restored()
    else:
        # It is before the anchor, and is handed out alone.
        assert taken(world, 1) == [OTHER]
    world.nack(100.0, [out[THIRD]])
    world.now = 200.0
    world.expire(200.0)
    found: list[int] = []
    # By one consumer, a message at a time.
    consumer = Credit()
    for _ in range(5):
        found += [offset for _, offset in world.lease(consumer, 1, deadline_s=900.0)]
    assert found.count(THIRD) == 1
    outstanding = world.share.offsets_by_state(world.end)[State.OUTSTANDING]
    if ordering == "none":
        assert found.count(FOURTH) == 0, "its lease goes on"
    else:
        assert found[-2:] == [THIRD, FOURTH]
    assert {THIRD, FOURTH} <= set(outstanding)


@pytest.mark.parametrize("ordering", ["none", "key", "strict"])
def test_leases_of_before_a_restart_are_acknowledged_after_it(ordering):
    world = world_of(ordering)
    if ordering == "strict":
        while THIRD not in (ids := {one[1]: one for one in world.lease(deadline_s=600.0)}):
            world.ack(0.0, ids.values())
    else:
        ids = leased(world)
    world.restart()
    world.place_restored()
    assert not world.share.unplaced
    for one in ids.values():
        assert world.ack(1.0, [one]).count == 1
    while found := world.lease():
        world.ack(1.0, found)
    assert world.unacked == []


def test_what_fails_after_a_step_back_is_met_once():
    """1 is reopened while 3 is out, which stands behind 2 and so comes after it again."""
    world = world_of("key")
    while SECOND not in (ids := {one[1]: one for one in world.lease(deadline_s=600.0)}):
        world.ack(0.0, ids.values())
    world.ack(0.0, ids.values())
    world.say([numbered(5)], [1])
    first = Credit()
    out = {one[1]: one for one in world.lease(first, deadline_s=600.0)}
    out |= {one[1]: one for one in world.lease(first, deadline_s=600.0)}
    assert set(out) == {THIRD, FOURTH, 5}
    world.decided(
        world.share.reopen(0.0, BitMap64([FIRST, OTHER]), generation=world.next_generation())
    )
    world.nack(0.0, [out[THIRD]])
    consumer, found = Credit(), []
    for _ in range(10):
        found += [offset for _, offset in world.lease(consumer, 1, deadline_s=900.0)]
    assert [one for one in found if one != OTHER] == [FIRST, THIRD, FOURTH, 5]
    assert found.count(OTHER) == 1


@pytest.mark.parametrize("ordering", ["none", "key", "strict"])
def test_what_a_seek_acknowledged_behind_an_anchor_is_not_handed_out(ordering):
    world = Sequenced(subscription(ordering, exactly_once=True))
    world.begin()
    world.say([numbered(1), numbered(0)], [1, 1])
    world.decided(world.share.seek(1, 0, generation=world.next_generation()))
    assert taken(world) == [1]
    assert taken(world) == []
    world.decided(world.share.reopen(0.0, BitMap64([0]), generation=world.next_generation()))
    assert taken(world) in ([0], []), "a strict key waits for 1"
