"""A share that a standby keeps ready is the one that a load makes, and goes on as that does.

An owner's share lives at random, and a standby is told its records a few commits at a time. Then a
term begins, once with what the standby kept and once with a load, and both live on in the same way.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyroaring import BitMap64

from fanlog.core.flow import Credit
from fanlog.core.hard_state import HardState
from fanlog.core.records import SubscriptionRecord
from fanlog.core.share import Decision, Share
from fanlog.core.warm_state import StateChange, WarmState
from fanlog.model.resources import Ordering, RetryPolicy, Subscription
from property.test_core_share import OpenToAll
from simulator.warmth import differences
from unit.core.world import PARTITION, World, subscription

CONSUMERS = 3
KEYS = 4
#: A key's hash is its number, in both halves: the upper one says the slot.
HASH = 2**32 + 1
RETRY = RetryPolicy(minimum_backoff_s=4.0, maximum_backoff_s=20.0)
BEFORE, AFTER = 120, 80
#: How often a standby builds in what it was told.
BUILDS = 0.2

SETTINGS: dict[str, Callable[[], Subscription]] = {
    "ordered": lambda: of("key"),
    "ordered, one at a time": lambda: of("strict"),
    "ordered, with a filter": lambda: replace(of("key"), filter="attributes:wanted"),
    "ordered, with attempts": lambda: of("key", retry=RETRY, attempts=2),
    "key slots": lambda: of("key", slots=3),
    "no order": lambda: of("none", retry=RETRY),
}


class Life:
    """A world of one share, and what it answered."""

    def __init__(self, world: World, now: float) -> None:
        self.world = world
        self.now = now
        self.ids: list[tuple[int, int]] = []
        self.answers: list[object] = []
        self.consumers = [Credit() for _ in range(CONSUMERS)]

    def live(self, chance: random.Random, steps: int, then: Callable[[], None]) -> None:
        for _ in range(steps):
            chance.choice(self.deeds)(chance)
            then()

    @property
    def deeds(self) -> Sequence[Callable[[random.Random], None]]:
        return (
            *(self.publish, self.lease, self.lease, self.lease, self.ack, self.ack, self.ack),
            *(self.extend, self.nack, self.let_go_on, self.leave, self.reopen, self.seek),
        )

    def publish(self, chance: random.Random) -> None:
        keys = [chance.randrange(KEYS) * HASH for _ in range(chance.randrange(1, 6))]
        self.world.publish(*keys)
        self.route(chance)

    def route(self, chance: random.Random) -> None:
        share = self.world.share
        if share.settings.is_filtered:
            start, end = share.routed_to, self.world.end
            share.route(end, BitMap64(o for o in range(start, end) if o % 3))
            if chance.random() < 0.3:
                self.world.decided(share.settle_passed())

    def lease(self, chance: random.Random) -> None:
        consumer = chance.choice(self.consumers)
        deadline_s = self.now + chance.choice((10.0, 20.0))
        ids = self.world.lease(consumer, chance.randrange(1, 8), deadline_s=deadline_s)
        self.ids += ids
        self.answers.append(ids)

    def ack(self, chance: random.Random) -> None:
        self.answer(self.world.ack(self.now, self.some_ids(chance), partial=chance.random() < 0.8))

    def extend(self, chance: random.Random) -> None:
        self.answer(self.world.modify(self.now, self.some_ids(chance), 15.0, partial=True))

    def nack(self, chance: random.Random) -> None:
        self.answer(self.world.nack(self.now, self.some_ids(chance)[:2], partial=True))

    def let_go_on(self, chance: random.Random) -> None:
        self.now = self.world.now = self.now + chance.choice((1.0, 6.0, 12.0))
        self.answer(self.world.expire(self.now))
        letters = BitMap64(letter.offset for letter in self.world.letters)
        self.world.letters.clear()
        self.answer(self.world.decided(self.world.share.acknowledge_forwarded(letters)))

    def leave(self, chance: random.Random) -> None:
        index = chance.randrange(CONSUMERS)
        self.world.share.abandon(self.consumers[index])
        self.consumers[index] = Credit()

    def reopen(self, chance: random.Random) -> None:
        offsets = BitMap64(o for o in range(self.world.end) if chance.random() < 0.1)
        generation = self.world.next_generation()
        if chance.random() < 0.3:
            share = self.world.share
            self.answer(self.world.decided(share.reopen(self.now, offsets, generation=generation)))

    def seek(self, chance: random.Random) -> None:
        target = chance.randrange(self.world.end + 1)
        generation = self.world.next_generation()
        if chance.random() < 0.1:
            decision = self.world.share.seek(target, 0, generation=generation)
            self.answer(self.world.decided(decision))
            self.route(chance)

    def some_ids(self, chance: random.Random) -> list[tuple[int, int]]:
        recent = self.ids[-12:]
        return sorted({chance.choice(recent) for _ in range(4)}) if recent else []

    def answer(self, decision: Decision) -> None:
        told = (decision.count, decision.invalid, decision.early)
        self.answers.append((told, [(r.key(), r.value()) for r in decision.records]))


class Standby:
    """Told the changes of a store, some commits at a time."""

    def __init__(self, settings: Subscription, store: dict[bytes, bytes]) -> None:
        record = SubscriptionRecord(settings.id, settings)
        value = record.value()
        assert value is not None
        self._first = (record.key(), value)
        self._store = store
        self._known: dict[bytes, bytes] = dict(store)
        self.warm = WarmState(self.state())

    def state(self) -> list[tuple[bytes, bytes]]:
        return sorted([self._first, *self._store.items()])

    def build(self) -> None:
        known, store = self._known, self._store
        changes: list[StateChange] = [
            (key, store.get(key))
            for key in known.keys() | store.keys()
            if known.get(key) != store.get(key)
        ]
        self._known = dict(store)
        self.warm.change(changes)
        self.warm.settle()
        assert self.warm.stale == ""


def of(ordering: Ordering, **options: Any) -> Any:
    return subscription(ordering, exactly_once=True, **options)


def new_world(settings: Subscription) -> World:
    slots = settings.key_slots
    return World(settings, assignment=OpenToAll(slots) if slots else None)


def begin_term(owner: Life, hard: HardState, chance: random.Random) -> Life:
    """A life that goes on from what a log has, on a share as it is."""
    share: Share | None = hard.share(owner.world.settings.id, PARTITION)
    assert share is not None
    world = new_world(owner.world.settings)
    # Its moves are held to the table of states elsewhere.
    world.transitions = cast(Any, SimpleNamespace(look=lambda *_: None))
    world.share, world.store = cast(Any, share), dict(owner.world.store)
    world.batches, world.generation = list(owner.world.batches), owner.world.generation
    world.now = owner.now
    world.assign()
    life = Life(world, owner.now)
    life.ids = list(owner.ids)
    life.route(chance)
    world.place_restored()
    return life


@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize("seed", range(12))
def test_it_goes_on_as_a_share_that_is_loaded(kind, seed):
    chance, settings = random.Random(f"{kind} {seed}"), SETTINGS[kind]()
    owner = Life(new_world(settings), 1_000.0)
    standby = Standby(settings, owner.world.store)
    owner.live(chance, BEFORE, lambda: standby.build() if chance.random() < BUILDS else None)

    standby.build()
    latest_s = owner.now + chance.choice((5.0, 600.0))
    ready = standby.warm.take(latest_s)
    loaded = HardState.load(standby.state(), latest_deadline_s=latest_s)
    assert list(differences(ready, loaded)) == []

    lives = [begin_term(owner, hard, random.Random(seed)) for hard in (ready, loaded)]
    for life in lives:
        life.live(random.Random(f"{seed} after"), AFTER, lambda: None)
    one, other = lives
    assert len(one.answers) > AFTER / 3
    assert one.answers == other.answers
    assert one.world.store == other.world.store
    assert list(differences(one.world.share, other.world.share)) == []
