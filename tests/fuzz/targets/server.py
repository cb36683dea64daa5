"""Requests through the real handlers, on a broker in memory: see `fuzz.world`."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import grpc

from fanlog.wire import types
from fuzz.bounds import Target
from fuzz.draw import Draw
from fuzz.fill import filled
from fuzz.world import METHODS, SUBSCRIPTIONS, TOPIC, Aborted, Context, World, facts

NAMES = tuple(METHODS)
#: Places in a story of requests that are no method: time passes, so many seconds.
PAUSE = len(NAMES)
PAUSES_S = (0.5, 11.0, 601.0, 8 * 86_400.0)

CALLS_MAX = 12

#: Steps of a stream's story.
SEND, PUBLISH, WAIT, SETTLE, DELETE = range(5)


def requests(data: bytes) -> None:
    """Any requests in a row: never a fault of ours, no hang, nothing changed by what is refused."""

    async def story(world: World) -> None:
        draw = Draw(data)
        for _ in range(CALLS_MAX):
            if draw.is_empty:
                return
            place, raw = draw.below(PAUSE + 1), draw.chunk()
            if place == PAUSE:
                world.clock.advance(PAUSES_S[len(raw) % len(PAUSES_S)])
                await world.settle()
            else:
                await _request(world, NAMES[place], raw)

    World.run(story)


def verbs(data: bytes) -> None:
    """As `requests`, with requests that mean something: they are drawn field by field."""

    async def story(world: World) -> None:
        draw = Draw(data)
        for _ in range(CALLS_MAX):
            if draw.is_empty:
                return
            place = draw.below(PAUSE + 1)
            if place == PAUSE:
                world.clock.advance(draw.pick(PAUSES_S))
                await world.settle()
            else:
                request = filled(draw, METHODS[NAMES[place]]())
                if hasattr(request, "ack_ids") and request.subscription not in world.prefixes:
                    pull = types.PullRequest(subscription=request.subscription, max_messages=3)
                    await _request(world, "Pull", pull.SerializeToString())
                await _request(world, NAMES[place], request.SerializeToString())

    World.run(story)


async def _request(world: World, method: str, raw: bytes) -> None:
    await world.settle()
    before = everything(world)
    world.has_waited = False
    context = Context()
    answer = await world.call(method, world.resolved(raw), context)
    if answer is None:
        assert context.status is not grpc.StatusCode.OK
        if not world.has_waited:
            assert everything(world) == before, f"{method} was refused and changed something"
    else:
        assert context.status is grpc.StatusCode.OK


def everything(world: World) -> list[object]:
    # When a subscription was last used is written down now and then, whatever came of it.
    stored = [(key, value) for key, value in world.store.state() if key[:1] != b"U"]
    return [facts(world.broker.hard), stored, dict(world.store.partitions())]


def stream(data: bytes) -> None:
    """Any requests on a stream: it ends when its client has said all, well or with a status."""

    async def story(world: World) -> None:
        draw, context = Draw(data), Context()
        streaming = world.method("StreamingPull").streaming
        assert streaming is not None
        first = draw.chunk()
        context.requests.put_nowait(first)
        task = asyncio.ensure_future(context.serve(streaming(context)))
        await world.turn(task)
        for _ in range(CALLS_MAX):
            if draw.is_empty or task.done():
                break
            world.note_answers(_subscription_of(first), context)
            await _step(world, context, draw.below(5), draw.chunk())
            await world.turn(task)
        context.requests.put_nowait(None)
        with suppress(Aborted):
            await world.finish(_awaited(task))
        assert world.broker.metrics.streams == 0
        assert not list(world.broker.feeds)

    World.run(story)


async def _step(world: World, context: Context, kind: int, raw: bytes) -> None:
    match kind:
        case 0:
            context.requests.put_nowait(world.resolved(raw))
        case 1:
            request = types.PublishRequest(topic=TOPIC, messages=[{"data": raw or b"0"}])
            await world.call("Publish", request.SerializeToString())
        case 2:
            world.clock.advance(PAUSES_S[len(raw) % len(PAUSES_S)])
        case 3:
            await world.settle()
        case _:
            await world.call(
                "DeleteSubscription",
                types.DeleteSubscriptionRequest(
                    subscription=SUBSCRIPTIONS["plain"]
                ).SerializeToString(),
            )


def _subscription_of(raw: bytes) -> str:
    # Only asked when the stream lives, and then it is a request.
    return str(types.StreamingPullRequest.FromString(raw).subscription)


async def _awaited(task: asyncio.Future[Any]) -> Any:
    return await task


TARGETS = (
    Target(name="requests", run=requests, memory_max=8 * 1024 * 1024),
    Target(name="verbs", run=verbs, size_max=512, memory_max=8 * 1024 * 1024),
    Target(name="stream", run=stream, memory_max=8 * 1024 * 1024),
)
