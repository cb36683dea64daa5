"""Hard-state records of what has a name: topics, subscriptions, snapshots, policies, schemas.

As `fanlog.core.records`, which decodes them too.
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, TypeVar

from fanlog.core.iam import Binding, Policy
from fanlog.core.shape import check_shape
from fanlog.model.resources import (
    DeadLetterPolicy,
    FileExport,
    FilterChange,
    PushConfig,
    RetryPolicy,
    Schema,
    SchemaId,
    SchemaRevision,
    SchemaSettings,
    Snapshot,
    SnapshotId,
    StoragePolicy,
    Subscription,
    SubscriptionId,
    TableExport,
    Topic,
    TopicId,
)

_VERSION_BYTE = b"\x01"
_ID = struct.Struct(">Q")
_OWNER = struct.Struct(">QI")
_COUNTERS_VALUE = struct.Struct("<QQ")

Resource = TypeVar("Resource", Topic, Subscription, Snapshot, Policy, Schema)


@dataclass(frozen=True, slots=True)
class Counters:
    """The broker's own counters: ids never used twice, and how often it was started."""

    KIND: ClassVar[bytes] = b"I"
    next_id: int
    boots: int

    def key(self) -> bytes:
        return self.KIND

    def value(self) -> bytes | None:
        return _VERSION_BYTE + _COUNTERS_VALUE.pack(self.next_id, self.boots)


@dataclass(frozen=True, slots=True)
class TopicRecord:
    KIND: ClassVar[bytes] = b"T"
    id: TopicId
    topic: Topic | None

    def key(self) -> bytes:
        return self.KIND + _ID.pack(self.id)

    def value(self) -> bytes | None:
        return None if self.topic is None else _topic_json(self.topic)


@dataclass(frozen=True, slots=True)
class FormerTopicRecord:
    """A topic that was deleted while a pattern still has messages of it: what it was called."""

    KIND: ClassVar[bytes] = b"F"
    id: TopicId
    topic: Topic | None

    def key(self) -> bytes:
        return self.KIND + _ID.pack(self.id)

    def value(self) -> bytes | None:
        return None if self.topic is None else _topic_json(self.topic)


@dataclass(frozen=True, slots=True)
class SubscriptionRecord:
    KIND: ClassVar[bytes] = b"S"
    id: SubscriptionId
    subscription: Subscription | None

    def key(self) -> bytes:
        return self.KIND + _ID.pack(self.id)

    def value(self) -> bytes | None:
        if self.subscription is None:
            return None
        fields = asdict(self.subscription)
        if self.subscription.push is None:
            # As before there was push: what does not need it stays readable to what does not know.
            del fields["push"], fields["push_off"]
        for name in ("table", "files"):
            if fields[name] is None:
                del fields[name]
        return _to_json(fields)


@dataclass(frozen=True, slots=True)
class SnapshotRecord:
    KIND: ClassVar[bytes] = b"N"
    id: SnapshotId
    snapshot: Snapshot | None

    def key(self) -> bytes:
        return self.KIND + _ID.pack(self.id)

    def value(self) -> bytes | None:
        return None if self.snapshot is None else _to_json(asdict(self.snapshot))


@dataclass(frozen=True, slots=True)
class PolicyRecord:
    """The IAM policy of a topic, a subscription, or whatever else has that id."""

    KIND: ClassVar[bytes] = b"P"
    id: int
    policy: Policy | None

    def key(self) -> bytes:
        return self.KIND + _ID.pack(self.id)

    def value(self) -> bytes | None:
        return None if self.policy is None else _to_json(asdict(self.policy))


@dataclass(frozen=True, slots=True)
class SchemaRecord:
    KIND: ClassVar[bytes] = b"M"
    id: SchemaId
    schema: Schema | None

    def key(self) -> bytes:
        return self.KIND + _ID.pack(self.id)

    def value(self) -> bytes | None:
        if self.schema is None:
            return None
        fields = asdict(self.schema)
        # Written as before numbers were kept, where none has to be.
        if not self.schema.last_number:
            del fields["last_number"]
        return _to_json(fields)


@dataclass(frozen=True, slots=True)
class SchemaRevisionRecord:
    """One revision of a schema, apart from it: a definition is large, and is written once."""

    KIND: ClassVar[bytes] = b"R"
    id: SchemaId
    number: int
    revision: SchemaRevision | None

    def key(self) -> bytes:
        return self.KIND + _OWNER.pack(self.id, self.number)

    def value(self) -> bytes | None:
        return None if self.revision is None else _to_json(asdict(self.revision))


