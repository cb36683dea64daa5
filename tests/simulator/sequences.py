"""Publishers that number their messages, leave gaps, repeat themselves and begin again.

Each has a topic and a subscription that nobody else moves. What the log has of a publisher, and
when it comes, is judged by the chronicle alone, whatever the broker remembers of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from fanlog.broker.broker import Broker
from fanlog.core.records import SubscriptionRecord, TopicRecord
from fanlog.errors import FanlogError
from fanlog.model.attributes import (
    DELAY,
    LABEL_GAP_TIMEOUT,
    LABEL_ORDERING,
    PUBLISHER,
    PUBLISHER_EPOCH,
    SEQUENCE,
)
from fanlog.model.resources import Offset, PartitionId
from fanlog.model.specs import SubscriptionSpec, TopicSpec
from simulator import raw
from simulator.calling import called, insist
from simulator.chronicle import Chronicle, Committed, Delivered, Entry, Message, Op
from simulator.clients import pull, settle
from simulator.world import Lost, World

#: In a project of their own, which no pattern of a world matches, and no admin knows. Ledgers go
#: by offsets, and places are not in their order.
PREFIX = "numbered"
ORDERINGS = ("none", "key", "publisher", "total")
#: Time-outs of gaps, for worlds that go fast and slowly.
GAPS_S = (1, 5, 20)
#: Clocks are numbers with a point.
_EPSILON_S = 1e-6

Place = tuple[PartitionId, Offset]


@dataclass
class _Publisher:
    """What a publisher knows of itself."""

    world: World
    topic: str
    key: str
    epoch: int = 0
    next_number: int = 1
    #: The content of each number of the epoch, also of those that it is not sure of.
    sent: dict[int, bytes] = field(default_factory=dict)
    skipped: list[int] = field(default_factory=list)
    #: Where messages are, as answers say.
    places: dict[tuple[int, int], Place] = field(default_factory=dict)

    async def publish(self) -> None:
        rng = self.world.rng
        draw = rng.random()
        if draw < 0.15 and self.skipped:
            await self._send([self.skipped.pop(rng.randrange(len(self.skipped)))])
        elif draw < 0.35 and self.sent:
            await self._send(rng.choices(sorted(self.sent)[-8:], k=rng.choice((1, 2))))
        elif draw < 0.42 and (self.epoch, 1) in self.places:
            await self._begin_again()
        elif draw < 0.46:
            self.epoch += 1
            self.next_number, self.sent, self.skipped = 1, {}, []
            await self._send([1])
        elif draw < 0.50 and self.epoch:
            await self._send_old()
        else:
            if rng.random() < 0.25 and self.next_number > 1:
                self.skipped.append(self.next_number)
                self.next_number += 1
            count = rng.choice((1, 1, 2, 3))
            numbers = list(range(self.next_number, self.next_number + count))
            self.next_number += count
            await self._send(numbers)

    async def _send(self, numbers: list[int]) -> None:
        for number in numbers:
            if number not in self.sent:
                self.world.published += 1
                self.sent[number] = b"numbered %d" % self.world.published
        epoch = self.epoch
        partition, offsets = await self._call([(one, self.sent[one]) for one in numbers], epoch)
        for number, offset in zip(numbers, offsets, strict=True):
            before = self.places.setdefault((epoch, number), (partition, offset))
            if before != (partition, offset):
                self.world.broken.append(
                    f"sequence: number {number} of epoch {epoch} was {before}, and is "
                    f"{partition}:{offset}"
                )

    async def _begin_again(self) -> None:
        """It has forgotten everything, as a process that was started anew."""
        self.world.published += 1
        await self._call([(1, b"anew %d" % self.world.published)], self.epoch)
        self.world.broken.append(
            f"sequence: publisher of {self.topic} began again, and was not told"
        )

    async def _send_old(self) -> None:
        """A part of it has missed that there is a new epoch."""
        epoch = self.epoch - 1
        known = [number for one, number in self.places if one == self.epoch]
        self.world.published += 1
        await self._call([(1_000, b"old %d" % self.world.published)], epoch)
        if known:
            self.world.broken.append(f"sequence: epoch {epoch} of {self.topic} was over")

    async def _call(
        self, messages: list[tuple[int, bytes]], epoch: int
    ) -> tuple[PartitionId, list[Offset]]:
        drafts = []
        for number, data in messages:
            attributes = {PUBLISHER: "p", SEQUENCE: str(number), PUBLISHER_EPOCH: str(epoch)}
            if self.world.temper.terms and number % 7 == 0:
                attributes[DELAY] = "5"
            drafts.append((data, attributes, self.key))

        async def verb(broker: Broker) -> tuple[PartitionId, list[Offset]]:
            return await raw.publish_once(broker, self.topic, drafts)

        found: tuple[PartitionId, list[Offset]] = await called(
            self.world, "publish numbered", self.topic, [(epoch, one) for one, _ in messages], verb
        )
        return found


async def sequencer(world: World) -> None:
    """Publish to a topic of one's own, and fetch, until the world is over."""
    world.sequencers += 1
    ordering, gap_s = world.rng.choice(ORDERINGS), world.rng.choice(GAPS_S)
    name = f"{PREFIX}-{world.sequencers}-{ordering}"
    topic, own = f"projects/own/topics/{name}", f"projects/own/subscriptions/{name}"
    await insist(world, partial(_create_topic, world, topic, ordering, gap_s))
    await insist(world, partial(_create_subscription, world, own, topic, ordering))
    publisher = _Publisher(world, topic, "k" if ordering == "key" else "")
    while await world.pause():
        with suppress(FanlogError, Lost):
            if world.chance(0.5):
                await publisher.publish()
            elif world.chance(0.05):
                await _seek(world, own)
            else:
                received = await pull(world, own, world.rng.randint(1, 5), 0.0)
                if received:
                    refs = [one.ref for one in received]
                    await settle(world, own, refs, world.rng.choice((None, None, None, 0)))


