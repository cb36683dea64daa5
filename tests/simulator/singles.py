"""Those who want each message at most once, on topics that have an order of their own.

Each has a topic and a subscription that nobody else moves: so a message that comes twice, or after
a later one of its order, has no excuse. What the order is, is said another way than in the broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial

from fanlog.broker.broker import Broker
from fanlog.core.records import SubscriptionRecord, TopicRecord
from fanlog.errors import FanlogError
from fanlog.model.attributes import LABEL_DELIVERY, LABEL_ORDERING, PUBLISHER
from fanlog.model.resources import AT_MOST_ONCE
from fanlog.model.specs import SubscriptionSpec, TopicSpec
from simulator import raw
from simulator.calling import called, insist
from simulator.chronicle import Chronicle, Committed, Delivered, Message
from simulator.clients import pull, settle
from simulator.network import Stream
from simulator.pressed import is_pressed
from simulator.world import Lost, World

#: No pattern of a world matches these names, and no admin knows them.
PREFIX = "single"
ORDERINGS = ("key", "publisher", "total")


async def single(world: World) -> None:
    """Publish to a topic of one's own, and fetch, until the world is over."""
    world.singles += 1
    ordering = world.rng.choice(ORDERINGS)
    name = f"{PREFIX}-{world.singles}-{ordering}"
    topic, own = f"projects/sim/topics/{name}", f"projects/sim/subscriptions/{name}"
    await insist(world, partial(_create_topic, world, topic, ordering))
    await insist(world, partial(_create_subscription, world, own, topic))
    while await world.pause():
        with suppress(FanlogError, Lost):
            if world.chance(0.4):
                await _publish(world, topic, ordering)
            elif world.chance(0.5):
                received = await pull(world, own, world.rng.randint(1, 5), 0.0)
                if received and world.chance(0.5):
                    # As official clients do, and to no effect.
                    refs = [one.ref for one in received]
                    await settle(world, own, refs, world.rng.choice((None, 0, 30)))
            else:
                await _stream(world, own)


async def _create_topic(world: World, name: str, ordering: str) -> None:
    spec = TopicSpec(name=name, labels={LABEL_ORDERING: ordering})
    await called(world, "create topic", name, "", lambda b: b.topics.create(spec))


async def _create_subscription(world: World, name: str, topic: str) -> None:
    labels = {LABEL_DELIVERY: AT_MOST_ONCE}
    spec = SubscriptionSpec(
        name=name,
        topic=topic,
        labels=labels,
        ack_deadline_s=10,
        enable_message_ordering=True,
        expiration_ttl_s=None,
    )
    await called(world, "create subscription", name, "", lambda b: b.subscriptions.create(spec))


async def _publish(world: World, topic: str, ordering: str) -> None:
    messages = []
    for _ in range(world.rng.randint(1, 4)):
        world.published += 1
        who = world.rng.choice(("p", "q"))
        key = who if ordering == "key" else ""
        messages.append((b"single %d" % world.published, {PUBLISHER: who}, key))

    async def verb(broker: Broker) -> None:
        await raw.publish_once(broker, topic, messages)

    await called(world, "publish single", topic, len(messages), verb)


async def _stream(world: World, name: str) -> None:
    stream = Stream(world, name, credit=world.rng.choice((0, 1, 3)), credit_bytes=0, deadline_s=10)
    for _ in range(world.rng.randint(1, 4)):
        if await stream.receive(world.temper.pace_s) is None and not await world.pause(0.3):
            break
    stream.cut()


# The promise.


def came_once_and_in_order(chronicle: Chronicle) -> Iterator[str]:
    """Sentences of what came twice, late, or with another key than its order gives it."""
    topics, subscriptions = _made(chronicle)
    messages: dict[tuple[int, int], Message] = {}
    delivered: list[Delivered] = []
    for entry in chronicle.in_order():
        match entry.what:
            case Committed(messages=some):
                for message in some:
                    messages[message.partition, message.offset] = message
                    yield from _has_its_key(topics, message)
            case Delivered(subscription=owner) if owner in subscriptions:
                delivered.append(entry.what)
    # Streams and pulls overtake each other on their way out; leases are decided one by one.
    delivered.sort(key=lambda one: one.generation)
    seen: set[tuple[int, int]] = set()
    last: dict[tuple[int, str], int] = {}
    for one in delivered:
        for offset in one.offsets:
            place = (one.partition, offset)
            where = f"{one.partition}:{offset} of {subscriptions[one.subscription]}"
            if place in seen:
                yield f"at most once: {where} came again at {one.at}"
            seen.add(place)
            line = (one.partition, messages[place].key)
            if offset < last.get(line, 0):
                yield f"P4: {where} came after {last[line]} of its order"
            last[line] = max(offset, last.get(line, 0))


def _made(chronicle: Chronicle) -> tuple[dict[int, str], dict[int, str]]:
    """Partitions with the order of their topic, and subscriptions with their names."""
    topics: dict[int, str] = {}
    subscriptions: dict[int, str] = {}
    for entry in chronicle.entries:
        if isinstance(entry.what, Committed):
            for change in entry.what.changes:
                if isinstance(change, TopicRecord) and is_single(change.topic):
                    assert change.topic is not None
                    ordering = change.topic.name.rpartition("-")[2]
                    topics |= dict.fromkeys(change.topic.partitions, ordering)
                elif isinstance(change, SubscriptionRecord) and is_single(change.subscription):
                    assert change.subscription is not None
                    subscriptions[change.id] = change.subscription.name
    return topics, subscriptions


def is_single(resource: object) -> bool:
    """Whether a topic or a subscription is judged here, and not by ledgers: sending settles."""
    name = getattr(resource, "name", "")
    return str(name).rpartition("/")[2].startswith(f"{PREFIX}-")


def is_apart(resource: object) -> bool:
    """Whether it is judged here or with backlogs that have limits (`simulator.pressers`)."""
    return is_single(resource) or is_pressed(str(getattr(resource, "name", "")))


def _has_its_key(topics: Mapping[int, str], message: Message) -> Iterable[str]:
    ordering = topics.get(message.partition)
    if ordering is None:
        return
    # Of a sender's key the topic says nothing.
    wanted = {"total": "fanlog-total", "publisher": message.attributes.get(PUBLISHER, "")}.get(
        ordering, message.key
    )
    if message.key != wanted:
        where = f"{message.partition}:{message.offset}"
        yield f"P4: {where} is ordered by {message.key!r}, and its topic says {wanted!r}"
