"""The wire between clients and the broker: late, lossy, and it may say things twice.

Unary verbs are called on the broker directly; what clients see of a call is its answer, an error of
the API, or `Lost`. Streams are the real `streaming_pull` on a context whose two ends are here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import grpc

from fanlog.broker.broker import Broker
from fanlog.broker.delivery.delivery import Delivery
from fanlog.errors import FanlogError
from fanlog.log.batch import Batch
from fanlog.model import attributes as names_of
from fanlog.model import ids
from fanlog.model.ids import parse_message_id
from fanlog.model.resources import Offset, PartitionId, Subscription, SubscriptionId
from fanlog.server.calls import EVERYBODY
from fanlog.wire import types
from simulator import probes
from simulator.chronicle import AckRef, Delivered, Op, Settle
from simulator.life import Life
from simulator.meanings import slot_of
from simulator.world import Lost, World, outcome_of

T = TypeVar("T")

#: How long a client waits for an answer that is lost.
TIMEOUT_S = 5.0
LAG_S = 0.05


class Received(NamedTuple):
    """A message in a client's hands."""

    ref: AckRef
    key: str


async def call(
    world: World,
    make_op: Callable[[], Op],
    verb: Callable[[Broker], Awaitable[T]],
) -> T:
    """Send a request and wait for its answer.

    Raises:
        FanlogError: The server said so.
        Lost: Nobody said anything.
    """
    odds = world.odds
    if world.temper.is_laggy:
        await asyncio.sleep(world.rng.random() * LAG_S)
    if world.chance(odds.request_lost, "request_lost"):
        await asyncio.sleep(TIMEOUT_S)
        raise Lost("the request is lost")
    if world.chance(odds.request_repeated, "request_repeated"):
        world.loop.call_later(world.rng.random() * TIMEOUT_S, _serve_again, world, make_op, verb)
    task, reply = world.serve(make_op(), verb)
    if world.chance(odds.call_cut, "call_cut"):
        world.loop.call_later(world.rng.random() * 0.002, task.cancel)
    answer = await reply
    if world.chance(odds.answer_lost, "answer_lost"):
        await asyncio.sleep(TIMEOUT_S)
        raise Lost("the answer is lost")
    if world.temper.is_laggy:
        await asyncio.sleep(world.rng.random() * LAG_S)
    return answer


def _serve_again(
    world: World,
    make_op: Callable[[], Op],
    verb: Callable[[Broker], Awaitable[Any]],
) -> None:
    try:
        world.serve(make_op(), verb)
    except Lost:
        return


def hand_out(
    world: World,
    broker: Broker,
    subscription: Subscription,
    deliveries: Sequence[Delivery],
    consumer: int,
    deadlines: tuple[int, int],
) -> list[Received]:
    """Messages leave the server in a unary answer: write that down, and frame them."""
    received: list[Received] = []
    attempts: list[int] = []
    for delivery in deliveries:
        prefix = broker.ack_id_prefix(subscription, delivery)
        for batch, offset in _messages(delivery):
            index = offset - batch.base_offset
            message = world.chronicle.message(delivery.partition, offset)
            field = batch.content[batch.starts[index] : batch.starts[index + 1]]
            if message is None or message.field != field:
                world.broken.append(
                    f"P1: {delivery.partition}:{offset} came with bytes that are not on the disk"
                )
            key = "" if message is None else message.key
            ack_id = ids.ack_id(prefix, offset)
            ref = AckRef(subscription.id, delivery.partition, delivery.generation, offset, ack_id)
            received.append(Received(ref, key))
            attempts.append(delivery.attempts.get(offset, delivery.attempt))
    _write_down(world, received, attempts, consumer, 0, deadlines)
    return received


def _messages(delivery: Delivery) -> Iterator[tuple[Batch, Offset]]:
    for batch, first, end in delivery.runs:
        for index in range(first, end):
            yield batch, batch.base_offset + index


def parsed(
    world: World,
    messages: Any,
    consumer: int,
    deadlines: tuple[int, int],
    credit: int = 0,
) -> list[Received]:
    """Messages leave the server as protobuf: write that down."""
    received: list[Received] = []
    attempts: list[int] = []
    for one in messages:
        ref = parsed_ack_id(one.ack_id)
        partition, offset = parse_message_id(one.message.message_id)
        message = world.chronicle.message(ref.partition, offset)
        attributes = dict(one.message.attributes)
        said_topic = attributes.pop(names_of.TOPIC, None)
        said_slot = attributes.pop(names_of.KEY_SLOT, None)
        said_rate = attributes.pop(names_of.SAMPLE_RATE, None)
        world.broken += world.pressed.said(
            ref.subscription,
            offset,
            said_rate,
            world.handed_out.get((ref.subscription, ref.partition), ()),
        )
        said = one.message.data, one.message.ordering_key, attributes
        if message is None or (message.data, message.key, message.attributes) != said:
            world.broken.append(
                f"P1: {partition}:{offset} came with bytes that are not on the disk"
            )
        if message is not None:
            slots = world.chronicle.key_slots.get(ref.subscription, 0)
            slot = str(slot_of(partition, offset, message.key, slots)) if slots else None
            if said_slot != slot:
                world.broken.append(f"P11: {partition}:{offset} of slot {slot} says {said_slot}")
        topic = world.chronicle.topics.get(ref.partition)
        is_told = said_topic is not None or ref.subscription not in world.chronicle.patterns
        if said_topic not in (None, topic) or not is_told or partition != ref.partition:
            world.broken.append(f"P1: {partition}:{offset} of {topic} says it is of {said_topic}")
        received.append(Received(ref, one.message.ordering_key))
        attempts.append(one.delivery_attempt)
    _write_down(world, received, attempts, consumer, credit, deadlines)
    return received