CatalogRecord = (
    Counters
    | TopicRecord
    | FormerTopicRecord
    | SubscriptionRecord
    | SnapshotRecord
    | PolicyRecord
    | SchemaRecord
    | SchemaRevisionRecord
)


def decode(kind: bytes, rest: bytes, body: bytes) -> CatalogRecord | None:
    """The record of a key and a value without its version; None for a kind of somebody else.

    Raises:
        ValueError, LookupError, TypeError, struct.error: It cannot be read.
    """
    match kind:
        case Counters.KIND if not rest:
            return Counters(*_COUNTERS_VALUE.unpack(body))
        case TopicRecord.KIND:
            topic = _checked(_topic(json.loads(body)), *_ID.unpack(rest))
            return TopicRecord(topic.id, topic)
        case FormerTopicRecord.KIND:
            topic = _checked(_topic(json.loads(body)), *_ID.unpack(rest))
            return FormerTopicRecord(topic.id, topic)
        case SubscriptionRecord.KIND:
            subscription = _checked(_subscription(json.loads(body)), *_ID.unpack(rest))
            return SubscriptionRecord(subscription.id, subscription)
        case SnapshotRecord.KIND:
            snapshot = _checked(_snapshot(json.loads(body)), *_ID.unpack(rest))
            return SnapshotRecord(snapshot.id, snapshot)
        case PolicyRecord.KIND:
            policy = _checked(_policy(json.loads(body)), *_ID.unpack(rest))
            return PolicyRecord(policy.id, policy)
        case SchemaRecord.KIND:
            schema = _checked(Schema(**json.loads(body)), *_ID.unpack(rest))
            return SchemaRecord(schema.id, schema)
        case SchemaRevisionRecord.KIND:
            revision = SchemaRevision(**json.loads(body))
            check_shape(revision)
            if (revision.schema_id, revision.number) != _OWNER.unpack(rest):
                raise ValueError("it is another revision than its key says")
            return SchemaRevisionRecord(revision.schema_id, revision.number, revision)
    return None


def _to_json(fields: dict[str, Any]) -> bytes:
    return _VERSION_BYTE + json.dumps(fields, separators=(",", ":")).encode()


def _checked(value: Resource, resource_id: int) -> Resource:
    check_shape(value)
    if value.id != resource_id:
        raise ValueError(f"its id is {value.id}, which is not that of its key")
    return value


def _topic_json(topic: Topic) -> bytes:
    fields = asdict(topic)
    # Without a schema, a storage policy or a known age, a topic is written as it was before there
    # were any.
    for name in ("schema_settings", "storage_policy", "created_s"):
        if fields[name] is None:
            del fields[name]
    return _to_json(fields)


def _topic(fields: dict[str, Any]) -> Topic:
    settings, policy = fields.get("schema_settings"), fields.get("storage_policy")
    return Topic(
        **fields
        | {
            "partitions": tuple(fields["partitions"]),
            "schema_settings": SchemaSettings(**settings) if settings else None,
            "storage_policy": _storage_policy(policy) if policy else None,
        }
    )


def _storage_policy(fields: dict[str, Any]) -> StoragePolicy:
    return StoragePolicy(**fields | {"allowed_regions": tuple(fields["allowed_regions"])})


def _snapshot(fields: dict[str, Any]) -> Snapshot:
    return Snapshot(**fields | {"partitions": tuple(fields["partitions"])})


def _policy(fields: dict[str, Any]) -> Policy:
    bindings = tuple(
        Binding(**binding | {"members": tuple(binding["members"])})
        for binding in fields["bindings"]
    )
    return Policy(**fields | {"bindings": bindings})


def _subscription(fields: dict[str, Any]) -> Subscription:
    dead_letter, retry = fields["dead_letter"], fields["retry"]
    # Records from before there were filters have none.
    changes = fields.get("filter_changes", ())
    # Nor had those from before there was push, or export.
    push = fields.get("push")
    return Subscription(
        **fields
        | {
            "partitions": tuple(fields["partitions"]),
            "dead_letter": DeadLetterPolicy(**dead_letter) if dead_letter else None,
            "retry": RetryPolicy(**retry) if retry else None,
            "filter_changes": tuple(FilterChange(**change) for change in changes),
            "push": _push(push) if push else None,
            "table": TableExport(**fields["table"]) if fields.get("table") else None,
            "files": FileExport(**fields["files"]) if fields.get("files") else None,
        }
    )


def _push(fields: dict[str, Any]) -> PushConfig:
    return PushConfig(**fields | {"webhook_secrets": tuple(fields["webhook_secrets"])})
