"""`fanlog.Broker`: the whole broker inside a Python program. Open this file first.

    with fanlog.Broker("data") as broker:
        broker.subscribe("orders.#", on_order, name="billing")
        broker.publish("orders.eu", {"item": "two chairs"}, key="anna")

A publish that returned is committed: in a folder it is durable. Callbacks are called in threads, or
on an event loop if they are async; the core has a thread of its own (`loop_thread`).
"""

from __future__ import annotations

import asyncio
import atexit
import inspect
import itertools
import os
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from fanlog import limits
from fanlog.broker.clock import Clock
from fanlog.errors import FailedPrecondition, FanlogError, InvalidArgument
from fanlog.in_process.callback_subscription import CallbackSubscription
from fanlog.in_process.calling import current
from fanlog.in_process.core import CoreSettings, check_folder
from fanlog.in_process.counts import BrokerCounts
from fanlog.in_process.loop_thread import LoopThread
from fanlog.in_process.message import Message
from fanlog.in_process.new_message import NewMessage, publish_of, topic_name
from fanlog.in_process.open_broker import CallbackSpec, OpenBroker, temporary_id
from fanlog.in_process.options import DeliveryMode, SubscriptionOptions
from fanlog.model import names
from fanlog.model.resources import DeadLetterDefault
from fanlog.model.specs import TopicSpec
from fanlog.wire.publish import Publish

T = TypeVar("T")

#: Threads that call the callback of one subscription at most, unless it says otherwise.
CONCURRENCY = 8
#: Messages of one subscription that callbacks have, or are about to get.
MAX_OUTSTANDING = 1_000
MAX_OUTSTANDING_MAX = 1_000_000
#: How long a stop waits for callbacks, in seconds.
STOP_S = 30.0
#: The same when the program ends without having stopped its broker.
EXIT_S = 5.0
#: How often `join` looks, in seconds.
LOOK_S = 0.005

_numbers = itertools.count(1)


