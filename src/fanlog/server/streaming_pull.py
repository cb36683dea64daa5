"""StreamingPull: one stream, from its first request to its end.

Two things go on at once: requests come in (acknowledgements, deadlines), answers go out (messages,
confirmations). Messages go out as soon as they are committed and the stream has credit.

A client that has half-closed its stream is leaving: it gets no more messages, only confirmations
of what it said before. Messages that were leased for it and not written by then are free at once;
those that were written stay leased, for clients acknowledge with unary calls after they have left.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

import grpc

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.broker.delivery.delivery import Delivery
from fanlog.core.ack_requests import INVALID_ACK_ID, UNORDERED_ACK_ID
from fanlog.core.flow import Credit
from fanlog.errors import FanlogError, InvalidArgument
from fanlog.model import names, specs
from fanlog.model.resources import Subscription
from fanlog.server.answer import frame_deliveries
from fanlog.server.request_bounds import check_size
from fanlog.wire import fields, types
from fanlog.wire.parts import check_fields

#: Requests of one stream that may wait for their commit before the next one is read.
SETTLING_MAX = 256

#: From this `protocol_version` on, a client takes a stream for dead whose server leaves an empty
#: request unanswered: Java and Go send one every 30 s and wait 15 s.
KEEP_ALIVE_VERSION = 1

#: What only the first request of a stream may say.
_OPENING = (
    "subscription",
    "client_id",
    "max_outstanding_messages",
    "max_outstanding_bytes",
    "protocol_version",
)


async def streaming_pull(broker: Broker, context: Any) -> None:
    """Serve one stream until the client leaves, the subscription is gone or the broker drains."""
    first = _read(await context.read())
    if first is None:
        raise InvalidArgument("the first request of a stream must name a subscription")
    await _Stream(broker, context, first).run()


class _Stream:
    def __init__(self, broker: Broker, context: Any, first: Any) -> None:
        self._broker = broker
        self._context = context
        self._name = str(names.parse_subscription(first.subscription))
        self._first = first
        self._deadline_s = _stream_deadline(first.stream_ack_deadline_seconds)
        self._answers_pings = first.protocol_version >= KEEP_ALIVE_VERSION
        self._credit = Credit(
            max(0, first.max_outstanding_messages),
            max(0, first.max_outstanding_bytes),
            client=first.client_id or self,
        )
        #: The generation that was written to the client last.
        self._written = 0
        self._subscription, self._feed = broker.attach_puller(self._name)
        self._settling: set[asyncio.Task[None]] = set()
        self._write_lock = asyncio.Lock()
        self._ended: FanlogError | None = None
        self._is_half_closed = False
        self._over = asyncio.Event()

    async def run(self) -> None:
        self._broker.metrics.streams += 1
        reader = asyncio.create_task(self._read_requests())
        try:
            if self._subscription.enable_exactly_once or self._subscription.enable_message_ordering:
                await self._write(b"")
            await self._deliver()
            self._feed.give_back(self._credit, self._written)
            await self._over.wait()
            if self._ended is not None:
                raise self._ended
        finally:
            self._broker.metrics.streams -= 1
            reader.cancel()
            self._feed.give_back(self._credit, self._written)
            self._feed.abandon(self._credit)
            self._broker.detach(self._subscription, self._feed)
            await asyncio.gather(reader, return_exceptions=True)

    async def _deliver(self) -> None:
        while not self._is_half_closed:
            version = self._feed.version
            deliveries = []
            if self._credit.has_room:
                deliveries = await self._feed.take(
                    self._credit,
                    max_messages=limits.STREAM_ANSWER_MESSAGES_MAX,
                    max_bytes=self._answer_bytes_max,
                    deadline_s=self._deadline_s,
                )
            if not deliveries:
                await self._feed.wait(version)
                continue
            await self._send(deliveries)

    @property
    def _answer_bytes_max(self) -> int:
        if self._credit.has_returned:
            return limits.STREAM_ANSWER_BYTES_MAX
        return min(limits.STREAM_FIRST_ANSWER_BYTES_MAX, limits.STREAM_ANSWER_BYTES_MAX)

    async def _send(self, deliveries: Sequence[Delivery]) -> None:
        """Write messages, unless the client has half-closed meanwhile."""
        subscription = self._broker.present(self._subscription)
        answer = frame_deliveries(self._broker, subscription, deliveries)
        async with self._write_lock:
            if self._is_half_closed:
                return
            self._written = max(delivery.generation for delivery in deliveries)
            self._broker.count_deliveries(subscription, deliveries)
            await self._write_now(answer)

    async def _write(self, answer: bytes) -> None:
        async with self._write_lock:
            await self._write_now(answer)

    async def _write_now(self, answer: bytes) -> None:
        # Every answer says what the subscription is like: clients take a missing word for "no".
        await self._context.write(answer + _properties(self._broker.present(self._subscription)))

    async def _say(self, answer: bytes) -> None:
        """Write from beside the delivery; a stream that has ended has nobody to hear it."""
        if not self._over.is_set():
            with suppress(grpc.aio.BaseError):
                await self._write(answer)

    async def _read_requests(self) -> None:
        try:
            await self._settle(self._first)
            while (request := _read(await self._context.read())) is not None:
                _check_later(request)
                if request.stream_ack_deadline_seconds:
                    self._deadline_s = _stream_deadline(request.stream_ack_deadline_seconds)
                await self._settle(request)
                if self._answers_pings and not (request.ack_ids or request.modify_deadline_ack_ids):
                    self._begin(self._say(b""))
            # The client has said all it had to say; it may still hear how that went.
            self._half_close()
            while self._settling:
                await asyncio.wait(self._settling)
        except FanlogError as error:
            self._ended = error
        self._end()

    def _half_close(self) -> None:
        self._is_half_closed = True
        self._feed.wake()

    def _end(self) -> None:
        self._over.set()
        self._half_close()

    async def _settle(self, request: Any) -> None:
        """Begin what a request asks for; its order is kept, its commit is not waited for."""
        if len(request.modify_deadline_ack_ids) != len(request.modify_deadline_seconds):
            raise InvalidArgument(
                f"modify_deadline_seconds: {len(request.modify_deadline_seconds)} values for "
                f"{len(request.modify_deadline_ack_ids)} modify_deadline_ack_ids"
            )
        by_seconds: defaultdict[int, list[str]] = defaultdict(list)
        for ack_id, seconds in zip(
            request.modify_deadline_ack_ids, request.modify_deadline_seconds, strict=True
        ):
            if not 0 <= seconds <= limits.ACK_DEADLINE_S_MAX:
                raise InvalidArgument(
                    f"modify_deadline_seconds: {seconds} is out of range; "
                    f"0 to {limits.ACK_DEADLINE_S_MAX} are allowed"
                )
            by_seconds[seconds].append(ack_id)
        if request.ack_ids:
            self._begin(self._settle_ids(list(request.ack_ids), None))
        for seconds, ack_ids in by_seconds.items():
            self._begin(self._settle_ids(ack_ids, seconds))
        while len(self._settling) > SETTLING_MAX:
            await asyncio.wait(self._settling, return_when=asyncio.FIRST_COMPLETED)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def _settle_ids(self, ack_ids: Sequence[str], seconds: int | None) -> None:
        subscription = self._broker.present(self._subscription)
        try:
            failures = await self._broker.settle_some(subscription, ack_ids, seconds)
        except FanlogError as error:
            self._ended = self._ended or error
            self._end()
            return
        if subscription.enable_exactly_once:
            await self._say(_confirmation(ack_ids, failures, is_ack=seconds is None))


def _read(raw: Any) -> Any | None:
    if raw is grpc.aio.EOF:
        return None
    check_size(raw, limits.ACK_BYTES_MAX)
    check_fields(raw, 2 * limits.ACK_IDS_MAX + 20, "ack_ids")
    request = fields.parse(types.StreamingPullRequest, raw)
    for name in ("ack_ids", "modify_deadline_ack_ids", "modify_deadline_seconds"):
        count = len(getattr(request, name))
        if count > limits.ACK_IDS_MAX:
            raise InvalidArgument(
                f"{name}: {count} values; at most {limits.ACK_IDS_MAX} are allowed in a request"
            )
    return request


def _check_later(request: Any) -> None:
    """Only the first request of a stream opens it; Google refuses these later, and so do we."""
    for name in _OPENING:
        if getattr(request, name):
            raise InvalidArgument(f"{name}: must be set on the first request of a stream only")


def _stream_deadline(seconds: int) -> int:
    specs.check_ack_deadline(seconds, field="stream_ack_deadline_seconds")
    return seconds


def _properties(subscription: Subscription) -> bytes:
    if not (subscription.enable_exactly_once or subscription.enable_message_ordering):
        return b""
    properties = types.StreamingPullResponse.SubscriptionProperties(
        exactly_once_delivery_enabled=subscription.enable_exactly_once,
        message_ordering_enabled=subscription.enable_message_ordering,
    )
    response = types.StreamingPullResponse(subscription_properties=properties)
    return bytes(response.SerializeToString())


def _confirmation(ack_ids: Sequence[str], failures: dict[str, str], *, is_ack: bool) -> bytes:
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for ack_id in ack_ids:
        by_reason[failures.get(ack_id, "")].append(ack_id)
    confirmed: dict[str, Any] = {
        "ack_ids": by_reason[""],
        "invalid_ack_ids": by_reason[INVALID_ACK_ID],
    }
    response = types.StreamingPullResponse()
    if is_ack:
        confirmed["unordered_ack_ids"] = by_reason[UNORDERED_ACK_ID]
        response.acknowledge_confirmation.CopyFrom(
            types.StreamingPullResponse.AcknowledgeConfirmation(**confirmed)
        )
    else:
        response.modify_ack_deadline_confirmation.CopyFrom(
            types.StreamingPullResponse.ModifyAckDeadlineConfirmation(**confirmed)
        )
    return bytes(response.SerializeToString())
