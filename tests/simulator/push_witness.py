"""Push, as seen from both ends of the wire: the senders' broker, and their transport.

`PushService` and its senders are the real ones. They are given a broker that writes down which
messages they take and settle (`PushWitness`), and a transport to `receivers` that writes down each
request (`Wire`). How many requests may be under way, and when an endpoint is left alone, is said
here once more, in other words (`Pace`), and compared each time a sender takes messages.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fanlog import limits
from fanlog.core.redelivery import NACKED, Nack
from fanlog.errors import FanlogError
from fanlog.model import attributes as names_of
from fanlog.model.endpoints import WebEndpoint
from fanlog.model.ids import message_id
from fanlog.model.resources import Offset, PartitionId, Subscription, SubscriptionId
from fanlog.push.rules.outcome import Outcome
from fanlog.push.rules.packing import Request, pack_web
from fanlog.push.senders.sender import Sender
from fanlog.push.senders.tokens import Tokens
from fanlog.push.service import PushService
from simulator.chronicle import Delivered, Op, Settle
from simulator.ledger import EPSILON_S
from simulator.network import parsed_ack_id
from simulator.world import World, outcome_of

if TYPE_CHECKING:
    from simulator.life import Life


def new_senders(world: World, life: Life) -> PushService:
    """The senders of a life, under observation."""
    return PushWitness(world, life).senders


class Pace:
    """How many requests of one sender may be under way, as the documents say it."""

    def __init__(self, endpoint: WebEndpoint) -> None:
        self.endpoint = endpoint
        self._size = limits.PUSH_WINDOW_FIRST
        self._good = self._bad = 0
        #: While an endpoint is left alone: until when; and for how long it would be, or was.
        self._until_s: float | None = None
        self._alone_s = limits.PUSH_BREAKER_OPEN_S_MIN
        #: Until when it asked for that itself.
        self._asked_s = 0.0

    def note(self, outcome: Outcome, now: float) -> None:
        """A request ended."""
        if outcome.is_ack:
            self._good += 1
            if self._good == self._size:
                self._size, self._good = min(self._size * 2, limits.PUSH_WINDOW_MAX), 0
        else:
            self._size, self._good = max(self._size // 2, 1), 0
        if outcome.hold_s > 0.0:
            self._asked_s = max(self._asked_s, now + outcome.hold_s)
            self._until_s = max(self._asked_s, self._until_s or 0.0)
        if outcome.is_failing:
            self._note_failure(now)
            return
        self._bad, self._alone_s = 0, limits.PUSH_BREAKER_OPEN_S_MIN
        if self._asked_s <= now:
            self._until_s = None

    def _note_failure(self, now: float) -> None:
        self._bad += 1
        if self._until_s is None:
            if self._bad >= limits.PUSH_BREAKER_FAILURES:
                self._until_s = now + self._alone_s
        elif self._until_s <= now:
            self._alone_s = min(limits.PUSH_BREAKER_OPEN_S_MAX, self._alone_s * 2)
            self._until_s = now + self._alone_s

    def room(self, now: float, under_way: int) -> int:
        """How many more may be sent."""
        if self._until_s is not None:
            return 0 if now < self._until_s or under_way else 1
        return self._size - under_way


@dataclass(frozen=True, slots=True)
class _Origin:
    """The sender of a request, and its number among the world's consumers."""

    sender: Sender
    consumer: int


@dataclass(frozen=True, slots=True)
class _Lease:
    """A message that is sent."""

    sender: Sender
    #: As it is when it is sent.
    subscription: Subscription
    consumer: int
    generation: int
    deadline_s: float
    #: When it was asked for.
    at: int


#: The origin of the present task: the loop of a sender, or one of its requests.
ORIGIN: ContextVar[_Origin | None] = ContextVar("ORIGIN", default=None)


