"""The consumer inside a sender or a forwarder: attaches to the feed, and comes again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.broker.delivery.feed import Feed
from fanlog.core.flow import Credit
from fanlog.errors import FanlogError, Unavailable
from fanlog.model.resources import Subscription

#: Time before a consumer that was sent away attaches again.
_AGAIN_S = 0.05


class Consumer:
    """Consumes one subscription, from `start` until it is stopped or the subscription is gone.

    `take_all` takes messages of the feed and moves them on until `is_over`. It raises the error
    that the feed is closed with.
    """

    def __init__(
        self,
        broker: Broker,
        subscription: Subscription,
        take_all: Callable[[Feed, Credit], Awaitable[None]],
    ) -> None:
        self._broker = broker
        self._take_all = take_all
        self._feed: Feed | None = None
        self._loop: asyncio.Task[None] | None = None
        #: With its settings of now.
        self.subscription = subscription
        self.is_over = False

    @property
    def name(self) -> str:
        return self.subscription.name

    @property
    def is_done(self) -> bool:
        """Whether no more messages are taken; those under way will be settled."""
        return self._loop is not None and self._loop.done()

    def start(self, on_end: Callable[[], None]) -> None:
        """Begin; `on_end` is called when the consumer has ended, by itself or not."""
        self._loop = asyncio.create_task(self._run())
        self._loop.add_done_callback(lambda _: on_end())

    def change(self, subscription: Subscription) -> None:
        """The subscription has other settings."""
        self.subscription = subscription
        self.wake()

    def end(self) -> None:
        """Take no more messages."""
        self.is_over = True
        self.wake()

    async def stop(self, under_way: Iterable[asyncio.Task[None]]) -> None:
        """End, and cancel the tasks that are under way: their leases run out."""
        self.end()
        tasks = [*under_way, *([self._loop] if self._loop is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def wake(self) -> None:
        """Have `take_all` look again."""
        if self._feed is not None:
            self._feed.wake()

    def wake_if_ready(self) -> None:
        """Have `take_all` look again if there are messages that it may have left for later."""
        if self._feed is not None and (self._feed.has_ready or self.is_over):
            self._feed.wake()

    async def _run(self) -> None:
        while not self.is_over:
            try:
                # Acknowledgements of an earlier consumer may be on their way to the disk, and so
                # may the settings that made this one: leases and sends must not overtake them.
                await self._broker.ledger.sync()
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
                if subscription.id == self.subscription.id:
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
