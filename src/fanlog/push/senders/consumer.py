"""What everybody does who moves the messages of a subscription on: attach, take, come again."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.broker.clock import Clock
from fanlog.broker.delivery.feed import Feed
from fanlog.core.flow import Credit
from fanlog.errors import FanlogError, Unavailable
from fanlog.model.resources import Subscription
from fanlog.push.senders.branches import Branches
from fanlog.push.senders.channels import Caller
from fanlog.push.senders.client import Poster
from fanlog.push.senders.gate import Gate
from fanlog.push.senders.memory import Memory
from fanlog.push.senders.tokens import Tokens

#: Before one comes again that was sent away.
_AGAIN_S = 0.05


@dataclass(frozen=True, slots=True)
class Tools:
    """What all of them share."""

    broker: Broker
    clock: Clock
    client: Poster
    caller: Caller
    gate: Gate
    memory: Memory
    tokens: Tokens
    branches: Branches


class Consumer(ABC):
    """Serves one subscription, from `start` until it is stopped or the subscription is gone."""

    def __init__(self, tools: Tools, subscription: Subscription) -> None:
        self._tools = tools
        self._broker = tools.broker
        self._subscription = subscription
        self._feed: Feed | None = None
        self._is_over = False
        self._loop: asyncio.Task[None] | None = None
        #: What went wrong last; empty when nothing did since.
        self.last_reason = ""

    @property
    def name(self) -> str:
        return self._subscription.name

    @property
    def is_done(self) -> bool:
        """Whether it has ended; what it still has under way will be settled."""
        return self._loop is not None and self._loop.done()

    @property
    @abstractmethod
    def under_way(self) -> set[asyncio.Task[None]]:
        """What is to be waited for before it is stopped."""

    @property
    @abstractmethod
    def trouble(self) -> str:
        """Why messages do not move on just now; empty when they do."""

    def start(self, on_end: Callable[[], None]) -> None:
        """Begin; `on_end` is called when it has ended, by itself or not."""
        self._loop = asyncio.create_task(self._run())
        self._loop.add_done_callback(lambda _: on_end())

    def changed(self, subscription: Subscription) -> None:
        """The subscription has other settings."""
        self._subscription = subscription
        self._wake()

    def end(self) -> None:
        """Take no more messages."""
        self._is_over = True
        self._wake()

    async def stop(self) -> None:
        """End, and let go of what is under way: its leases run out."""
        self.end()
        tasks = [*self.under_way, *([self._loop] if self._loop is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @abstractmethod
    async def _take_all(self, feed: Feed, credit: Credit) -> None:
        """Take and move on until it is over. Raises what the feed raises when it is closed."""

    @property
    def _lease_s(self) -> float:
        return self._subscription.ack_deadline_s + limits.PUSH_LEASE_MARGIN_S

    async def _run(self) -> None:
        while not self._is_over:
            try:
                # What another kind of consumer had before may be on its way to the disk, and so may
                # the settings that made this one: what comes next must not overtake them.
                await self._broker.writer.settled()
            except FanlogError:
                await asyncio.sleep(_AGAIN_S)
                continue
            try:
                subscription, feed = self._broker.attach(self.name)
            except FanlogError:
                # Draining, deleted or detached.
                return
            self._feed = feed
            credit = Credit(limits.PUSH_WINDOW_FIRST, limits.PUSH_BYTES_MAX)
            try:
                if subscription.id == self._subscription.id:
                    await self._take_all(feed, credit)
                return
            except Unavailable:
                # The broker recovers from a failed commit, or drains: attaching will tell.
                await asyncio.sleep(_AGAIN_S)
            except FanlogError:
                return
            finally:
                feed.abandon(credit)
                self._broker.detach(subscription, feed)
                self._feed = None

    def _wake(self) -> None:
        if self._feed is not None:
            self._feed.wake()
