"""Ticking on a clock that is set while it works."""

from __future__ import annotations

import asyncio

import pytest

from fanlog.broker.assembly import build_broker
from fanlog.broker.broker import Broker
from fanlog.broker.clock import ManualClock
from fanlog.broker.committer import ThreadCommitter
from fanlog.log.memory import MemoryLog
from fanlog.model.schedules import Schedule
from fanlog.model.specs import TopicSpec
from fanlog.wire import contents
from fanlog.wire.candidates import candidates
from fanlog.wire.forward import compose

TOPIC = "projects/p/topics/orders"
START_S = 1_780_000_020.0 - 1_780_000_020.0 % 60


class SetClock(ManualClock):
    """A clock whose time of the day is set back when it has been read some times."""

    def __init__(self) -> None:
        super().__init__(START_S)
        self.reads_left = 1_000_000
        self.back_s = 0.0

    def wall_ns(self) -> int:
        self.reads_left -= 1
        return int((self.now() - (self.back_s if self.reads_left < 0 else 0.0)) * 1e9)


async def started(clock: ManualClock) -> Broker:
    store = MemoryLog()
    broker = build_broker(
        store,
        ThreadCommitter(store),
        clock,
        compose=compose,
        candidates=candidates,
        contents=contents,
        jitter=lambda: 0.5,
    )
    await broker.start()
    await broker.topics.create(TopicSpec(name=TOPIC))
    return broker


@pytest.mark.parametrize("reads", range(6))
async def test_a_clock_that_is_set_back_in_the_middle(reads: int) -> None:
    clock = SetClock()
    broker = await started(clock)
    name = "projects/p/schedules/one"
    await broker.schedules.create(Schedule(name=name, topic=TOPIC, cron="* * * * *", data=b"x"))
    clock.back_s, clock.reads_left = 30.0, reads
    clock.advance(60)
    # It comes to an end, whenever the clock is set.
    async with asyncio.timeout(10):
        await broker.ticking.tick()
    for published in (1, 2):
        clock.advance(60)
        await broker.ticking.tick()
        assert (await broker.schedules.get(name)).progress.published == published
    await broker.stop()