class PushWitness:
    """The broker of one life as its senders see it."""

    def __init__(self, world: World, life: Life) -> None:
        self._world = world
        self._life = life
        self._broker = life.broker
        self._paces: dict[Sender, Pace] = {}
        #: For how long each lease was asked for, and when.
        self._taken: dict[int, tuple[float, int]] = {}
        self._consumers: dict[SubscriptionId, int] = {}
        #: Leases, and offsets in them, that receivers said they took.
        self._received: set[tuple[int, Offset]] = set()
        #: How often each message failed since its subscription was last disturbed, and since when.
        self._failed: dict[tuple[int, int, int], tuple[int, int]] = {}
        #: Before when a message must not come again, as its receiver asked or as the schedule of
        #: retries has it, and when that was known.
        self._not_before: dict[tuple[int, int, int], tuple[float, int]] = {}
        clock: Any = life.clock
        broker: Any = self
        self.senders = PushService(
            broker,
            clock,
            life.resolver,
            Tokens(broker.secrets, clock),
            connections=limits.PUSH_CONNECTIONS_MAX,
            web=Wire(world, life, self),
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)

    def pace_of(self, sender: Sender) -> Pace:
        pace = self._paces.get(sender)
        if pace is None or pace.endpoint is not sender._endpoint:
            # Another endpoint starts afresh.
            pace = self._paces[sender] = Pace(sender._endpoint)
        return pace

    # Calls of senders to the broker.

    def attach(self, name: str) -> tuple[Subscription, Any]:
        subscription, feed = self._broker.attach(name)
        # The task that began this one may have been a sender's, too.
        ORIGIN.set(None)
        task = asyncio.current_task()
        for sender in self.senders:
            if sender.consumer._loop is task:
                consumer = self._consumers.setdefault(subscription.id, self._world.new_consumer())
                ORIGIN.set(_Origin(sender, consumer))
        return subscription, ObservedFeed(self, feed)

    def detach(self, subscription: Subscription, feed: ObservedFeed) -> None:
        self._broker.detach(subscription, feed.feed)

    async def settle_some(
        self,
        subscription: Subscription,
        ack_ids: Sequence[str],
        seconds: int | None,
        nack: Nack = NACKED,
    ) -> dict[str, str]:
        refs = [parsed_ack_id(ack_id) for ack_id in ack_ids]
        for ref in refs if seconds is None else ():
            if (ref.generation, ref.offset) not in self._received:
                self._world.broken.append(
                    f"push: {ref.partition}:{ref.offset} of {subscription.name} is acknowledged, "
                    "and its receiver has not taken it"
                )
        verb = "acknowledge" if seconds is None else "modify"
        op = Op(verb, subscription.name, Settle(refs, seconds), self._life.number)
        op.consumer = self._consumers.get(subscription.id, 0)
        self._world.operations += len(refs)
        self._world.chronicle.begin(op, self._world.now)
        self._life.running[op] = None
        try:
            refused = await self._broker.settle_some(subscription, ack_ids, seconds, nack)
        except FanlogError as error:
            self._world.end(self._life, op, outcome_of(error), error.code)
            raise
        # The caller is not told when it is durable.
        self._world.end(self._life, op, "cut")
        return refused

    def now_at(self) -> int:
        return self._world.chronicle.at

    def taking(self, count: int) -> None:
        """A sender is about to take so many messages."""
        origin = ORIGIN.get()
        if origin is None:
            return
        sender, now = origin.sender, self._world.now
        room = self.pace_of(sender).room(now, len(sender._sending))
        if count > room:
            self._world.broken.append(
                f"push: {sender.name} takes {count} messages, with {len(sender._sending)} requests "
                f"under way there is room for {room}"
            )

    def taken(self, deliveries: Sequence[Any], deadline_s: float, at: int) -> None:
        for delivery in deliveries:
            self._taken[delivery.generation] = deadline_s, at

    def lease_of(self, request: Request) -> tuple[_Lease, PartitionId, Offset]:
        """The lease of the message that a request carries, and which message it is."""
        origin = ORIGIN.get()
        assert origin is not None, "only senders send"
        [leased] = request.messages
        generation = parsed_ack_id(leased.ack_id).generation
        sender = origin.sender
        lease = _Lease(
            sender, sender._subscription, origin.consumer, generation, *self._taken[generation]
        )
        return lease, *leased.key

    # Answers of receivers.

    def check_wait(self, lease: _Lease, partition: int, offset: Offset) -> None:
        """A message does not come again before its receiver wants it, if nothing else moved it."""
        world, who = self._world, lease.subscription
        until_s, at = self._not_before.pop((who.id, partition, offset), (0.0, 0))
        if world.now < until_s - EPSILON_S and world.disturbed_at(who.name) < at:
            world.broken.append(
                f"push: {partition}:{offset} of {who.name} came {until_s - world.now:.3f} s before "
                "the time that Retry-After or its schedule of retries gave"
            )

    def answered(
        self,
        lease: _Lease,
        endpoint: WebEndpoint,
        partition: int,
        offset: Offset,
        outcome: Outcome,
    ) -> None:
        """A request has ended; the sender is told just now."""
        sender, now, world = lease.sender, self._world.now, self._world
        live_s = world.chronicle.decided_s[lease.generation] + lease.deadline_s
        key = lease.subscription.id, partition, offset
        if outcome.is_ack:
            self._received.add((lease.generation, offset))
            self._failed.pop(key, None)
        elif now < live_s and world.disturbed_at(lease.subscription.name) < lease.at:
            least_s = self._least_wait_s(lease, key)
            wait_s = least_s if outcome.delay_s is None else outcome.delay_s
            self._not_before[key] = now + wait_s, world.chronicle.at
        if endpoint is sender._endpoint:
            self.pace_of(sender).note(outcome, self._world.now)
        if outcome.is_gone:
            push = lease.subscription.push
            if sender._subscription.push == push:
                self._world.loop.call_soon(self._check_off, lease.subscription)

    def _least_wait_s(self, lease: _Lease, key: tuple[int, int, int]) -> float:
        """Count a failure; how long its message waits at least, where nothing else has a say."""
        who = lease.subscription
        count, since = self._failed.get(key, (0, lease.at))
        if self._world.disturbed_at(who.name) >= since:
            count, since = 0, lease.at
        self._failed[key] = count + 1, since
        if who.retry is not None or who.dead_letter is not None or who.enable_message_ordering:
            return 0.0
        return float(min(2 ** (count - 1), 600)) if count else 0.0

    def _check_off(self, subscription: Subscription) -> None:
        """Nothing is sent any more to an endpoint that says it is gone."""
        present = self._broker.hard.catalog.subscription_by_id(subscription.id)
        if self._life.is_dead or present is None or present.detached:
            return
        if present.push == subscription.push and not present.push_off:
            self._world.broken.append(
                f"push: the endpoint of {subscription.name} is gone, and push is on"
            )


