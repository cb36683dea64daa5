"""Looks inside: what a refused request changed, whether the disk says what memory says, sizes.

Each runs between two turns of the loop, so that nobody else can have been at it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.core.hard_state import HardState
from fanlog.core.share.ordered import OrderedBacklog
from fanlog.errors import FanlogError, InvalidArgument
from fanlog.model.names import snapshot_name, subscription_name, topic_name
from fanlog.model.specs import SnapshotSpec, SubscriptionSpec, TopicSpec
from fanlog.model.updates import SubscriptionUpdate
from simulator.digest import difference, hard_lines
from simulator.world import World, outcome_of

#: Messages that are leased and lost on their way out, at most.
UNSEEN_MAX = 30

NOBODY = "projects/sim/subscriptions/nobody"


async def probe(world: World) -> None:
    """Look at everything that can be looked at now."""
    check_recovery(world)
    check_bounds(world)
    check_refusal(world)


def check_recovery(world: World) -> None:
    """What is applied is what would be recovered, whenever nothing is on its way to the disk."""
    life = world.life
    if life is None or not world.is_settled:
        return
    live = hard_lines(life.broker.hard)
    recovered = hard_lines(HardState.load(world.store.state()))
    if live != recovered:
        world.broken.append(f"recovery: memory and disk differ: {difference(live, recovered)}")
    if difference_of_warm := world.store.warmth.look(world.store):
        world.broken.append(f"recovery: a state kept warm is not as loaded: {difference_of_warm}")


def check_bounds(world: World) -> None:
    """P8: what a share remembers of blocked keys is bounded, whatever its backlog."""
    life = world.life
    if life is None or not life.is_serving:
        return
    for share in life.broker.hard.shares():
        backlog = share._soft.backlog
        if not isinstance(backlog, OrderedBacklog):
            continue
        waiting = sum(len(key.waiting) for key in backlog.keys.by_hash.values())
        known = world.handed_out.get((share.settings.id, share.partition), set())
        fresh = [o for key in backlog.keys.by_hash.values() for o in key.waiting if o not in known]
        # A full share lets each key remember the one it needs next. What was handed out and came
        # back waits, too: consumers bound that. Some left the share and never the server.
        if len(fresh) > limits.WAITING_MAX + len(backlog.keys.by_hash) + UNSEEN_MAX:
            world.broken.append(
                f"P8: subscription {share.settings.id} remembers {len(fresh)} messages that wait; "
                f"{limits.WAITING_MAX} is the bound"
            )
        if waiting != backlog.keys.waiting_count:
            world.broken.append(
                f"P8: subscription {share.settings.id} counts {backlog.keys.waiting_count} waiting "
                f"messages and has {waiting}"
            )


def check_windows(world: World) -> None:
    """P8: no more is outstanding than the window of a subscription, which is as it was made."""
    life = world.life
    if life is None or not life.is_serving:
        return
    hard = life.broker.hard
    for subscription in hard.catalog.subscriptions():
        most, _ = subscription.window
        if not most:
            continue
        # Counted by the leases there are, and not as the broker counts.
        leases = [one for share in hard.shares_of(subscription) for one in share._soft.leases]
        held = sum(len(lease.open) for lease in leases)
        if held > most:
            world.broken.append(
                f"P8: {held} messages of subscription {subscription.id} are outstanding, and its "
                f"window has {most}"
            )


def check_nothing_is_held(world: World) -> None:
    """P8: once everything is acknowledged and swept, no cursor and no log holds anything back.

    What filters leave out is acknowledged, and a deleted topic that a pattern is through with is
    none of its topics any more. Only what rots is kept.
    """
    life = world.life
    if life is None or not world.is_settled:
        return
    hard, store = life.broker.hard, world.store
    rotten = {partition for partition, _ in store.damaged}
    held = {partition for s in hard.catalog.snapshots() for partition in s.partitions}
    for topic in hard.catalog.topics():
        # What is archived is there for whoever seeks; `tiering` looks at what is hot of it.
        is_kept = world.tiering is not None and topic.is_archived
        if topic.message_retention_s is not None or is_kept:
            held.update(topic.partitions)
    retaining = {s.partition for s in hard.shares() if s.settings.retain_acked}
    if world.keeping is not None:
        world.broken += world.keeping.check_bound(held | rotten | retaining)
        held |= {partition for topic in hard.catalog.topics() for partition in topic.partitions}
    for share in hard.shares():
        who, partition = share.settings, share.partition
        end = life.broker.ledger.end(partition)
        if who.detached or partition in rotten:
            held.add(partition)
        elif share.cursor.floor < end:
            world.broken.append(
                f"P8: the floor of subscription {who.id} in {partition} is {share.cursor.floor} of "
                f"{end}, and all is acknowledged"
            )
        if who.retain_acked:
            held.add(partition)
        elif (
            partition not in rotten and hard.catalog.topic_of(partition) is None and who.is_pattern
        ):
            world.broken.append(f"P8: subscription {who.id} keeps deleted partition {partition}")
    for partition, bounds in store.partitions().items():
        if partition not in held | rotten and bounds.start < bounds.end:
            world.broken.append(f"P8: {bounds} of partition {partition} is kept for nobody")
    ids: set[int] = {topic.id for topic in hard.catalog.topics()}
    ids |= {subscription.id for subscription in hard.catalog.subscriptions()}
    for policy in hard.catalog.policies():
        if policy.id not in ids:
            world.broken.append(f"iam: policy {policy.id} is kept for nobody")
    for owner in life.senders._movers:
        if hard.catalog.subscription_by_id(owner) is None:
            world.broken.append(f"push: subscription {owner} is gone, and its sender is kept")
    for topic in hard.catalog.former_topics():
        if not any(hard.shares_on(partition) for partition in topic.partitions) and not (
            held & set(topic.partitions)
        ):
            world.broken.append(f"P8: deleted topic {topic.name} is remembered for nobody")


def check_refusal(world: World) -> None:
    """P7: a request that is refused changes nothing, in memory or on disk."""
    life = world.life
    if life is None or not life.is_serving:
        return
    name, work = world.rng.choice(_BAD_REQUESTS)
    before = hard_lines(life.broker.hard), world.store.last_sequence
    submitted = _submitted(life.broker)
    refusal = _refusal_of(world, life.broker, work)
    world.operations += 1
    if refusal is None:
        return
    after = hard_lines(life.broker.hard), world.store.last_sequence
    if before != after or submitted != _submitted(life.broker):
        world.broken.append(f"P7: {name} was refused ({refusal}) and changed something")


def _submitted(broker: Broker) -> list[tuple[int, int]]:
    """How much waits for the disk."""
    return [(len(g.records), g.count) for g in broker.ledger._writer._gatherings]


def _refusal_of(
    world: World, broker: Broker, work: Callable[[World, Broker], Awaitable[Any]]
) -> str | None:
    """The code of the error, if it comes at once."""
    steps: Any = None
    try:
        steps = work(world, broker).__await__()
        next(steps)
    except StopIteration:
        return None
    except FanlogError as error:
        return error.code if outcome_of(error) == "refused" else None
    steps.close()
    return None


async def _publish_nowhere(_: World, broker: Broker) -> None:
    from fanlog.wire.publish import build_body

    await broker.publish(topic_name("sim", "nowhere"), build_body([(b"x", {}, "")]))


async def _publish_garbage(_: World, broker: Broker) -> None:
    from fanlog.server import publisher_api

    context: Any = None
    await publisher_api.publish(broker, b"\xff\xff", context)


async def _ack_nobody(_: World, broker: Broker) -> None:
    await broker.acknowledge(NOBODY, ["x"])


async def _ack_garbage(world: World, broker: Broker) -> None:
    names = [s.name for s in broker.hard.catalog.subscriptions()]
    name = world.rng.choice(names) if names else NOBODY
    await broker.acknowledge(name, ["not an ack id", "f" * 52])


async def _nack_garbage(world: World, broker: Broker) -> None:
    names = [s.name for s in broker.hard.catalog.subscriptions()]
    name = world.rng.choice(names) if names else NOBODY
    await broker.modify_ack_deadline(name, ["not an ack id", "f" * 52], 0)


async def _create_twice(world: World, broker: Broker) -> None:
    topics = [topic.name for topic in broker.hard.catalog.topics()]
    if topics:
        await broker.topics.create(TopicSpec(name=world.rng.choice(topics)))
    raise InvalidArgument("nothing to create twice")


async def _create_on_nothing(_: World, broker: Broker) -> None:
    spec = SubscriptionSpec(
        name=subscription_name("sim", "fresh"), topic=topic_name("sim", "nowhere")
    )
    await broker.subscriptions.create(spec)


async def _subscribe_twice(world: World, broker: Broker) -> None:
    existing = [s for s in broker.hard.catalog.subscriptions() if s.topic_id is not None]
    if existing:
        chosen = world.rng.choice(existing)
        spec = SubscriptionSpec(name=chosen.name, topic=chosen.topic)
        await broker.subscriptions.create(spec)
    raise InvalidArgument("nothing to create twice")


async def _update_badly(world: World, broker: Broker) -> None:
    existing = list(broker.hard.catalog.subscriptions())
    if existing:
        changes: dict[str, Any] = world.rng.choice(
            ({"ack_deadline_s": 5}, {"message_retention_s": 1.0}, {"filter": "color == red"})
        )
        name = world.rng.choice(existing).name
        await broker.subscriptions.update(SubscriptionUpdate(name=name, changes=changes))
    raise InvalidArgument("nothing to update")


async def _snapshot_of_nobody(_: World, broker: Broker) -> None:
    spec = SnapshotSpec(name=snapshot_name("sim", "fresh"), subscription=NOBODY)
    await broker.snapshots.create(spec)


async def _seek_nowhere(world: World, broker: Broker) -> None:
    existing = list(broker.hard.catalog.subscriptions())
    name = world.rng.choice(existing).name if existing else NOBODY
    await broker.seeks.to_snapshot(name, snapshot_name("sim", "never-made"))


async def _delete_nobody(_: World, broker: Broker) -> None:
    await broker.subscriptions.delete(NOBODY)


_BAD_REQUESTS: tuple[tuple[str, Callable[[World, Broker], Awaitable[Any]]], ...] = (
    ("a publish to no topic", _publish_nowhere),
    ("a publish of garbage", _publish_garbage),
    ("an ack of nobody's", _ack_nobody),
    ("an ack of garbage", _ack_garbage),
    ("a nack of garbage", _nack_garbage),
    ("a topic made twice", _create_twice),
    ("a subscription made twice", _subscribe_twice),
    ("a subscription on no topic", _create_on_nothing),
    ("a bad update", _update_badly),
    ("a snapshot of nobody", _snapshot_of_nobody),
    ("a seek to no snapshot", _seek_nowhere),
    ("a deletion of nobody", _delete_nobody),
)
