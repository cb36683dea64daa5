"""Those who change where messages are pushed to, the schemas of topics, and policies."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from fanlog.broker.broker import Broker
from fanlog.core.iam import Binding, Policy
from fanlog.errors import FanlogError
from fanlog.model.names import ResourceName, parse_resource, schema_name
from fanlog.model.resources import Compatibility, PushConfig, SchemaSettings, SchemaType
from fanlog.model.specs import SubscriptionSpec, TopicSpec
from fanlog.model.updates import SubscriptionUpdate, TopicUpdate
from simulator.calling import called, insist
from simulator.clients import some_subscription, some_topic, subscription
from simulator.meanings import AVRO_DEFINITIONS, JSON_DEFINITIONS, PROJECT
from simulator.receivers import PRIVATE, forward_topic, some_push
from simulator.world import World

#: The first is of JSON, the second of Avro.
SCHEMAS = tuple(schema_name(PROJECT, f"schema-{number}") for number in range(2))
TYPES: tuple[SchemaType, ...] = ("JSON", "AVRO")
ROLES = ("roles/viewer", "roles/pubsub.publisher", "roles/pubsub.subscriber", "roles/nobody")
#: Numbers of the subscriptions that read what is forwarded begin here.
FORWARDED = 200


async def settle_in(world: World) -> None:
    """Make what topics and subscriptions of a world may need."""
    if world.temper.schemas:
        for which in range(len(SCHEMAS)):
            await insist(world, partial(create_schema, world, which))
    if world.temper.forwards:
        for number in range(world.temper.subscriptions):
            target = forward_topic(subscription(number))
            await insist(world, partial(create_target, world, target))
            # What is forwarded is read, too, by somebody whom others do not choose.
            name = subscription(FORWARDED + number)
            spec = SubscriptionSpec(name=name, topic=target, expiration_ttl_s=None)
            await insist(world, partial(_create_reader, world, spec))


# Push.


async def create_target(world: World, name: str) -> None:
    spec = TopicSpec(name=name)
    await called(world, "create topic", name, "", lambda b: b.topics.create(spec))


async def _create_reader(world: World, spec: SubscriptionSpec) -> None:
    await called(
        world, "create subscription", spec.name, "now", lambda b: b.subscriptions.create(spec)
    )


async def change_some_push(world: World) -> None:
    """Another endpoint, the same anew, none, or one that is refused."""
    rng, name = world.rng, some_subscription(world)
    push: PushConfig | None = None
    if rng.random() < 0.7:
        push = some_push(rng, name, world.temper.forwards)
        if rng.random() < 0.1:
            push = PushConfig(endpoint=PRIVATE)
    await change_push(world, name, push)


async def change_push(world: World, name: str, push: PushConfig | None) -> None:
    changes = {"push": push}
    update = SubscriptionUpdate(name=name, changes=changes)
    await called(
        world, "update subscription", name, changes, lambda b: b.subscriptions.update(update)
    )


async def move_some_target(world: World) -> None:
    """Delete a topic that is forwarded to, or make it again."""
    name = forward_topic(some_subscription(world))
    if world.rng.random() < 0.4:
        await called(world, "delete topic", name, "", lambda b: b.topics.delete(name))
    else:
        await create_target(world, name)


# Schemas.


def some_definition(world: World, which: int) -> str:
    return world.rng.choice(list((JSON_DEFINITIONS, AVRO_DEFINITIONS)[which]))


def some_settings(world: World) -> SchemaSettings:
    return SchemaSettings(schema=world.rng.choice(SCHEMAS), encoding="JSON")


async def create_schema(world: World, which: int) -> None:
    definition = some_definition(world, which)

    async def verb(broker: Broker) -> str:
        _, revision = await broker.schemas.create(SCHEMAS[which], TYPES[which], definition)
        return _stored(world, revision.id)

    await called(world, "create schema", SCHEMAS[which], definition, verb)


async def change_some_schema(world: World) -> None:
    """Commit, roll back or delete a revision, or delete a schema; change which a topic has."""
    rng, which = world.rng, world.rng.randrange(len(SCHEMAS))
    match rng.choice(("commit", "commit", "rollback", "forget", "topic", "topic", "create", "get")):
        case "commit":
            await _commit_revision(world, which)
        case "rollback":
            await _with_revision(world, which, "rollback")
        case "forget" if rng.random() < 0.7:
            await _with_revision(world, which, "delete revision")
        case "forget":
            name = SCHEMAS[which]
            await called(world, "delete schema", name, "", lambda b: b.schemas.delete(name))
            await create_schema(world, which)
        case "topic":
            await change_settings(world)
        case "create":
            await create_schema(world, which)
        case _:
            await _with_revision(world, which, "get schema")


async def change_settings(world: World) -> None:
    """Give a topic another schema, a range of revisions, or none."""
    rng, name = world.rng, some_topic(world)
    settings = some_settings(world) if rng.random() < 0.8 else None
    if settings is not None and rng.random() < 0.4:
        first, last = _some_range(world, settings.schema)
        settings = SchemaSettings(
            schema=settings.schema,
            encoding="JSON",
            first_revision_id=first,
            last_revision_id=last,
        )
    changes = {"schema_settings": settings}
    update = TopicUpdate(name=name, changes=changes)
    await called(world, "update topic", name, changes, lambda b: b.topics.update(update))


def _some_range(world: World, schema: str) -> tuple[str, str]:
    ids = _revisions(world, schema)
    if not ids:
        return "", ""
    one, other = sorted(world.rng.choices(range(len(ids)), k=2))
    return world.rng.choice(("", ids[one])), world.rng.choice(("", ids[other]))


def _revisions(world: World, schema: str) -> list[str]:
    """Ids of the revisions there are, as the process has it."""
    life = world.life
    if life is None or schema not in life.broker.hard.catalog.schemas.names("", ""):
        return []
    table = life.broker.hard.catalog.schemas
    return [revision.id for revision in table.revisions(table.schema(schema).id)]


async def _commit_revision(world: World, which: int) -> None:
    definition = some_definition(world, which)
    levels: tuple[Compatibility | None, ...] = (None, None, "NONE", "BACKWARD")
    level = world.rng.choice(levels)

    async def verb(broker: Broker) -> str:
        _, revision = await broker.schemas.commit(SCHEMAS[which], TYPES[which], definition, level)
        return _stored(world, revision.id)

    await called(world, "commit schema", SCHEMAS[which], definition, verb)


async def _with_revision(world: World, which: int, what: str) -> None:
    """Do something to a revision of a schema."""
    name, ids = SCHEMAS[which], _revisions(world, SCHEMAS[which])
    chosen = world.rng.choice(ids) if ids else "00000000"

    async def verb(broker: Broker) -> str:
        match what:
            case "rollback":
                _, revision = await broker.schemas.rollback(name, chosen)
            case "delete revision":
                _, revision = await broker.schemas.delete_revision(name, chosen)
            case _:
                _, revision = await broker.schemas.get(name, chosen)
        return _stored(world, revision.id)

    await called(world, what, name, chosen, verb)


def _stored(world: World, revision: str) -> str:
    """A revision that was answered; on the disk, that is, then or before."""
    if revision not in world.disk.revisions_known and not world.disk.has_unseen_revisions:
        world.broken.append(f"schema: revision {revision} was answered, and is not on the disk")
    return revision


# Policies.


async def change_some_policy(world: World) -> None:
    """Read a policy and set it, with the etag that was read, an older one or none."""
    rng = world.rng
    resource = parse_resource(rng.choice((some_topic(world), some_subscription(world))))
    etag = (await get_policy(world, resource)).etag
    for _ in range(rng.choice((1, 1, 2))):
        await set_policy(world, resource, rng.choice((b"", etag, etag, etag)))
        if not await world.pause(0.3):
            return


async def get_policy(world: World, resource: ResourceName) -> Policy:
    newest = world.policies.newest()

    async def verb(broker: Broker) -> Policy:
        policy = await broker.iam.get_policy(resource)
        _found(world, world.policies.was_read(policy, newest))
        return policy

    policy: Policy = await called(world, "get policy", str(resource), "", verb)
    return policy


async def set_policy(world: World, resource: ResourceName, etag: bytes) -> None:
    rng = world.rng
    bindings = [
        Binding(role=rng.choice(ROLES), members=(f"user:{rng.randrange(100)}@example.com",))
        for _ in range(rng.randrange(3))
    ]

    async def verb(broker: Broker) -> None:
        policy = await broker.iam.set_policy(resource, bindings, etag)
        _found(world, world.policies.was_set(policy, etag))

    await called(world, "set policy", str(resource), etag, verb)


def _found(world: World, sentences: Iterable[str]) -> None:
    world.broken.extend(sentences)


async def turn_on(world: World, name: str) -> None:
    """Have a subscription whose push is off push again, or be pulled from."""
    push: Any = None
    if world.rng.random() < 0.5:
        push = some_push(world.rng, name, 0.0)
    try:
        await change_push(world, name, push)
    except FanlogError:
        return
