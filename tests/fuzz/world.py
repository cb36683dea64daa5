"""A small broker, the same for every input: real handlers, memory under it, a clock by hand.

    projects/test/topics/     orders, letters
    projects/test/subscriptions/
        plain     at least once
        ordered   by ordering key
        once      exactly once
        failing   dead letters to `letters` after two attempts
        detached  from its topic
        filtered  what has an attribute `n` below 3, or data with a `v` of 4 and more
        matching  the pattern `#`, in order, with a filter that was changed
    projects/test/snapshots/  monday, of plain

`orders` holds six messages. Nothing waits for a real clock: when all there is to do is to wait,
the clock moves on.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import cache
from typing import Any, Final, NoReturn, TypeVar
from urllib.parse import quote

import grpc

from fanlog.broker.assembly import build_broker
from fanlog.broker.clock import ManualClock
from fanlog.broker.committer import InlineCommitter
from fanlog.core.cursor import Cursor
from fanlog.core.hard_state import HardState
from fanlog.log.api import Commit
from fanlog.log.memory import MemoryLog
from fanlog.server import services
from fanlog.server.calls import EVERYBODY
from fanlog.server.grpc_api import make_methods, status_of
from fanlog.transport.methods import RpcMethod
from fanlog.transport.statuses import Status
from fanlog.wire import contents, types
from fanlog.wire.candidates import candidates
from fanlog.wire.forward import compose

T = TypeVar("T")

TOPIC = "projects/test/topics/orders"
LETTERS = "projects/test/topics/letters"
PATTERN = "projects/test/topics/#"
SUBSCRIPTIONS = {
    name: f"projects/test/subscriptions/{name}"
    for name in ("plain", "ordered", "once", "failing", "detached", "filtered", "matching")
}
SNAPSHOT = "projects/test/snapshots/monday"
IDENTITY = b"fuzz fuzz fuzz f"

#: Answers of a broker that is well. UNKNOWN, INTERNAL and DATA_LOSS would be ours.
STATUSES = frozenset(
    {
        grpc.StatusCode.OK,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)
#: What gRPC clients accept in trailers unless told otherwise, less what else stands in them.
TRAILERS_BYTES_MAX = 8 * 1024 - 256

#: Turns of the loop after which whoever is not done waits for the clock.
_TURNS = 60
#: Longer than any wait of a request; so often at most.
_STEP_S, _STEPS_MAX = 31.0, 20


CODES: Final = {code.value[0]: code for code in grpc.StatusCode}
Result = TypeVar("Result")


class Aborted(Exception):
    """A call ended with a status."""


class Context:
    """The server's side of one call."""

    def __init__(self, user_agent: str = "grpc-python/1") -> None:
        self.status: grpc.StatusCode = grpc.StatusCode.OK
        self.requests: asyncio.Queue[Any] = asyncio.Queue()
        self.answers: list[bytes] = []
        self._user_agent = user_agent
        self.caller = EVERYBODY

    def time_remaining(self) -> float | None:
        return None

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return (("user-agent", self._user_agent),)

    def set_trailing_metadata(self, trailing_metadata: Any) -> None:
        for key, value in trailing_metadata:
            assert value.isascii(), (key, value)
            assert value.isprintable(), (key, value)
        size = sum(len(key) + len(value) for key, value in trailing_metadata)
        assert size <= TRAILERS_BYTES_MAX, f"{size} bytes of trailers: {trailing_metadata}"

    async def serve(self, call: Awaitable[Result]) -> Result:
        """Await a call as the transport does: an error ends it with a status."""
        try:
            return await call
        except Exception as error:
            self.end(status_of(error), error)

    def end(self, status: Status, cause: Exception) -> NoReturn:
        self.status = CODES[status.code]
        if self.status not in STATUSES:
            raise AssertionError(f"{self.status.name}: {status.message}") from cause
        assert status.message
        size = len(quote(status.message, safe=" ")) + len(base64.b64encode(status.details)) + 24
        assert size <= TRAILERS_BYTES_MAX, f"{size} bytes of trailers: {status.message}"
        raise Aborted(status.message)

    async def read(self) -> Any:
        return await self.requests.get()

    async def write(self, answer: bytes) -> None:
        types.StreamingPullResponse.FromString(answer)
        self.answers.append(answer)


