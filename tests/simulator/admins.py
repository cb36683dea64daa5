"""Those who make, change and remove resources, and who move subscriptions in time."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.errors import FanlogError
from fanlog.model.attributes import (
    LABEL_ASSIGNMENT,
    LABEL_DEDUP_WINDOW,
    LABEL_FAIRNESS,
    LABEL_KEY_SLOTS,
    LABEL_MAX_OUTSTANDING_BYTES,
    LABEL_MAX_OUTSTANDING_MESSAGES,
    LABEL_ORDERING,
    LABEL_PUSH_BODY,
    LABEL_PUSH_TIMEOUT,
    LABEL_RETRY,
    LABEL_START,
)
from fanlog.model.names import snapshot_name
from fanlog.model.resources import (
    FIRST_IMMEDIATE,
    DeadLetterPolicy,
    Offset,
    PartitionId,
    RetryPolicy,
)
from fanlog.model.specs import SnapshotSpec, SubscriptionSpec, TopicSpec
from fanlog.model.updates import SnapshotUpdate, SubscriptionUpdate, TopicUpdate
from simulator import archivers, dedups, probes, reopening, surfaces
from simulator.calling import called, insist
from simulator.chronicle import SeekTo
from simulator.clients import (
    DEADLINES_S,
    letters_topic,
    publish,
    some_subscription,
    some_topic,
    subscription,
    topic,
)
from simulator.meanings import (
    LETTERS,
    PROJECT,
    TOPICS,
    is_matched,
    is_pattern,
    some_filter,
    some_pattern,
)
from simulator.receivers import some_push
from simulator.world import Lost, World

SNAPSHOTS = 3
RETENTIONS_S = (600.0, 3600.0, 86400.0, 604800.0)


async def settle_in(world: World) -> None:
    """Make the first resources, before anybody else comes."""
    await surfaces.settle_in(world)
    for number in range(world.temper.topics):
        await insist(world, partial(create_topic, world, topic(number)))
    if world.temper.dead_letters:
        for number in range(2):
            await insist(world, partial(create_topic, world, letters_topic(number)))
            # Letters are read, too: by a subscription beyond those that others choose from.
            name = subscription(100 + number)
            spec = SubscriptionSpec(name=name, topic=letters_topic(number), expiration_ttl_s=None)
            await insist(world, partial(create_subscription, world, spec))
    for number in range(world.temper.subscriptions):
        await insist(world, partial(create_some, world, subscription(number)))


async def admin(world: World) -> None:
    """Do one thing after another until the world is over."""
    rng, temper = world.rng, world.temper
    others = 0.1
    deeds: tuple[tuple[float, Callable[[World], Awaitable[None]]], ...] = (
        (temper.seeks, seek_some_to_time),
        (temper.seeks / 2, seek_to_some_snapshot),
        (temper.seeks / 2, create_some_snapshot),
        (temper.seeks / 4, go_back),
        (temper.seeks / 8, update_snapshot),
        (temper.seeks / 8, delete_some_snapshot),
        (temper.updates, update_subscription),
        (temper.filter_changes, change_some_filter),
        (temper.patterns * 0.1, delete_some_topic),
        (temper.patterns * 0.2, create_topic_again),
        (temper.updates / 3, update_topic),
        (temper.deletes, delete_subscription),
        (temper.deletes / 3, detach_subscription),
        (temper.deletes / 3, delete_some_topic),
        (temper.deletes * 2, create_anything),
        (others, look_around),
        (others, probes.probe),
        (temper.push_changes, surfaces.change_some_push),
        (temper.push_changes * temper.forwards / 3, surfaces.move_some_target),
        (temper.schema_changes, surfaces.change_some_schema),
        (temper.policies, surfaces.change_some_policy),
        (temper.reopens, reopening.reopen_some),
        (temper.reopens * bool(temper.dead_letters), reopening.redrive_some),
        (temper.kept_out, archivers.keep_some_out),
    )
    weights = [weight for weight, _ in deeds]
    while await world.pause(1.5):
        _, deed = rng.choices(deeds, weights)[0]
        try:
            await deed(world)
        except (FanlogError, Lost):
            continue


# Topics.


async def create_topic(world: World, name: str) -> None:
    retention_s = world.rng.choice(RETENTIONS_S) if world.chance(0.3) else None
    labels: dict[str, str] = {}
    if world.chance(world.temper.dedups):
        labels[LABEL_DEDUP_WINDOW] = world.rng.choice(dedups.WINDOWS)
    has_schema = name.rpartition("/")[2] in TOPICS and world.chance(world.temper.schemas)
    spec = TopicSpec(
        name=name,
        labels=labels,
        message_retention_s=retention_s,
        schema_settings=surfaces.some_settings(world) if has_schema else None,
    )
    await called(world, "create topic", name, "", lambda b: b.topics.create(spec))


async def create_topic_again(world: World) -> None:
    await create_topic(world, some_topic(world))


async def update_topic(world: World) -> None:
    name = some_topic(world)
    changes = {"message_retention_s": world.rng.choice((None, *RETENTIONS_S))}
    update = TopicUpdate(name=name, changes=changes)
    await called(world, "update topic", name, changes, lambda b: b.topics.update(update))


async def delete_some_topic(world: World) -> None:
    await delete_topic(world, some_topic(world))


async def delete_topic(world: World, name: str) -> None:
    await called(world, "delete topic", name, "", lambda b: b.topics.delete(name))


# Subscriptions.


def some_spec(world: World, name: str) -> SubscriptionSpec:
    rng, temper = world.rng, world.temper
    is_ordered = world.chance(temper.ordered)
    labels: dict[str, str] = {}
    if is_ordered and world.chance(0.3):
        labels[LABEL_ORDERING] = "strict"
    if world.chance(0.15):
        labels[LABEL_START] = "earliest"
    source = some_pattern(rng) if world.chance(temper.patterns) else some_topic(world)
    can_fail = world.chance(temper.dead_letters) and not _reads_letters(source)
    push = some_push(rng, name, temper.forwards) if world.chance(temper.pushes) else None
    if push is not None and push.endpoint.startswith("http") and not push.no_wrapper:
        labels[LABEL_PUSH_BODY] = rng.choice(("wrapped", "plain", "cloudevents"))
    spec = SubscriptionSpec(
        name=name,
        topic=source,
        filter=some_filter(rng) if world.chance(temper.filters) else "",
        ack_deadline_s=rng.choice(DEADLINES_S),
        retain_acked=world.chance(0.3),
        message_retention_s=_retention_s(world),
        labels=labels,
        enable_message_ordering=is_ordered,
        enable_exactly_once=world.chance(temper.exactly_once) and push is None,
        expiration_ttl_s=rng.choice((None, limits.DAY_S * 8, limits.DAY_S * 31)),
        dead_letter=_dead_letter(world) if can_fail else None,
        retry=_retry(world) if world.chance(temper.retries) else None,
        push=push,
    )
    spec = _with_settings(spec, random.Random(f"{name} {world.chronicle.at}"))
    spec = _with_key_slots(world, spec) if temper.sticky else spec
    spec = _with_window(world, spec) if temper.windows else spec
    return _with_turns(spec) if temper.tenants else spec


def _with_turns(spec: SubscriptionSpec) -> SubscriptionSpec:
    """Turns of tenants, where there may be any."""
    if spec.enable_message_ordering or spec.filter or LABEL_ASSIGNMENT in spec.labels:
        return spec
    return replace(spec, labels={**spec.labels, LABEL_FAIRNESS: "tenant"})


def _with_window(world: World, spec: SubscriptionSpec) -> SubscriptionSpec:
    """Perhaps a window; by dice of their own, so that the rest stays what it was."""
    rng = random.Random(f"{world.seed} {spec.name} {world.chronicle.at}: window")
    if rng.random() >= world.temper.windows:
        return spec
    labels = {**spec.labels, LABEL_MAX_OUTSTANDING_MESSAGES: rng.choice(("1", "2", "3", "7"))}
    if rng.random() < 0.3:
        labels[LABEL_MAX_OUTSTANDING_BYTES] = rng.choice(("1", "100", "1000"))
    return replace(spec, labels=labels)


def _with_key_slots(world: World, spec: SubscriptionSpec) -> SubscriptionSpec:
    """Perhaps key slots; by dice of their own, so that the rest stays what it was."""
    rng = random.Random(f"{world.seed} {spec.name} {world.chronicle.at}: key slots")
    if spec.push is not None or rng.random() >= world.temper.sticky:
        return spec
    labels = {**spec.labels, LABEL_ASSIGNMENT: "sticky"}
    if rng.random() < 0.7:
        labels[LABEL_KEY_SLOTS] = rng.choice(("1", "2", "4", "9"))
    return replace(spec, labels=labels)


def _with_settings(spec: SubscriptionSpec, rng: random.Random) -> SubscriptionSpec:
    """Some labels that are settings; by dice of their own, so that worlds stay what they were."""
    if spec.push is not None and spec.push.endpoint.startswith("topic:"):
        return spec
    labels = dict(spec.labels)
    if LABEL_PUSH_BODY in labels and rng.random() < 0.25:
        labels[LABEL_PUSH_BODY] = "event"
    if rng.random() < 0.7:
        # Long ones too: what waits for a connection is to wait for a while.
        labels[LABEL_PUSH_TIMEOUT] = rng.choice(("1", "30", "60", "600"))
    if spec.retry is None and rng.random() < 0.2:
        labels[LABEL_RETRY] = FIRST_IMMEDIATE
    return replace(spec, labels=labels)


def _reads_letters(source: str) -> bool:
    """Whether a pattern matches the topics of dead letters: its own would come back to it."""
    return is_pattern(source) and any(is_matched(source, letters) for letters in LETTERS)


def _retention_s(world: World) -> float:
    if world.chance(world.temper.short_retention):
        return world.rng.choice(RETENTIONS_S)
    return limits.RETENTION_S_DEFAULT


def _dead_letter(world: World) -> DeadLetterPolicy:
    return DeadLetterPolicy(
        dead_letter_topic=letters_topic(world.rng.randrange(2)),
        max_delivery_attempts=world.rng.choice((1, 2, 3, 5)),
    )


def _retry(world: World) -> RetryPolicy:
    least_s = world.rng.choice((0.0, 1.0, 10.0, 100.0))
    return RetryPolicy(
        minimum_backoff_s=least_s, maximum_backoff_s=world.rng.choice((least_s, 100.0, 600.0))
    )


async def create_subscription(world: World, spec: SubscriptionSpec) -> None:
    await called(
        world,
        "create subscription",
        spec.name,
        spec.labels.get(LABEL_START, "now"),
        lambda b: b.subscriptions.create(spec),
    )


async def create_some(world: World, name: str) -> None:
    await create_subscription(world, some_spec(world, name))


async def create_anything(world: World) -> None:
    if world.rng.random() < 0.3:
        await create_topic(world, some_topic(world))
    else:
        await create_some(world, some_subscription(world))


async def update_subscription(world: World) -> None:
    rng, name = world.rng, some_subscription(world)
    changes: dict[str, Any] = {}
    field = rng.choice(("once", "retry", "dead_letter", "retention", "retain", "deadline"))
    match field:
        case "once":
            changes["enable_exactly_once"] = rng.random() < 0.5
        case "retry":
            changes["retry"] = _retry(world) if rng.random() < 0.7 else None
        case "dead_letter" if world.temper.dead_letters:
            changes["dead_letter"] = _dead_letter(world) if rng.random() < 0.7 else None
        case "retention":
            changes["message_retention_s"] = _retention_s(world)
        case "retain":
            changes["retain_acked"] = rng.random() < 0.5
        case _:
            changes["ack_deadline_s"] = rng.choice(DEADLINES_S)
    update = SubscriptionUpdate(name=name, changes=changes)
    await called(
        world, "update subscription", name, changes, lambda b: b.subscriptions.update(update)
    )


async def change_some_filter(world: World) -> None:
    """Another filter or none; often just while something is published to be judged by it."""
    rng, name = world.rng, some_subscription(world)
    publishing = [
        world.loop.create_task(_publish_quietly(world, some_topic(world)))
        for _ in range(rng.choice((0, 1, 2)))
    ]
    try:
        await change_filter(world, name, some_filter(rng) if rng.random() < 0.8 else "")
        if rng.random() < 0.3:
            await seek_to_time(world, name)
    finally:
        for task in publishing:
            await task


async def change_filter(world: World, name: str, text: str) -> None:
    changes = {"filter": text}
    update = SubscriptionUpdate(name=name, changes=changes)
    await called(
        world, "update subscription", name, changes, lambda b: b.subscriptions.update(update)
    )


async def _publish_quietly(world: World, name: str) -> None:
    await world.sleep(world.rng.choice((0.0, 0.0005, 0.001)))
    with suppress(FanlogError, Lost):
        await publish(world, name, world.rng.randint(1, 3))


async def delete_subscription(world: World) -> None:
    name = some_subscription(world)
    await called(world, "delete subscription", name, "", lambda b: b.subscriptions.delete(name))


async def detach_subscription(world: World) -> None:
    name = some_subscription(world)
    await called(world, "detach", name, "", lambda b: b.subscriptions.detach(name))


# Snapshots and seeks.


def some_snapshot(world: World) -> str:
    return snapshot_name(PROJECT, f"snapshot-{world.rng.randrange(SNAPSHOTS)}")


async def create_some_snapshot(world: World) -> None:
    await create_snapshot(world, some_snapshot(world), some_subscription(world))


async def create_snapshot(world: World, name: str, source: str) -> None:
    spec = SnapshotSpec(name=name, subscription=source)
    await called(world, "create snapshot", name, source, lambda b: b.snapshots.create(spec))


async def update_snapshot(world: World) -> None:
    name = some_snapshot(world)
    expire_s = world.now + world.rng.random() * limits.SNAPSHOT_LIFE_S * 1.1
    update = SnapshotUpdate(name=name, changes={"expire_s": expire_s})
    await called(world, "update snapshot", name, "", lambda b: b.snapshots.update(update))


async def delete_some_snapshot(world: World) -> None:
    await delete_snapshot(world, some_snapshot(world))


async def delete_snapshot(world: World, name: str) -> None:
    await called(world, "delete snapshot", name, "", lambda b: b.snapshots.delete(name))


async def go_back(world: World) -> None:
    """A snapshot, something that changes what is read, and back to the snapshot."""
    rng, name, snapshot = world.rng, some_subscription(world), some_snapshot(world)
    with suppress(FanlogError):
        await delete_snapshot(world, snapshot)
    await create_snapshot(world, snapshot, name)
    if world.chance(world.temper.filters):
        await change_filter(world, name, some_filter(rng))
    if world.chance(world.temper.patterns):
        source = some_topic(world)
        with suppress(FanlogError):
            await delete_topic(world, source)
        with suppress(FanlogError):
            await create_topic(world, source)
        await publish(world, source, rng.randint(1, 3))
    if await world.pause():
        await seek_to_snapshot(world, name, snapshot)


async def seek_some_to_time(world: World) -> None:
    await seek_to_time(world, some_subscription(world))


async def seek_to_time(world: World, name: str) -> None:
    rng = world.rng
    back_s = rng.choice((0.0, world.temper.pace_s * 10, 3600.0, 86400.0)) * rng.random()
    time_s = world.now - back_s
    if rng.random() < 0.2:
        time_s = world.now + 1000.0
    elif rng.random() < 0.2:
        time_s = 0.0
    elif rng.random() < 0.3 and (partition := _some_partition(world)):
        # The very moment of a publish: that message is not passed.
        time_s = rng.choice(world.chronicle.log[partition]).publish_ns / 1e9
    time_ns = int(time_s * 1e9)

    async def verb(broker: Broker) -> tuple[tuple[PartitionId, Offset], ...]:
        """Seek; answers with the start of each log: what is below is gone for good."""
        await broker.seeks.to_time(name, time_ns)
        shares = broker.hard.shares_of(broker.hard.catalog.subscription(name))
        return tuple((s.partition, world.log_start(s.partition)) for s in shares)

    await called(world, "seek", name, SeekTo(time_ns=time_ns), verb)


def _some_partition(world: World) -> Any:
    partitions = [partition for partition, log in world.chronicle.log.items() if log]
    return world.rng.choice(partitions) if partitions else None


async def seek_to_some_snapshot(world: World) -> None:
    await seek_to_snapshot(world, some_subscription(world), some_snapshot(world))


async def seek_to_snapshot(world: World, name: str, snapshot: str) -> None:
    await called(
        world,
        "seek",
        name,
        SeekTo(snapshot=snapshot),
        lambda b: b.seeks.to_snapshot(name, snapshot),
    )


async def look_around(world: World) -> None:
    name = some_subscription(world)
    rng = world.rng
    if rng.random() < 0.5:
        await called(world, "get subscription", name, "", lambda b: b.subscriptions.get(name))
    else:
        await called(
            world, "list", PROJECT, "", lambda b: b.subscriptions.list_all(PROJECT, "", 10)
        )
