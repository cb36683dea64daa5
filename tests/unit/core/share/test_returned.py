"""Which deliveries are redeliveries, and when the leases that acknowledgements end were granted."""

from __future__ import annotations

from pyroaring import BitMap64

from fanlog.core.flow import Credit
from fanlog.core.redelivery import NACKED, UNSENT, Nack
from fanlog.core.share import Grant
from unit.core.world import World, by_generation, subscription


def grant(world: World, now: float = 0.0, max_messages: int = 100) -> Grant:
    credit = Credit()
    budget = credit.budget(max_messages, 1_000_000)
    ranges = world.share.plan(credit, world.end, budget.messages)
    decision = world.share.lease(
        credit,
        world.end,
        world.read(ranges),
        budget,
        generation=world.next_generation(),
        deadline_s=now + 10.0,
        now=now,
    )
    made = world.decided(decision).grant
    assert made is not None
    return made


def ids(made: Grant) -> list[tuple[int, int]]:
    return [(made.generation, o) for run in made.runs for o in range(run.start, run.end)]


def nack(world: World, made: Grant, how: Nack = NACKED) -> None:
    world.decided(
        world.share.modify_ack_deadline(1.0, by_generation(ids(made)), 0, jitter=0.0, nack=how)
    )


def published(count: int = 3) -> World:
    world = World(subscription())
    world.publish(*[0] * count)
    return world


def test_the_first_delivery_is_none():
    assert grant(published()).redelivered == 0


def test_after_a_nack_and_after_an_expiry():
    world = published()
    nack(world, grant(world, max_messages=2))
    assert grant(world).redelivered == 2
    world.expire(100.0)
    assert grant(world).redelivered == 3


def test_what_never_left_was_not_delivered():
    world = published()
    nack(world, grant(world), UNSENT)
    assert grant(world).redelivered == 0


def test_what_is_acknowledged_is_forgotten():
    world = published(1)
    made = grant(world)
    nack(world, made)
    world.ack(2.0, ids(made))
    reopened = BitMap64([0])
    world.decided(world.share.reopen(3.0, reopened, generation=world.next_generation()))
    assert grant(world).redelivered == 0


def test_an_acknowledgement_tells_when_its_leases_were_granted():
    world = published()
    first, second = grant(world, 5.0, max_messages=2), grant(world, 7.0)
    ended = world.ack(9.0, [*ids(first), *ids(second)]).ended
    assert [(granted_s, count) for granted_s, count, _ in ended] == [(5.0, 2), (7.0, 1)]


def test_a_late_one_ends_no_lease():
    world = published(1)
    made = grant(world)
    nack(world, made)
    decision = world.ack(2.0, ids(made))
    assert (decision.count, decision.ended) == (1, [])
