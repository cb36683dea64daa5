"""One push subscription: messages are leased, sent, and settled by what their endpoint answers.

It is a consumer like a stream is, with the window for its credit. A message is leased for as long
as its request may take (the push time-out, not the ack deadline) and a little longer; while it
waits for a connection its lease is extended, and once more when it has one.
How a request is made of messages is left to `WebSender` and `GrpcSender`.
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from fanlog import limits
from fanlog.broker.delivery.feed import Delivery, Feed
from fanlog.core.flow import Credit
from fanlog.core.redelivery import Nack
from fanlog.errors import FanlogError
from fanlog.log.batch import Batch
from fanlog.model.endpoints import WebEndpoint, parse_web
from fanlog.model.ids import ack_id
from fanlog.model.resources import Offset, PartitionId, PushConfig, Subscription
from fanlog.push.rules import Breaker, Outcome, Window
from fanlog.push.senders.consumer import Consumer, Tools
from fanlog.push.senders.pushed import is_pushed

log = logging.getLogger("fanlog.push")

#: Messages whose failures are remembered, for `X-Delivery-Attempt`; the oldest are forgotten first.
_FAILED_MAX = 10_000
_NOT_SENT = Nack(reason="not sent: push had ended")

#: Scheme, name and port.
Host = tuple[str, str, int]


@dataclass(slots=True)
class Leased:
    """One message that is to be sent."""

    batch: Batch
    index: int
    ack_id: str
    #: Which delivery this is where a dead letter policy counts them; otherwise 0.
    attempt: int
    #: Attributes besides those that were published.
    added: Mapping[str, str] | None

    @property
    def key(self) -> tuple[PartitionId, Offset]:
        return self.batch.partition, self.batch.base_offset + self.index

    @property
    def size_bytes(self) -> int:
        return self.batch.starts[self.index + 1] - self.batch.starts[self.index]


class Sender(Consumer):
    """Pushes for one subscription; several messages to a request, or one."""

    #: Messages of one request, and their bytes, at most.
    messages_max = 1
    bytes_max = limits.PUSH_BYTES_MAX

    def __init__(self, tools: Tools, subscription: Subscription) -> None:
        super().__init__(tools, subscription)
        assert subscription.push is not None
        self._endpoint = parse_web(subscription.push.endpoint)
        self._sending: set[asyncio.Task[None]] = set()
        # Answered with success, and the tasks that acknowledge such.
        self._acked: list[str] = []
        self._is_acknowledging = False
        self._settling: set[asyncio.Task[None]] = set()
        self._failures: dict[tuple[PartitionId, Offset], int] = {}
        #: For metrics.
        self.window = Window()
        self.breaker = Breaker()
        self.outcomes: Counter[str] = Counter()

    @abstractmethod
    def _most(self, room: int) -> int:
        """How many messages to take when so many more requests may be sent."""

    @abstractmethod
    def _requests(self, taken: Iterable[Leased]) -> Iterator[Sequence[Leased]]:
        """What goes together into one request."""

    @abstractmethod
    async def _send(self, messages: Sequence[Leased]) -> None:
        """Send one request, and settle its messages by what came of it."""

    @property
    def attempts(self) -> int:
        return self.outcomes.total()

    def changed(self, subscription: Subscription) -> None:
        """The subscription has other settings; another endpoint starts afresh."""
        assert subscription.push is not None
        if subscription.push.endpoint != self._endpoint.url:
            self._endpoint = parse_web(subscription.push.endpoint)
            self.window, self.breaker = Window(), Breaker()
            self.last_reason = ""
        super().changed(subscription)

    @property
    def under_way(self) -> set[asyncio.Task[None]]:
        return self._sending | self._settling

    @property
    def trouble(self) -> str:
        state = self.breaker.state(self._tools.clock.now())
        if state == "closed":
            return ""
        return f"push waits, its circuit breaker is {state}: {self.last_reason}"

    @property
    def _lease_s(self) -> float:
        return self._subscription.push_timeout_s + limits.PUSH_LEASE_MARGIN_S

    # Taking.

    async def _take_all(self, feed: Feed, credit: Credit) -> None:
        while not self._is_over:
            version = feed.version
            credit.max_messages = self.window.size * self.messages_max
            taken: list[Leased] = []
            if self._room() > 0 and credit.has_room and feed.has_ready:
                taken = await self._take(feed, credit)
            if not taken:
                await self._wait(feed, version)
                continue
            for messages in self._requests(taken):
                self._begin(messages)

    def _room(self) -> int:
        """How many more requests may be sent now."""
        if not self.breaker.permits(self._tools.clock.now(), len(self._sending)):
            return 0
        most = self.window.size if self.breaker.until is None else 1
        return most - len(self._sending)

    async def _take(self, feed: Feed, credit: Credit) -> list[Leased]:
        """Lease what may be sent now, within the memory that all senders share."""
        memory = self._tools.memory
        if memory.is_scarce and self._sending:
            # What is left is for those who have nothing under way.
            memory.tell(self._wake)
            return []
        reserved = limits.PUSH_BYTES_MAX
        await memory.reserve(reserved)
        size_bytes = 0
        try:
            room = self._room()
            if room <= 0:
                return []
            is_probe = self.breaker.until is not None
            deliveries = await feed.take(
                credit,
                max_messages=1 if memory.is_scarce or is_probe else self._most(room),
                max_bytes=self.bytes_max,
                deadline_s=self._lease_s,
            )
            taken = [one for delivery in deliveries for one in self._leased(delivery)]
            size_bytes = sum([one.size_bytes for one in taken])
        finally:
            memory.hold(size_bytes, reserved)
        self._broker.delivered(self._subscription, deliveries)
        return taken

    def _leased(self, delivery: Delivery) -> Iterator[Leased]:
        added = self._broker.added_attributes(self._subscription, delivery)
        prefix = self._broker.ack_id_prefix(self._subscription, delivery)
        for batch, first, end in delivery.runs:
            for index in range(first, end):
                offset = batch.base_offset + index
                attempt = delivery.attempts.get(offset, delivery.attempt)
                yield Leased(batch, index, ack_id(prefix, offset), attempt, added)

    async def _wait(self, feed: Feed, version: int) -> None:
        timer = None
        until = self.breaker.until
        if until is not None and until > self._tools.clock.now():
            timer = self._tools.clock.call_at(until, feed.wake)
        try:
            await feed.wait(version)
        finally:
            if timer is not None:
                timer.cancel()

    # Sending.

    def _begin(self, messages: Sequence[Leased]) -> None:
        task = asyncio.create_task(self._send(messages))
        self._sending.add(task)
        size_bytes = sum([one.size_bytes for one in messages])
        task.add_done_callback(lambda done: self._sent(done, size_bytes))

    def _sent(self, task: asyncio.Task[None], size_bytes: int) -> None:
        self._sending.discard(task)
        self._tools.memory.give(size_bytes)
        if not task.cancelled() and task.exception() is not None:
            # Nothing is lost: the lease runs out.
            log.error("action=push_broken subscription=%s", self.name, exc_info=task.exception())
        self._wake()

    async def _enter(self, messages: Sequence[Leased]) -> Host | None:
        """Wait for a connection to the endpoint, whichever that is by then; give it back.

        None when push has ended meanwhile: then nothing is to be sent, and others may have them.
        """
        while True:
            endpoint = self._endpoint
            host = (endpoint.scheme, endpoint.host, endpoint.port)
            try:
                await self._enter_host(host, messages)
            except FanlogError:
                # The subscription is gone, and the leases with it.
                return None
            if endpoint is self._endpoint:
                break
            self._tools.gate.leave(host)
        if is_pushed(self._broker.hard.catalog.subscription_by_id(self._subscription.id)):
            return host
        self._tools.gate.leave(host)
        ack_ids = [one.ack_id for one in messages]
        with suppress(FanlogError):
            await self._broker.settle_some(self._subscription, ack_ids, 0, _NOT_SENT)
        return None

    async def _enter_host(self, host: Host, messages: Sequence[Leased]) -> None:
        """Wait for a connection to a host; leases are kept up, and cover the request after it."""
        if self._tools.gate.enter_nowait(host):
            return
        ack_ids = [one.ack_id for one in messages]
        entering = asyncio.create_task(self._tools.gate.enter(host))
        try:
            while not await self._is_done_within(entering, self._lease_s / 2):
                await self._broker.settle_some(self._subscription, ack_ids, int(self._lease_s))
            entering.result()
            await self._broker.settle_some(self._subscription, ack_ids, int(self._lease_s))
        except BaseException:
            if entering.done() and not entering.cancelled():
                self._tools.gate.leave(host)
            entering.cancel()
            raise

    async def _is_done_within(self, task: asyncio.Task[None], seconds: float) -> bool:
        """Wait for a task, for so long as leases count it; whether it is done."""
        woken = asyncio.Event()
        clock = self._tools.clock
        timer = clock.call_at(clock.now() + seconds, woken.set)
        task.add_done_callback(lambda _: woken.set())
        try:
            await woken.wait()
        finally:
            timer.cancel()
        return task.done()

    async def _token(self, push: PushConfig) -> str | None:
        """The OIDC token that a request carries; empty for none, None when it cannot be made."""
        if not push.oidc_email:
            return ""
        try:
            return await self._tools.tokens.token(
                push.oidc_email, push.oidc_audience or push.endpoint
            )
        except FanlogError as error:
            log.error("action=push_token_failed error=%s", error)
            return None

    # Settling.

    def _note(self, endpoint: WebEndpoint, outcome: Outcome) -> None:
        """What an outcome says about the endpoint."""
        if endpoint is not self._endpoint:
            return
        now = self._tools.clock.now()
        self.outcomes[outcome.kind] += 1
        self.last_reason = outcome.reason
        if outcome.is_ack:
            self.window.succeeded()
        else:
            self.window.failed()
        if outcome.hold_s:
            self.breaker.hold(now, outcome.hold_s)
        if not outcome.is_failing:
            was_open = self.breaker.until is not None
            self.breaker.succeeded(now)
            if was_open and self.breaker.until is None:
                log.info("action=push_breaker_closed subscription=%s", self.name)
        elif self.breaker.failed(now):
            log.warning(
                "action=push_breaker_open subscription=%s host=%s reason=%s",
                self.name,
                self._endpoint.host,
                outcome.reason,
            )

    async def _refused(
        self, subscription: Subscription, messages: Sequence[Leased], outcome: Outcome
    ) -> None:
        """Nack all messages of a request."""
        if outcome.is_gone and self._subscription.push == subscription.push:
            with suppress(FanlogError):
                self._turn_off(outcome.reason)
        nack = Nack(delay_s=outcome.delay_s, reason=outcome.whole_reason)
        await self._nack(subscription, [(one, nack) for one in messages])

    async def _nack(
        self, subscription: Subscription, refused: Iterable[tuple[Leased, Nack]]
    ) -> None:
        alike: defaultdict[Nack, list[str]] = defaultdict(list)
        for one, nack in refused:
            self._note_failure(one.key)
            alike[nack].append(one.ack_id)
        # The subscription may be gone, or hard state loaded again; then the leases are gone too.
        with suppress(FanlogError):
            for nack, ack_ids in alike.items():
                await self._broker.settle_some(subscription, ack_ids, 0, nack)

    def _acknowledge(self, messages: Iterable[Leased]) -> None:
        """Acknowledge, together with what else this turn of the loop brings."""
        for one in messages:
            self._failures.pop(one.key, None)
            self._acked.append(one.ack_id)
        if self._acked and not self._is_acknowledging:
            self._is_acknowledging = True
            task = asyncio.create_task(self._acknowledge_all())
            self._settling.add(task)
            task.add_done_callback(self._settling.discard)

    async def _acknowledge_all(self) -> None:
        self._is_acknowledging = False
        acked, self._acked = self._acked, []
        with suppress(FanlogError):
            await self._broker.settle_some(self._subscription, acked, None)

    def _note_failure(self, key: tuple[PartitionId, Offset]) -> None:
        self._failures[key] = self._failures.pop(key, 0) + 1
        if len(self._failures) > _FAILED_MAX:
            del self._failures[next(iter(self._failures))]

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
        self._broker.admin.turn_push_off(present, f"the endpoint answered {reason}")
