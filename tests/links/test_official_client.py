"""The official client for Python through a node that does not own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.api_core import exceptions
from google.cloud import pubsub_v1
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport

from fanlog.config import Config
from fanlog.server import grpc_api
from fanlog.server.app import Server, running
from fanlog.server.services import SERVICES
from links.nodes import Node, backend, running_nodes, until

TOPIC = "projects/shop/topics/orders"
SUBSCRIPTION = "projects/shop/subscriptions/billing"
MEGABYTE = 1024 * 1024


@dataclass
class World:
    server: Server
    owner: Node
    other: Node
    publisher: Any
    subscriber: Any

    def methods(self) -> Any:
        return grpc_api.make_methods(SERVICES, self.server.broker)

    def make(self, **fields: Any) -> None:
        self.publisher.create_topic(name=TOPIC)
        request = {"name": SUBSCRIPTION, "topic": TOPIC} | fields
        self.subscriber.create_subscription(request=request)

    @property
    def counts(self) -> Any:
        catalog = self.server.broker.hard.catalog
        found = catalog.subscription(SUBSCRIPTION)
        return self.server.broker.backlogs.measure(found)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    forms = list(grpc_api.method_forms(SERVICES))
    owner, other = Node("owner", forms), Node("other", forms)
    async with (
        running(Config(port=0, http_port=None, memory=True, drain_s=0.2)) as server,
        running_nodes(owner, other),
    ):
        options = [
            ("grpc.max_receive_message_length", -1),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        channel = grpc.insecure_channel(other.endpoint, options=options)
        publisher = pubsub_v1.PublisherClient(transport=PublisherGrpcTransport(channel=channel))
        subscriber = pubsub_v1.SubscriberClient(transport=SubscriberGrpcTransport(channel=channel))
        one = World(server, owner, other, publisher, subscriber)
        owner.gateway.serve_locally(backend(one.methods()))
        other.gateway.forward_to(owner.card)
        try:
            yield one
        finally:
            await asyncio.to_thread(publisher.stop)
            await asyncio.to_thread(subscriber.close)


class Inbox:
    """Takes messages in the client's threads."""

    def __init__(self, take: Callable[[Any], None] = lambda message: message.ack()) -> None:
        self._take = take
        self.messages: list[Any] = []
        self._lock = threading.Lock()

    def __call__(self, message: Any) -> None:
        with self._lock:
            self.messages.append(message)
        self._take(message)


async def drained(world: World) -> None:
    async with asyncio.timeout(20):
        while (await world.counts).messages:
            await asyncio.sleep(0.01)


async def test_messages_are_published_pulled_and_acknowledged(world):
    def work() -> list[bytes]:
        world.make()
        futures = [world.publisher.publish(TOPIC, b"%d" % number) for number in range(500)]
        assert len({future.result(20) for future in futures}) == 500
        found: list[bytes] = []
        while len(found) < 500:
            answer = world.subscriber.pull(subscription=SUBSCRIPTION, max_messages=200, timeout=20)
            found += [one.message.data for one in answer.received_messages]
            ack_ids = [one.ack_id for one in answer.received_messages]
            world.subscriber.acknowledge(subscription=SUBSCRIPTION, ack_ids=ack_ids)
        return found

    found = await asyncio.to_thread(work)
    assert sorted(map(int, found)) == list(range(500))
    await drained(world)


async def test_errors_are_those_of_the_owner(world):
    def ask() -> None:
        world.publisher.get_topic(topic=TOPIC)

    with pytest.raises(exceptions.NotFound) as refused:
        await asyncio.to_thread(ask)
    assert refused.value.reason == "TOPIC_NOT_FOUND"
    assert refused.value.domain == "fanlog"


async def test_a_pull_that_waits_ends_before_its_deadline(world):
    def ask() -> int:
        world.make()
        answer = world.subscriber.pull(
            subscription=SUBSCRIPTION, max_messages=1, timeout=1.0, retry=None
        )
        return len(answer.received_messages)

    assert await asyncio.to_thread(ask) == 0


