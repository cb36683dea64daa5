"""One push subscription: messages are leased, sent, and settled by what their endpoint answers.

It is a consumer like a stream is, with the window for its credit. A message is leased for as long
as its request may take and a little longer; while it waits for a connection its lease is extended.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

from fanlog import limits
from fanlog.broker.feed import Delivery, Feed
from fanlog.core.flow import Credit
from fanlog.core.redelivery import Nack
from fanlog.endpoints import parse_web
from fanlog.errors import FanlogError
from fanlog.log.batch import Batch
from fanlog.model import Offset, PartitionId, Subscription
from fanlog.push import (
    Breaker,
    Outcome,
    PushedMessage,
    Window,
    backoff_s,
    of_error,
    push_request,
    webhook_headers,
)
from fanlog.server.push.consumer import Consumer, Tools
from fanlog.wire import types
from fanlog.wire.publish import message_id

log = logging.getLogger("fanlog.push")

#: Messages whose failures are remembered, for their back-off; the oldest are forgotten first.
_FAILED_MAX = 10_000


class Sender(Consumer):
    """Pushes for one subscription over HTTP."""

    def __init__(self, tools: Tools, subscription: Subscription) -> None:
        super().__init__(tools, subscription)
        assert subscription.push is not None
        self._endpoint = parse_web(subscription.push.endpoint)
        self._sending: set[asyncio.Task[None]] = set()
        # Answered with success, and the tasks that acknowledge such.
        self._acked: list[str] = []
        self._settling: set[asyncio.Task[None]] = set()
        self._failures: dict[tuple[PartitionId, Offset], int] = {}
        #: For metrics.
        self.window = Window()
        self.breaker = Breaker()
        self.outcomes: Counter[str] = Counter()

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

    # Taking.

    async def _take_all(self, feed: Feed, credit: Credit) -> None:
        while not self._is_over:
            version = feed.version
            credit.max_messages = self.window.size
            room = self._room()
            deliveries = []
            if room > 0 and credit.has_room and feed.has_ready:
                deliveries = await feed.take(
                    credit,
                    max_messages=room,
                    max_bytes=limits.PUSH_BYTES_MAX,
                    deadline_s=self._lease_s,
                )
            if not deliveries:
                await self._wait(feed, version)
                continue
            self._broker.delivered(self._subscription, deliveries)
            for delivery in deliveries:
                self._send_all(delivery)

    def _room(self) -> int:
        """How many more requests may be sent now."""
        if not self.breaker.permits(self._tools.clock.now(), len(self._sending)):
            return 0
        most = self.window.size if self.breaker.until is None else 1
        return most - len(self._sending)

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

    def _send_all(self, delivery: Delivery) -> None:
        added = self._broker.added_attributes(self._subscription, delivery)
        prefix = self._broker.ack_id_prefix(self._subscription, delivery)
        for batch, first, end in delivery.runs:
            for index in range(first, end):
                offset = batch.base_offset + index
                ack_id = f"{prefix}{offset:012x}"
                attempt = delivery.attempts.get(offset, delivery.attempt)
                work = self._send(batch, index, ack_id, attempt, added)
                task = asyncio.create_task(work)
                self._sending.add(task)
                task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._sending.discard(task)
        if not task.cancelled() and task.exception() is not None:
            # Nothing is lost: the lease runs out.
            log.error("action=push_broken subscription=%s", self.name, exc_info=task.exception())
        self._wake()

    async def _send(
        self,
        batch: Batch,
        index: int,
        ack_id: str,
        attempt: int,
        added: Mapping[str, str] | None,
    ) -> None:
        key = batch.partition, batch.base_offset + index
        subscription, endpoint = self._subscription, self._endpoint
        host = (endpoint.scheme, endpoint.host, endpoint.port)
        await self._enter(host, ack_id)
        try:
            message = self._message(batch, index, ack_id, attempt, added)
            outcome = await self._post(subscription, message)
        finally:
            self._tools.gate.leave(host)
        if endpoint is self._endpoint:
            self._note(outcome)
        await self._settle(subscription, key, ack_id, outcome)

    async def _enter(self, host: tuple[str, str, int], ack_id: str) -> None:
        """Wait for a connection; the lease is kept up meanwhile."""
        if self._tools.gate.has_place(host):
            await self._tools.gate.enter(host)
            return
        entering = asyncio.create_task(self._tools.gate.enter(host))
        try:
            while not await self._is_done_within(entering, self._lease_s / 2):
                await self._broker.settle_some(self._subscription, [ack_id], int(self._lease_s))
            entering.result()
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

    def _message(
        self,
        batch: Batch,
        index: int,
        ack_id: str,
        attempt: int,
        added: Mapping[str, str] | None,
    ) -> PushedMessage:
        content = batch.content[batch.starts[index] : batch.starts[index + 1]]
        # What is stored is one `messages` field of a PublishRequest, tag and length included.
        message = types.PublishRequest.FromString(content).messages[0]
        offset = batch.base_offset + index
        subscription = self._subscription
        topic = subscription.topic
        if subscription.is_pattern:
            topic = self._broker.hard.catalog.topic_name_of(batch.partition)
        return PushedMessage(
            data=message.data,
            attributes={**message.attributes, **batch.attributes, **(added or {})},
            ordering_key=message.ordering_key,
            message_id=message_id(batch.partition, offset),
            publish_time_ns=batch.publish_time_ns,
            topic=topic,
            subscription=subscription.name,
            ack_id=ack_id,
            attempt=attempt or self._failures.get((batch.partition, offset), 0) + 1,
            is_counted=attempt > 0,
        )

    async def _post(self, subscription: Subscription, message: PushedMessage) -> Outcome:
        push = subscription.push
        assert push is not None
        request = push_request(message, subscription.push_form)
        headers = request.headers
        if push.webhook_secrets:
            wall_s = self._tools.clock.wall_ns() // 1_000_000_000
            headers |= webhook_headers(
                push.webhook_secrets, message.message_id, wall_s, request.body
            )
        if push.oidc_email:
            try:
                token = await self._tools.tokens.token(
                    push.oidc_email, push.oidc_audience or push.endpoint
                )
            except FanlogError as error:
                log.error("action=push_token_failed error=%s", error)
                return of_error("NoToken")
            headers["Authorization"] = f"Bearer {token}"
        return await self._tools.client.post(
            self._endpoint, request.body, headers, subscription.ack_deadline_s
        )

    # Settling.

    def _note(self, outcome: Outcome) -> None:
        """What an outcome says about the endpoint."""
        self.outcomes[outcome.kind] += 1
        self.last_reason = outcome.reason
        if outcome.is_ack:
            self.window.succeeded()
        else:
            self.window.failed()
        if not outcome.is_failing:
            if self.breaker.until is not None:
                log.info("action=push_breaker_closed subscription=%s", self.name)
            self.breaker.succeeded()
        elif self.breaker.failed(self._tools.clock.now()):
            log.warning(
                "action=push_breaker_open subscription=%s host=%s reason=%s",
                self.name,
                self._endpoint.host,
                outcome.reason,
            )

    async def _settle(
        self,
        subscription: Subscription,
        key: tuple[PartitionId, Offset],
        ack_id: str,
        outcome: Outcome,
    ) -> None:
        try:
            if outcome.is_ack:
                self._failures.pop(key, None)
                self._acknowledge(ack_id)
                return
            if outcome.is_gone and self._subscription.push == subscription.push:
                self._turn_off(outcome.reason)
            nack = Nack(delay_s=self._delay_s(key, outcome), reason=outcome.reason)
            await self._broker.settle_some(subscription, [ack_id], 0, nack)
        except FanlogError:
            # The subscription is gone, or hard state was loaded again; the lease went with it.
            return

    def _acknowledge(self, ack_id: str) -> None:
        """Acknowledge, together with what else this turn of the loop brings."""
        self._acked.append(ack_id)
        if len(self._acked) == 1:
            task = asyncio.create_task(self._acknowledge_all())
            self._settling.add(task)
            task.add_done_callback(self._settling.discard)

    async def _acknowledge_all(self) -> None:
        acked, self._acked = self._acked, []
        with suppress(FanlogError):
            await self._broker.settle_some(self._subscription, acked, None)

    def _delay_s(self, key: tuple[PartitionId, Offset], outcome: Outcome) -> float | None:
        failures = self._failures.pop(key, 0) + 1
        self._failures[key] = failures
        if len(self._failures) > _FAILED_MAX:
            del self._failures[next(iter(self._failures))]
        if outcome.delay_s is not None or self._subscription.retry is not None:
            return outcome.delay_s
        return backoff_s(failures)

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
