"""Consumers: pulls, streams and senders attach to the feed of a subscription, and leave it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial

from fanlog.broker.access import Access
from fanlog.broker.clock import Clock
from fanlog.broker.delivery.decisions import Decisions
from fanlog.broker.delivery.delivery import Delivery
from fanlog.broker.delivery.due_times import DueTimes
from fanlog.broker.delivery.feed import Feed
from fanlog.broker.delivery.filtering import Filtering
from fanlog.broker.delivery.members import Members
from fanlog.broker.delivery.open_feeds import Feeds
from fanlog.broker.delivery.revising import Revising
from fanlog.broker.delivery.sample_rates import with_rates
from fanlog.broker.generations import Generations
from fanlog.broker.metrics import Metrics
from fanlog.broker.tenure import Tenure
from fanlog.broker.transaction import Ledger
from fanlog.core.subscription_window import SubscriptionWindow
from fanlog.log.api import Damaged, Log
from fanlog.model.resources import Subscription, SubscriptionId

log = logging.getLogger("fanlog.broker")


@dataclass(eq=False)
class Consumers:
    """Attaches consumers to feeds. Lives on the loop."""

    _ledger: Ledger
    _store: Log
    _clock: Clock
    _metrics: Metrics
    _access: Access
    _feeds: Feeds
    _filtering: Filtering
    _decisions: Decisions
    _due_times: DueTimes
    _revising: Revising
    _generations: Generations
    _tenure: Tenure

    def attach(self, name: str) -> tuple[Subscription, Feed]:
        """The feed of a subscription, for one consumer; give it back with `detach`.

        Raises:
            SubscriptionNotFound: There is no such subscription.
            FailedPrecondition: The subscription is detached.
            Unavailable: The broker is stopping.
        """
        self._access.check_serving()
        subscription = self._access.enter(name)
        return subscription, self._feeds.enter(subscription, self._new_feed)

    def detach(self, subscription: Subscription, feed: Feed) -> None:
        """A consumer leaves. Its leases run on to their deadlines."""
        self._feeds.leave(subscription, feed)
        self._access.use(subscription)

    def _new_feed(self, subscription: Subscription) -> Feed:
        shares = self._ledger.hard.shares_of(subscription)
        members = window = None
        if not subscription.is_plain:
            if subscription.key_slots:
                count_moves = partial(self._count_moves, subscription.id)
                members = Members(subscription.key_slots, shares, count_moves)
            if any(bounds := subscription.window):
                window = SubscriptionWindow(*bounds)
        return Feed(
            shares,
            self._store,
            judge=self._filtering.judge,
            end=self._ledger.end,
            now=self._clock.now,
            wall_ns=self._clock.wall_ns,
            check_dues=self._due_times.check,
            next_generation=self._generations.next,
            decide=self._decisions.decide,
            on_damage=self._note_damage,
            revise=partial(self._revise, subscription.id),
            members=members,
            window=window,
            note_full=partial(self._count_full, subscription.id),
            tenure=self._tenure,
        )

    async def _revise(
        self, subscription_id: SubscriptionId, deliveries: list[Delivery], max_bytes: int
    ) -> list[Delivery]:
        hard = self._ledger.hard
        subscription = hard.catalog.subscription_by_id(subscription_id)
        if subscription is None or subscription.is_plain:
            return deliveries
        leaving = await self._revising.revise(subscription_id, deliveries, max_bytes)
        hard = self._ledger.hard
        subscription = hard.catalog.subscription_by_id(subscription_id)
        policy = None if subscription is None else subscription.backlog_policy
        if policy is None or policy.way != "sample":
            return leaving
        return with_rates(leaving, lambda partition: hard.drops.get((subscription_id, partition)))

    def _count_moves(self, subscription_id: SubscriptionId, moves: int) -> None:
        self._metrics.of(subscription_id).slot_moves += moves

    def _count_full(self, subscription_id: SubscriptionId) -> None:
        self._metrics.of(subscription_id).window_full += 1

    def _note_damage(self, damaged: Damaged) -> None:
        self._metrics.batches_damaged += 1
        what = (damaged.partition, damaged.base_offset, damaged.count, damaged.reason)
        log.error("action=batch_quarantined partition=%d base_offset=%d count=%d reason=%s", *what)