async def _create_topic(world: World, name: str, ordering: str, gap_s: int) -> None:
    labels = {LABEL_ORDERING: ordering, LABEL_GAP_TIMEOUT: str(gap_s)}
    spec = TopicSpec(name=name, labels=labels)
    await called(world, "create topic", name, "", lambda b: b.topics.create(spec))


async def _create_subscription(world: World, name: str, topic: str, ordering: str) -> None:
    spec = SubscriptionSpec(
        name=name,
        topic=topic,
        ack_deadline_s=10,
        enable_message_ordering=ordering != "none",
        retain_acked=True,
        expiration_ttl_s=None,
    )
    await called(world, "create subscription", name, "", lambda b: b.subscriptions.create(spec))


async def _seek(world: World, name: str) -> None:
    """To the beginning: everything comes once more."""
    await called(world, "seek numbered", name, "", lambda b: b.seeks.to_time(name, 0))


# The promise.


@dataclass(frozen=True, slots=True)
class _Stored:
    """A message with a number, as it stands in the log."""

    message: Message
    epoch: int
    number: int
    #: When it arrived, as the broker noted it in the same commit.
    arrived_s: float
    #: The last lease that was decided before its commit.
    generation: int

    @property
    def place(self) -> tuple[int, int]:
        return self.epoch, self.number


Log = dict[Offset, _Stored]


def is_numbered(resource: object) -> bool:
    """Whether a topic or a subscription is judged here, and not by ledgers."""
    name = getattr(resource, "name", "")
    return str(name).rpartition("/")[2].startswith(f"{PREFIX}-")