async def test_a_streaming_pull(world):
    await asyncio.to_thread(world.make)
    inbox = Inbox()
    future = world.subscriber.subscribe(SUBSCRIPTION, inbox)
    publishing = [
        asyncio.wrap_future(world.publisher.publish(TOPIC, b"%d" % n)) for n in range(300)
    ]
    sent = await asyncio.gather(*publishing)
    await until(lambda: len(inbox.messages) >= 300)
    assert {one.message_id for one in inbox.messages} == set(sent)
    await drained(world)
    assert world.server.broker.metrics.streams == 1
    await asyncio.to_thread(_stop, future)
    await until(lambda: world.server.broker.metrics.streams == 0)
    assert len(inbox.messages) == 300


async def test_its_flow_control_is_that_of_the_client(world):
    """No more is outstanding at the owner than the client asked for."""
    await asyncio.to_thread(world.make)
    inbox = Inbox(lambda message: None)
    control = pubsub_v1.types.FlowControl(max_messages=7)
    future = world.subscriber.subscribe(SUBSCRIPTION, inbox, flow_control=control)
    for number in range(50):
        await asyncio.wrap_future(world.publisher.publish(TOPIC, b"%d" % number))
    await until(lambda: len(inbox.messages) == 7)
    assert (await world.counts).outstanding == 7
    for one in inbox.messages[:3]:
        one.ack()
    await until(lambda: len(inbox.messages) == 10)
    assert (await world.counts).outstanding == 7
    await asyncio.to_thread(_stop, future)


async def test_messages_of_ten_megabytes(world):
    size = 10_000_000 - 1_000
    await asyncio.to_thread(world.make)
    inbox = Inbox()
    future = world.subscriber.subscribe(SUBSCRIPTION, inbox)
    for number in range(4):
        data = bytes([number]) * size
        await asyncio.wrap_future(world.publisher.publish(TOPIC, data))
    await until(lambda: len(inbox.messages) == 4)
    assert sorted(one.data[:1] for one in inbox.messages) == [b"\0", b"\1", b"\2", b"\3"]
    assert {len(one.data) for one in inbox.messages} == {size}
    await drained(world)
    await asyncio.to_thread(_stop, future)


async def test_exactly_once_confirmations_come_back(world):
    await asyncio.to_thread(world.make, enable_exactly_once_delivery=True)
    outcomes: list[Any] = []

    def take(message: Any) -> None:
        outcomes.append(message.ack_with_response())

    future = world.subscriber.subscribe(SUBSCRIPTION, Inbox(take))
    await asyncio.wrap_future(world.publisher.publish(TOPIC, b"x"))
    await until(lambda: bool(outcomes))
    found = await asyncio.to_thread(outcomes[0].result, 20)
    assert found is pubsub_v1.subscriber.exceptions.AcknowledgeStatus.SUCCESS
    await asyncio.to_thread(_stop, future)


async def test_the_owner_goes_in_the_middle(world):
    """The stream is opened again at the new owner; a publish waits for it and is not lost."""
    await asyncio.to_thread(world.make)
    inbox = Inbox()
    future = world.subscriber.subscribe(SUBSCRIPTION, inbox)
    ids = [await asyncio.wrap_future(world.publisher.publish(TOPIC, b"%d" % n)) for n in range(50)]
    await until(lambda: len(inbox.messages) >= 50)
    await world.owner.link_server.stop(0.0)
    waiting = [
        asyncio.wrap_future(world.publisher.publish(TOPIC, b"%d" % n)) for n in range(50, 90)
    ]
    await until(lambda: world.other.gateway.waiting > 0)
    # The same log, and another node: as after a take-over.
    world.other.gateway.serve_locally(backend(world.methods()))
    ids += await asyncio.gather(*waiting)
    await until(lambda: len({one.message_id for one in inbox.messages}) == 90)
    assert {one.message_id for one in inbox.messages} == set(ids)
    await drained(world)
    assert not future.done()
    await asyncio.to_thread(_stop, future)


def _stop(future: Any) -> None:
    future.cancel()
    future.result(timeout=20)