def _write_down(
    world: World,
    received: Sequence[Received],
    attempts: Sequence[int],
    consumer: int,
    credit: int,
    deadlines: tuple[int, int],
) -> None:
    """One entry a lease: an answer to a subscription on a pattern may hold several."""
    world.operations += len(received)
    by_lease: dict[int, list[tuple[AckRef, int]]] = {}
    for one, attempt in zip(received, attempts, strict=True):
        by_lease.setdefault(one.ref.generation, []).append((one.ref, attempt))
    for generation, leased in by_lease.items():
        first, _ = leased[0]
        decided_s = world.chronicle.decided_s[generation]
        handed_out = world.handed_out.setdefault((first.subscription, first.partition), set())
        handed_out.update(ref.offset for ref, _ in leased)
        if world.temper.windows:
            probes.check_windows(world)
        world.chronicle.deliver(
            Delivered(
                at=world.chronicle.at,
                time_s=world.now,
                generation=generation,
                decided_s=decided_s,
                deadline_lo_s=decided_s + deadlines[0] - world.chronicle.lease_slack_s,
                deadline_hi_s=decided_s + deadlines[1] + world.chronicle.lease_slack_s,
                subscription=first.subscription,
                partition=first.partition,
                consumer=consumer,
                credit=credit,
                offsets=[ref.offset for ref, _ in leased],
                attempts=[attempt for _, attempt in leased],
                is_drain=world.is_draining,
            )
        )


def parsed_ack_id(ack_id: str) -> AckRef:
    return AckRef(
        SubscriptionId(int(ack_id[:8], 16)),
        PartitionId(int(ack_id[8:16], 16)),
        int(ack_id[16:32], 16),
        int(ack_id[40:], 16),
        ack_id,
    )


@dataclass(slots=True)
class Confirmation:
    """What a stream says about acknowledgements, exactly once."""

    ok: Sequence[str]
    refused: Sequence[str]


