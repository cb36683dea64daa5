"""The shares of subscriptions: made when a subscription reads a partition, removed when it is done.

A subscription has one share in each partition that it reads. A new topic joins the patterns that
match its name, in the commit that makes it. Whenever shares come, change or go, the filters and
feeds of delivery are told here, and so are the listeners of `on_change`, `on_join` and `on_remove`.

Soft state: the patterns, which are derived from the catalog.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from fanlog.broker.access import Access
from fanlog.broker.delivery.filtering import Filtering
from fanlog.broker.delivery.open_feeds import Feeds
from fanlog.broker.events import Event
from fanlog.broker.transaction import Ledger, Transaction
from fanlog.core.hard_state import HardState
from fanlog.core.patterns import Patterns
from fanlog.core.records import Activity, ExportRecord, Record
from fanlog.core.share import Share
from fanlog.core.share.state import ShareState
from fanlog.errors import SubscriptionNotFound
from fanlog.model.quotas import Quotas
from fanlog.model.resources import Offset, PartitionId, Subscription, Topic


class Shares:
    """Joins shares to a broker and removes them. Lives on the loop."""

    def __init__(self, ledger: Ledger, access: Access, feeds: Feeds, filtering: Filtering) -> None:
        self._ledger = ledger
        self._access = access
        self._feeds = feeds
        self._filtering = filtering
        self._patterns = Patterns()
        #: A subscription is new, or has other settings or another position.
        self.on_change: Event[Subscription] = Event()
        #: A topic joined a pattern: a subscription has one more share.
        self.on_join: Event[Share] = Event()
        #: A subscription is deleted.
        self.on_remove: Event[Subscription] = Event()
        ledger.on_load.listen(self._load)

    # Joining.

    def check_pattern(self, topic: str, quotas: Quotas) -> None:
        """Raises ResourceExhausted: The globs of a pattern would make new topics cost too much."""
        self._patterns.check(topic, quotas)

    def create(
        self,
        transaction: Transaction,
        subscription: Subscription,
        records: Sequence[Record],
        floors: Mapping[PartitionId, Offset],
    ) -> None:
        """Make the shares of a new subscription, each from its floor on.

        `records` are those of the subscription itself.
        """
        made = [*records]
        for partition, floor in floors.items():
            made += ShareState(subscription, partition, floor).creation_records()
        transaction.apply(made)
        for share in self._ledger.hard.shares_of(subscription):
            share.start()
        self._patterns.add(subscription)
        self._filtering.change(subscription)
        self.on_change.tell(subscription)

    def join(self, transaction: Transaction, topic: Topic) -> None:
        """Let a new topic join the patterns that match it, in the commit that makes it."""
        catalog = self._ledger.hard.catalog
        for subscription_id in self._patterns.match(topic.name):
            subscription = catalog.subscription_by_id(subscription_id)
            assert subscription is not None
            if not subscription.detached:
                for partition in topic.partitions:
                    self.add(transaction, subscription, partition, 0)

    def add(
        self,
        transaction: Transaction,
        subscription: Subscription,
        partition: PartitionId,
        floor: Offset,
    ) -> None:
        """Let a subscription on a pattern read one more partition, from `floor` on."""
        transaction.apply(ShareState(subscription, partition, floor).creation_records())
        share = self._ledger.hard.share(subscription.id, partition)
        assert share is not None
        share.start()
        self._filtering.join(share)
        self._feeds.add(share)
        self.on_join.tell(share)

    # Changing.

    def change(
        self, transaction: Transaction, changed: Subscription, records: Sequence[Record]
    ) -> asyncio.Future[None]:
        """Commit the settings of a subscription, if they are others, and records that go along.

        Its feed is woken as soon as all of it is committed.
        """
        hard, all_records = self._ledger.hard, [*records]
        if changed != hard.catalog.subscription_by_id(changed.id):
            all_records += hard.catalog.put_subscription(changed)
            for share in hard.shares_of(changed):
                all_records += share.configure(changed).records
        transaction.apply(all_records)
        committed = transaction.commit()
        self._filtering.change(changed)
        self._feeds.change(changed, committed)
        self.on_change.tell(changed)
        return committed

    async def judge_all(self, name: str) -> None:
        """Have a subscription's filter judge all that is committed.

        Raises:
            FailedPrecondition: The subscription is detached.
        """
        while True:
            behind = [
                share
                for share in self._ledger.hard.shares_of(self._access.enter(name))
                if share.routed_to < self._ledger.end(share.partition)
            ]
            if not behind:
                return
            for share in behind:
                await self._filtering.judge_all(share, self._ledger.end(share.partition))

    # Removing.

    def remove(self, share: Share) -> None:
        """Remove the share of a pattern in a topic that is deleted and read to its end."""
        self._filtering.leave(share)
        self._feeds.drop(share)
        gone: list[Record] = [*share.remove()]
        gone += self._ledger.hard.drop_removal(share.settings.id, [share.partition])
        self._ledger.commit(gone)
        for other in share.take_let_go():
            has_some = other.has_some(self._ledger.end(other.partition))
            self._feeds.wake_for(other, has_some=has_some)

    def remove_subscription(self, subscription: Subscription) -> asyncio.Future[None]:
        """Delete a subscription and send its consumers away."""
        hard = self._ledger.hard
        records: list[Record] = []
        for share in hard.shares_of(subscription):
            records += share.remove()
            self._filtering.leave(share)
            records += hard.drop_removal(subscription.id, [share.partition])
        self._patterns.remove(subscription)
        records += hard.catalog.delete_subscription(subscription)
        records.append(Activity(subscription.id, None))
        if subscription.id in hard.exports:
            records.append(ExportRecord(subscription.id, None))
        records += hard.requests.forget(subscription.id)
        self._feeds.close(
            subscription, SubscriptionNotFound(f"subscription {subscription.name!r} was deleted")
        )
        committed = self._ledger.commit(records)
        self._access.forget(subscription)
        self.on_remove.tell(subscription)
        return committed

    def _load(self, hard: HardState) -> None:
        self._patterns = Patterns()
        for subscription in hard.catalog.subscriptions():
            self._patterns.add(subscription)
