"""Hard-state records and their versioned bytes.

A record is one keyed value of hard state: writing a key again replaces its value, and a record
without a value removes it. The log stores the pairs; the broker's whole hard state is what the
records, applied in any order of keys, rebuild.

Keys are short and ordered: a kind byte, then big-endian numbers. Values begin with a version byte.
`docs/internals/data_files.md` has the table.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, TypeVar

from pyroaring import BitMap64

from fanlog.core import bulk_records, export_records, lake_records, replay_records
from fanlog.core.bulk_records import BulkRecord
from fanlog.core.export_records import ExportRecord
from fanlog.core.iam import Binding, Policy
from fanlog.core.lake_records import LostRecord
from fanlog.core.replay_records import ReopenedChunk, RequestRecord
from fanlog.core.shape import check_shape
from fanlog.jobs import Job
from fanlog.model import (
    DeadLetterPolicy,
    FileExport,
    FilterChange,
    Offset,
    PartitionId,
    PushConfig,
    RetryPolicy,
    Schema,
    SchemaId,
    SchemaRevision,
    SchemaSettings,
    Snapshot,
    SnapshotId,
    Subscription,
    SubscriptionId,
    TableExport,
    Topic,
    TopicId,
)

VERSION = 1
_VERSION_BYTE = bytes([VERSION])

Resource = TypeVar("Resource", Topic, Subscription, Snapshot, Policy, Schema)

_ID = struct.Struct(">Q")
_OWNER = struct.Struct(">QI")
_PARTITION = struct.Struct(">I")
_DEDUP_VALUE = struct.Struct("<Qd")
_ARCHIVED_VALUE = struct.Struct("<QQ?")
_DIGEST_BYTES = 16
_CHUNK = struct.Struct(">QIQ")
_LEASE = struct.Struct(">QIQI")
_HEAD_VALUE = struct.Struct("<QQ")
_LEASE_VALUE = struct.Struct("<d")
_TIME_VALUE = struct.Struct("<d")
_COUNT = struct.Struct("<HB")


class UnknownRecord(ValueError):
    """A key or version this build does not know: the data was written by a newer one."""


class DamagedRecord(ValueError):
    """The bytes are not what this build wrote under that key."""


@dataclass(frozen=True, slots=True)
class Counters:
    """The broker's own counters: ids never used twice, and how often it was started."""

    KIND: ClassVar[bytes] = b"I"
    next_id: int
    boots: int

    def key(self) -> bytes:
        return self.KIND

    def value(self) -> bytes | None:
        return _VERSION_BYTE + _HEAD_VALUE.pack(self.next_id, self.boots)


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
        return None if self.schema is None else _to_json(asdict(self.schema))


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


@dataclass(frozen=True, slots=True)
class CursorHead:
    """Where a cursor stands in a partition; `owner` is a subscription's or a snapshot's id."""

    KIND: ClassVar[bytes] = b"H"
    owner: int
    partition: PartitionId
    #: Lowest offset not acknowledged; None removes the cursor.
    floor: Offset | None
    #: Ack ids of generations below this are void: a seek came between.
    fence: int = 0

    def key(self) -> bytes:
        return self.KIND + _OWNER.pack(self.owner, self.partition)

    def value(self) -> bytes | None:
        if self.floor is None:
            return None
        return _VERSION_BYTE + _HEAD_VALUE.pack(self.floor, self.fence)


@dataclass(frozen=True, slots=True)
class CursorChunk:
    """Acknowledged offsets above the floor within one chunk; `bits` is never changed in place."""

    KIND: ClassVar[bytes] = b"C"
    owner: int
    partition: PartitionId
    chunk: int
    bits: BitMap64 | None

    def key(self) -> bytes:
        return self.KIND + _CHUNK.pack(self.owner, self.partition, self.chunk)

    def value(self) -> bytes | None:
        return None if self.bits is None else _VERSION_BYTE + _bitmap_bytes(self.bits)


