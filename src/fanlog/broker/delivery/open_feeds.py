"""Which feeds there are, and what wakes them. Soft state.

A feed exists while somebody uses it. Without a filter it is woken by every commit to a partition it
reads; with one, by the router, for what it wants.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from fanlog.broker.delivery.feed import Feed
from fanlog.broker.delivery.filtering import Router
from fanlog.core.share import Share
from fanlog.errors import FanlogError
from fanlog.model.resources import PartitionId, Subscription, SubscriptionId


class Feeds:
    """The feeds of one broker. Lives on the loop."""

    def __init__(self, router: Router, make: Callable[[Subscription], Feed]) -> None:
        self._router = router
        self._make = make
        self._feeds: dict[SubscriptionId, Feed] = {}
        # Those without a filter, by what they read.
        self._on: defaultdict[PartitionId, dict[Feed, None]] = defaultdict(dict)

    def __iter__(self) -> Iterator[SubscriptionId]:
        return iter(self._feeds)

    def enter(self, subscription: Subscription) -> Feed:
        """The feed of a subscription, for one more consumer."""
        feed = self._feeds.get(subscription.id)
        if feed is None:
            feed = self._feeds[subscription.id] = self._make(subscription)
            self._watch(feed)
        feed.users += 1
        return feed

    def leave(self, subscription: Subscription, feed: Feed) -> None:
        """A consumer goes; the last one takes the feed along."""
        feed.users -= 1
        if feed.users == 0 and self._feeds.get(subscription.id) is feed:
            del self._feeds[subscription.id]
            self._unwatch(feed)

    def close(self, subscription: Subscription, error: FanlogError) -> None:
        """Send all consumers of a subscription away."""
        feed = self._feeds.pop(subscription.id, None)
        if feed is not None:
            feed.close(error)
            self._unwatch(feed)

    def drain(self, error: FanlogError) -> None:
        """Send all consumers away; their feeds go with them."""
        for feed in list(self._feeds.values()):
            feed.close(error)

    def clear(self, error: FanlogError) -> None:
        """Send all consumers away and forget their feeds: hard state is loaded again."""
        for feed in self._feeds.values():
            feed.void(error)
        self._feeds.clear()
        self._on.clear()

    def committed(self, partitions: Iterable[PartitionId]) -> None:
        """There is something new."""
        for partition in partitions:
            for feed in self._on.get(partition, ()):
                feed.wake(partition)
            self._router.committed(partition)

    def settled(self, share: Share, *, has_some: bool) -> None:
        """A share has something to hand out; or a consumer may have room for what others have."""
        feed = self._feeds.get(share.settings.id)
        if feed is not None:
            if has_some:
                feed.wake(share.partition)
            elif feed.has_ready:
                feed.wake()

    def moved(self, subscription: Subscription, committed: asyncio.Future[None]) -> None:
        """A subscription has other settings, or another position, as soon as that is committed.

        Not left to whoever waits for the commit: a caller may go away before.
        """
        feed = self._feeds.get(subscription.id)
        if feed is not None:
            self._unwatch(feed)
            self._watch(feed)
            committed.add_done_callback(lambda _: feed.wake_all())

    def add(self, share: Share) -> None:
        """A topic joined a pattern."""
        feed = self._feeds.get(share.settings.id)
        if feed is not None:
            self._watch_share(feed, share)
            feed.add(share)

    def drop(self, share: Share) -> None:
        """A pattern is through with a topic that is gone."""
        feed = self._feeds.get(share.settings.id)
        if feed is not None:
            feed.drop(share.partition)
            self._unwatch_partition(feed, share.partition)

    def _watch(self, feed: Feed) -> None:
        for share in feed.shares:
            self._watch_share(feed, share)

    def _watch_share(self, feed: Feed, share: Share) -> None:
        if share.settings.is_filtered:
            self._router.watch(feed, share)
        else:
            self._on[share.partition][feed] = None

    def _unwatch(self, feed: Feed) -> None:
        for share in feed.shares:
            self._unwatch_partition(feed, share.partition)

    def _unwatch_partition(self, feed: Feed, partition: PartitionId) -> None:
        feeds = self._on.get(partition)
        if feeds is not None:
            feeds.pop(feed, None)
            if not feeds:
                del self._on[partition]
        self._router.unwatch(feed, partition)
