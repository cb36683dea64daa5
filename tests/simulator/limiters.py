"""Those whose backlogs are limited by bytes, by age, together with others, or behind a forward.

They publish more than they read. What must be true of them is said in `simulator.limited`.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from fanlog.broker.broker import Broker
from fanlog.errors import FanlogError
from fanlog.model.resources import PushConfig
from fanlog.model.specs import SubscriptionSpec, TopicSpec
from simulator import raw
from simulator.calling import called, insist
from simulator.clients import pull, settle
from simulator.limited import DATA_BYTES, PREFIX, ROOM_BYTES, Limited
from simulator.pressed import HIGH, LOW
from simulator.pressers import ACK_DEADLINE_S
from simulator.world import Lost, World


async def limiter(world: World) -> None:
    """Publish more than is read, until the world is over."""
    limited, rng = world.limited, world.limited.rng
    one = limited.drawn(has_steps=world.odds.clock_step > 0.0)
    number = len(limited.made)
    topics = [f"projects/sim/topics/{PREFIX}-{number}-{n}" for n in range(len(one.readers))]
    names = [topic.replace("/topics/", "/subscriptions/") for topic in topics]
    for topic in topics:
        await insist(world, partial(_create_topic, world, topic))
    for index, name in enumerate(names):
        spec = _spec(one, index, name, topics, f"{PREFIX}-{number}")
        await insist(world, partial(_create_subscription, world, spec))
    catalog = (await world.up()).broker.hard.catalog
    if not all(map(catalog.has_subscription, names)):
        return
    for reader, topic, name in zip(one.readers, topics, names, strict=True):
        reader.id = catalog.subscription(name).id
        reader.partition = catalog.topic(topic).partitions[0]
    while await world.pause():
        with suppress(FanlogError, Lost):
            if rng.random() < 0.6:
                await _publish(world, rng.choice(topics))
            elif one.kind == "forward":
                await _read(world, names[1])
            else:
                await _read(world, rng.choice(names))


def _spec(one: Limited, index: int, name: str, topics: list[str], group: str) -> SubscriptionSpec:
    labels = {
        "fanlog-backlog-policy": one.way,
        "fanlog-backlog-high": str(HIGH),
        "fanlog-backlog-low": str(LOW),
    }
    push = None
    if one.kind == "bytes":
        labels["fanlog-backlog-bytes"] = str(one.limit * ROOM_BYTES)
    elif one.kind == "age":
        labels["fanlog-backlog-age"] = str(one.limit)
    else:
        labels["fanlog-backlog-messages"] = str(one.limit)
    if one.kind == "group":
        labels["fanlog-backlog-group"] = group
    if one.kind == "forward":
        labels["fanlog-backlog-critical"] = "true"
        if index == 0:
            # It says nothing of its own backlog.
            labels, push = {}, PushConfig(endpoint=f"topic:{topics[1]}")
    return SubscriptionSpec(
        name=name,
        topic=topics[index],
        labels=labels,
        push=push,
        ack_deadline_s=ACK_DEADLINE_S,
        enable_exactly_once=one.readers[index].is_exact and push is None,
        expiration_ttl_s=None,
    )


async def _create_topic(world: World, name: str) -> None:
    spec = TopicSpec(name=name)
    await called(world, "create topic", name, "", lambda b: b.topics.create(spec))


async def _create_subscription(world: World, spec: SubscriptionSpec) -> None:
    name = spec.name
    await called(world, "create subscription", name, "", lambda b: b.subscriptions.create(spec))


async def _publish(world: World, topic: str) -> None:
    messages: list[tuple[bytes, dict[str, str], str]] = []
    for _ in range(world.limited.rng.choice((1, 1, 2, 8))):
        world.published += 1
        data = b"limited %d" % world.published
        messages.append((data.ljust(DATA_BYTES), {}, ""))

    async def verb(broker: Broker) -> None:
        await raw.publish_once(broker, topic, messages)

    await called(world, "publish limited", topic, len(messages), verb)


async def _read(world: World, own: str) -> None:
    """Pull, and settle some of it."""
    rng = world.limited.rng
    received = await pull(world, own, rng.choice((1, 3, 10)), 0.0)
    if not received:
        return
    refs = [item.ref for item in received]
    way = rng.random()
    if way < 0.6:
        await settle(world, own, refs, None)
    elif way < 0.8:
        await settle(world, own, refs, 0)
