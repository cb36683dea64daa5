"""An open broker: the core on its loop, and the callbacks of the program.

`fanlog.in_process.broker` checks what the program says, and asks this; methods that are coroutines
run on the loop of the core, the others in threads of the program.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fanlog.broker.parts import Placed
from fanlog.errors import TopicNotFound
from fanlog.in_process import counts
from fanlog.in_process.callback_subscription import CallbackSubscription
from fanlog.in_process.calling import Calling, current
from fanlog.in_process.consumer import CallbackConsumer
from fanlog.in_process.core import CoreSettings, OpenCore, open_core
from fanlog.in_process.counts import BrokerCounts
from fanlog.in_process.loop_thread import LoopThread
from fanlog.in_process.message import Message
from fanlog.in_process.subscribing import ensure_subscription, ensure_topic
from fanlog.in_process.tasks import Tasks
from fanlog.in_process.workers import Runner, Workers
from fanlog.model import names
from fanlog.model.ids import message_id
from fanlog.model.specs import SubscriptionSpec, TopicSpec
from fanlog.wire.publish import Publish


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackSpec:
    """A callback, and how it is to be called."""

    subscription: SubscriptionSpec
    callback: Callable[[Message], Any]
    predicate: Callable[[Message], bool] | None
    is_temporary: bool
    max_outstanding: int
    concurrency: int
    manual: bool
    ack_deadline_s: float | None
    #: The loop that it runs on; None for threads.
    loop: asyncio.AbstractEventLoop | None


class OpenBroker:
    """A core that was started, and the callbacks that it has messages for.

    `owner` is what callbacks are known by, to be told from other threads.
    """

    def __init__(
        self,
        owner: object,
        name: str,
        project: str,
        settings: CoreSettings,
        *,
        creates_topics: bool,
    ) -> None:
        """Raises as `open_core` does."""
        self._owner = owner
        self._name = name
        self._project = project
        self._creates_topics = creates_topics
        self._callbacks: list[CallbackSubscription] = []
        self._count = 0
        self.thread = LoopThread(name)
        self.thread.start()
        try:
            self._opened: OpenCore = self.thread.run(partial(open_core, settings))
        except BaseException:
            self.thread.stop()
            raise
        self._core = self._opened.core

    # Verbs, on the loop.

    async def publish(self, publish: Publish) -> list[str]:
        """Publish messages, durably when this returns; the id of each."""
        names.refuse_system(publish.topic)
        while True:
            try:
                if publish.dedup_ids is None:
                    placed = await self._core.publish(publish.topic, publish.body)
                else:
                    placed = await self._core.publish_once(
                        publish.topic, publish.body, publish.dedup_ids
                    )
                return _ids(placed, publish.body.count)
            except TopicNotFound:
                # Once more if it was made just now.
                await ensure_topic(self._core, publish.topic, creates=self._creates_topics)

    async def subscribe(self, wanted: CallbackSpec) -> CallbackSubscription:
        """Make the subscription if need be, and have the callback called."""
        used = {one.full_name for one in self._callbacks if one.is_active}
        subscription = await ensure_subscription(
            self._core,
            wanted.subscription,
            creates_topics=self._creates_topics,
            in_use=used.__contains__,
        )
        loop = asyncio.get_running_loop()
        consumer = CallbackConsumer(
            self._core,
            subscription,
            project=self._project,
            loop=loop,
            max_outstanding=wanted.max_outstanding,
            ack_deadline_s=wanted.ack_deadline_s,
        )
        made = CallbackSubscription(
            subscription.name,
            consumer,
            self._runner(consumer, wanted),
            self.end_callback,
            is_temporary=wanted.is_temporary,
        )
        made.start(loop)
        self._callbacks.append(made)
        return made

    async def create_topic(self, spec: TopicSpec) -> None:
        await self._core.topics.create(spec)

    async def delete_subscription(self, name: str) -> None:
        await self._core.subscriptions.delete(name)

    async def count(self) -> BrokerCounts:
        return await counts.count(self._core, [one.consumer for one in self._callbacks])

    async def unacked(self) -> int:
        """How many messages the subscriptions with a callback have not acknowledged."""
        live = [one.consumer for one in self._callbacks if one.is_active]
        found = {one.subscription.name: one.subscription for one in live}
        claimed = sum(one.claimed for one in live)
        return claimed + await counts.unacked(self._core, found.values())

    # Ends, in threads of the program.

    def end_callback(self, made: CallbackSubscription, timeout_s: float) -> bool:
        """End one callback; whether it had ended in time, if it was waited for."""
        if made not in self._callbacks:
            return True
        if current.get() is self._owner:
            # It may be the very one that is waited for.
            timeout_s = 0.0
        self.thread.run(partial(_on_loop, made.consumer.stop))
        running = made.wait(timeout_s)
        self.thread.run(partial(self._finish, made))
        return running == 0

    def stop(self, timeout_s: float) -> bool:
        """End all callbacks, and close the log; whether all of them ended in time."""
        deadline_s, running = time.monotonic() + timeout_s, 0
        made = list(self._callbacks)
        try:
            for one in made:
                self.thread.run(partial(_on_loop, one.consumer.stop))
            for one in made:
                running += one.wait(max(0.0, deadline_s - time.monotonic()))
            for one in made:
                self.thread.run(partial(self._finish, one))
            self.thread.run(self._opened.close)
        finally:
            self.thread.stop()
            for one in made:
                one.consumer.refuse_outcomes()
        return running == 0

    def disown(self) -> None:
        """In the child of a fork: see `OpenCore.disown`."""
        self._opened.disown()

    # Private.

    def _runner(self, consumer: CallbackConsumer, wanted: CallbackSpec) -> Runner:
        calling = Calling(
            consumer,
            wanted.callback,
            wanted.predicate,
            manual=wanted.manual,
            now=self._core.clock.now,
        )
        loop, owner = asyncio.get_running_loop(), self._owner
        self._count += 1
        if wanted.loop is None:
            return Workers(
                calling.call,
                wanted.concurrency,
                f"{self._name}-callback-{self._count}",
                loop.call_later,
                lambda: _enter(owner),
            )

        async def call(message: Message) -> None:
            _enter(owner)
            await calling.call_async(message)

        def give_up() -> None:
            loop.call_soon_threadsafe(consumer.stop)

        return Tasks(call, wanted.concurrency, wanted.loop, give_up)

    async def _finish(self, made: CallbackSubscription) -> None:
        if made not in self._callbacks:
            return
        self._callbacks.remove(made)
        await made.finish()
        if made.is_temporary and self._core.hard.catalog.has_subscription(made.full_name):
            await self._core.subscriptions.delete(made.full_name)


async def _on_loop(call: Callable[[], None]) -> None:
    call()


def _enter(owner: object) -> None:
    """From here on this thread, or this task, is in callbacks of the owner."""
    current.set(owner)


def _ids(placed: Sequence[Placed], count: int) -> list[str]:
    """The ids of messages, in their order."""
    ids = [""] * count
    for partition, offsets, indexes in placed:
        for index, offset in zip(
            range(count) if indexes is None else indexes, offsets, strict=True
        ):
            ids[index] = message_id(partition, offset)
    return ids


def temporary_id() -> str:
    """A part of a name that nobody else has."""
    return os.urandom(8).hex()
