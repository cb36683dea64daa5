"""Those who have a topic of their own and a subscription with a backlog policy on it.

They publish more than they read. What must be true of them is said in `simulator.pressed`.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.errors import FanlogError
from fanlog.model.attributes import PRIORITY
from fanlog.model.resources import DeadLetterPolicy
from fanlog.model.specs import SubscriptionSpec, TopicSpec
from simulator import raw
from simulator.calling import called, insist
from simulator.clients import pull, settle
from simulator.pressed import HIGH, LOW, OVERFLOW, PREFIX, Pressed
from simulator.world import Lost, World

#: Longer than any world pauses between a pull and its acknowledgement.
ACK_DEADLINE_S = 600


async def presser(world: World) -> None:
    """Publish more than is read, until the world is over."""
    pressed, rng = world.pressed, world.pressed.rng
    one = pressed.drawn()
    name = f"{PREFIX}-{len(pressed.made)}"
    topic, own = f"projects/sim/topics/{name}", f"projects/sim/subscriptions/{name}"
    await insist(world, partial(_create_topic, world, topic))
    if one.way == OVERFLOW:
        await insist(world, partial(_create_topic, world, f"{topic}-letters"))
    await insist(world, partial(_create_subscription, world, one, own, topic))
    catalog = (await world.up()).broker.hard.catalog
    if not catalog.has_subscription(own):
        return
    one.id, one.partition = catalog.subscription(own).id, catalog.topic(topic).partitions[0]
    if one.way == OVERFLOW:
        one.letters = catalog.topic(f"{topic}-letters").partitions[0]
    while await world.pause():
        with suppress(FanlogError, Lost):
            if rng.random() < 0.6:
                await _publish(world, one, topic)
            else:
                await _read(world, own)


async def _create_topic(world: World, name: str) -> None:
    spec = TopicSpec(name=name)
    await called(world, "create topic", name, "", lambda b: b.topics.create(spec))


async def _create_subscription(world: World, one: Pressed, name: str, topic: str) -> None:
    labels = {
        "fanlog-backlog-policy": one.way,
        "fanlog-backlog-messages": str(one.limit),
        "fanlog-backlog-high": str(HIGH),
        "fanlog-backlog-low": str(LOW),
    }
    if one.way == "push-back":
        labels["fanlog-backlog-critical"] = "true"
    letters = None
    if one.way == OVERFLOW:
        letters = DeadLetterPolicy(
            dead_letter_topic=f"{topic}-letters",
            max_delivery_attempts=limits.DELIVERY_ATTEMPTS_MAX,
        )
    spec = SubscriptionSpec(
        name=name,
        topic=topic,
        labels=labels,
        dead_letter=letters,
        ack_deadline_s=ACK_DEADLINE_S,
        enable_message_ordering=one.is_ordered,
        enable_exactly_once=one.is_exact,
        expiration_ttl_s=None,
    )
    await called(world, "create subscription", name, "", lambda b: b.subscriptions.create(spec))


async def _publish(world: World, one: Pressed, topic: str) -> None:
    rng = world.pressed.rng
    messages = []
    for _ in range(rng.choice((1, 1, 2, 8))):
        world.published += 1
        key = rng.choice(("p", "q")) if one.is_ordered else ""
        asked = {}
        if one.way == "drop-by-priority" and not one.is_ordered:
            asked = rng.choice(({}, {PRIORITY: "1"}, {PRIORITY: "5"}))
        messages.append((b"pressed %d" % world.published, asked, key))

    async def verb(broker: Broker) -> None:
        await raw.publish_once(broker, topic, messages)

    await called(world, "publish pressed", topic, len(messages), verb)


async def _read(world: World, own: str) -> None:
    """Pull, and settle some of it."""
    rng = world.pressed.rng
    received = await pull(world, own, rng.choice((1, 3, 10)), 0.0)
    if not received:
        return
    refs = [item.ref for item in received]
    way = rng.random()
    if way < 0.2:
        await world.pause(0.5)
    if way < 0.6:
        await settle(world, own, refs, None)
    elif way < 0.8:
        await settle(world, own, refs, 0)
