"""The verbs of topics. All of them answer when the state that they saw and changed is durable."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from itertools import islice

from fanlog.broker.clock import Clock
from fanlog.broker.delivery.shares import Shares
from fanlog.broker.tiering.tiers import Tiers
from fanlog.broker.transaction import Ledger, Transaction
from fanlog.broker.verbs.checks import check_labels, check_quota, check_topic_order
from fanlog.core import revision_labels, snapshots
from fanlog.model import specs
from fanlog.model.quotas import Quotas
from fanlog.model.resources import Topic
from fanlog.model.server_rules import ServerRules
from fanlog.model.specs import TopicSpec
from fanlog.model.updates import TopicUpdate


@dataclass(eq=False)
class Topics:
    """Topic verbs of one broker."""

    _ledger: Ledger
    _clock: Clock
    _shares: Shares
    _tiers: Tiers
    _quotas: Quotas
    _rules: ServerRules

    async def create(self, spec: TopicSpec) -> Topic:
        """Make a topic.

        Raises:
            AlreadyExists: There is one of that name.
            InvalidArgument: It has settings that this server, or a subscription, cannot do with.
        """
        specs.check_tier(spec, None, has_lake=bool(self._tiers.lake_uri))
        catalog = self._ledger.hard.catalog
        if catalog.find_topic(spec.name) is None:
            check_quota(
                *(catalog, self._quotas, "topics", spec.name, spec.labels), maker=spec.maker
            )
            check_topic_order(catalog, spec.name, spec.labels)
        specs.check_region(spec, None, self._rules.region)
        transaction = self._ledger.begin()
        topic = self.make(transaction, spec)
        await transaction.commit()
        return topic

    def make(self, transaction: Transaction, spec: TopicSpec) -> Topic:
        """Decide and apply a new topic, and all that joins it."""
        hard = self._ledger.hard
        topic, made = hard.catalog.create_topic(spec, self._clock.now())
        transaction.apply(made)
        self._shares.join(transaction, topic)
        transaction.apply(snapshots.add_topic(hard, topic))
        return topic

    async def get(self, name: str) -> Topic:
        topic = self._ledger.hard.catalog.topic(name)
        await self._ledger.sync()
        return topic

    async def update(self, update: TopicUpdate) -> Topic:
        catalog = self._ledger.hard.catalog
        before = catalog.topic(update.name)
        topic = update.apply_to(before)
        specs.check_tier(topic, before, has_lake=bool(self._tiers.lake_uri))
        check_labels(catalog, self._quotas, topic.name, before.labels, topic.labels)
        specs.check_region(topic, before, self._rules.region)
        settings = topic.schema_settings
        if settings is not None and settings != before.schema_settings:
            topic = replace(topic, schema_settings=catalog.schemas.bind(settings))
        revision_labels.check_topic(catalog, before, topic)
        await self._ledger.commit(catalog.put_topic(topic))
        return topic

    async def delete(self, name: str) -> None:
        """Subscriptions on it stay, with their backlog; they show `_deleted-topic_`."""
        hard = self._ledger.hard
        topic = hard.catalog.topic(name)
        records = hard.catalog.delete_topic(topic)
        if hard.is_read_by_pattern(topic):
            records += hard.catalog.keep_former(topic)
        await self._ledger.commit(records)

    async def list_all(self, project: str, after: str, limit: int) -> list[Topic]:
        catalog = self._ledger.hard.catalog
        found = catalog.topic_names(f"projects/{project}/topics/", after)
        topics = [catalog.topic(name) for name in islice(found, limit)]
        await self._ledger.sync()
        return topics

    async def list_subscriptions(self, name: str, after: str, limit: int) -> list[str]:
        """Names of the subscriptions that read a topic; those that were detached do not."""
        catalog = self._ledger.hard.catalog
        topic = catalog.topic(name)
        by_name = catalog.subscription_names_of(topic.id, after)
        found = heapq.merge(by_name, self._pattern_readers(topic, after))
        attached = (n for n in found if not catalog.subscription(n).detached)
        listed = [*islice(attached, limit)]
        await self._ledger.sync()
        return listed

    async def list_snapshots(self, name: str, after: str, limit: int) -> list[str]:
        """Names of the snapshots that have a cursor in a topic."""
        catalog = self._ledger.hard.catalog
        topic = catalog.topic(name)
        by_pattern = (
            n
            for n in catalog.snapshot_names("", after)
            if catalog.snapshot(n).is_pattern
            and not set(topic.partitions).isdisjoint(catalog.snapshot(n).partitions)
        )
        found = heapq.merge(catalog.snapshot_names_of(topic.id, after), by_pattern)
        listed = [*islice(found, limit)]
        await self._ledger.sync()
        return listed

    def _pattern_readers(self, topic: Topic, after: str) -> list[str]:
        return sorted(
            share.settings.name
            for partition in topic.partitions
            for share in self._ledger.hard.shares_on(partition)
            if share.settings.is_pattern and share.settings.name > after
        )