def numbers_kept(chronicle: Chronicle) -> Iterator[str]:
    """Sentences of numbers that are twice in the log, or came early or late."""
    topics: dict[PartitionId, str] = {}
    gaps_s: dict[PartitionId, float] = {}
    subscriptions: set[int] = set()
    found: dict[PartitionId, Log] = {}
    #: When the publisher of a topic first sent a number of an epoch.
    calls: dict[str, dict[tuple[int, int], float]] = {}
    moved: set[str] = set()
    delivered: list[Delivered] = []
    for entry in chronicle.entries:
        match entry.what:
            case Committed(messages=messages, changes=changes, arrivals=arrivals):
                for change in changes:
                    if isinstance(change, TopicRecord) and is_numbered(change.topic):
                        assert change.topic is not None
                        topics |= dict.fromkeys(change.topic.partitions, change.topic.name)
                        gap_s = float(change.topic.labels[LABEL_GAP_TIMEOUT])
                        gaps_s |= dict.fromkeys(change.topic.partitions, gap_s)
                    elif isinstance(change, SubscriptionRecord) and is_numbered(
                        change.subscription
                    ):
                        subscriptions.add(change.id)
                for message in messages:
                    if message.partition in topics and SEQUENCE in message.attributes:
                        one = _stored(message, entry, arrivals)
                        found.setdefault(message.partition, {})[message.offset] = one
                        sent_s = calls[topics[message.partition]][one.place]
                        yield from _arrived(one, sent_s, entry.time_s)
            case Op(verb="publish numbered", name=name, detail=places) if entry.kind == "begun":
                for place in places:
                    calls.setdefault(name, {}).setdefault(place, entry.time_s)
            case Op(verb="seek" | "purge", name=name):
                # An admin has: what was acknowledged so never came.
                moved.add(name.rpartition("/")[2])
            case Delivered(subscription=owner) if owner in subscriptions:
                delivered.append(entry.what)
    for log in found.values():
        yield from _appended_once(log)
    delivered.sort(key=lambda one: one.generation)
    for partition, name in topics.items():
        ours = [one for one in delivered if one.partition == partition]
        log = found.get(partition, {})
        yield from _held_back(log, ours, gaps_s[partition])
        if not name.endswith("-none") and name.rpartition("/")[2] not in moved:
            yield from _in_order(log, ours)


def _stored(message: Message, entry: Entry, arrivals: Mapping[Place, float]) -> _Stored:
    return _Stored(
        message,
        int(message.attributes[PUBLISHER_EPOCH]),
        int(message.attributes[SEQUENCE]),
        # Of those whose epoch ended in the same commit nothing is noted; they are not held either.
        arrivals.get((message.partition, message.offset), entry.time_s),
        entry.generation,
    )


def _arrived(one: _Stored, sent_s: float, committed_s: float) -> Iterator[str]:
    """A message arrives after its publisher sent it first, and before its commit."""
    if not sent_s - _EPSILON_S <= one.arrived_s <= committed_s + _EPSILON_S:
        yield (
            f"sequence: {one.message.partition}:{one.message.offset} is noted to have arrived at "
            f"{one.arrived_s}, was sent at {sent_s} and committed at {committed_s}"
        )


def _appended_once(log: Log) -> Iterator[str]:
    seen: dict[tuple[int, int], Offset] = {}
    epoch = 0
    for offset, one in sorted(log.items()):
        if one.place in seen:
            yield f"sequence: {one.place} is at {seen[one.place]}, and once more at {offset}"
        if one.epoch < epoch:
            yield f"sequence: {one.place} is at {offset}, and its epoch was over"
        seen[one.place], epoch = offset, max(epoch, one.epoch)


def _held_back(log: Log, delivered: list[Delivered], gap_s: float) -> Iterator[str]:
    """No message comes while one before it is missing, and the time-out is not over.

    By the broker's own clock and notes, so to the moment: a new process that reads another time
    from the machine has waited as long as it sees.
    """
    for one in delivered:
        # What was in the log when the lease was decided, of each epoch.
        there = [other for other in log.values() if other.generation < one.generation]
        last = max((other.epoch for other in there), default=0)
        of_epoch = {other.number: other for other in there if other.epoch == last}
        for offset in filter(log.__contains__, one.offsets):
            if log[offset].epoch != last:
                continue  # Its epoch is over, and so are the gaps before it.
            for missing in range(min(of_epoch), log[offset].number):
                if missing in of_epoch:
                    continue
                since_s = min(
                    other.arrived_s for other in of_epoch.values() if other.number > missing
                )
                if one.decided_s < since_s + gap_s - _EPSILON_S:
                    yield (
                        f"sequence: {one.partition}:{offset} came at {one.at}, with number "
                        f"{log[offset].number}, and {missing} had not come; it was to wait for "
                        f"another {since_s + gap_s - one.decided_s:.3f} s"
                    )


def _in_order(log: Log, delivered: list[Delivered]) -> Iterator[str]:
    """Messages come first in the order of their numbers, where there is order."""
    seen: set[Offset] = set()
    last: tuple[int, int] = (-1, -1)
    for one in delivered:
        for offset in filter(log.__contains__, one.offsets):
            place = log[offset].place
            if offset not in seen and place < last:
                yield f"sequence: {one.partition}:{offset} with number {place} came after {last}"
            seen.add(offset)
            last = max(last, place)
