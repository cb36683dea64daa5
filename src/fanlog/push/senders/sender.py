"""The sender of one push subscription: messages are leased, sent, and settled by the answer.

It is a consumer like a stream is, with the window for its credit. A message is leased for as long
as its request may take (the push time-out, not the ack deadline) and a little longer; while it
waits for a connection its lease is extended, and once more when it has one.

The hops of one push:

1. `Consumer` attaches to the feed of the subscription, and has the sender take messages.
2. `Sender._take` leases messages of the feed, within the window and the memory that all share.
3. `packing.group` says which messages go together; `Sender._begin` starts a task for each group.
4. `Sender._send` waits for a connection and a token.
5. `Transport.pack` makes the request: body and headers, or a call (`fanlog.push.rules.packing`).
6. `Transport.send` sends it, and judges the answer: an `Outcome`.
7. `Sender._note` tells the window and the breaker; `Sender._settle` acknowledges or nacks.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.broker.clock import Clock
from fanlog.broker.delivery.delivery import Delivery
from fanlog.broker.delivery.feed import Feed
from fanlog.broker.delivery.movers import MoverFailure, MoverHealth
from fanlog.core.flow import Credit
from fanlog.core.redelivery import Nack
from fanlog.errors import FanlogError
from fanlog.model.endpoints import WebEndpoint, parse_web
from fanlog.model.ids import ack_id, message_id
from fanlog.model.push_settings import breaker_rules
from fanlog.model.resources import Subscription
from fanlog.model.token_bucket import TokenBucket
from fanlog.push.rules.breaker import Breaker
from fanlog.push.rules.kinds import is_pushed
from fanlog.push.rules.outcome import Outcome, of_error
from fanlog.push.rules.packing import Destination, LeasedMessage, MessageKey, group, max_taken
from fanlog.push.rules.window import Window
from fanlog.push.senders.acknowledger import Acknowledger
from fanlog.push.senders.connection_limiter import ConnectionLimiter
from fanlog.push.senders.consumer import Consumer
from fanlog.push.senders.memory_limiter import MemoryLimiter
from fanlog.push.senders.tokens import Tokens
from fanlog.push.senders.transport import Transport
from fanlog.push.senders.waiting_leases import WaitingLeases

log = logging.getLogger("fanlog.push")

#: Messages whose failures are remembered, for `X-Delivery-Attempt`; the oldest are forgotten first.
_FAILED_MAX = 10_000
#: Of a token: what is lost when times are added.
_ROUNDING = 1e-6
_NOT_SENT = Nack(reason="not sent: push had ended")

#: Scheme, name and port.
Host = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Shared:
    """The objects that all senders of a broker share."""

    broker: Broker
    clock: Clock
    connections: ConnectionLimiter
    memory: MemoryLimiter
    tokens: Tokens
    acknowledger: Acknowledger


class Sender:
    """Pushes for one subscription, over one transport."""

    def __init__(self, shared: Shared, transport: Transport, subscription: Subscription) -> None:
        assert subscription.push is not None
        self._broker = shared.broker
        self._clock = shared.clock
        self._shared = shared
        self._transport = transport
        self._endpoint = parse_web(subscription.push.endpoint)
        self._sending: set[asyncio.Task[None]] = set()
        self._failures: dict[MessageKey, int] = {}
        self.consumer = Consumer(shared.broker, subscription, self._take_all)
        #: For metrics.
        self.window = Window()
        self.breaker = Breaker(breaker_rules(subscription.labels))
        #: Of the rate that is set; None for any rate.
        self._bucket: TokenBucket | None = None
        #: Times that messages waited for the rate.
        self.rate_waits = 0
        self._set_rate(subscription)
        self.outcomes: Counter[str] = Counter()
        #: The last failure; empty when none came since.
        self.last_reason = ""
        #: The latest failures, for those who look; the oldest first.
        self._failed: deque[MoverFailure] = deque(maxlen=limits.PUSH_FAILURES_KEPT)

    @property
    def name(self) -> str:
        return self.consumer.name

    @property
    def attempts(self) -> int:
        return self.outcomes.total()

    def change(self, subscription: Subscription) -> None:
        """The subscription has other settings; another endpoint starts afresh."""
        assert subscription.push is not None
        if subscription.push.endpoint != self._endpoint.url:
            self._endpoint = parse_web(subscription.push.endpoint)
            self.window = Window()
            self.breaker = Breaker(breaker_rules(subscription.labels))
            self._bucket = None
            self.last_reason = ""
            self._failed.clear()
        self.breaker.change(breaker_rules(subscription.labels))
        self._set_rate(subscription)
        self.consumer.change(subscription)

    def _set_rate(self, subscription: Subscription) -> None:
        rate, now = subscription.push_rate, self._clock.now()
        if rate is None:
            self._bucket = None
        elif self._bucket is None:
            # A second's worth at once.
            self._bucket = TokenBucket(rate, rate, now)
        elif self._bucket.rate != rate:
            self._bucket.change(now, rate, rate)

    @property
    def under_way(self) -> set[asyncio.Task[None]]:
        """The tasks to wait for before the sender is stopped."""
        return self._sending

    @property
    def trouble(self) -> str:
        """Why messages are not sent just now; empty when they are."""
        state = self.breaker.state(self._clock.now())
        if state == "closed":
            return ""
        return f"push waits, its circuit breaker is {state}: {self.last_reason}"

    @property
    def health(self) -> MoverHealth:
        return MoverHealth(
            breaker=self.breaker.state(self._clock.now()),
            next_try_s=self.breaker.until,
            window=self.window.size,
            under_way=len(self._sending),
            attempts=self.attempts,
            outcomes=dict(self.outcomes),
            failures=tuple(reversed(self._failed)),
        )

    @property
    def _subscription(self) -> Subscription:
        return self.consumer.subscription

    @property
    def _lease_s(self) -> float:
        return self._subscription.push_timeout_s + limits.PUSH_LEASE_MARGIN_S

    # Taking.

    async def _take_all(self, feed: Feed, credit: Credit) -> None:
        while not self.consumer.is_over:
            version = feed.version
            credit.max_messages = self.window.size * self._transport.messages_max
            taken: list[LeasedMessage] = []
            if self._room() > 0 and credit.has_room and feed.has_ready and self._has_tokens():
                taken = await self._take(feed, credit)
            if not taken:
                await self._wait(feed, version)
                continue
            for messages in group(taken, self._transport.messages_max):
                self._begin(messages)

    def _tokens(self) -> int:
        """How many messages the rate lets be sent now."""
        assert self._bucket is not None
        return int(self._bucket.left(self._clock.now()) + _ROUNDING)

    def _has_tokens(self) -> bool:
        if self._bucket is None or self._tokens() > 0:
            return True
        self.rate_waits += 1
        return False

    def _room(self) -> int:
        """How many more requests may be sent now."""
        if not self.breaker.permits(self._clock.now(), len(self._sending)):
            return 0
        most = self.window.size if self.breaker.until is None else 1
        return most - len(self._sending)

    async def _take(self, feed: Feed, credit: Credit) -> list[LeasedMessage]:
        """Lease messages that may be sent now, within the memory that all senders share."""
        memory = self._shared.memory
        if memory.is_scarce and self._sending:
            # The rest is for senders that have nothing under way.
            memory.tell(self.consumer.wake)
            return []
        reserved = limits.PUSH_BYTES_MAX
        await memory.reserve(reserved)
        size_bytes = 0
        try:
            room = self._room()
            if room <= 0:
                return []
            is_probe = self.breaker.until is not None
            most = 1 if memory.is_scarce or is_probe else self._max_taken(room)
            if self._bucket is not None:
                most = min(most, self._tokens())
                if not most:
                    return []
            deliveries = await feed.take(
                credit,
                max_messages=most,
                max_bytes=self._transport.bytes_max,
                deadline_s=self._lease_s,
            )
            taken = [one for delivery in deliveries for one in self._messages_of(delivery)]
            size_bytes = sum([one.size_bytes for one in taken])
            if self._bucket is not None:
                self._bucket.take(self._clock.now(), len(taken))
        finally:
            memory.hold(size_bytes, reserved)
        self._broker.count_deliveries(self._subscription, deliveries)
        return taken

    def _max_taken(self, room: int) -> int:
        has_failures = bool(self._failures)
        return max_taken(room, self._transport.messages_max, has_failures=has_failures)

    def _messages_of(self, delivery: Delivery) -> Iterator[LeasedMessage]:
        added = self._broker.added_attributes(self._subscription, delivery)
        prefix = self._broker.ack_id_prefix(self._subscription, delivery)
        for batch, first, end in delivery.runs:
            for index in range(first, end):
                offset = batch.base_offset + index
                attempt = delivery.attempts.get(offset, delivery.attempt)
                failures = self._failures.get((batch.partition, offset), 0)
                yield LeasedMessage(batch, index, ack_id(prefix, offset), attempt, failures, added)

    async def _wait(self, feed: Feed, version: int) -> None:
        timer = None
        now = self._clock.now()
        until = self.breaker.until or 0.0
        if self._bucket is not None:
            until = max(until, now + self._bucket.wait_s(now, 1.0))
        if until > now:
            timer = self._clock.call_at(until, feed.wake)
        try:
            await feed.wait(version)
        finally:
            if timer is not None:
                timer.cancel()

    # Sending.

    def _begin(self, messages: Sequence[LeasedMessage]) -> None:
        task = asyncio.create_task(self._send(messages, self._clock.now()))
        self._sending.add(task)
        size_bytes = sum([one.size_bytes for one in messages])
        task.add_done_callback(lambda done: self._finish(done, size_bytes))

    def _finish(self, task: asyncio.Task[None], size_bytes: int) -> None:
        self._sending.discard(task)
        self._shared.memory.give(size_bytes)
        if not task.cancelled() and task.exception() is not None:
            # Nothing is lost: the lease runs out.
            log.error("action=push_broken subscription=%s", self.name, exc_info=task.exception())
        self.consumer.wake_if_ready()

    async def _send(self, messages: Sequence[LeasedMessage], leased_s: float) -> None:
        """Send one request, and settle its messages by the outcome."""
        host = await self._enter(messages, leased_s)
        if host is None:
            return
        subscription, endpoint = self._subscription, self._endpoint
        try:
            assert subscription.push is not None
            token = await self._shared.tokens.token_for(subscription.push)
            is_claimed = token is not None and subscription.is_at_most_once
            if is_claimed:
                messages = await self._claim(subscription, messages)
                if not messages:
                    return
            outcome = await self._exchange(messages, subscription, endpoint, token)
        finally:
            self._shared.connections.leave(host)
        self._note(endpoint, outcome, messages)
        if is_claimed:
            self._end_push_if_gone(subscription, outcome)
        else:
            await self._settle(subscription, messages, outcome)

    async def _claim(
        self, subscription: Subscription, messages: Sequence[LeasedMessage]
    ) -> Sequence[LeasedMessage]:
        """At most once: acknowledge messages before they are sent; those that may be sent."""
        parsed = self._broker.ack_ids.parse(subscription.id, [one.ack_id for one in messages])
        try:
            lost = await self._broker.claims.claim(subscription, parsed.offsets)
        except FanlogError:
            # Their commit failed, and hard state is loaded again: they are not sent.
            return []
        return [one for one in messages if one.key not in lost]

    async def _exchange(
        self,
        messages: Sequence[LeasedMessage],
        subscription: Subscription,
        endpoint: WebEndpoint,
        token: str | None,
    ) -> Outcome:
        if token is None:
            return of_error("NoToken")
        wall_s = self._clock.wall_ns() // 1_000_000_000
        destination = Destination(subscription, endpoint, token, wall_s)
        tracing = self._broker.tracing
        if tracing is None:
            return await self._send_packed(messages, destination)
        keys = [one.key for one in messages]
        with tracing.pushing(subscription, keys, endpoint.url) as push:
            outcome = await self._send_packed(
                messages, destination._replace(traceparent=push.traceparent)
            )
            push.error = outcome.reason
            return outcome

    async def _send_packed(
        self, messages: Sequence[LeasedMessage], destination: Destination
    ) -> Outcome:
        packed, began_s = self._transport.pack(messages, destination), self._clock.now()
        outcome = await self._transport.send(packed)
        self._broker.metrics.push_seconds.observe(self._clock.now() - began_s)
        return outcome

    async def _enter(self, messages: Sequence[LeasedMessage], leased_s: float) -> Host | None:
        """Wait for a connection to the endpoint of that time; give it back with `leave`.

        None when push has ended meanwhile: then the messages are nacked, for other consumers.
        """
        while True:
            endpoint = self._endpoint
            host = (endpoint.scheme, endpoint.host, endpoint.port)
            try:
                await self._enter_host(host, messages, leased_s)
            except FanlogError:
                # The subscription is gone, and the leases with it.
                return None
            if endpoint is self._endpoint:
                break
            self._shared.connections.leave(host)
        if is_pushed(self._broker.hard.catalog.subscription_by_id(self._subscription.id)):
            return host
        self._shared.connections.leave(host)
        ack_ids = [one.ack_id for one in messages]
        with suppress(FanlogError):
            await self._broker.settle_some(self._subscription, ack_ids, 0, _NOT_SENT)
        return None

    async def _enter_host(
        self, host: Host, messages: Sequence[LeasedMessage], leased_s: float
    ) -> None:
        """Wait for a connection to a host; leases are kept up, and cover the request after it."""
        connections = self._shared.connections
        if connections.enter_nowait(host):
            return
        ack_ids = [one.ack_id for one in messages]
        leases = WaitingLeases(
            self._broker, self._clock, self._subscription, ack_ids, self._lease_s, leased_s
        )
        try:
            await connections.enter(host)
        finally:
            leases.leave()
        try:
            await leases.renew()
        except BaseException:
            connections.leave(host)
            raise

    # Settling.

    def _note(
        self, endpoint: WebEndpoint, outcome: Outcome, messages: Sequence[LeasedMessage]
    ) -> None:
        """Tell window, breaker and metrics of an outcome, unless the endpoint has changed."""
        if endpoint is not self._endpoint:
            return
        now = self._clock.now()
        self.outcomes[outcome.kind] += 1
        self.last_reason = outcome.reason
        if outcome.is_ack:
            self.window.note_success()
        else:
            self.window.note_failure()
            self._failed.append(
                MoverFailure(
                    time_s=now,
                    reason=outcome.nack.reason,
                    messages=len(messages),
                    message_id=message_id(*messages[0].key),
                )
            )
        if outcome.hold_s:
            self.breaker.hold(now, outcome.hold_s)
        if not outcome.is_failing:
            was_open = self.breaker.until is not None
            self.breaker.note_success(now)
            if was_open and self.breaker.until is None:
                log.info("action=push_breaker_closed subscription=%s", self.name)
        elif self.breaker.note_failure(now):
            log.warning(
                "action=push_breaker_open subscription=%s host=%s reason=%s",
                self.name,
                self._endpoint.host,
                outcome.reason,
            )

    async def _settle(
        self, subscription: Subscription, messages: Sequence[LeasedMessage], outcome: Outcome
    ) -> None:
        """Acknowledge the messages of a request, or nack them: all, or one by one."""
        if not outcome.is_ack:
            await self._nack_all(subscription, messages, outcome)
        elif not outcome.refused:
            self._acknowledge(messages)
        else:
            refused = outcome.refused
            self._acknowledge(one for one in messages if one.ack_id not in refused)
            nacks = [(one, refused[one.ack_id]) for one in messages if one.ack_id in refused]
            await self._nack(subscription, nacks)

    async def _nack_all(
        self, subscription: Subscription, messages: Sequence[LeasedMessage], outcome: Outcome
    ) -> None:
        """Nack all messages of a request that failed."""
        self._end_push_if_gone(subscription, outcome)
        nack = outcome.nack
        await self._nack(subscription, [(one, nack) for one in messages])

    async def _nack(
        self, subscription: Subscription, refused: Iterable[tuple[LeasedMessage, Nack]]
    ) -> None:
        alike: defaultdict[Nack, list[str]] = defaultdict(list)
        for one, nack in refused:
            if nack.is_counted:
                self._note_failure(one.key)
            elif nack.delay_s is None and subscription.retry is None:
                # Uncounted, it would come back at once for ever.
                nack = replace(nack, delay_s=limits.FIRST_IMMEDIATE_BACKOFF_S_MIN)
            alike[nack].append(one.ack_id)
        # The subscription may be gone, or hard state loaded again; then the leases are gone too.
        with suppress(FanlogError):
            for nack, ack_ids in alike.items():
                await self._broker.settle_some(subscription, ack_ids, 0, nack)

    def _acknowledge(self, messages: Iterable[LeasedMessage]) -> None:
        """Acknowledge messages, together with all others of this turn of the loop."""
        for one in messages:
            if self._failures:
                self._failures.pop(one.key, None)
            self._shared.acknowledger.acknowledge(self._subscription, one.ack_id)

    def _note_failure(self, key: MessageKey) -> None:
        self._failures[key] = self._failures.pop(key, 0) + 1
        if len(self._failures) > _FAILED_MAX:
            del self._failures[next(iter(self._failures))]

    def _end_push_if_gone(self, subscription: Subscription, outcome: Outcome) -> None:
        if outcome.is_gone and self._subscription.push == subscription.push:
            with suppress(FanlogError):
                self._turn_off(outcome.reason)

    def _turn_off(self, reason: str) -> None:
        present = self._broker.present(self._subscription)
        if present.push is None or present.push_off:
            return
        log.warning(
            "action=push_off subscription=%s host=%s reason=%s; set its push config to resume",
            self.name,
            self._endpoint.host,
            reason,
        )
        self._broker.subscriptions.turn_push_off(present, f"the endpoint answered {reason}")