class World:
    """One broker for one input. Make it with `run`."""

    def __init__(self, store: MemoryLog) -> None:
        self.store = store
        self.clock = ManualClock()
        self.broker = build_broker(
            store,
            InlineCommitter(store),
            self.clock,
            compose=compose,
            candidates=candidates,
            contents=contents,
            jitter=lambda: 0.5,
        )
        self.methods = {
            method.path: method for method in make_methods(services.SERVICES, self.broker)
        }
        self.prefixes: dict[str, str] = {}
        self.has_waited = False

    @classmethod
    def run(cls, story: Callable[[World], Coroutine[Any, Any, None]]) -> None:
        """Tell a story in a world of its own, and check that it is whole at the end."""
        cls._told(_furnished(), story)

    @classmethod
    def _told(cls, commits: list[Commit], story: Callable[[World], Awaitable[None]]) -> None:
        store = MemoryLog(identity=IDENTITY)
        for commit in commits:
            store.commit(commit)
        failures: list[dict[str, Any]] = []

        async def told() -> None:
            asyncio.get_running_loop().set_exception_handler(
                lambda _, context: failures.append(context)
            )
            world = cls(store)
            await world.finish(world.broker.start())
            try:
                await story(world)
                await world.settle()
                loaded = HardState.load(store.state())
                assert facts(world.broker.hard) == facts(loaded), "memory and log differ"
            finally:
                await world.finish(world.broker.stop())

        disabled = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        try:
            with asyncio.Runner() as runner:
                runner.run(told())
        finally:
            logging.disable(disabled)
        for failure in failures:
            raise AssertionError(failure["message"]) from failure.get("exception")

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Await work on a clock that moves when nothing else does; never for ever."""
        task = asyncio.ensure_future(work)
        for _ in range(_STEPS_MAX):
            await self.turn(task)
            if task.done():
                return await task
            self.has_waited = True
            self.clock.advance(_STEP_S)
        task.cancel()
        raise AssertionError(f"hangs: not done after {_STEPS_MAX * _STEP_S:.0f} s of its time")

    async def turn(self, task: asyncio.Future[Any] | None = None) -> None:
        """Let the loop do what it has to do."""
        for _ in range(_TURNS):
            if task is not None and task.done():
                return
            await asyncio.sleep(0)

    async def settle(self) -> None:
        await self.finish(self.broker.ledger.drain())
        for _ in range(10):
            await asyncio.sleep(0)
        await self.finish(self.broker.ledger.drain())

    async def call(self, method: str, raw: bytes, context: Context | None = None) -> bytes | None:
        """Call a unary method by its name; None when it was refused."""
        unary = self.method(method).unary
        assert unary is not None
        context = context or Context()
        try:
            answer = await self.finish(context.serve(unary(raw, context)))
        except Aborted:
            return None
        if method == "Pull":
            self._note_prefix(types.PullRequest.FromString(raw).subscription, answer)
        return answer

    def method(self, name: str) -> RpcMethod:
        return self.methods[f"/{SERVICES[name]}/{name}"]

    def note_answers(self, subscription: str, context: Context) -> None:
        for answer in context.answers:
            self._note_prefix(subscription, answer)

    def resolved(self, raw: bytes) -> bytes:
        """Put the last ack ids' prefix where a request says so, see `placeholder`."""
        for name, full in SUBSCRIPTIONS.items():
            prefix = self.prefixes.get(full)
            if prefix is not None:
                raw = raw.replace(placeholder(name), prefix.encode())
        return raw

    def _note_prefix(self, subscription: str, answer: bytes) -> None:
        for received in types.PullResponse.FromString(answer).received_messages:
            self.prefixes[subscription] = received.ack_id[:-12]


def placeholder(name: str) -> bytes:
    """What stands in a request for the prefix of the ack ids last got from a subscription.

    As long as such a prefix, so that the lengths around it stay right.
    """
    return f"<{name}>".ljust(40, ".").encode()


def facts(hard: HardState) -> dict[object, object]:
    """Hard state as values that can be compared."""
    catalog = hard.catalog
    found: dict[object, object] = {}
    found |= {("topic", one.id): one for one in catalog.topics()}
    found |= {("subscription", one.id): one for one in catalog.subscriptions()}
    found |= {("snapshot", one.id): one for one in catalog.snapshots()}
    for share in hard.shares():
        found[share.settings.id, share.partition] = _cursor_facts(share.cursor)
    for snapshot in catalog.snapshots():
        for partition in snapshot.partitions:
            cursor = hard.cursor_of(snapshot, partition)
            found[snapshot.id, partition] = _cursor_facts(cursor)
    return found


