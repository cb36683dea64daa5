"""The open feeds, and the events that wake them. Soft state.

A feed exists while it has consumers. Without a filter it is woken by every commit to a partition it
reads; with one, by `Filtering`, for messages that the filter wants.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from fanlog.broker.delivery.feed import Feed
from fanlog.broker.delivery.filtering import Filtering
from fanlog.broker.delivery.members import Members
from fanlog.broker.tenure import Tenure
from fanlog.broker.transaction import Ledger
from fanlog.core.hard_state import HardState
from fanlog.core.share import Share
from fanlog.errors import FanlogError, Unavailable
from fanlog.model.resources import PartitionId, Subscription, SubscriptionId


class Feeds:
    """The feeds of one broker. Lives on the loop."""

    def __init__(self, ledger: Ledger, filtering: Filtering, tenure: Tenure) -> None:
        self._filtering = filtering
        self._feeds: dict[SubscriptionId, Feed] = {}
        # Feeds of subscriptions without a filter, by the partitions that they read.
        self._on: defaultdict[PartitionId, dict[Feed, None]] = defaultdict(dict)
        ledger.on_commit.listen(self.wake_on)
        ledger.on_load.listen(self._load)
        tenure.on_sure.listen(self._wake_all)

    def __iter__(self) -> Iterator[SubscriptionId]:
        return iter(self._feeds)

    def enter(self, subscription: Subscription, make: Callable[[Subscription], Feed]) -> Feed:
        """The feed of a subscription, for one more consumer; made if there is none."""
        feed = self._feeds.get(subscription.id)
        if feed is None:
            feed = self._feeds[subscription.id] = make(subscription)
            self._watch(feed)
        feed.users += 1
        return feed

    def find(self, subscription: Subscription) -> Feed | None:
        """The feed of a subscription; None without consumers."""
        return self._feeds.get(subscription.id)

    def members_of(self, subscription: Subscription) -> Members | None:
        """The members and their key slots; None without key slots, or without consumers."""
        feed = self._feeds.get(subscription.id)
        return None if feed is None else feed.members

    def consumers_of(self, subscription: Subscription) -> int:
        """Streams, waiting pulls and senders that are attached now."""
        feed = self._feeds.get(subscription.id)
        return 0 if feed is None else feed.users

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

    def _load(self, _: HardState) -> None:
        """Send all consumers away and forget their feeds: the shares are others now."""
        error = Unavailable("the broker is recovering from a failed commit; try again")
        for feed in self._feeds.values():
            feed.void(error)
        self._feeds.clear()
        self._on.clear()

    def _wake_all(self, _: None) -> None:
        """Messages may be handed out again."""
        for feed in list(self._feeds.values()):
            feed.wake_all()

    def wake_on(self, partitions: Iterable[PartitionId]) -> None:
        """Messages were committed to these partitions."""
        for partition in partitions:
            for feed in self._on.get(partition, ()):
                feed.wake(partition)
            self._filtering.wake_on(partition)

    def wake_for(self, share: Share, *, has_some: bool) -> None:
        """A share has messages to hand out; or a consumer has room for those of other shares."""
        feed = self._feeds.get(share.settings.id)
        if feed is not None:
            if has_some:
                feed.wake(share.partition)
            elif feed.has_ready:
                feed.wake()

    def change(self, subscription: Subscription, committed: asyncio.Future[None]) -> None:
        """A subscription has other settings, or another position, as soon as that is committed.

        Not left to the caller that waits for the commit: it may go away before.
        """
        feed = self._feeds.get(subscription.id)
        if feed is not None:
            self._unwatch(feed)
            self._watch(feed)
            feed.limit(*subscription.window)
            committed.add_done_callback(lambda _: feed.wake_all())

    def add(self, share: Share) -> None:
        """A topic joined a pattern."""
        feed = self._feeds.get(share.settings.id)
        if feed is not None:
            self._watch_share(feed, share)
            feed.add(share)

    def drop(self, share: Share) -> None:
        """A pattern has read a deleted topic to its end."""
        feed = self._feeds.get(share.settings.id)
        if feed is not None:
            feed.drop(share.partition)
            self._unwatch_partition(feed, share.partition)

    def _watch(self, feed: Feed) -> None:
        for share in feed.shares:
            self._watch_share(feed, share)

    def _watch_share(self, feed: Feed, share: Share) -> None:
        if share.settings.is_filtered:
            self._filtering.watch(feed, share)
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
        self._filtering.unwatch(feed, partition)
