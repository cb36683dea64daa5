"""The verbs of subscriptions. They answer when the state that they saw and changed is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice

from fanlog import limits
from fanlog.broker.access import Access
from fanlog.broker.clock import Clock
from fanlog.broker.delivery.open_feeds import Feeds
from fanlog.broker.delivery.shares import Shares
from fanlog.broker.generations import Generations
from fanlog.broker.ports import CheckEndpoint
from fanlog.broker.transaction import Ledger, Transaction
from fanlog.broker.verbs.checks import check_dead_letters, check_forward, check_labels, check_quota
from fanlog.broker.verbs.topics import Topics
from fanlog.core import exporting, revision_labels
from fanlog.core.records import Activity, Record
from fanlog.errors import AlreadyExists, FailedPrecondition
from fanlog.log.api import Damaged, Log
from fanlog.model import names
from fanlog.model.labels import Start
from fanlog.model.quotas import Quotas
from fanlog.model.resources import (
    FilterChange,
    Offset,
    PartitionId,
    PushConfig,
    Subscription,
    SubscriptionId,
    Topic,
)
from fanlog.model.server_rules import ServerRules
from fanlog.model.specs import SubscriptionSpec, TopicSpec
from fanlog.model.updates import SubscriptionUpdate
from fanlog.routing.pattern import Pattern


@dataclass(eq=False)
class Subscriptions:
    """Subscription verbs of one broker."""

    _ledger: Ledger
    _store: Log
    _clock: Clock
    _access: Access
    _feeds: Feeds
    _shares: Shares
    _generations: Generations
    _topics: Topics
    _quotas: Quotas
    _rules: ServerRules
    _check_endpoint: CheckEndpoint

    async def create(self, spec: SubscriptionSpec, hints: list[str] | None = None) -> Subscription:
        """Make a subscription; it gets messages published after this, or from `fanlog-start` on.

        Hints about a spec that is valid are added to `hints`.

        Raises:
            AlreadyExists: One of that name exists.
            TopicNotFound: Its topic or its dead letter topic does not exist.
        """
        said = await self._check_reach(spec.push)
        # Looked up before anything is decided: the state must not change in between.
        starts = {
            partition: await self._start_offset(partition, spec.start)
            for topic in self._topics_read(spec)
            for partition in topic.partitions
        }
        spec, makes_topic = self._check_new(spec)
        transaction = self._ledger.begin()
        if makes_topic:
            self._make_dead_letter_topic(transaction, spec)
        subscription = self._make(transaction, spec, starts)
        await transaction.commit()
        if hints is not None:
            hints += said
        return subscription

    async def get(self, name: str) -> tuple[Subscription, Topic | None]:
        subscription = self._ledger.hard.catalog.subscription(name)
        self._access.use(subscription)
        topic = self.topic_of(subscription)
        await self._ledger.sync()
        return subscription, topic

    def topic_of(self, subscription: Subscription) -> Topic | None:
        return self._ledger.hard.catalog.topic_by_id(subscription.topic_id)

    async def update(
        self, update: SubscriptionUpdate, hints: list[str] | None = None
    ) -> Subscription:
        """Change a subscription; `hints` as in `create`."""
        said = await self._check_reach(update.changes.get("push"))
        before = self._ledger.hard.catalog.subscription(update.name)
        if len(before.filter_changes) >= limits.FILTER_CHANGES_MAX and not before.detached:
            # Perhaps no message is left to be judged by them since the last sweep.
            await self._shares.judge_all(update.name)
            await self.forget_filters(before.id)
            before = self._ledger.hard.catalog.subscription(update.name)
        self._access.use(before)
        changed = self._with_filter_change(before, update.apply_to(before))
        self._check_change(before, changed, sets_push="push" in update.changes)
        records = exporting.records_of_change(self._ledger.hard, before, changed)
        committed = self._shares.change(self._ledger.begin(), changed, records)
        self._send_away(before, changed)
        await committed
        if hints is not None:
            hints += said
        return changed

    def turn_push_off(self, subscription: Subscription, why: str) -> asyncio.Future[None]:
        """Push nothing any more until the push config is set anew; the backlog stays."""
        changed = replace(subscription, push_off=why)
        return self._shares.change(self._ledger.begin(), changed, [])

    async def forget_filters(self, subscription_id: SubscriptionId) -> None:
        """Remove earlier filters that no message is left to be judged by."""
        hard = self._ledger.hard
        subscription = hard.catalog.subscription_by_id(subscription_id)
        if subscription is None or not subscription.filter_changes:
            return
        oldest = self._store.last_sequence + 1
        for share in hard.shares_of(subscription):
            for item in await self._store.read(share.partition, share.first_open, max_bytes=1):
                oldest = min(oldest, 0 if isinstance(item, Damaged) else item.sequence)
        if self._ledger.hard.catalog.subscription_by_id(subscription_id) is not subscription:
            return
        kept = tuple(c for c in subscription.filter_changes if c.before_sequence > oldest)
        if kept != subscription.filter_changes:
            # Messages that they left out must not be judged again, by other filters.
            passed: list[Record] = []
            for share in hard.shares_of(subscription):
                passed += share.settle_passed().records
            changed = replace(subscription, filter_changes=kept)
            await self._shares.change(self._ledger.begin(), changed, passed)

    async def delete(self, name: str) -> None:
        subscription = self._ledger.hard.catalog.subscription(name)
        await self._shares.remove_subscription(subscription)

    async def detach(self, name: str) -> None:
        """Cut a subscription off its topic: its backlog is dropped, its consumers sent away."""
        hard = self._ledger.hard
        subscription = hard.catalog.subscription(name)
        error = FailedPrecondition(f"subscription {name!r} is detached from its topic")
        self._feeds.close(subscription, error)
        records: list[Record] = []
        for share in hard.shares_of(subscription):
            end = self._ledger.assigned_end(share.partition)
            records += share.seek(end, end, generation=self._generations.next()).records
        detached = replace(subscription, detached=True)
        records += hard.catalog.put_subscription(detached)
        committed = self._ledger.commit(records)
        # Nobody is pushed back on for it any more.
        self._shares.on_change.tell(detached)
        await committed

    async def list_all(
        self, project: str, after: str, limit: int
    ) -> list[tuple[Subscription, Topic | None]]:
        catalog = self._ledger.hard.catalog
        found = catalog.subscription_names(f"projects/{project}/subscriptions/", after)
        subscriptions = [catalog.subscription(name) for name in islice(found, limit)]
        listed = [(one, self.topic_of(one)) for one in subscriptions]
        await self._ledger.sync()
        return listed

    # Checks.

    async def _check_reach(self, push: PushConfig | None) -> list[str]:
        """Hints about the endpoint of a push config; raises InvalidArgument if it is refused."""
        hint = "" if push is None else await self._check_endpoint(push)
        return [hint] if hint else []

    def _check_new(self, spec: SubscriptionSpec) -> tuple[SubscriptionSpec, bool]:
        """Check a new subscription before any of it is applied.

        Returns it with the dead letters that it has by default, and whether a topic is made for
        them.
        """
        catalog = self._ledger.hard.catalog
        if catalog.has_subscription(spec.name):
            raise AlreadyExists(f"subscription {spec.name!r} exists already")
        by_default = self._rules.dead_letter_of(spec, catalog.subscriptions())
        if by_default is not None:
            spec = replace(spec, dead_letter=by_default)
        makes_topic = spec.makes_dead_letter_topic or by_default is not None
        self._check_quotas(spec, makes_topic=makes_topic)
        check_forward(catalog, spec.name, spec.topic, spec.push)
        revision_labels.check(catalog, spec.topic, spec.labels)
        exporting.check_schema(catalog, spec.topic, spec.table, spec.files)
        if spec.dead_letter is not None:
            check_dead_letters(
                catalog, spec.name, spec.topic, spec.dead_letter, is_made=makes_topic
            )
        return spec, makes_topic

    def _check_quotas(self, spec: SubscriptionSpec, *, makes_topic: bool) -> None:
        """Check all resources that a new subscription brings along."""
        catalog, quotas = self._ledger.hard.catalog, self._quotas
        check_quota(
            *(catalog, quotas, "subscriptions", spec.name, spec.labels, 1 + makes_topic),
            maker=spec.maker,
        )
        if makes_topic:
            check_quota(catalog, quotas, "topics", spec.name, {}, maker=spec.maker)
        if spec.is_pattern:
            quotas.check("patterns", names.project_of(spec.topic), catalog.usage)
            self._shares.check_pattern(spec.topic, quotas)

    def _check_change(
        self, before: Subscription, changed: Subscription, *, sets_push: bool
    ) -> None:
        catalog = self._ledger.hard.catalog
        check_labels(catalog, self._quotas, changed.name, before.labels, changed.labels)
        if sets_push:
            check_forward(catalog, changed.name, changed.topic, changed.push)
        if changed.schema_revision != before.schema_revision:
            revision_labels.check(catalog, changed.topic_shown, changed.labels)
        if changed.dead_letter is not None and changed.dead_letter != before.dead_letter:
            check_dead_letters(catalog, changed.name, changed.topic, changed.dead_letter)

    # Private.

    def _with_filter_change(self, before: Subscription, changed: Subscription) -> Subscription:
        """Remember the filter that judges messages published before this commit."""
        if changed.filter == before.filter:
            return changed
        if len(before.filter_changes) >= limits.FILTER_CHANGES_MAX:
            raise FailedPrecondition(
                f"filter: {before.name!r} still has messages of {len(before.filter_changes)} "
                "earlier filters; acknowledge them, or seek, before it is changed again"
            )
        sequence = self._ledger.upcoming_sequence()
        change = FilterChange(filter=before.filter, before_sequence=sequence)
        return replace(changed, filter_changes=(*before.filter_changes, change))

    def _send_away(self, before: Subscription, after: Subscription) -> None:
        """Send consumers away whose messages are now taken by another mode: pull, push, export."""
        if before.mode == after.mode:
            return
        how = {"pull": "pulled", "push": "pushed", "export": "exported"}[after.mode]
        error = FailedPrecondition(f"messages of subscription {after.name!r} are now {how}")
        self._feeds.close(after, error)
        if "export" in (before.mode, after.mode):
            # Exports take no leases, and would not notice those that are left.
            for share in self._ledger.hard.shares_of(after):
                share.start()

    def _topics_read(self, spec: SubscriptionSpec) -> list[Topic]:
        catalog = self._ledger.hard.catalog
        if not spec.is_pattern:
            return [catalog.topic(spec.topic)]
        name = names.parse_topic_or_pattern(spec.topic)
        pattern, prefix = Pattern(name.id), names.topic_name(name.project, "")
        return [
            catalog.topic(topic)
            for topic in catalog.topic_names(prefix, "")
            if pattern.matches(topic[len(prefix) :])
        ]

    async def _start_offset(self, partition: PartitionId, start: Start) -> Offset | None:
        """Where a new subscription begins; None is the end at the moment it is made."""
        if start == "now":
            return None
        if start == "earliest":
            return 0
        assert isinstance(start, float)
        # Via microseconds: the nanoseconds of a float of today's size are noise.
        return await self._ledger.offset_for_time(partition, round(start * 1e6) * 1_000)

    def _clamp(self, partition: PartitionId, start: Offset | None) -> Offset:
        if start is None:
            return self._ledger.assigned_end(partition)
        return max(start, self._ledger.start_of(partition))

    def _make_dead_letter_topic(self, transaction: Transaction, spec: SubscriptionSpec) -> None:
        """Make a topic for dead letters, and a subscription on it, unless they exist.

        The label `fanlog-dead-letter: auto` asks for it, or the server's default.
        """
        catalog = self._ledger.hard.catalog
        assert spec.dead_letter is not None
        topic_name = spec.dead_letter.dead_letter_topic
        if catalog.find_topic(topic_name) is None:
            self._topics.make(transaction, TopicSpec(name=topic_name, maker=spec.maker))
        name = names.parse_topic(topic_name)
        reader_name = names.subscription_name(name.project, name.id)
        if not catalog.has_subscription(reader_name):
            # A topic that is there already is read from now on.
            starts = dict.fromkeys(catalog.topic(topic_name).partitions)
            reader = SubscriptionSpec(
                name=reader_name, topic=topic_name, expiration_ttl_s=None, maker=spec.maker
            )
            self._make(transaction, reader, starts)

    def _make(
        self,
        transaction: Transaction,
        spec: SubscriptionSpec,
        starts: Mapping[PartitionId, Offset | None],
    ) -> Subscription:
        """Decide and apply a new subscription."""
        topics, now = self._topics_read(spec), self._clock.now()
        subscription, made = self._ledger.hard.catalog.create_subscription(spec, now)
        floors = {
            # A topic that came just now is read from its first message, with any start.
            partition: self._clamp(partition, starts.get(partition, 0))
            for topic in topics
            for partition in topic.partitions
        }
        records = [*made, Activity(subscription.id, now)]
        self._shares.create(transaction, subscription, records, floors)
        return subscription