def _cursor_facts(cursor: Cursor) -> object:
    return cursor.floor, sorted((number, tuple(bits)) for number, bits in cursor.chunks.items())


class _Recording(MemoryLog):
    def __init__(self) -> None:
        super().__init__(identity=IDENTITY)
        self.commits: list[Commit] = []

    def commit(self, commit: Commit) -> None:
        super().commit(commit)
        self.commits.append(commit)


@cache
def _furnished() -> list[Commit]:
    """The commits that make the world; made once, through the API."""
    store = _Recording()

    async def furnish() -> None:
        world = World(store)
        await world.finish(world.broker.start())
        for method, message in FURNITURE:
            answer = await world.call(method, message.SerializeToString())
            assert answer is not None, method
        await world.finish(world.broker.stop())

    with asyncio.Runner() as runner:
        runner.run(furnish())
    return store.commits


PUBLISHER_METHODS: dict[str, Any] = {
    "CreateTopic": types.Topic,
    "UpdateTopic": types.UpdateTopicRequest,
    "Publish": types.PublishRequest,
    "GetTopic": types.GetTopicRequest,
    "ListTopics": types.ListTopicsRequest,
    "ListTopicSubscriptions": types.ListTopicSubscriptionsRequest,
    "ListTopicSnapshots": types.ListTopicSnapshotsRequest,
    "DeleteTopic": types.DeleteTopicRequest,
    "DetachSubscription": types.DetachSubscriptionRequest,
}
SUBSCRIBER_METHODS: dict[str, Any] = {
    "CreateSubscription": types.Subscription,
    "GetSubscription": types.GetSubscriptionRequest,
    "UpdateSubscription": types.UpdateSubscriptionRequest,
    "ListSubscriptions": types.ListSubscriptionsRequest,
    "DeleteSubscription": types.DeleteSubscriptionRequest,
    "ModifyAckDeadline": types.ModifyAckDeadlineRequest,
    "Acknowledge": types.AcknowledgeRequest,
    "Pull": types.PullRequest,
    "ModifyPushConfig": types.ModifyPushConfigRequest,
    "GetSnapshot": types.GetSnapshotRequest,
    "ListSnapshots": types.ListSnapshotsRequest,
    "CreateSnapshot": types.CreateSnapshotRequest,
    "UpdateSnapshot": types.UpdateSnapshotRequest,
    "DeleteSnapshot": types.DeleteSnapshotRequest,
    "Seek": types.SeekRequest,
}
#: Every unary method with its request; a seed names a method by its place here.
METHODS = PUBLISHER_METHODS | SUBSCRIBER_METHODS
SERVICES = dict.fromkeys(PUBLISHER_METHODS, services.PUBLISHER.name) | dict.fromkeys(
    [*SUBSCRIBER_METHODS, "StreamingPull"], services.SUBSCRIBER.name
)


def _subscription(name: str, topic: str = TOPIC, **settings: Any) -> tuple[str, Any]:
    message = types.Subscription(name=SUBSCRIPTIONS[name], topic=topic, **settings)
    return "CreateSubscription", message


FURNITURE: tuple[tuple[str, Any], ...] = (
    ("CreateTopic", types.Topic(name=TOPIC)),
    ("CreateTopic", types.Topic(name=LETTERS)),
    _subscription("plain"),
    _subscription("ordered", enable_message_ordering=True),
    _subscription("once", enable_exactly_once_delivery=True),
    _subscription(
        "failing", dead_letter_policy={"dead_letter_topic": LETTERS, "max_delivery_attempts": 2}
    ),
    _subscription("detached"),
    _subscription("filtered", filter="n < 3 OR payload.v >= 4"),
    _subscription("matching", PATTERN, enable_message_ordering=True, filter="attributes:n"),
    (
        "Publish",
        types.PublishRequest(
            topic=TOPIC,
            messages=[
                {"data": b"%d" % n, "ordering_key": "k" * (n % 2), "attributes": {"n": str(n)}}
                for n in range(6)
            ],
        ),
    ),
    (
        "UpdateSubscription",
        types.UpdateSubscriptionRequest(
            subscription={"name": SUBSCRIPTIONS["matching"], "filter": "n != 4"},
            update_mask={"paths": ["filter"]},
        ),
    ),
    (
        "CreateSnapshot",
        types.CreateSnapshotRequest(name=SNAPSHOT, subscription=SUBSCRIPTIONS["plain"]),
    ),
    (
        "DetachSubscription",
        types.DetachSubscriptionRequest(subscription=SUBSCRIPTIONS["detached"]),
    ),
)
