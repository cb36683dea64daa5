"""Publishers and consumers: what they do is chance, what they remember is what they were told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Literal, TypeVar

from fanlog.broker.broker import Broker
from fanlog.core.redelivery import NACKED, Nack
from fanlog.errors import FanlogError, SchemaMismatch
from fanlog.model.attributes import DEDUP_ID
from fanlog.model.ids import message_id
from fanlog.model.names import subscription_name, topic_name
from fanlog.model.resources import Offset
from fanlog.wire.publish import build_body
from simulator import raw, tenants
from simulator.chronicle import AckRef, Op, Settle
from simulator.dedups import Draft
from simulator.meanings import (
    JSON_DEFINITIONS,
    LETTERS,
    PROJECT,
    TOPICS,
    some_message,
)
from simulator.network import (
    LAG_S,
    Confirmation,
    Received,
    Stream,
    call,
    hand_out,
    parsed,
)
from simulator.world import Lost, World, outcome_of

T = TypeVar("T")

#: How many of the calls go through the gRPC surface, as bytes; the others go to the broker.
RAW = 0.15
#: Deadlines that consumers ask for: the shortest, the usual, the longest.
DEADLINES_S = (10, 30, 60, 600)


def topic(number: int) -> str:
    return topic_name(PROJECT, TOPICS[number])


def letters_topic(number: int) -> str:
    return topic_name(PROJECT, LETTERS[number])


def subscription(number: int) -> str:
    return subscription_name(PROJECT, f"subscription-{number}")


def some_topic(world: World) -> str:
    return topic(world.rng.randrange(world.temper.topics))


def some_subscription(world: World) -> str:
    return subscription(world.rng.randrange(world.temper.subscriptions))


# Publishing.


async def publisher(world: World) -> None:
    """Publish small batches until the world is over."""
    rng = world.rng
    # About half of them are left out by a filter.
    most = 12 if world.temper.filters else 8
    while await world.pause():
        for _ in range(rng.choice((1, 1, 2, 4))):
            try:
                await publish(world, some_topic(world), rng.randint(1, most))
            except (FanlogError, Lost):
                continue


async def publish(world: World, name: str, count: int, *, is_new: bool = False) -> None:
    """Publish some messages, or, unless they must be new, some that may have been before."""
    messages: list[tuple[bytes, dict[str, str], str]] = []
    earlier = world.chronicle.messages_of(name)
    for _ in range(count):
        world.published += 1
        draft = _draft(world)
        if world.temper.tenants:
            draft = tenants.owned(world, draft)
        messages.append(
            draft if is_new else world.asking.asked(draft, world.clock.wall_ns(), earlier)
        )
    if not is_new and world.chance(world.temper.dedups):
        await _publish_once(world, name, world.dedups.named(messages))
        return
    body = build_body(messages)

    is_raw = world.chance(RAW)

    async def verb(broker: Broker) -> tuple[str, ...]:
        if is_raw:
            partition, base = await raw.publish(broker, name, messages)
        else:
            [(partition, offsets, _)] = await broker.publish(name, body)
            base = offsets[0]
        world.operations += count
        for index in range(count):
            stored = world.chronicle.message(partition, base + index)
            if stored is None or stored.data != messages[index][0]:
                world.broken.append(
                    f"P1: the publish of {message_id(partition, base + index)} was answered, and "
                    "it is not on the disk"
                )
        return f"{partition}:{base}", f"+{count}"

    await call(world, lambda: Op("publish", name, count), _checked(world, name, messages, verb))


def _checked(
    world: World,
    name: str,
    drafts: Sequence[Draft],
    verb: Callable[[Broker], Awaitable[T]],
) -> Callable[[Broker], Awaitable[T]]:
    """A publish that is not to be refused for its schema, if every definition takes it."""

    async def checked(broker: Broker) -> T:
        before = _schema_of(broker, name)
        try:
            return await verb(broker)
        except SchemaMismatch as error:
            is_json = before is not None and before.endswith("schema-0")
            if is_json and _schema_of(broker, name) == before:
                datas = [data for data, _, _ in drafts]
                if all(takes(data) for takes in JSON_DEFINITIONS.values() for data in datas):
                    world.broken.append(f"schema: a publish that conforms was refused: {error}")
            raise

    return checked


def _schema_of(broker: Broker, name: str) -> str | None:
    topic = broker.hard.catalog.find_topic(name)
    return None if topic is None or topic.schema_settings is None else topic.schema_settings.schema


def _draft(world: World) -> Draft:
    """A message; where there are schemas, mostly one that all of them take."""
    draft = some_message(world.rng, world.published, world.temper.keys)
    if world.temper.schemas and world.rng.random() < 0.95:
        while not all(takes(draft[0]) for takes in JSON_DEFINITIONS.values()):
            draft = some_message(world.rng, world.published, world.temper.keys)
    return draft


async def _publish_once(world: World, name: str, drafts: list[Draft]) -> None:
    """Publish with dedup ids; again if no answer comes, or twice at the same time."""
    rng = world.rng
    twin = None
    if rng.random() < 0.2:
        twin = world.loop.create_task(_try_once(world, name, drafts))
    for _ in range(3):
        if await _try_once(world, name, drafts):
            break
    if twin is not None:
        await twin


async def _try_once(world: World, name: str, drafts: list[Draft]) -> bool:
    """Whether an answer came."""
    body = build_body(drafts)
    ids = [attributes.get(DEDUP_ID, "") for _, attributes, _ in drafts]
    is_raw = world.chance(RAW) or not any(ids)

    async def verb(broker: Broker) -> tuple[str, ...]:
        world.dedups.begun(name, drafts, world.now)
        offsets: Sequence[Offset]
        if is_raw:
            partition, offsets = await raw.publish_once(broker, name, drafts)
        else:
            [(partition, offsets, _)] = await broker.publish_once(name, body, ids)
        world.operations += len(drafts)
        for draft, offset in zip(drafts, offsets, strict=True):
            stored = world.chronicle.message(partition, offset)
            world.broken += world.dedups.answered(draft, stored)
        return f"{partition}:", *map(str, offsets)

    try:
        await call(
            world, lambda: Op("publish", name, len(drafts)), _checked(world, name, drafts, verb)
        )
    except Lost:
        return False
    except FanlogError as error:
        return outcome_of(error) == "refused"
    return True


# Settling.


async def settle(world: World, name: str, refs: Sequence[AckRef], seconds: int | None) -> None:
    """Acknowledge, nack or extend with a unary call."""

    is_raw = world.chance(RAW)
    nack = _some_nack(world) if seconds == 0 and not is_raw else NACKED

    async def verb(broker: Broker) -> None:
        world.operations += len(refs)
        ack_ids = [ref.ack_id for ref in refs]
        if is_raw:
            await raw.settle(broker, name, ack_ids, seconds)
        elif seconds is None:
            await broker.acknowledge(name, ack_ids)
        else:
            await broker.modify_ack_deadline(name, ack_ids, seconds, nack)

    verb_name = "acknowledge" if seconds is None else "modify"
    await call(world, lambda: Op(verb_name, name, Settle(refs, seconds, nack.is_counted)), verb)


def _some_nack(world: World) -> Nack:
    """A nack that says more than "again", in worlds where some do."""
    if not world.temper.nack_kinds:
        return NACKED
    delays = (None, 0.0, world.temper.pace_s, 10.0 * world.temper.pace_s, 60.0)
    delay_s = world.nack_rng.choice(delays)
    return Nack(delay_s=delay_s, is_counted=world.nack_rng.random() < 0.5)


Deed = Literal["ack", "nack", "extend", "forget"]


class Pocket:
    """Messages one consumer holds, and what it makes up its mind to do with them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.held: list[Received] = []
        self._used: list[AckRef] = []

    def put(self, received: Sequence[Received]) -> None:
        self.held += received
        # Nobody remembers for ever; what falls out expires.
        del self.held[:-200]

    def choose(self) -> tuple[Deed, list[AckRef]]:
        """A deed, and the messages it is done to."""
        world, rng = self._world, self._world.rng
        temper = world.temper
        deeds: tuple[Deed, ...] = ("ack", "nack", "extend", "forget")
        weights = (temper.acks, temper.nacks, temper.extends, temper.forgets)
        deed = rng.choices(deeds, weights)[0]
        if rng.random() < 0.6:
            # The orderly way: everything, or the first few, in order.
            chosen = self.held[: rng.choice((1, 5, len(self.held)))]
        else:
            chosen = rng.sample(self.held, rng.randint(1, len(self.held)))
        if deed != "extend":
            gone = {id(one) for one in chosen}
            self.held = [one for one in self.held if id(one) not in gone]
        refs = [one.ref for one in chosen]
        if self._used and rng.random() < temper.repeats:
            refs += rng.sample(self._used, rng.randint(1, min(3, len(self._used))))
        self._used += refs
        del self._used[:-20]
        return deed, refs

    def seconds_of(self, deed: Deed) -> int | None:
        match deed:
            case "nack":
                return 0
            case "extend":
                return self._world.rng.choice(DEADLINES_S)
            case _:
                return None


