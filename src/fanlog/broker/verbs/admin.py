"""The verbs that make, change, list and delete resources.

All of them answer when what they saw and did is durable. The broker is passed in; this is the other
half of it, kept apart because these verbs are many and none is on the path of a message.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from fanlog import limits
from fanlog.broker import onward, pushes
from fanlog.broker.clock import Clock
from fanlog.broker.schemas import revision_labels
from fanlog.broker.server_rules import ServerRules
from fanlog.broker.verbs import exports
from fanlog.broker.verbs.seeks import Seeks
from fanlog.core import snapshots
from fanlog.core.catalog import label_bytes
from fanlog.core.records import Activity, Record
from fanlog.core.share import Share
from fanlog.errors import AlreadyExists, FailedPrecondition, InvalidArgument, TopicNotFound
from fanlog.log.api import Damaged, Log
from fanlog.model import names, specs
from fanlog.model.labels import Start
from fanlog.model.resources import (
    DeadLetterPolicy,
    FilterChange,
    Offset,
    PartitionId,
    Snapshot,
    Subscription,
    SubscriptionId,
    Topic,
)
from fanlog.model.specs import SnapshotSpec, SubscriptionSpec, TopicSpec
from fanlog.model.updates import SnapshotUpdate, SubscriptionUpdate, TopicUpdate
from fanlog.routing.pattern import Pattern

if TYPE_CHECKING:
    from fanlog.broker.broker import Broker

Resource = TypeVar("Resource")


@dataclass(frozen=True, slots=True)
class BacklogState:
    """How far behind a subscription is; counts are of messages."""

    messages: int
    outstanding: int
    oldest_age_s: float


class Admin:
    """Resource verbs of one broker."""

    def __init__(self, broker: Broker, store: Log, clock: Clock, rules: ServerRules) -> None:
        self._broker = broker
        self.rules = rules
        self._store = store
        self._clock = clock
        self.seeks = Seeks(broker, self, store, clock)

    # Topics.

    async def create_topic(self, spec: TopicSpec) -> Topic:
        """Raises AlreadyExists."""
        specs.check_tier(spec, None, has_lake=bool(self._broker.tiers.lake_uri))
        if self._broker.hard.catalog.find_topic(spec.name) is None:
            self._check_quota("topics", spec.name, spec.labels)
        specs.check_region(spec, None, self.rules.region)
        topic, records = self._make_topic(spec)
        await self._broker.writer.submit(records=records)[0]
        return topic

    async def get_topic(self, name: str) -> Topic:
        topic = self._broker.hard.catalog.topic(name)
        await self._broker.writer.settled()
        return topic

    async def update_topic(self, update: TopicUpdate) -> Topic:
        catalog = self._broker.hard.catalog
        before = catalog.topic(update.name)
        topic = update.apply_to(before)
        specs.check_tier(topic, before, has_lake=bool(self._broker.tiers.lake_uri))
        self._check_labels(topic.name, before.labels, topic.labels)
        specs.check_region(topic, before, self.rules.region)
        settings = topic.schema_settings
        if settings is not None and settings != before.schema_settings:
            topic = replace(topic, schema_settings=catalog.schemas.bind(settings))
        revision_labels.check_topic(catalog, before, topic)
        await self._broker.commit(catalog.put_topic(topic))
        return topic

    async def delete_topic(self, name: str) -> None:
        """Subscriptions on it stay, with their backlog; they show `_deleted-topic_`."""
        hard = self._broker.hard
        topic = hard.catalog.topic(name)
        records = hard.catalog.delete_topic(topic)
        if hard.is_read_by_pattern(topic):
            records += hard.catalog.keep_former(topic)
        await self._broker.commit(records)

    async def list_topics(self, project: str, after: str, limit: int) -> list[Topic]:
        catalog = self._broker.hard.catalog
        found = catalog.topic_names(f"projects/{project}/topics/", after)
        return await self._listed(found, limit, catalog.topic)

    async def list_topic_subscriptions(self, name: str, after: str, limit: int) -> list[str]:
        """Names of the subscriptions on a topic; those that were detached are not."""
        catalog = self._broker.hard.catalog
        topic = catalog.topic(name)
        by_name = catalog.subscription_names_of(topic.id, after)
        found = heapq.merge(by_name, self._pattern_readers(topic, after))
        attached = (n for n in found if not catalog.subscription(n).detached)
        return await self._listed(attached, limit, str)

    async def list_topic_snapshots(self, name: str, after: str, limit: int) -> list[str]:
        catalog = self._broker.hard.catalog
        topic = catalog.topic(name)
        by_pattern = (
            n
            for n in catalog.snapshot_names("", after)
            if catalog.snapshot(n).is_pattern
            and not set(topic.partitions).isdisjoint(catalog.snapshot(n).partitions)
        )
        found = heapq.merge(catalog.snapshot_names_of(topic.id, after), by_pattern)
        return await self._listed(found, limit, str)

    # Subscriptions.

    async def create_subscription(
        self, spec: SubscriptionSpec, hints: list[str] | None = None
    ) -> Subscription:
        """Make a subscription; it gets what is published after this, or from `fanlog-start` on.

        What is fine and still worth a word is added to `hints`.

        Raises:
            AlreadyExists: One of that name exists.
            TopicNotFound: Its topic or its dead letter topic does not exist.
        """
        said = await pushes.check_reach(self._broker, spec.push)
        # Asked before anything is decided: the answer must not change in between.
        starts = {
            partition: await self._start_offset(partition, spec.start)
            for topic in self._topics_read(spec)
            for partition in topic.partitions
        }
        if self._broker.hard.catalog.has_subscription(spec.name):
            raise AlreadyExists(f"subscription {spec.name!r} exists already")
        by_default = self.rules.dead_letter_of(spec, self._broker.hard.catalog.subscriptions())
        if by_default is not None:
            spec = replace(spec, dead_letter=by_default)
        makes_topic = spec.makes_dead_letter_topic or by_default is not None
        self._check_subscription_quotas(spec, makes_topic=makes_topic)
        pushes.check_forward(self._broker, spec.name, spec.topic, spec.push)
        revision_labels.check(self._broker.hard.catalog, spec.topic, spec.labels)
        exports.check_schema(self._broker.hard.catalog, spec.topic, spec.table, spec.files)
        if spec.dead_letter is not None:
            # Before anything is applied that a refusal would leave behind.
            self._check_dead_letters(spec.name, spec.topic, spec.dead_letter, is_made=makes_topic)
        records = self._make_dead_letter_topic(spec) if makes_topic else []
        subscription, made = self._make_subscription(spec, starts)
        await self._broker.writer.submit(records=[*records, *made])[0]
        if hints is not None:
            hints += said
        return subscription

    async def get_subscription(self, name: str) -> tuple[Subscription, Topic | None]:
        subscription = self._broker.hard.catalog.subscription(name)
        self._broker.used(subscription)
        topic = self.topic_of(subscription)
        await self._broker.writer.settled()
        return subscription, topic

    def topic_of(self, subscription: Subscription) -> Topic | None:
        return self._broker.hard.catalog.topic_by_id(subscription.topic_id)

    async def update_subscription(
        self, update: SubscriptionUpdate, hints: list[str] | None = None
    ) -> Subscription:
        """Change a subscription; `hints` as in `create_subscription`."""
        said = await pushes.check_reach(self._broker, update.changes.get("push"))
        before = self._broker.hard.catalog.subscription(update.name)
        if len(before.filter_changes) >= limits.FILTER_CHANGES_MAX and not before.detached:
            # Perhaps no sweep has come by since they were of use.
            await self.route_all(update.name)
            await self.forget_filters(before.id)
            before = self._broker.hard.catalog.subscription(update.name)
        self._broker.used(before)
        changed = self._with_filter_change(before, update.apply_to(before))
        self._check_labels(changed.name, before.labels, changed.labels)
        if "push" in update.changes:
            pushes.check_forward(self._broker, changed.name, changed.topic, changed.push)
        if changed.schema_revision != before.schema_revision:
            revision_labels.check(self._broker.hard.catalog, changed.topic_shown, changed.labels)
        if changed.dead_letter is not None and changed.dead_letter != before.dead_letter:
            self._check_dead_letters(changed.name, changed.topic, changed.dead_letter)
        committed = self.put(changed, exports.changed(self._broker, before, changed))
        pushes.switched(self._broker, before, changed)
        await committed
        if hints is not None:
            hints += said
        return changed

    def turn_push_off(self, subscription: Subscription, why: str) -> asyncio.Future[None]:
        """Push nothing any more until the push config is set anew; the backlog stays."""
        return self.put(replace(subscription, push_off=why), [])

    async def forget_filters(self, subscription_id: SubscriptionId) -> None:
        """Let go of earlier filters that no message is left to be judged by."""
        hard = self._broker.hard
        subscription = hard.catalog.subscription_by_id(subscription_id)
        if subscription is None or not subscription.filter_changes:
            return
        oldest = self._store.last_sequence + 1
        for share in hard.shares_of(subscription):
            for item in await self._store.read(share.partition, share.first_open, max_bytes=1):
                oldest = min(oldest, 0 if isinstance(item, Damaged) else item.sequence)
        if self._broker.hard.catalog.subscription_by_id(subscription_id) is not subscription:
            return
        kept = tuple(c for c in subscription.filter_changes if c.before_sequence > oldest)
        if kept != subscription.filter_changes:
            # What they left out must not be judged again, by others: it goes along.
            passed: list[Record] = []
            for share in hard.shares_of(subscription):
                passed += share.settle_passed().records
            await self.put(replace(subscription, filter_changes=kept), passed)

    async def delete_subscription(self, name: str) -> None:
        subscription = self._broker.hard.catalog.subscription(name)
        await self._broker.remove_subscription(subscription)

    async def detach_subscription(self, name: str) -> None:
        """Cut a subscription off its topic: its backlog is let go of, its consumers sent away."""
        hard = self._broker.hard
        subscription = hard.catalog.subscription(name)
        error = FailedPrecondition(f"subscription {name!r} is detached from its topic")
        self._broker.close_feed(subscription, error)
        records: list[Record] = []
        for share in hard.shares_of(subscription):
            end = self._broker.writer.assigned_end(share.partition)
            records += share.seek(end, end, generation=self._broker.next_generation()).records
        records += hard.catalog.put_subscription(replace(subscription, detached=True))
        await self._broker.commit(records)

    async def list_subscriptions(
        self, project: str, after: str, limit: int
    ) -> list[tuple[Subscription, Topic | None]]:
        catalog = self._broker.hard.catalog
        found = catalog.subscription_names(f"projects/{project}/subscriptions/", after)

        def with_topic(name: str) -> tuple[Subscription, Topic | None]:
            subscription = catalog.subscription(name)
            return subscription, self.topic_of(subscription)

        return await self._listed(found, limit, with_topic)

    async def backlog(self, subscription: Subscription) -> BacklogState:
        """How far behind a subscription is; one that is detached has nothing to catch up with."""
        if subscription.detached:
            return BacklogState(messages=0, outstanding=0, oldest_age_s=0.0)
        shares = self._broker.hard.shares_of(subscription)
        stats = [share.stats(self._broker.writer.end(share.partition)) for share in shares]
        oldest_s = [
            await self._oldest_unacked_s(share)
            for share, state in zip(shares, stats, strict=True)
            if state.backlog
        ]
        now = self._clock.now()
        return BacklogState(
            messages=sum(state.backlog for state in stats),
            outstanding=sum(state.outstanding for state in stats),
            oldest_age_s=max(0.0, now - min(oldest_s, default=now)),
        )

    # Snapshots.

    async def create_snapshot(self, spec: SnapshotSpec) -> Snapshot:
        """Remember exactly what a subscription has not acknowledged, and all published later.

        Raises:
            FailedPrecondition: Its oldest message is too old for the snapshot to live an hour.
        """
        source = self._source_of(spec)
        # Judged first: what the filter leaves out is not the oldest that is unacknowledged.
        await self.route_all(spec.subscription)
        oldest_s = [await self._oldest_unacked_s(s) for s in self._broker.hard.shares_of(source)]
        await self.route_all(spec.subscription)
        hard = self._broker.hard
        source = self._source_of(spec)
        expire_s = min(oldest_s, default=self._clock.now()) + limits.SNAPSHOT_LIFE_S
        if expire_s < self._clock.now() + limits.SNAPSHOT_LIFE_S_MIN:
            raise FailedPrecondition(
                f"the oldest unacknowledged message of {spec.subscription!r} is too old: the "
                "snapshot would expire within an hour"
            )
        shares = hard.shares_of(source)
        partitions = tuple(share.partition for share in shares)
        snapshot, made = hard.catalog.create_snapshot(spec, source, partitions, expire_s)
        self._check_quota("snapshots", spec.name, spec.labels)
        records: list[Record] = [*made]
        for share in shares:
            passed = share.settle_passed().records
            hard.apply_all(passed)
            records += passed
        await self._broker.commit([*records, *snapshots.copy_cursors(snapshot, shares)])
        return snapshot

    async def get_snapshot(self, name: str) -> Snapshot:
        snapshot = self._broker.hard.catalog.snapshot(name)
        await self._broker.writer.settled()
        return snapshot

    async def update_snapshot(self, update: SnapshotUpdate) -> Snapshot:
        catalog = self._broker.hard.catalog
        before = catalog.snapshot(update.name)
        changed = update.apply_to(before)
        self._check_labels(changed.name, before.labels, changed.labels)
        now = self._clock.now()
        if changed.expire_s != before.expire_s and not (
            now < changed.expire_s <= now + limits.SNAPSHOT_LIFE_S
        ):
            raise InvalidArgument("expire_time: must lie in the future, and at most 7 days ahead")
        await self._broker.commit(catalog.put_snapshot(changed))
        return changed

    async def delete_snapshot(self, name: str) -> None:
        hard = self._broker.hard
        await self._broker.commit(snapshots.remove(hard, hard.catalog.snapshot(name)))

    async def list_snapshots(self, project: str, after: str, limit: int) -> list[Snapshot]:
        catalog = self._broker.hard.catalog
        found = catalog.snapshot_names(f"projects/{project}/snapshots/", after)
        return await self._listed(found, limit, catalog.snapshot)

    # Private.

    async def _listed(
        self, found: Iterator[str], limit: int, get: Callable[[str], Resource]
    ) -> list[Resource]:
        resources = [get(name) for name in islice(found, limit)]
        await self._broker.writer.settled()
        return resources

    def _check_quota(self, noun: str, name: str, labels: Mapping[str, str], more: int = 1) -> None:
        """Raises ResourceExhausted: A quota leaves no room for a resource with these labels."""
        usage, project = self._broker.hard.catalog.usage, names.project_of(name)
        self._broker.quotas.check(noun, project, usage, more)
        self._broker.quotas.check("label_bytes", project, usage, label_bytes(labels))

    def _check_labels(self, name: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        usage, more = self._broker.hard.catalog.usage, label_bytes(after) - label_bytes(before)
        self._broker.quotas.check("label_bytes", names.project_of(name), usage, more)

    def _check_subscription_quotas(self, spec: SubscriptionSpec, *, makes_topic: bool) -> None:
        """All that a new subscription brings along, before any of it is applied."""
        self._check_quota("subscriptions", spec.name, spec.labels, 1 + makes_topic)
        if makes_topic:
            self._check_quota("topics", spec.name, {})
        if spec.is_pattern:
            usage, project = self._broker.hard.catalog.usage, names.project_of(spec.topic)
            self._broker.quotas.check("patterns", project, usage)
            self._broker.patterns.check(spec.topic, self._broker.quotas)

    def put(self, changed: Subscription, records: list[Record]) -> asyncio.Future[None]:
        """Commit other settings, and records that go with them."""
        hard = self._broker.hard
        if changed != hard.catalog.subscription_by_id(changed.id):
            records = [*records, *hard.catalog.put_subscription(changed)]
            for share in hard.shares_of(changed):
                records += share.configure(changed).records
        committed = self._broker.begin_commit(records)
        self._broker.moved(changed, committed)
        return committed

    def _with_filter_change(self, before: Subscription, changed: Subscription) -> Subscription:
        """Remember the filter that judges what was published before this commit."""
        if changed.filter == before.filter:
            return changed
        if len(before.filter_changes) >= limits.FILTER_CHANGES_MAX:
            raise FailedPrecondition(
                f"filter: {before.name!r} still has messages of {len(before.filter_changes)} "
                "earlier filters; acknowledge them, or seek, before it is changed again"
            )
        sequence = self._broker.writer.upcoming_sequence()
        change = FilterChange(filter=before.filter, before_sequence=sequence)
        return replace(changed, filter_changes=(*before.filter_changes, change))

    async def route_all(self, name: str) -> None:
        """Have a subscription's filter judge all that is committed."""
        while True:
            behind = [
                share
                for share in self._broker.hard.shares_of(self.attached(name))
                if share.routed_to < self._broker.writer.end(share.partition)
            ]
            if not behind:
                return
            for share in behind:
                await self._broker.router.route_all(share, self._broker.writer.end(share.partition))

    def _topics_read(self, spec: SubscriptionSpec) -> list[Topic]:
        catalog = self._broker.hard.catalog
        if not spec.is_pattern:
            return [catalog.topic(spec.topic)]
        name = names.parse_topic_or_pattern(spec.topic)
        pattern, prefix = Pattern(name.id), names.topic_name(name.project, "")
        return [
            catalog.topic(topic)
            for topic in catalog.topic_names(prefix, "")
            if pattern.matches(topic[len(prefix) :])
        ]

    def _pattern_readers(self, topic: Topic, after: str) -> list[str]:
        return sorted(
            share.settings.name
            for partition in topic.partitions
            for share in self._broker.hard.shares_on(partition)
            if share.settings.is_pattern and share.settings.name > after
        )

    def _make_topic(self, spec: TopicSpec) -> tuple[Topic, list[Record]]:
        """Decide and apply a new topic, and what joins it; the records are to be submitted."""
        hard = self._broker.hard
        topic, made = hard.catalog.create_topic(spec, self._clock.now())
        hard.apply_all(made)
        records: list[Record] = [*made, *self._broker.join(topic)]
        joined = snapshots.add_topic(hard, topic)
        hard.apply_all(joined)
        return topic, [*records, *joined]

    def attached(self, name: str) -> Subscription:
        """A subscription that reads something; raises FailedPrecondition if it is detached."""
        subscription = self._broker.hard.catalog.subscription(name)
        if subscription.detached:
            raise FailedPrecondition(f"subscription {name!r} is detached from its topic")
        self._broker.used(subscription)
        return subscription

    def _source_of(self, spec: SnapshotSpec) -> Subscription:
        return self.attached(spec.subscription)

    async def _start_offset(self, partition: PartitionId, start: Start) -> Offset | None:
        """Where a new subscription begins; None is the end at the moment it is made."""
        if start == "now":
            return None
        if start == "earliest":
            return 0
        assert isinstance(start, float)
        # Via microseconds: the nanoseconds of a float of today's size are noise.
        return await self.offset_for_time(partition, round(start * 1e6) * 1_000)

    def _clamped(self, partition: PartitionId, start: Offset | None) -> Offset:
        writer = self._broker.writer
        if start is None:
            return writer.assigned_end(partition)
        return max(start, writer.start(partition))

    async def offset_for_time(self, partition: PartitionId, time_ns: int) -> Offset:
        """First offset published at or after a time; the assigned end for a time ahead of all."""
        offset = await self._store.offset_for_time(partition, max(0, time_ns))
        # What waits for the disk will be published now, or no earlier than the last that was.
        latest_ns = max(self._clock.wall_ns(), self._store.last_publish_time_ns)
        if offset < self._broker.writer.end(partition) or time_ns <= latest_ns:
            return offset
        return self._broker.writer.assigned_end(partition)

    async def _oldest_unacked_s(self, share: Share) -> float:
        """Publish time of a share's oldest unacknowledged message; now if it has none."""
        first = share.first_open
        if first < self._broker.writer.end(share.partition):
            for item in await self._store.read(share.partition, first, max_bytes=1):
                if not isinstance(item, Damaged):
                    return min(item.publish_time_ns / 1e9, self._clock.now())
        return self._clock.now()

    def _check_dead_letters(
        self, name: str, topic: str, policy: DeadLetterPolicy, *, is_made: bool = False
    ) -> None:
        """Raises TopicNotFound, or InvalidArgument when dead letters would go in a circle."""
        catalog, target = self._broker.hard.catalog, policy.dead_letter_topic
        field = "dead_letter_policy.dead_letter_topic"
        if catalog.find_topic(target) is None and not is_made:
            raise TopicNotFound(f"{field}: topic {target!r} does not exist")
        onward.check(catalog, name, onward.Way(topic, target, is_forward=False), field=field)

    def _make_dead_letter_topic(self, spec: SubscriptionSpec) -> list[Record]:
        """`fanlog-dead-letter: auto`, said or by default: a topic for the letters, and a reader."""
        hard = self._broker.hard
        assert spec.dead_letter is not None
        topic_name = spec.dead_letter.dead_letter_topic
        records: list[Record] = []
        if hard.catalog.find_topic(topic_name) is None:
            records += self._make_topic(TopicSpec(name=topic_name))[1]
        name = names.parse_topic(topic_name)
        reader_name = names.subscription_name(name.project, name.id)
        if not hard.catalog.has_subscription(reader_name):
            # A topic that is there already is read from now on.
            starts = dict.fromkeys(hard.catalog.topic(topic_name).partitions)
            reader = SubscriptionSpec(name=reader_name, topic=topic_name, expiration_ttl_s=None)
            records += self._make_subscription(reader, starts)[1]
        return records

    def _make_subscription(
        self, spec: SubscriptionSpec, starts: Mapping[PartitionId, Offset | None]
    ) -> tuple[Subscription, list[Record]]:
        """Decide and apply a new subscription; the records are to be submitted."""
        hard = self._broker.hard
        topics = self._topics_read(spec)
        subscription, made = hard.catalog.create_subscription(spec, self._clock.now())
        records: list[Record] = [*made, Activity(subscription.id, self._clock.now())]
        for partition in [partition for topic in topics for partition in topic.partitions]:
            # A topic that came just now is read from its first message, whatever the start.
            floor = self._clamped(partition, starts.get(partition, 0))
            records += Share(subscription, partition, floor).create().records
        hard.apply_all(records)
        for share in hard.shares_of(subscription):
            share.start()
        self._broker.patterns.add(subscription)
        self._broker.router.changed(subscription)
        self._broker.pushes.changed(subscription)
        return subscription, records