class ObservedFeed:
    """A feed that tells which messages are taken from it."""

    def __init__(self, witness: PushWitness, feed: Any) -> None:
        self._witness = witness
        self.feed = feed

    def __getattr__(self, name: str) -> Any:
        return getattr(self.feed, name)

    async def take(
        self, consumer: Any, *, max_messages: int, max_bytes: int, deadline_s: float
    ) -> Any:
        at = self._witness.now_at()
        self._witness.taking(max_messages)
        deliveries = await self.feed.take(
            consumer, max_messages=max_messages, max_bytes=max_bytes, deadline_s=deadline_s
        )
        self._witness.taken(deliveries, deadline_s, at)
        return deliveries


class Wire:
    """The transport between senders and receivers."""

    messages_max = 1
    bytes_max = limits.PUSH_BYTES_MAX
    pack = staticmethod(pack_web)

    def __init__(self, world: World, life: Life, witness: PushWitness) -> None:
        self._world = world
        self._life = life
        self._witness = witness

    async def close(self) -> None:
        """Nothing is to be closed."""

    async def send(self, request: Request) -> Outcome:
        world, endpoint = self._world, request.endpoint
        if self._life.is_dead:
            raise asyncio.CancelledError
        lease, partition, offset = self._witness.lease_of(request)
        self._check_lawful(lease, endpoint)
        self._witness.check_wait(lease, partition, offset)
        self._check_content(lease, partition, offset, request.body, request.headers)
        attempt = int(request.headers["X-Delivery-Attempt"])
        self._write_down(lease, PartitionId(partition), offset, attempt)
        op = Op("push", lease.subscription.name, f"{partition}:{offset} {endpoint.host}")
        op.life, op.consumer = self._life.number, lease.consumer
        world.operations += 1
        world.chronicle.begin(op, world.now)
        self._life.running[op] = None
        wall_s = world.clock.wall_ns() / 1e9
        reply = world.receiver(endpoint.url).reply(world.now, wall_s, request.timeout_s)
        try:
            await asyncio.sleep(reply.after_s)
        except asyncio.CancelledError:
            world.end(self._life, op, "cut")
            raise
        outcome = reply.outcome
        world.end(self._life, op, "ok", outcome.reason or outcome.kind)
        self._witness.answered(lease, endpoint, partition, offset, outcome)
        return outcome

    def _check_lawful(self, lease: _Lease, endpoint: WebEndpoint) -> None:
        """Nothing is sent for a subscription that the disk says is gone, or does not push there."""
        told, number = self._world.disk, lease.subscription.id
        why = _why_silent(told.subscriptions.get(number))
        # Later decisions of the process are on their way to the disk.
        decided = self._life.broker.hard.catalog.subscription_by_id(number)
        if number in told.known and why and _why_silent(decided):
            self._world.broken.append(
                f"push: {lease.subscription.name} is {why}, and a request goes to {endpoint.url}"
            )

    def _check_content(
        self,
        lease: _Lease,
        partition: int,
        offset: Offset,
        body: bytes,
        headers: Mapping[str, str],
    ) -> None:
        message = self._world.chronicle.message(PartitionId(partition), offset)
        said = _said(body, headers)
        event = message_id(partition, offset)
        if message is not None and message.addressee:
            event = message.attributes[names_of.ORIGINAL_ID]
        if headers["X-Event-Id"] != event:
            self._world.broken.append(
                f"push: {partition}:{offset} says that it is {headers['X-Event-Id']}, not {event}"
            )
        topic = self._world.chronicle.topics.get(PartitionId(partition))
        if message is None or said.data != message.data:
            self._world.broken.append(
                f"P1: {partition}:{offset} was pushed with bytes that are not on the disk"
            )
        elif said.attributes is not None:
            attributes = dict(said.attributes)
            said_topic = attributes.pop(names_of.TOPIC, topic)
            if (attributes, said.key, said_topic) != (message.attributes, message.key, topic):
                self._world.broken.append(
                    f"P1: {partition}:{offset} was pushed with other attributes, or another key"
                )

    def _write_down(
        self, lease: _Lease, partition: PartitionId, offset: Offset, attempt: int
    ) -> None:
        world = self._world
        decided_s = world.chronicle.decided_s[lease.generation]
        who = lease.subscription.id
        world.handed_out.setdefault((who, partition), set()).add(offset)
        world.chronicle.deliver(
            Delivered(
                at=world.chronicle.at,
                time_s=world.now,
                generation=lease.generation,
                decided_s=decided_s,
                deadline_lo_s=decided_s + lease.deadline_s,
                deadline_hi_s=decided_s + lease.deadline_s,
                subscription=who,
                partition=partition,
                consumer=lease.consumer,
                credit=0,
                offsets=[offset],
                attempts=[attempt],
                is_drain=world.is_draining,
            )
        )