@dataclass(frozen=True, slots=True)
class AttemptsChunk:
    """Failed deliveries of one chunk: index within the chunk and count, only those above zero."""

    KIND: ClassVar[bytes] = b"A"
    owner: int
    partition: PartitionId
    chunk: int
    counts: tuple[tuple[int, int], ...] | None

    def key(self) -> bytes:
        return self.KIND + _CHUNK.pack(self.owner, self.partition, self.chunk)

    def value(self) -> bytes | None:
        if self.counts is None:
            return None
        return _VERSION_BYTE + b"".join(_COUNT.pack(index, count) for index, count in self.counts)


@dataclass(frozen=True, slots=True)
class LeaseHeld:
    """A lease under exactly-once: it outlives the process, so that nothing is delivered twice."""

    KIND: ClassVar[bytes] = b"L"
    owner: int
    partition: PartitionId
    generation: int
    #: A lease whose messages got different deadlines is held in parts.
    part: int
    deadline_s: float
    #: Offsets leased and not settled; None when the lease is over.
    offsets: BitMap64 | None

    def key(self) -> bytes:
        return self.KIND + _LEASE.pack(self.owner, self.partition, self.generation, self.part)

    def value(self) -> bytes | None:
        if self.offsets is None:
            return None
        deadline = _LEASE_VALUE.pack(self.deadline_s)
        return _VERSION_BYTE + deadline + _bitmap_bytes(self.offsets)


@dataclass(frozen=True, slots=True)
class Activity:
    """When a subscription was last used, coarsely: idle ones expire."""

    KIND: ClassVar[bytes] = b"U"
    owner: int
    last_active_s: float | None

    def key(self) -> bytes:
        return self.KIND + _ID.pack(self.owner)

    def value(self) -> bytes | None:
        if self.last_active_s is None:
            return None
        return _VERSION_BYTE + _TIME_VALUE.pack(self.last_active_s)


@dataclass(frozen=True, slots=True)
class DedupEntry:
    """A dedup id that was published lately, by its hash: which message it became."""

    KIND: ClassVar[bytes] = b"D"
    partition: PartitionId
    digest: bytes
    #: None forgets it.
    offset: Offset | None
    expires_s: float

    def key(self) -> bytes:
        return self.KIND + _PARTITION.pack(self.partition) + self.digest

    def value(self) -> bytes | None:
        if self.offset is None:
            return None
        return _VERSION_BYTE + _DEDUP_VALUE.pack(self.offset, self.expires_s)


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job, by its name's hash: names are longer than keys may be."""

    KIND: ClassVar[bytes] = b"J"
    name: str
    job: Job | None

    def key(self) -> bytes:
        return self.KIND + hashlib.blake2b(self.name.encode(), digest_size=_DIGEST_BYTES).digest()

    def value(self) -> bytes | None:
        return None if self.job is None else _to_json(asdict(self.job))


@dataclass(frozen=True, slots=True)
class LakeRecord:
    """Which lake has the archived messages, and how far the broker has seen that for itself."""

    KIND: ClassVar[bytes] = b"Z"
    id: str
    #: Of the table `messages`, when it was last looked at.
    table_version: int
    #: Commits up to and with this one are in it.
    sequence: int

    def key(self) -> bytes:
        return self.KIND

    def value(self) -> bytes | None:
        return _to_json(asdict(self))


@dataclass(frozen=True, slots=True)
class ArchivedRecord:
    """The offsets of a partition that the lake has: from `start` to before `end`."""

    KIND: ClassVar[bytes] = b"V"
    partition: PartitionId
    #: None forgets them.
    start: Offset | None
    end: Offset = 0
    #: Whether what the archive takes next follows; not once the topic was kept out of it.
    is_open: bool = True

    def key(self) -> bytes:
        return self.KIND + _PARTITION.pack(self.partition)

    def value(self) -> bytes | None:
        if self.start is None:
            return None
        return _VERSION_BYTE + _ARCHIVED_VALUE.pack(self.start, self.end, self.is_open)


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
ShareRecord = CursorHead | CursorChunk | ReopenedChunk | AttemptsChunk | LeaseHeld
LakeState = LakeRecord | ArchivedRecord | LostRecord
Record = (
    CatalogRecord
    | ShareRecord
    | Activity
    | DedupEntry
    | JobRecord
    | ExportRecord
    | BulkRecord
    | LakeState
    | RequestRecord
)


