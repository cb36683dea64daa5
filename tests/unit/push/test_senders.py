"""Senders on a broker in memory, with requests that are answered by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from fanlog import limits
from fanlog.broker.assembly import BrokerSettings, build_broker
from fanlog.broker.clock import ManualClock
from fanlog.broker.committer import InlineCommitter
from fanlog.log.memory import MemoryLog
from fanlog.model.resources import PushConfig
from fanlog.model.specs import SubscriptionSpec, TopicSpec
from fanlog.model.updates import SubscriptionUpdate
from fanlog.push.rules.guard import Guard
from fanlog.push.rules.outcome import Outcome, of_status
from fanlog.push.rules.packing import Request, pack_web
from fanlog.push.senders.endpoint_check import EndpointCheck
from fanlog.push.senders.host_resolver import HostResolver
from fanlog.push.senders.tokens import Tokens
from fanlog.push.service import PushService
from fanlog.wire.candidates import candidates
from fanlog.wire.forward import compose
from fanlog.wire.publish import build_body

TOPIC, NAME = "projects/p/topics/topic", "projects/p/subscriptions/pushed"
HERE, THERE = "http://8.8.8.8/here", "http://8.8.4.4/there"
SECRET = "whsec_" + "c" * 32


class ByHand:
    """A transport on which every request waits until it is answered."""

    messages_max = 1
    bytes_max = limits.PUSH_BYTES_MAX
    pack = staticmethod(pack_web)

    def __init__(self) -> None:
        self.requests: list[tuple[str, Mapping[str, str], asyncio.Future[Outcome]]] = []

    async def close(self) -> None:
        pass

    async def send(self, request: Request) -> Outcome:
        answer = asyncio.get_running_loop().create_future()
        self.requests.append((request.endpoint.url, request.headers, answer))
        return await answer

    @property
    def urls(self) -> list[str]:
        return [url for url, _, _ in self.requests]

    def answer(self, number: int, status: int) -> None:
        self.requests[number][2].set_result(of_status(status, None, 0.0))


class World:
    def __init__(self) -> None:
        clock, store = ManualClock(), MemoryLog()
        self.network = ByHand()
        resolver = HostResolver(Guard(), clock.now)
        self.broker = build_broker(
            store,
            InlineCommitter(store),
            clock,
            compose=compose,
            candidates=candidates,
            jitter=lambda: 0.5,
            settings=BrokerSettings(disk_reserve_bytes=0),
            check_endpoint=EndpointCheck(resolver),
        )
        self.senders = PushService(
            self.broker, clock, resolver, Tokens(self.broker.secrets, clock), web=self.network
        )

    async def subscribe(self, name: str = NAME) -> None:
        spec = SubscriptionSpec(name=name, topic=TOPIC, push=PushConfig(endpoint=HERE))
        await self.broker.subscriptions.create(spec)

    async def publish(self, count: int) -> None:
        await self.broker.publish(TOPIC, build_body([(b"x", {}, "")] * count))
        await settle()

    async def change(self, **changes: object) -> None:
        update = SubscriptionUpdate(name=NAME, changes=changes)
        await self.broker.subscriptions.update(update)


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


@asynccontextmanager
async def pushing() -> AsyncIterator[World]:
    world = World()
    await world.broker.start()
    world.senders.start("http://test")
    await world.broker.topics.create(TopicSpec(name=TOPIC))
    await world.subscribe()
    try:
        yield world
    finally:
        await world.senders.stop(0)
        await world.broker.stop()


@pytest.fixture
def one_connection(monkeypatch):
    """Requests after the first wait for it."""
    monkeypatch.setattr(limits, "PUSH_CONNECTIONS_PER_HOST_MAX", 1)


@pytest.mark.parametrize("how", ["pulled from", "deleted", "detached", "off"])
def test_what_waits_for_a_connection_is_not_sent_when_push_has_ended(one_connection, how):
    async def run() -> None:
        async with pushing() as world:
            await world.publish(3)
            assert world.network.urls == [HERE]
            match how:
                case "pulled from":
                    await world.change(push=None)
                case "deleted":
                    await world.broker.subscriptions.delete(NAME)
                case "detached":
                    await world.broker.subscriptions.detach(NAME)
            world.network.answer(0, 410 if how == "off" else 200)
            await settle()
            assert world.network.urls == [HERE]
            if how == "pulled from":
                # Whoever pulls has the others at once.
                _, [delivery] = await world.broker.pull(NAME, max_messages=10, wait_s=0)
                assert delivery.count == 2

    asyncio.run(run())


def test_what_waits_for_a_connection_goes_to_the_present_endpoint(one_connection):
    async def run() -> None:
        async with pushing() as world:
            await world.publish(2)
            changes = {"push": PushConfig(endpoint=THERE), "push.webhook_secrets": (SECRET,)}
            await world.change(**changes)
            world.network.answer(0, 200)
            await settle()
            assert world.network.urls == [HERE, THERE]
            assert "webhook-signature" not in world.network.requests[0][1]
            # Signed as the new endpoint expects it.
            assert "webhook-signature" in world.network.requests[1][1]
            world.network.answer(1, 200)
            await settle()

    asyncio.run(run())


def test_a_sender_goes_with_its_subscription():
    async def run() -> None:
        async with pushing() as world:
            for _ in range(3):
                await world.broker.subscriptions.delete(NAME)
                await world.subscribe()
            await settle()
            assert [sender.name for sender in world.senders] == [NAME]

    asyncio.run(run())