class Stream:
    """Both ends of one StreamingPull, and the line between them.

    The server's end is what `streaming_pull` takes for a gRPC context: `read` and `write`.
    """

    def __init__(
        self, world: World, name: str, *, credit: int, credit_bytes: int, deadline_s: int
    ) -> None:
        self._world = world
        self.name = name
        self.caller = EVERYBODY
        self.consumer = world.new_consumer()
        self._credit = credit
        #: Bounds of the deadline the next lease gets; both sides of a change while it travels.
        self._deadlines = (deadline_s, deadline_s)
        self._requests: deque[bytes] = deque()
        self._has_request: asyncio.Future[None] | None = None
        #: Requests that wait for their confirmation, by what they asked.
        self._pending: dict[tuple[str, ...], list[Op]] = {}
        self._answers: deque[list[Received] | Confirmation] = deque()
        self._has_answer: asyncio.Future[None] | None = None
        self.is_over = False
        self.error: FanlogError | None = None
        self.is_half_open = False
        self._is_closing = False
        #: The server knows that the client has said all.
        self._is_half_closed = False
        first = types.StreamingPullRequest(
            subscription=name,
            stream_ack_deadline_seconds=deadline_s,
            max_outstanding_messages=credit,
            max_outstanding_bytes=credit_bytes,
        )
        self._requests.append(first.SerializeToString())
        life = world.life
        if life is None or not life.is_serving:
            raise Lost("nobody listens")
        self._life: Life = life
        self.op = Op("stream", name, f"credit {credit} deadline {deadline_s}", life.number)
        self.op.consumer = self.consumer
        world.chronicle.begin(self.op, world.now)
        life.running[self.op] = None
        self._task = life.begin(self._serve(life))
        self._task.add_done_callback(lambda _: self._ended())

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()

    # The client's end.

    async def receive(self, wait_s: float) -> list[Received] | Confirmation | None:
        """What the server says next; None when it says nothing, or has ended."""
        if not self._answers and not self.is_over:
            future = self._has_answer = self._world.loop.create_future()
            timer = self._world.loop.call_later(wait_s, _resolve, future)
            await future
            timer.cancel()
            self._has_answer = None
        return self._answers.popleft() if self._answers else None

    def send(
        self,
        acks: Sequence[AckRef] = (),
        modify: Sequence[tuple[AckRef, int]] = (),
        deadline_s: int = 0,
    ) -> None:
        request = types.StreamingPullRequest(
            ack_ids=[ref.ack_id for ref in acks],
            modify_deadline_ack_ids=[ref.ack_id for ref, _ in modify],
            modify_deadline_seconds=[seconds for _, seconds in modify],
            stream_ack_deadline_seconds=deadline_s,
        )
        raw = request.SerializeToString()
        lag_s = self._world.rng.random() * LAG_S if self._world.temper.is_laggy else 0.0
        if lag_s:
            self._world.loop.call_later(lag_s, self._arrive, raw)
        else:
            self._arrive(raw)

    def close(self) -> None:
        """The client says that it is done; the server ends the stream."""
        self._is_closing = True
        _resolve(self._has_request)

    def cut(self) -> None:
        """The connection breaks and the server notices."""
        self._task.cancel()

    def go_silent(self, seconds: float) -> None:
        """The client is gone and the server notices only after a while."""
        self.is_half_open = True
        self._world.loop.call_later(seconds, self._task.cancel)

    # The server's end.

    async def read(self) -> Any:
        while not self._requests and not self._is_closing:
            self._has_request = asyncio.get_running_loop().create_future()
            await self._has_request
        if not self._requests:
            self._is_half_closed = True
            return grpc.aio.EOF
        raw = self._requests.popleft()
        self._note_request(raw)
        return raw

    async def write(self, raw: bytes) -> None:
        if self._life.is_dead:
            raise asyncio.CancelledError
        response = types.StreamingPullResponse.FromString(raw)
        self._world.answering(self._life)
        said: list[list[Received] | Confirmation] = []
        if response.received_messages:
            messages = response.received_messages
            if self._is_half_closed:
                self._world.broken.append(
                    f"P6: {len(messages)} messages of {self.name} were written to a stream after "
                    "its half-close"
                )
            said.append(parsed(self._world, messages, self.consumer, self._deadlines, self._credit))
        if response.HasField("acknowledge_confirmation"):
            confirmation = response.acknowledge_confirmation
            refused = [*confirmation.invalid_ack_ids, *confirmation.unordered_ack_ids]
            said.append(self._note_confirmation("acknowledge", confirmation.ack_ids, refused))
        if response.HasField("modify_ack_deadline_confirmation"):
            modified = response.modify_ack_deadline_confirmation
            refused = list(modified.invalid_ack_ids)
            said.append(self._note_confirmation("modify", modified.ack_ids, refused))
        if said and not self.is_half_open:
            self._answers.extend(said)
            _resolve(self._has_answer)
        if self._world.chance(self._world.odds.stream_slow, "stream_slow"):
            await asyncio.sleep(self._world.rng.random())

    # Private.

    async def _serve(self, life: Life) -> None:
        try:
            await life.serve_stream(self)
        except FanlogError as error:
            self.error = error
            self._world.end(life, self.op, outcome_of(error), error.code)
        except asyncio.CancelledError:
            self._world.end(life, self.op, "cut")
            raise
        except Exception as error:
            if self._world.end(life, self.op, "cut"):
                self._world.mistaken(error)
        else:
            self._world.end(life, self.op, "ok")

    def _ended(self) -> None:
        self.is_over = True
        _resolve(self._has_answer)

    def _arrive(self, raw: bytes) -> None:
        if not self.is_half_open and not self.is_over:
            self._requests.append(raw)
            _resolve(self._has_request)

    def _note_request(self, raw: bytes) -> None:
        request = types.StreamingPullRequest.FromString(raw)
        if request.stream_ack_deadline_seconds:
            before, now = self._deadlines, request.stream_ack_deadline_seconds
            # A lease decided before this may still be on its way out.
            self._deadlines = (min(*before, now), max(*before, now))
        if request.ack_ids:
            self._note_settle("acknowledge", request.ack_ids, None)
        by_seconds: dict[int, list[str]] = {}
        for ack_id, seconds in zip(
            request.modify_deadline_ack_ids, request.modify_deadline_seconds, strict=True
        ):
            by_seconds.setdefault(seconds, []).append(ack_id)
        for seconds, ack_ids in by_seconds.items():
            self._note_settle("modify", ack_ids, seconds)

    def _note_settle(self, verb: str, ack_ids: Sequence[str], seconds: int | None) -> None:
        refs = [parsed_ack_id(ack_id) for ack_id in ack_ids]
        op = Op(verb, self.name, Settle(refs, seconds), self._life.number, self.consumer)
        self._world.operations += len(refs)
        self._world.chronicle.begin(op, self._world.now)
        self._life.running[op] = None
        self._pending.setdefault((verb, *sorted(ack_ids)), []).append(op)

    def _note_confirmation(
        self, verb: str, ok: Sequence[str], refused: Sequence[str]
    ) -> Confirmation:
        # Of two equal requests nobody can tell which one this is: both stay as they are.
        asked = self._pending.get((verb, *sorted([*ok, *refused])), [])
        if len(asked) == 1:
            self._world.end(self._life, asked.pop(), "ok", tuple(refused))
        return Confirmation(list(ok), list(refused))


def _resolve(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)