def decode(key: bytes, value: bytes) -> Record:
    """The record that `key` and `value` were made from.

    Raises:
        UnknownRecord: The kind or the version is not known here.
        DamagedRecord: The rest cannot be read.
    """
    if not value or value[0] != VERSION:
        raise UnknownRecord(
            f"state record {key!r} has version {value[:1]!r}; this build reads version {VERSION}"
        )
    try:
        record = _decode(key[:1], key[1:], value[1:])
    except (struct.error, ValueError, LookupError, TypeError, RecursionError) as error:
        raise DamagedRecord(f"state record {key!r} cannot be read: {error}") from error
    if record is None:
        raise UnknownRecord(f"state record {key!r} is of a kind this build does not know")
    return record


def _decode(kind: bytes, rest: bytes, body: bytes) -> Record | None:
    match kind:
        case Counters.KIND if not rest:
            return Counters(*_HEAD_VALUE.unpack(body))
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
        case CursorHead.KIND:
            owner, partition = _OWNER.unpack(rest)
            floor, fence = _HEAD_VALUE.unpack(body)
            return CursorHead(owner, partition, floor, fence)
        case CursorChunk.KIND:
            owner, partition, chunk = _CHUNK.unpack(rest)
            return CursorChunk(owner, partition, chunk, BitMap64.deserialize(body))
        case AttemptsChunk.KIND:
            owner, partition, chunk = _CHUNK.unpack(rest)
            return AttemptsChunk(owner, partition, chunk, tuple(_COUNT.iter_unpack(body)))
        case LeaseHeld.KIND:
            owner, partition, generation, part = _LEASE.unpack(rest)
            deadline_s = _LEASE_VALUE.unpack_from(body)[0]
            offsets = BitMap64.deserialize(body[_LEASE_VALUE.size :])
            return LeaseHeld(owner, partition, generation, part, deadline_s, offsets)
        case DedupEntry.KIND if len(rest) == _PARTITION.size + _DIGEST_BYTES:
            partition = PartitionId(_PARTITION.unpack_from(rest)[0])
            offset, expires_s = _DEDUP_VALUE.unpack(body)
            return DedupEntry(partition, rest[_PARTITION.size :], offset, expires_s)
        case JobRecord.KIND:
            job = Job(**json.loads(body))
            check_shape(job)
            record = JobRecord(job.name, job)
            if record.key()[1:] != rest:
                raise ValueError("it is another job than its key says")
            return record
        case LakeRecord.KIND if not rest:
            lake = LakeRecord(**json.loads(body))
            check_shape(lake)
            return lake
        case ArchivedRecord.KIND:
            partition = PartitionId(*_PARTITION.unpack(rest))
            return ArchivedRecord(partition, *_ARCHIVED_VALUE.unpack(body))
        case Activity.KIND:
            return Activity(_ID.unpack(rest)[0], _TIME_VALUE.unpack(body)[0])
    return (
        bulk_records.decode(kind, rest, body)
        or export_records.decode(kind, rest, body)
        or replay_records.decode(kind, rest, body)
        or lake_records.decode(kind, rest, body)
    )


def _bitmap_bytes(bits: BitMap64) -> bytes:
    compact = bits.copy()
    compact.run_optimize()
    return compact.serialize()


def _to_json(fields: dict[str, Any]) -> bytes:
    return _VERSION_BYTE + json.dumps(fields, separators=(",", ":")).encode()


def _checked(value: Resource, resource_id: int) -> Resource:
    check_shape(value)
    if value.id != resource_id:
        raise ValueError(f"its id is {value.id}, which is not that of its key")
    return value


def _topic_json(topic: Topic) -> bytes:
    fields = asdict(topic)
    # A topic without a schema is written as it was before there were any.
    if topic.schema_settings is None:
        del fields["schema_settings"]
    return _to_json(fields)


def _topic(fields: dict[str, Any]) -> Topic:
    settings = fields.get("schema_settings")
    return Topic(
        **fields
        | {
            "partitions": tuple(fields["partitions"]),
            "schema_settings": SchemaSettings(**settings) if settings else None,
        }
    )


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
