"""The rate of a push endpoint, and its breaker's thresholds, on a broker in memory."""

from __future__ import annotations

import asyncio

import pytest

from fanlog.model.resources import PushConfig
from unit.push.test_senders import HERE, THERE, World, pushing, settle


async def answer_all(world: World, status: int = 200) -> None:
    for number, (_, _, answer) in enumerate(world.network.requests):
        if not answer.done():
            world.network.answer(number, status)
    await settle()


async def pass_time(world: World, seconds: float) -> None:
    world.broker.clock.advance(seconds)
    await settle()


def test_no_more_is_sent_than_the_rate_allows():
    async def run() -> None:
        async with pushing() as world:
            await world.change(labels={"fanlog-push-rate": "3"})
            await world.publish(20)
            # The first second's worth; the window would let four be under way.
            assert len(world.network.requests) == 3
            await answer_all(world)
            assert len(world.network.requests) == 3
            for sent in (6, 9, 12):
                for _ in range(3):
                    await pass_time(world, 1 / 3)
                    await answer_all(world)
                assert len(world.network.requests) == sent

    asyncio.run(run())


def test_messages_that_wait_for_it_are_not_leased():
    async def run() -> None:
        async with pushing() as world:
            await world.change(labels={"fanlog-push-rate": "1"})
            await world.publish(5)
            found = world.broker.hard.catalog.subscription("projects/p/subscriptions/pushed")
            state = await world.broker.backlogs.measure(found)
            assert (len(world.network.requests), state.outstanding) == (1, 1)
            [sender] = world.senders
            assert sender.rate_waits > 0

    asyncio.run(run())


def test_retries_count():
    async def run() -> None:
        async with pushing() as world:
            await world.change(labels={"fanlog-push-rate": "2"})
            await world.publish(1)
            await answer_all(world, 500)
            # The first retry is immediate, and takes the second token; the next has to wait.
            assert len(world.network.requests) == 2
            await answer_all(world)
            await world.publish(2)
            assert len(world.network.requests) == 2
            await pass_time(world, 1.0)
            assert len(world.network.requests) == 4

    asyncio.run(run())


@pytest.mark.parametrize("how", ["taken away", "raised", "another endpoint"])
def test_a_change_is_followed_at_once(how):
    async def run() -> None:
        async with pushing() as world:
            await world.change(labels={"fanlog-push-rate": "1"})
            await world.publish(4)
            assert world.network.urls == [HERE]
            match how:
                case "taken away":
                    await world.change(labels={})
                case "raised":
                    await world.change(labels={"fanlog-push-rate": "1000"})
                    await pass_time(world, 0.01)
                case "another endpoint":
                    # Its bucket is its own.
                    await world.change(push=PushConfig(endpoint=THERE))
            await answer_all(world)
            await settle()
            sent = 2 if how == "another endpoint" else 4
            assert len(world.network.requests) == sent

    asyncio.run(run())


def test_the_breaker_opens_when_the_label_says():
    async def run() -> None:
        async with pushing() as world:
            labels = {"fanlog-push-breaker-failures": "1", "fanlog-push-breaker-wait": "20"}
            await world.change(labels=labels)
            await world.publish(1)
            await answer_all(world, 500)
            [sender] = world.senders
            assert sender.breaker.state(world.broker.clock.now()) == "open"
            await pass_time(world, 19)
            assert len(world.network.requests) == 1
            await pass_time(world, 1.5)
            assert len(world.network.requests) == 2

    asyncio.run(run())
