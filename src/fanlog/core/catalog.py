"""Which topics, subscriptions, snapshots and schemas exist, and their policies. All hard state.

Verbs check and return the records that make the change; `apply` makes it. Names are unique per
kind; ids come from one counter and are never used twice, so that the id of a deleted topic never
leads to its successor of the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar, assert_never

from fanlog.core.iam import Policy
from fanlog.core.names_table import NamesTable
from fanlog.core.records import (
    CatalogRecord,
    Counters,
    FormerTopicRecord,
    PolicyRecord,
    SchemaRecord,
    SchemaRevisionRecord,
    SnapshotRecord,
    SubscriptionRecord,
    TopicRecord,
)
from fanlog.core.schemas import SchemaTable
from fanlog.errors import AlreadyExists, SnapshotNotFound, SubscriptionNotFound, TopicNotFound
from fanlog.model.names import project_of
from fanlog.model.quotas import Usage
from fanlog.model.resources import (
    Compatibility,
    PartitionId,
    Schema,
    SchemaId,
    SchemaRevision,
    SchemaType,
    Snapshot,
    SnapshotId,
    Subscription,
    SubscriptionId,
    Topic,
    TopicId,
)
from fanlog.model.specs import SnapshotSpec, SubscriptionSpec, TopicSpec

Id = TypeVar("Id")
Value = TypeVar("Value", Topic, Subscription, Snapshot)


@dataclass(frozen=True, slots=True)
class CatalogStats:
    topics: int
    subscriptions: int
    snapshots: int
    schemas: int


class Catalog:
    """Resources by name and by id. Not safe to share between threads."""

    def __init__(self) -> None:
        self._counters = Counters(next_id=1, boots=0)
        self._topics: dict[TopicId, Topic] = {}
        self._subscriptions: dict[SubscriptionId, Subscription] = {}
        self._snapshots: dict[SnapshotId, Snapshot] = {}
        self._former: dict[TopicId, Topic] = {}
        self.schemas = SchemaTable()
        self._policies: dict[int, Policy] = {}
        #: Another one after each change of a policy; a new resource has none.
        self.policies_version = 0
        # Derived: sorted names for stable pages, ids by name, subscriptions by topic,
        # topics by partition.
        self._topic_names = NamesTable[TopicId]()
        self._subscription_names = NamesTable[SubscriptionId]()
        self._snapshot_names = NamesTable[SnapshotId]()
        self._subscriptions_of: dict[TopicId, NamesTable[SubscriptionId]] = {}
        self._topic_ids: dict[PartitionId, TopicId] = {}
        #: Derived as well: how many there are, for quotas.
        self.usage = Usage()

    # Looking up.

    def topic(self, name: str) -> Topic:
        """Raises TopicNotFound."""
        topic = self.find_topic(name)
        if topic is None:
            raise TopicNotFound(f"topic {name!r} does not exist")
        return topic

    def find_topic(self, name: str) -> Topic | None:
        topic_id = self._topic_names.ids.get(name)
        return None if topic_id is None else self._topics[topic_id]

    def topic_by_id(self, topic_id: TopicId | None) -> Topic | None:
        return None if topic_id is None else self._topics.get(topic_id)

    def topic_of(self, partition: PartitionId) -> Topic | None:
        """The topic a partition belongs to; None once it was deleted."""
        return self.topic_by_id(self._topic_ids.get(partition))

    def topic_name_of(self, partition: PartitionId) -> str:
        """The full name of the topic a partition belongs or belonged to; empty once forgotten."""
        topic_id = self._topic_ids.get(partition)
        if topic_id is None:
            return ""
        topic = self._topics.get(topic_id) or self._former.get(topic_id)
        return "" if topic is None else topic.name

    def former_topics(self) -> Iterable[Topic]:
        """Deleted topics that are remembered because patterns have messages of them."""
        return self._former.values()

    def subscription(self, name: str) -> Subscription:
        """Raises SubscriptionNotFound."""
        subscription_id = self._subscription_names.ids.get(name)
        if subscription_id is None:
            raise SubscriptionNotFound(f"subscription {name!r} does not exist")
        return self._subscriptions[subscription_id]

    def has_subscription(self, name: str) -> bool:
        return name in self._subscription_names.ids

    def subscription_by_id(self, subscription_id: SubscriptionId) -> Subscription | None:
        return self._subscriptions.get(subscription_id)

    def has_snapshot(self, name: str) -> bool:
        return name in self._snapshot_names.ids

    def snapshot(self, name: str) -> Snapshot:
        """Raises SnapshotNotFound."""
        snapshot_id = self._snapshot_names.ids.get(name)
        if snapshot_id is None:
            raise SnapshotNotFound(f"snapshot {name!r} does not exist")
        return self._snapshots[snapshot_id]

    def policy(self, resource_id: int) -> Policy:
        """The IAM policy of a resource; an empty one if it was never set."""
        return self._policies.get(resource_id) or Policy(id=resource_id)

    def policies(self) -> Iterable[Policy]:
        return self._policies.values()

    def topics(self) -> Iterable[Topic]:
        return self._topics.values()

    def subscriptions(self) -> Iterable[Subscription]:
        return self._subscriptions.values()

    def snapshots(self) -> Iterable[Snapshot]:
        return self._snapshots.values()

    # Lists: names in order, from the first one after `after`.

    def topic_names(self, prefix: str, after: str) -> Iterator[str]:
        return self._topic_names.names_after(prefix, after)

    def subscription_names(self, prefix: str, after: str) -> Iterator[str]:
        return self._subscription_names.names_after(prefix, after)

    def snapshot_names(self, prefix: str, after: str) -> Iterator[str]:
        return self._snapshot_names.names_after(prefix, after)

    def subscription_names_of(self, topic_id: TopicId, after: str) -> Iterator[str]:
        names = self._subscriptions_of.get(topic_id)
        return names.names_after("", after) if names is not None else iter(())

    def snapshot_names_of(self, topic_id: TopicId, after: str) -> Iterator[str]:
        every = self._snapshot_names.names_after("", after)
        return (n for n in every if self.snapshot(n).topic_id == topic_id)

    # Changing.

    def boot(self) -> list[CatalogRecord]:
        """Count a start of the broker: generations of this one are above all earlier ones."""
        return [replace(self._counters, boots=self._counters.boots + 1)]

    @property
    def boots(self) -> int:
        return self._counters.boots

    def create_topic(self, spec: TopicSpec, now: float) -> tuple[Topic, list[CatalogRecord]]:
        if spec.name in self._topic_names.ids:
            raise AlreadyExists(f"topic {spec.name!r} exists already")
        first = self._counters.next_id
        topic = Topic(
            id=TopicId(first),
            name=spec.name,
            partitions=(PartitionId(first + 1),),
            labels=dict(spec.labels),
            message_retention_s=spec.message_retention_s,
            schema_settings=spec.schema_settings and self.schemas.bind(spec.schema_settings),
            created_s=now,
            storage_policy=spec.storage_policy,
            maker=spec.maker,
        )
        return topic, [self._take_ids(2), TopicRecord(topic.id, topic)]

    def put_topic(self, topic: Topic) -> list[CatalogRecord]:
        return [TopicRecord(topic.id, topic)]

    def delete_topic(self, topic: Topic) -> list[CatalogRecord]:
        """Remove a topic; its subscriptions and snapshots stay, and note that it is gone.

        Where a pattern still has messages of it, `keep_former` must go along.
        """
        records: list[CatalogRecord] = [TopicRecord(topic.id, None), *self._drop_policy(topic.id)]
        for name in self.subscription_names_of(topic.id, ""):
            records += self.put_subscription(replace(self.subscription(name), topic_id=None))
        for name in self.snapshot_names_of(topic.id, ""):
            snapshot = replace(self.snapshot(name), topic_id=None)
            records.append(SnapshotRecord(snapshot.id, snapshot))
        return records

    def keep_former(self, topic: Topic) -> list[CatalogRecord]:
        """Remember the name of a deleted topic."""
        return [FormerTopicRecord(topic.id, topic)]

    def forget_former(self, topic: Topic) -> list[CatalogRecord]:
        return [FormerTopicRecord(topic.id, None)]

    def create_subscription(
        self, spec: SubscriptionSpec, now: float
    ) -> tuple[Subscription, list[CatalogRecord]]:
        if spec.name in self._subscription_names.ids:
            raise AlreadyExists(f"subscription {spec.name!r} exists already")
        topic = None if spec.is_pattern else self.topic(spec.topic)
        subscription = Subscription(
            id=SubscriptionId(self._counters.next_id),
            name=spec.name,
            topic=spec.topic,
            topic_id=None if topic is None else topic.id,
            partitions=() if topic is None else topic.partitions,
            ack_deadline_s=spec.ack_deadline_s,
            retain_acked=spec.retain_acked,
            message_retention_s=spec.message_retention_s,
            labels=dict(spec.labels),
            enable_message_ordering=spec.enable_message_ordering,
            enable_exactly_once=spec.enable_exactly_once,
            expiration_ttl_s=spec.expiration_ttl_s,
            dead_letter=spec.dead_letter,
            retry=spec.retry,
            created_s=now,
            filter=spec.filter,
            push=spec.push,
            table=spec.table,
            files=spec.files,
            maker=spec.maker,
        )
        return subscription, [self._take_ids(1), *self.put_subscription(subscription)]

    def put_subscription(self, subscription: Subscription) -> list[CatalogRecord]:
        return [SubscriptionRecord(subscription.id, subscription)]

    def delete_subscription(self, subscription: Subscription) -> list[CatalogRecord]:
        return [SubscriptionRecord(subscription.id, None), *self._drop_policy(subscription.id)]

    def create_snapshot(
        self,
        spec: SnapshotSpec,
        source: Subscription,
        partitions: tuple[PartitionId, ...],
        expire_s: float,
    ) -> tuple[Snapshot, list[CatalogRecord]]:
        if self.has_snapshot(spec.name):
            raise AlreadyExists(f"snapshot {spec.name!r} exists already")
        snapshot = Snapshot(
            id=SnapshotId(self._counters.next_id),
            name=spec.name,
            topic=source.topic,
            topic_id=source.topic_id,
            partitions=partitions,
            expire_s=expire_s,
            labels=dict(spec.labels),
        )
        return snapshot, [self._take_ids(1), *self.put_snapshot(snapshot)]

    def put_snapshot(self, snapshot: Snapshot) -> list[CatalogRecord]:
        return [SnapshotRecord(snapshot.id, snapshot)]

    def delete_snapshot(self, snapshot: Snapshot) -> list[CatalogRecord]:
        return [SnapshotRecord(snapshot.id, None), *self._drop_policy(snapshot.id)]

    def take_id(self) -> tuple[int, Counters]:
        """An id that was never used, and the record that it is used now."""
        return self._counters.next_id, self._take_ids(1)

    def put_policy(self, policy: Policy) -> list[CatalogRecord]:
        return [PolicyRecord(policy.id, policy)]

    def create_schema(
        self,
        name: str,
        kind: SchemaType,
        definition: str,
        compatibility: Compatibility,
        now: float,
    ) -> tuple[Schema, SchemaRevision, list[CatalogRecord]]:
        """Make a schema and its first revision."""
        schema_id = SchemaId(self._counters.next_id)
        schema, made = self.schemas.create(schema_id, name, kind, compatibility)
        revision, added = self.schemas.add_revision(schema, definition, now)
        return schema, revision, [self._take_ids(1), *made, *added]

    def delete_schema(self, schema: Schema) -> list[CatalogRecord]:
        """Remove a schema; topics that have it stay and remember that it is gone."""
        records: list[CatalogRecord] = [*self.schemas.delete(schema)]
        records += self._drop_policy(schema.id)
        for topic in self.topics_with(schema):
            assert topic.schema_settings is not None
            settings = replace(topic.schema_settings, schema_id=None)
            records += self.put_topic(replace(topic, schema_settings=settings))
        return records

    def topics_with(self, schema: Schema) -> list[Topic]:
        """The topics that have a schema."""
        return [
            topic
            for topic in self._topics.values()
            if topic.schema_settings is not None and topic.schema_settings.schema_id == schema.id
        ]

    def apply(self, record: CatalogRecord) -> None:
        """Change hard state. The only method that does."""
        self._count(record, -1)
        self._apply(record)
        self._count(record, 1)

    def _apply(self, record: CatalogRecord) -> None:
        match record:
            case Counters():
                self._counters = record
            case TopicRecord(id=topic_id, topic=topic):
                self._unplace(self._topics.get(topic_id))
                _put(self._topics, self._topic_names, topic_id, topic)
                self._place(topic)
            case FormerTopicRecord(id=topic_id, topic=topic):
                self._unplace(self._former.pop(topic_id, None))
                if topic is not None:
                    self._former[topic_id] = topic
                self._place(topic)
            case SubscriptionRecord(id=subscription_id, subscription=subscription):
                self._unlink(subscription_id)
                _put(self._subscriptions, self._subscription_names, subscription_id, subscription)
                if subscription is not None and subscription.topic_id is not None:
                    of_topic = self._subscriptions_of.setdefault(
                        subscription.topic_id, NamesTable()
                    )
                    of_topic.add(subscription.name, subscription_id)
            case SnapshotRecord(id=snapshot_id, snapshot=snapshot):
                _put(self._snapshots, self._snapshot_names, snapshot_id, snapshot)
            case SchemaRecord() | SchemaRevisionRecord():
                self.schemas.apply(record)
            case PolicyRecord(id=resource_id, policy=policy):
                if policy is None:
                    self._policies.pop(resource_id, None)
                else:
                    self._policies[resource_id] = policy
                self.policies_version += 1
            case _:
                assert_never(record)

    def stats(self) -> CatalogStats:
        return CatalogStats(
            len(self._topics), len(self._subscriptions), len(self._snapshots), len(self.schemas)
        )

    def _count(self, record: CatalogRecord, sign: int) -> None:
        """Count the resource of a record: out before the record is applied, in afterwards."""
        match record:
            case TopicRecord(id=topic_id):
                _change(self.usage, self._topics.get(topic_id), sign)
            case SubscriptionRecord(id=subscription_id):
                _change(self.usage, self._subscriptions.get(subscription_id), sign)
            case SnapshotRecord(id=snapshot_id):
                _change(self.usage, self._snapshots.get(snapshot_id), sign)
            case SchemaRecord(id=schema_id) | SchemaRevisionRecord(id=schema_id):
                schema = self.schemas.by_id(schema_id)
                if schema is not None:
                    counts = self.schemas.counts(schema_id)
                    self.usage.change(project_of(schema.name), counts, sign)
            case Counters() | FormerTopicRecord() | PolicyRecord():
                pass  # No quota is about them.
            case _:
                assert_never(record)

    def _take_ids(self, count: int) -> Counters:
        return replace(self._counters, next_id=self._counters.next_id + count)

    def _drop_policy(self, resource_id: int) -> list[CatalogRecord]:
        """A policy goes with its resource, in the same commit."""
        return [PolicyRecord(resource_id, None)] if resource_id in self._policies else []

    def _place(self, topic: Topic | None) -> None:
        if topic is not None:
            self._topic_ids |= dict.fromkeys(topic.partitions, topic.id)

    def _unplace(self, topic: Topic | None) -> None:
        for partition in () if topic is None else topic.partitions:
            self._topic_ids.pop(partition, None)

    def _unlink(self, subscription_id: SubscriptionId) -> None:
        before = self._subscriptions.get(subscription_id)
        if before is None or before.topic_id is None:
            return
        of_topic = self._subscriptions_of[before.topic_id]
        of_topic.remove(before.name)
        if not of_topic.ids:
            del self._subscriptions_of[before.topic_id]


def label_bytes(labels: Mapping[str, str]) -> int:
    """Bytes of the keys and values of labels, as quotas count them."""
    return sum(len(key.encode()) + len(value.encode()) for key, value in labels.items())


def _change(usage: Usage, resource: Topic | Subscription | Snapshot | None, sign: int) -> None:
    if resource is None:
        return
    counts = {"label_bytes": label_bytes(resource.labels)}
    maker: str | None = None
    match resource:
        case Topic():
            counts["topics"] = 1
            maker = resource.maker
        case Subscription():
            counts["subscriptions"] = 1
            maker = resource.maker
            if resource.is_pattern:
                usage.change(project_of(resource.topic), {"patterns": 1}, sign)
        case Snapshot():
            counts["snapshots"] = 1
        case _:
            assert_never(resource)
    usage.change(project_of(resource.name), counts, sign, maker)


def _put(
    values: dict[Id, Value], names: NamesTable[Id], resource_id: Id, value: Value | None
) -> None:
    before = values.pop(resource_id, None)
    if value is None:
        if before is not None:
            names.remove(before.name)
        return
    values[resource_id] = value
    names.add(value.name, resource_id)