# Pulling.


async def puller(world: World) -> None:
    """Pull from any subscription, and settle in any order, until the world is over."""
    rng = world.rng
    pockets: dict[str, Pocket] = {}
    while await world.pause():
        name = some_subscription(world)
        pocket = pockets.setdefault(name, Pocket(world))
        try:
            if not pocket.held or rng.random() < 0.6:
                pocket.put(await pull(world, name, rng.choice((1, 3, 10, 100)), _wait_s(world)))
            if pocket.held and world.chance(world.temper.lates):
                await world.sleep(_until_late_s(world, name))
            for _ in range(rng.choice((1, 1, 2, 3))):
                if pocket.held:
                    deed, refs = pocket.choose()
                    if deed != "forget":
                        await settle(world, name, refs, pocket.seconds_of(deed))
        except (FanlogError, Lost):
            continue


def _until_late_s(world: World, name: str) -> float:
    """How long until a lease of now is about to end, or has just ended; not if that is long."""
    life = world.life
    if life is None or not life.broker.hard.catalog.has_subscription(name):
        return 0.0
    deadline_s = life.broker.hard.catalog.subscription(name).ack_deadline_s
    return deadline_s + world.rng.uniform(-0.5, 1.0) if deadline_s <= 60 else 0.0


def _wait_s(world: World) -> float:
    return world.rng.choice((0.0, 0.0, 1.0, 20.0))


