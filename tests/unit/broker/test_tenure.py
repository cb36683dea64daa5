"""A broker that is not sure to be the only one delivers nothing, and goes on when it is."""

from __future__ import annotations

import asyncio

from fanlog.broker.assembly import build_broker
from fanlog.broker.broker import Broker
from fanlog.broker.clock import ManualClock
from fanlog.broker.committer import InlineCommitter
from fanlog.broker.events import Event
from fanlog.log.memory import MemoryLog
from fanlog.model.specs import SubscriptionSpec, TopicSpec
from fanlog.wire import contents
from fanlog.wire.candidates import candidates
from fanlog.wire.forward import compose
from fanlog.wire.publish import build_body

TOPIC, SUBSCRIPTION = "projects/p/topics/orders", "projects/p/subscriptions/packing"


class Doubtful:
    """A tenure that the test decides."""

    def __init__(self) -> None:
        self.is_sure = True
        self.on_sure: Event[None] = Event()

    def doubt(self) -> None:
        self.is_sure = False

    def be_sure(self) -> None:
        self.is_sure = True
        self.on_sure.tell(None)


async def broker_of(tenure: Doubtful) -> Broker:
    store = MemoryLog()
    broker = build_broker(
        *(store, InlineCommitter(store), ManualClock()),
        compose=compose,
        candidates=candidates,
        contents=contents,
        jitter=lambda: 0.5,
        tenure=tenure,
    )
    await broker.start()
    await broker.topics.create(TopicSpec(name=TOPIC))
    await broker.subscriptions.create(SubscriptionSpec(name=SUBSCRIPTION, topic=TOPIC))
    await broker.publish(TOPIC, build_body([(b"one", {}, "")]))
    return broker


async def pulled(broker: Broker, wait_s: float = 0.0) -> int:
    _, deliveries = await broker.pull(SUBSCRIPTION, max_messages=10, wait_s=wait_s)
    return sum(one.count for one in deliveries)


async def test_nothing_is_leased_while_it_is_in_doubt():
    tenure = Doubtful()
    broker = await broker_of(tenure)
    tenure.doubt()
    assert await pulled(broker) == 0
    tenure.be_sure()
    assert await pulled(broker) == 1
    await broker.stop()


async def test_whoever_waits_is_served_when_it_is_sure_again():
    tenure = Doubtful()
    broker = await broker_of(tenure)
    tenure.doubt()
    waiting = asyncio.ensure_future(pulled(broker, wait_s=60.0))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not waiting.done()
    tenure.be_sure()
    assert await waiting == 1
    await broker.stop()


async def test_a_doubt_that_comes_while_batches_are_read_holds_them_back():
    tenure = Doubtful()
    broker = await broker_of(tenure)
    _, feed = broker.attach(SUBSCRIPTION)
    read = feed._read

    async def slowly(*args):
        found = await read(*args)
        tenure.doubt()
        return found

    feed._read = slowly
    assert await pulled(broker) == 0
    feed._read = read
    tenure.be_sure()
    assert await pulled(broker) == 1
    await broker.stop()
