"""StreamingPull: one stream, from its first request to its end.

Two things go on at once: requests come in (acknowledgements, deadlines), answers go out (messages,
confirmations). Messages go out as soon as they are committed and the stream has credit.

A client that has half-closed its stream is leaving: it gets no more messages, only confirmations
of its last requests. Messages that were leased for it and not written by then are free at once;
those that were written stay leased, for clients acknowledge with unary calls after they have left.

Nacks on a stream are meant as the metadata of its call says (`fanlog.server.nacks`): its requests
have no room for more than a deadline.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Coroutine, Sequence
from contextlib import suppress

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.broker.delivery.delivery import Delivery
from fanlog.broker.delivery.members import About
from fanlog.core import ack_requests
from fanlog.core.flow import Credit
from fanlog.core.redelivery import NACKED, Nack
from fanlog.errors import FanlogError, InvalidArgument
from fanlog.model import names
from fanlog.server.answer import frame_deliveries
from fanlog.server.calls import CallEnded, CallStream, StreamingCall
from fanlog.server.nacks import nack_of
from fanlog.server.permissions import CONSUME
from fanlog.server.stream_messages import (
    check_deadline,
    check_later,
    confirmation_answer,
    properties_answer,
    read_request,
)
from fanlog.wire import types

#: Requests of one stream that may wait for their commit before the next one is read.
SETTLING_MAX = 256

#: From this `protocol_version` on, a client takes a stream for dead when an empty request stays
#: unanswered: Java and Go send one every 30 s and wait 15 s.
KEEP_ALIVE_VERSION = 1


async def streaming_pull(broker: Broker, stream: CallStream) -> None:
    """Serve one stream until the client leaves, the subscription is gone or the broker drains."""
    first = read_request(await stream.read())
    if first is None:
        raise InvalidArgument("the first request of a stream must name a subscription")
    name = str(names.parse_subscription(first.subscription))
    stream.caller.check(CONSUME, name)
    nack = nack_of(stream.invocation_metadata(), 0)
    with stream.caller.holding(CONSUME, name):
        await _Stream(broker, stream, first, name, nack).run()


class _Stream:
    def __init__(
        self,
        broker: Broker,
        stream: CallStream,
        first: types.StreamingPullRequest,
        name: str,
        nack: Nack,
    ) -> None:
        self._broker = broker
        self._stream = stream
        self._name = name
        self._first = first
        self._deadline_s = check_deadline(first.stream_ack_deadline_seconds)
        self._answers_pings = first.protocol_version >= KEEP_ALIVE_VERSION
        self._credit = Credit(
            max(0, first.max_outstanding_messages),
            max(0, first.max_outstanding_bytes),
            client=first.client_id or self,
        )
        #: The generation that was written to the client last.
        self._written = 0
        self._nack = nack
        self._subscription, self._feed = broker.attach_puller(self._name)
        self._settling: set[asyncio.Task[None]] = set()
        #: Of ack ids that are being settled, or whose confirmation waits to be read.
        self._settling_bytes = 0
        self._write_lock = asyncio.Lock()
        self._ended: Exception | None = None
        self._is_half_closed = False
        self._over = asyncio.Event()

    async def run(self) -> None:
        self._broker.metrics.streams += 1
        reader = asyncio.create_task(self._read_requests())
        try:
            ack_requests.check_nack(self._subscription, self._nack)
            if self._subscription.enable_exactly_once or self._subscription.enable_message_ordering:
                await self._write(b"")
            self._feed.join(self._credit, self._about())
            await self._deliver()
            self._feed.give_back(self._credit, self._written)
            self._feed.leave(self._credit)
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

    def _about(self) -> About:
        caller, stream = self._stream.caller, self._stream
        return About(
            client_id=self._first.client_id,
            address=stream.address if isinstance(stream, StreamingCall) else "",
            principal="" if caller.principal is None else caller.principal.member,
            since_s=self._broker.clock.now(),
        )

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
        if not subscription.is_at_most_once:
            answer = frame_deliveries(self._broker, subscription, deliveries)
        async with self._write_lock:
            if self._is_half_closed:
                return
            if subscription.is_at_most_once:
                # From here on they are sent, or lost.
                deliveries = await self._broker.claims.claim_deliveries(subscription, deliveries)
                if not deliveries:
                    return
                answer = frame_deliveries(self._broker, subscription, deliveries)
            self._written = max(delivery.generation for delivery in deliveries)
            self._broker.count_deliveries(subscription, deliveries)
            await self._write_now(answer)

    async def _write(self, answer: bytes) -> None:
        async with self._write_lock:
            await self._write_now(answer)

    async def _write_now(self, answer: bytes) -> None:
        # Every answer has the properties of the subscription: clients take missing ones for "no".
        await self._stream.write(
            answer + properties_answer(self._broker.present(self._subscription))
        )

    async def _say(self, answer: bytes) -> None:
        """Write from beside the delivery, unless the stream has ended."""
        if not self._over.is_set():
            with suppress(CallEnded):
                await self._write(answer)

    async def _read_requests(self) -> None:
        try:
            await self._settle(self._first)
            while (request := read_request(await self._stream.read())) is not None:
                check_later(request)
                if request.stream_ack_deadline_seconds:
                    self._deadline_s = check_deadline(request.stream_ack_deadline_seconds)
                await self._settle(request)
                if self._answers_pings and not (request.ack_ids or request.modify_deadline_ack_ids):
                    self._begin(self._say(b""))
            # The client has said all it had to say; it may still hear how that went.
            self._half_close()
            while self._settling:
                await asyncio.wait(self._settling)
        except CallEnded:
            # The task of the call is cancelled, and this one with it.
            return
        except Exception as error:
            # A mistake of ours, too: a stream whose requests are not read must not stay open.
            self._ended = error
        self._end()

    def _half_close(self) -> None:
        self._is_half_closed = True
        self._feed.wake()

    def _end(self) -> None:
        self._over.set()
        self._half_close()

    async def _settle(self, request: types.StreamingPullRequest) -> None:
        """Begin to settle the ids of a request; in order, without waiting for the commit."""
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
            await self._settle_ids(list(request.ack_ids), None)
        for seconds, ack_ids in by_seconds.items():
            await self._settle_ids(ack_ids, seconds)
        while (
            len(self._settling) > SETTLING_MAX or self._settling_bytes > limits.SETTLING_BYTES_MAX
        ):
            await asyncio.wait(self._settling, return_when=asyncio.FIRST_COMPLETED)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def _settle_ids(self, ack_ids: Sequence[str], seconds: int | None) -> None:
        """Settle ids; under exactly-once only begin to, since each request waits for its commit."""
        if self._broker.present(self._subscription).enable_exactly_once:
            # Counted before its task begins: many requests may be read in one turn of the loop.
            size_bytes = sum(map(len, ack_ids))
            self._settling_bytes += size_bytes
            self._begin(self._settle_counted(ack_ids, seconds, size_bytes))
        else:
            await self._settle_and_confirm(ack_ids, seconds)

    async def _settle_counted(
        self, ack_ids: Sequence[str], seconds: int | None, size_bytes: int
    ) -> None:
        try:
            await self._settle_and_confirm(ack_ids, seconds)
        finally:
            self._settling_bytes -= size_bytes

    async def _settle_and_confirm(self, ack_ids: Sequence[str], seconds: int | None) -> None:
        subscription = self._broker.present(self._subscription)
        try:
            if seconds == 0:
                # The dead letter policy may have been taken away since the stream was opened.
                ack_requests.check_nack(subscription, self._nack)
            failures = await self._broker.settle_some(
                subscription, ack_ids, seconds, self._nack if seconds == 0 else NACKED
            )
        except FanlogError as error:
            self._ended = self._ended or error
            self._end()
            return
        if subscription.enable_exactly_once:
            await self._say(confirmation_answer(ack_ids, failures, is_ack=seconds is None))
