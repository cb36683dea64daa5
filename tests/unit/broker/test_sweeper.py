"""Sweeps come every few seconds, and once a minute where nothing happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from fanlog import limits
from fanlog.broker import sweeper
from fanlog.broker.assembly import build_broker
from fanlog.broker.clock import ManualClock
from fanlog.broker.committer import InlineCommitter
from fanlog.errors import CommitFailed
from fanlog.log.memory import MemoryLog
from fanlog.model.specs import SubscriptionSpec, TopicSpec
from fanlog.wire.candidates import candidates
from fanlog.wire.forward import compose
from fanlog.wire.publish import build_body

TOPIC, NAME = "projects/p/topics/orders", "projects/p/subscriptions/billing"
DAY_S = 86_400.0
#: Turns of a minute.
MINUTE = round(sweeper.SWEEP_QUIET_S / sweeper.SWEEP_S)


class World:
    """A broker whose sweeps are counted."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.clock = ManualClock()
        committer = InlineCommitter(self.log)
        self.broker = build_broker(
            self.log,
            committer,
            self.clock,
            compose=compose,
            candidates=candidates,
            jitter=lambda: 0.0,
        )
        self.sweeps = 0
        self.fails = False
        self._sweep = self.broker.sweeper.sweep
        self.broker.sweeper.sweep = self._count  # type: ignore[method-assign]

    async def _count(self) -> None:
        self.sweeps += 1
        if self.fails:
            raise CommitFailed("this time")
        await self._sweep()

    async def publish(self, count: int = 1) -> None:
        for _ in range(count):
            await self.broker.publish(TOPIC, build_body([(b"x", {}, "")]))

    async def pass_turns(self, turns: int) -> int:
        """Let so many times pass after which there may be a sweep; how many there were."""
        before = self.sweeps
        for _ in range(turns):
            for step_s in (sweeper.SWEEP_REST_S, sweeper.SWEEP_S - sweeper.SWEEP_REST_S):
                self.clock.advance(step_s)
                for _ in range(50):
                    await asyncio.sleep(0)
        return self.sweeps - before


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.broker.start()
    await world.broker.topics.create(TopicSpec(name=TOPIC, message_retention_s=DAY_S))
    yield world
    await world.broker.stop()


async def test_once_a_minute_where_nothing_happens(world: World):
    await world.pass_turns(MINUTE)
    assert await world.pass_turns(10 * MINUTE) == 10


async def test_soon_after_a_commit_and_no_more_than_that(world: World):
    await world.pass_turns(2)
    assert await world.pass_turns(2) == 0
    await world.publish()
    assert await world.pass_turns(1) == 1
    assert await world.pass_turns(2) == 0


async def test_again_when_one_failed(world: World):
    await world.pass_turns(2)
    await world.publish()
    world.fails = True
    assert await world.pass_turns(3) == 3
    world.fails = False
    assert await world.pass_turns(3) == 1


async def test_again_while_filters_are_behind(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "SWEEP_ROUTED_MAX", 1)
    for number in range(3):
        spec = SubscriptionSpec(name=f"{NAME}-{number}", topic=TOPIC, filter="NOT attributes:k")
        await world.broker.subscriptions.create(spec)
    await world.publish()
    assert await world.pass_turns(6) == 4
    assert [share.routed_to for share in world.broker.hard.shares()] == [1, 1, 1]


async def test_what_time_brings_is_there_a_minute_later(world: World):
    await world.broker.topics.create(TopicSpec(name=f"{TOPIC}-2", message_retention_s=600.0))
    await world.broker.publish(f"{TOPIC}-2", build_body([(b"x", {}, "")]))
    (partition,) = world.broker.hard.catalog.topic(f"{TOPIC}-2").partitions
    await world.pass_turns(9 * MINUTE)
    assert world.log.bounds(partition).start == 0
    await world.pass_turns(2 * MINUTE)
    assert world.log.bounds(partition).start == 1