def _why_silent(subscription: Subscription | None) -> str:
    """Why nothing is to be sent for a subscription; empty if something may be."""
    if subscription is None:
        return "deleted"
    if subscription.detached:
        return "detached"
    if subscription.push is None:
        return "pulled from"
    return "off" if subscription.push_off else ""


@dataclass(frozen=True, slots=True)
class _Said:
    """A message as its request describes it; some forms have no attributes."""

    data: bytes
    attributes: Mapping[str, str] | None = None
    key: str = ""


def _said(body: bytes, headers: Mapping[str, str]) -> _Said:
    if headers["Content-Type"] != "application/json":
        return _Said(body)
    content = json.loads(body)
    if "payload" in content:
        return _Said(_payload(content["payload"], headers["X-Event-Encoding"], body))
    message = content["message"]
    return _Said(
        base64.b64decode(message.get("data", "")),
        message.get("attributes", {}),
        message.get("orderingKey") or message.get("ordering_key", ""),
    )


def _payload(payload: Any, encoding: str, body: bytes) -> bytes:
    """The data of an event's message."""
    match encoding:
        case "base64":
            return base64.b64decode(payload)
        case "text":
            return bytes(payload.encode())
    # The bytes as published: reading and writing JSON would change them.
    start = body.index(b'"payload":') + len(b'"payload":')
    end = body.rindex(b',"published_at":')
    return b"" if payload is None and body[start:end] == b"null" else body[start:end]