async def pull(world: World, name: str, max_messages: int, wait_s: float) -> list[Received]:
    is_raw = world.chance(RAW)

    async def verb(broker: Broker) -> list[Received]:
        deadlines = _deadlines(world, broker, name)
        if is_raw:
            messages = await raw.pull(broker, name, max_messages, wait_s)
            if not messages:
                return []
            return parsed(world, messages, world.new_consumer(), deadlines)
        found, deliveries = await broker.pull(name, max_messages=max_messages, wait_s=wait_s)
        if not deliveries:
            return []
        later = broker.present(found).ack_deadline_s
        return hand_out(
            world,
            broker,
            found,
            deliveries,
            world.new_consumer(),
            (min(*deadlines, later), max(*deadlines, later)),
        )

    return await call(world, lambda: Op("pull", name, max_messages), verb)


def _deadlines(world: World, broker: Broker, name: str) -> tuple[int, int]:
    """Bounds of the deadline that a lease gets; it may be changed while a pull waits."""
    if not broker.hard.catalog.has_subscription(name):
        return 600, 10
    seconds = broker.hard.catalog.subscription(name).ack_deadline_s
    return seconds, seconds


# Streams.


async def streamer(world: World) -> None:
    """Open a stream, use it for a while, end it in one way or another; again and again."""
    rng = world.rng
    while await world.pause():
        name = some_subscription(world)
        try:
            stream = Stream(
                world,
                name,
                credit=rng.choice((0, 1, 2, 10, 100)),
                credit_bytes=rng.choice((0, 0, 100, 1_000)),
                deadline_s=rng.choice(DEADLINES_S),
            )
        except Lost:
            continue
        pocket = Pocket(world)
        with suppress(FanlogError, Lost):
            await _use(world, stream, pocket)
        if stream.consumer % 3 == 0 and pocket.held and not stream.is_over:
            await _nack_and_leave(world, stream, pocket)
        _leave(world, stream)


async def _use(world: World, stream: Stream, pocket: Pocket) -> None:
    rng = world.rng
    while not stream.is_over and rng.random() < 0.97:
        said = await stream.receive(world.temper.pace_s * rng.random())
        if isinstance(said, Confirmation):
            continue
        if said is not None:
            pocket.put(said)
        elif not await world.pause(0.3):
            return
        if not pocket.held or stream.is_over:
            continue
        deed, refs = pocket.choose()
        seconds = pocket.seconds_of(deed)
        if deed == "forget":
            continue
        if rng.random() < 0.2:
            await settle(world, stream.name, refs, seconds)
        elif seconds is None:
            stream.send(refs)
        else:
            deadline_s = rng.choice(DEADLINES_S) if rng.random() < 0.1 else 0
            stream.send(modify=[(ref, seconds) for ref in refs], deadline_s=deadline_s)


async def _nack_and_leave(world: World, stream: Stream, pocket: Pocket) -> None:
    """As Go does: a unary nack of all that is held, a half-close, and a cancellation."""
    with suppress(FanlogError, Lost):
        await settle(world, stream.name, [one.ref for one in pocket.held], 0)
    stream.close()
    await world.sleep(LAG_S)
    stream.cut()


def _leave(world: World, stream: Stream) -> None:
    if stream.is_over:
        return
    if world.chance(world.odds.stream_half_open, "stream_half_open"):
        stream.go_silent(world.rng.random() * 100.0)
    elif world.rng.random() < 0.5:
        stream.close()
    else:
        stream.cut()