class ProgramBroker:
    """A broker in this program, in memory or on a folder.

    Its methods may be called from any thread, callbacks included; it starts when it is first used.
    Those that end in `_async` are for programs on an event loop, which the others would block.

    Args:
        folder: The data folder, as a server's: only one broker or server may have it at a time.
            None keeps everything in memory, for as long as the broker lives.
        project: Where topics and subscriptions are that are given without one.
        create_topics: Whether a topic is made when it is first published or subscribed to.
        topic_retention: For how many seconds messages are kept that nobody waits for; None for
            seven days on a folder, as on a server, and for none in memory.
        dead_letter_default: With 'auto', named subscriptions without a dead letter policy get one.
        disk_reserve_bytes: Publishing is refused when the disk has less than this.
        message_bytes_max: The most bytes of one message.
        seal_key_file: The key that secrets in the folder are sealed with.
        clock: A clock for tests.

    Raises:
        InvalidArgument: The project is not one.
        ConfigError: The folder is a file.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        project: str = "fanlog",
        create_topics: bool = True,
        topic_retention: float | None = None,
        dead_letter_default: DeadLetterDefault = "none",
        disk_reserve_bytes: int = limits.DISK_RESERVE_BYTES,
        message_bytes_max: int = limits.MESSAGE_BYTES_MAX,
        seal_key_file: str | os.PathLike[str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        names.parse_project(names.project_name(project))
        self._project = project
        self._creates_topics = create_topics
        path = check_folder(folder)
        if topic_retention is None:
            topic_retention = limits.TOPIC_RETENTION_S if path is not None else 0.0
        self._settings = CoreSettings(
            folder=path,
            disk_reserve_bytes=disk_reserve_bytes,
            message_bytes_max=message_bytes_max,
            topic_retention_s=topic_retention,
            dead_letter_default=dead_letter_default,
            seal_key_file=None if seal_key_file is None else Path(seal_key_file),
            clock=clock,
        )
        self._message_bytes_max = message_bytes_max
        self._name = f"fanlog.broker-{next(_numbers)}"
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._open: OpenBroker | None = None
        #: The loop of async callbacks of a program without one.
        self._callback_thread: LoopThread | None = None
        self._stopper: threading.Thread | None = None
        self._stopped = threading.Event()
        #: Whether all callbacks had ended when it stopped.
        self._ended_well = True

    # Life.

    def start(self) -> Self:
        """Open the log, and begin to serve; a broker that is started already is left alone.

        Raises:
            DataFolderInUse: Another process, or another broker of this one, has the folder.
            FanlogError: The folder cannot be opened; nothing was changed.
            FailedPrecondition: The broker was stopped, or came here with a fork.
        """
        self._opened()
        return self

    def stop(self, timeout: float = STOP_S) -> bool:
        """Stop: take no more messages, let callbacks end, and close the log.

        Messages that no callback was called for are free at once. Called from a callback, it
        returns at once, and the broker stops when the callback has ended.

        Returns whether all callbacks ended in time: messages of the others are delivered again by
        the next broker on the folder. From a callback, whether the broker had stopped already.
        """
        self._check_process()
        with self._lock:
            opened, stopper = self._open, self._stopper
            if opened is None:
                self._stopped.set()
                return self._ended_well
            opened.thread.refuse_own_thread()
            if stopper is None:
                # In a thread of its own, so that a callback need not wait for itself.
                stopper = self._stopper = threading.Thread(
                    target=self._stop, args=(opened, timeout), name=f"{self._name}-stop"
                )
                stopper.start()
        if current.get() is self:
            return self._stopped.is_set()
        stopper.join()
        return self._ended_well

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the broker has stopped; whether it has."""
        return self._stopped.wait(timeout)

    def join(self, timeout: float | None = None) -> bool:
        """Wait until no subscription with a callback has an unacknowledged message left.

        Messages that are delayed, and those that fail again and again, count too. Returns whether
        it came to that in time.
        """
        deadline_s = None if timeout is None else time.monotonic() + timeout
        while self._run(self._opened().unacked):
            if deadline_s is not None and time.monotonic() >= deadline_s:
                return False
            self._stopped.wait(LOOK_S)
        return True

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # The child of a fork leaves the block, too; the broker is its parent's.
        if os.getpid() == self._process:
            self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if os.getpid() == self._process:
            await asyncio.to_thread(self.stop)

    # Publishing.

    def publish(
        self,
        topic: str,
        payload: object,
        *,
        key: str = "",
        priority: int = 0,
        delay: float | None = None,
        deliver_at: datetime | None = None,
        ttl: float | None = None,
        depends_on: str | Sequence[str] = (),
        dedup_id: str = "",
        publisher: str | None = None,
        sequence: int | None = None,
        publisher_epoch: int | None = None,
        tenant: str | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> str:
        """Publish one message; its id. See `NewMessage` for the arguments.

        Raises:
            InvalidArgument: A value is not what it should be, or the payload is not JSON-able.
            TopicNotFound: The topic does not exist, and is not to be made.
            FailedPrecondition: The number is over for its publisher.
            ResourceExhausted: There is no room.
        """
        new = NewMessage(
            payload,
            key=key,
            priority=priority,
            delay=delay,
            deliver_at=deliver_at,
            ttl=ttl,
            depends_on=depends_on,
            dedup_id=dedup_id,
            publisher=publisher,
            sequence=sequence,
            publisher_epoch=publisher_epoch,
            tenant=tenant,
            attributes=attributes,
        )
        publish = publish_of(self._project, topic, (new,), self._message_bytes_max)
        opened = self._opened()
        [only] = opened.thread.run(partial(opened.publish, publish))
        return only

    def publish_many(self, topic: str, messages: Iterable[object]) -> list[str]:
        """Publish up to 1,000 messages, all or none; their ids, in order.

        Each is a payload, or a `NewMessage` of one with what it asks for. Errors as for `publish`.
        """
        publish = self._batch(topic, messages)
        return self._run(partial(self._opened().publish, publish))

    async def publish_async(
        self,
        topic: str,
        payload: object,
        *,
        key: str = "",
        priority: int = 0,
        delay: float | None = None,
        deliver_at: datetime | None = None,
        ttl: float | None = None,
        depends_on: str | Sequence[str] = (),
        dedup_id: str = "",
        publisher: str | None = None,
        sequence: int | None = None,
        publisher_epoch: int | None = None,
        tenant: str | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> str:
        """As `publish`, for programs on an event loop."""
        new = NewMessage(
            payload,
            key=key,
            priority=priority,
            delay=delay,
            deliver_at=deliver_at,
            ttl=ttl,
            depends_on=depends_on,
            dedup_id=dedup_id,
            publisher=publisher,
            sequence=sequence,
            publisher_epoch=publisher_epoch,
            tenant=tenant,
            attributes=attributes,
        )
        publish = publish_of(self._project, topic, (new,), self._message_bytes_max)
        [only] = await self._publish_async(publish)
        return only

    async def publish_many_async(self, topic: str, messages: Iterable[object]) -> list[str]:
        """As `publish_many`, for programs on an event loop."""
        return await self._publish_async(self._batch(topic, messages))

    # Subscribing.

    def subscribe(
        self,
        topic: str,
        callback: Callable[[Message], Any],
        *,
        name: str | None = None,
        filter: str | Callable[[Message], bool] = "",  # noqa: A002 - the API's own word
        max_outstanding: int = MAX_OUTSTANDING,
        concurrency: int | None = None,
        manual: bool = False,
        ordered: bool = True,
        delivery: DeliveryMode = "at-least-once",
        ack_deadline: int | None = None,
        start: str | datetime = "now",
        max_delivery_attempts: int | None = None,
        dead_letter_topic: str | None = None,
        retry: tuple[float, float] | None = None,
        ttl: float | None = None,
        retention: float | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> CallbackSubscription:
        """Have a callback called for the messages of a topic, or of all topics of a pattern.

        Args:
            callback: A function, or a coroutine function. When it returns the message is
                acknowledged; when it raises it is delivered again. An async one runs on the loop
                that `subscribe` is called on, or on one in a thread of the broker's.
            name: The subscription's: one with a name goes on where it was when the program, or
                another one on the folder, was stopped. Without, it begins now and ends with the
                broker.
            filter: An expression of the filter language, or a function of the message: what it does
                not want is acknowledged.
            max_outstanding: The most messages that are leased and not settled.
            concurrency: The most callbacks at once: 8 threads, or `max_outstanding` tasks.
            manual: Whether a message stays the program's when the callback returns, until
                `ack` or `nack`.
            ordered: Whether messages of a key come in order, never two callbacks at once.
            delivery: 'at-least-once', 'exactly-once' or 'at-most-once'.
            ack_deadline: Deliver a message again that is not settled after so many seconds; None
                for never, while the broker runs.
            start: 'now', 'earliest' or a time: where a new subscription begins.
            max_delivery_attempts: After so many a message goes to `dead_letter_topic`, or to a
                topic of the subscription's own.
            retry: The shortest and the longest wait before a message is delivered again; (0.1, 60).
            ttl: The time-to-live of messages without one of their own, in seconds.
            retention: For how many seconds unacknowledged messages are kept; seven days.
            labels: Other labels, such as `fanlog-expired`.

        Raises:
            InvalidArgument: An option is out of range, or contradicts another one.
            TopicNotFound: The topic does not exist, and is not to be made.
            FailedPrecondition: A subscription of that name cannot become what is asked for.
        """
        if not callable(callback):
            raise InvalidArgument(f"callback: {names.shown(repr(callback))} cannot be called")
        if not isinstance(filter, str) and not callable(filter):
            raise InvalidArgument("filter: an expression, or a function of the message")
        if callable(filter) and _is_async(filter):
            raise InvalidArgument("filter: is async; it must answer at once")
        if not 1 <= max_outstanding <= MAX_OUTSTANDING_MAX:
            raise InvalidArgument(
                f"max_outstanding: {max_outstanding} is out of range; "
                f"1 to {MAX_OUTSTANDING_MAX} are allowed"
            )
        is_async = _is_async(callback)
        if concurrency is None:
            concurrency = max_outstanding if is_async else min(CONCURRENCY, max_outstanding)
        if concurrency < 1:
            raise InvalidArgument(f"concurrency: {concurrency}; 1 is the least")
        if manual and delivery == "at-most-once":
            raise InvalidArgument(
                "manual: at most once messages are acknowledged before the callback is called; "
                "leave one of them out"
            )
        options = SubscriptionOptions(
            name=name,
            topic=topic_name(self._project, topic),
            filter=filter if isinstance(filter, str) else "",
            ordered=ordered,
            delivery=delivery,
            ack_deadline=ack_deadline,
            start=start,
            max_delivery_attempts=max_delivery_attempts,
            dead_letter_topic=dead_letter_topic,
            retry=retry,
            ttl=ttl,
            retention=retention,
            labels=labels or {},
        )
        wanted = CallbackSpec(
            subscription=options.spec(self._project, temporary_id()),
            callback=callback,
            predicate=None if isinstance(filter, str) else filter,
            is_temporary=name is None,
            max_outstanding=max_outstanding,
            concurrency=concurrency,
            manual=manual,
            ack_deadline_s=None if ack_deadline is None else float(ack_deadline),
            loop=self._callback_loop() if is_async else None,
        )
        return self._run(partial(self._opened().subscribe, wanted))

    # Resources and counts.

    def create_topic(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        retention: float | None = None,
    ) -> None:
        """Make a topic with settings of its own; see the guide on delivery for the labels.

        Raises:
            AlreadyExists: There is one of that name.
        """
        spec = TopicSpec(
            name=topic_name(self._project, name),
            labels=labels or {},
            message_retention_s=retention,
        )
        names.refuse_system(spec.name)
        self._run(partial(self._opened().create_topic, spec))

    def delete_subscription(self, name: str) -> None:
        """Delete a subscription with a name, and its backlog; its callbacks get nothing more.

        Raises:
            SubscriptionNotFound: There is none of that name.
        """
        full = name if "/" in name else names.subscription_name(self._project, name)
        names.parse_subscription(full)
        names.refuse_system(full, field="name")
        self._run(partial(self._opened().delete_subscription, full))

    def metrics(self) -> BrokerCounts:
        """Counts since the broker was started, and how things stand."""
        return self._run(self._opened().count)

    # Private.

    def _run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._opened().thread.run(make)

    async def _publish_async(self, publish: Publish) -> list[str]:
        opened = self._open
        if opened is None:
            opened = await asyncio.to_thread(self._opened)
        self._check_usable()
        opened.thread.refuse_own_thread()
        return await asyncio.wrap_future(opened.thread.submit(partial(opened.publish, publish)))

    def _opened(self) -> OpenBroker:
        """The open broker; opened now if it is not."""
        self._check_usable()
        if self._open is None:
            with self._lock:
                self._check_usable()
                if self._open is None:
                    self._open = OpenBroker(
                        self,
                        self._name,
                        self._project,
                        self._settings,
                        creates_topics=self._creates_topics,
                    )
                    _open_brokers.add(self)
        return self._open

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise FailedPrecondition(
                f"this broker is of process {self._process}, and does not come along with a fork: "
                "make one in this process, on another folder"
            )

    def _check_usable(self) -> None:
        self._check_process()
        if self._stopped.is_set():
            raise FailedPrecondition("the broker was stopped; make another one")

    def _callback_loop(self) -> asyncio.AbstractEventLoop:
        """The loop that async callbacks run on."""
        with suppress(RuntimeError):
            return asyncio.get_running_loop()
        with self._lock:
            if self._callback_thread is None:
                self._callback_thread = LoopThread(f"{self._name}-callbacks")
                self._callback_thread.start()
            return self._callback_thread.loop

    def _stop(self, opened: OpenBroker, timeout_s: float) -> None:
        is_well = False
        try:
            is_well = opened.stop(timeout_s)
        finally:
            if self._callback_thread is not None:
                self._callback_thread.stop()
            self._ended_well = is_well
            _open_brokers.discard(self)
            self._stopped.set()

    def _batch(self, topic: str, messages: Iterable[object]) -> Publish:
        new = [one if isinstance(one, NewMessage) else NewMessage(one) for one in messages]
        return publish_of(self._project, topic, new, self._message_bytes_max)


#: The name that programs know it by, as `fanlog.Broker`; in here the core has that name.
Broker = ProgramBroker


def _is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine; also of a partial, and of an object with `__call__`."""
    while isinstance(function, partial):
        function = function.func
    if inspect.iscoroutinefunction(function):
        return True
    return inspect.iscoroutinefunction(getattr(type(function), "__call__", None))  # noqa: B004


#: Those that run: to be stopped when the program ends, and let go of where it forks.
_open_brokers: weakref.WeakSet[ProgramBroker] = weakref.WeakSet()


def _stop_all() -> None:
    for broker in list(_open_brokers):
        if broker._open is not None and broker._stopper is None:
            # Here: a program that ends cannot start threads. What was answered is durable anyway.
            with suppress(FanlogError, RuntimeError):
                broker._stop(broker._open, EXIT_S)


def _disown_all() -> None:
    for broker in list(_open_brokers):
        if broker._open is not None:
            broker._open.disown()
    _open_brokers.clear()


atexit.register(_stop_all)
os.register_at_fork(after_in_child=_disown_all)
