"""Hard-state records, and their versioned bytes.

A record is one change of hard state: it writes a key, or removes it. The log stores keys and
values; the broker's whole hard state is rebuilt from them, in any order of keys.

`Record` is the closed union of all kinds, and the registry that `decode` reads by. So a new kind is
one class (`fanlog.core.records.codec` says how) and its name in the union, and mypy then points at
every `match` that does not apply it yet.
"""

from __future__ import annotations

from typing import get_args

from fanlog.core.records.alerts import AlertRecord, AlertStateRecord, AnyAlertRecord
from fanlog.core.records.catalog import (
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
from fanlog.core.records.codec import DamagedRecord, Registry, UnknownRecord, digest_of
from fanlog.core.records.drops import DropRecord
from fanlog.core.records.exports import ExportProgress, ExportRecord
from fanlog.core.records.identities import (
    AccountRecord,
    IdentityRecord,
    RoleRecord,
    ScopePolicy,
    ScopePolicyRecord,
    Secret,
    SecretRecord,
)
from fanlog.core.records.jobs import JobRecord
from fanlog.core.records.lake import ArchivedRecord, LakeRecord, LakeState, LostRecord
from fanlog.core.records.partitions import (
    AddressRecord,
    AgendaChunk,
    DedupEntry,
    ForgottenRecord,
    NumbersRecord,
    PartitionRecord,
    PlaceRecord,
    PublisherRecord,
    PublisherState,
    TenantChunk,
    Trimmed,
)
from fanlog.core.records.requests import RememberedAnswer, RequestRecord
from fanlog.core.records.schedules import AnyScheduleRecord, ScheduleRecord, TickRecord
from fanlog.core.records.shares import (
    Activity,
    AttemptsChunk,
    CursorChunk,
    CursorHead,
    LeaseHeld,
    ReopenedChunk,
    ShareRecord,
)
from fanlog.core.records.sinks import (
    Committing,
    CommittingRecord,
    EpochProgress,
    ProgressRecord,
    Query,
    QueryRecord,
    SinkRecord,
)

__all__ = [
    "KINDS",
    "AccountRecord",
    "Activity",
    "AddressRecord",
    "AgendaChunk",
    "AlertRecord",
    "AlertStateRecord",
    "AnyAlertRecord",
    "AnyScheduleRecord",
    "ArchivedRecord",
    "AttemptsChunk",
    "CatalogRecord",
    "Committing",
    "CommittingRecord",
    "Counters",
    "CursorChunk",
    "CursorHead",
    "DamagedRecord",
    "DedupEntry",
    "DropRecord",
    "EpochProgress",
    "ExportProgress",
    "ExportRecord",
    "ForgottenRecord",
    "FormerTopicRecord",
    "IdentityRecord",
    "JobRecord",
    "LakeRecord",
    "LakeState",
    "LeaseHeld",
    "LostRecord",
    "NumbersRecord",
    "PartitionRecord",
    "PlaceRecord",
    "PolicyRecord",
    "ProgressRecord",
    "PublisherRecord",
    "PublisherState",
    "Query",
    "QueryRecord",
    "Record",
    "RememberedAnswer",
    "ReopenedChunk",
    "RequestRecord",
    "RoleRecord",
    "ScheduleRecord",
    "SchemaRecord",
    "SchemaRevisionRecord",
    "ScopePolicy",
    "ScopePolicyRecord",
    "Secret",
    "SecretRecord",
    "ShareRecord",
    "SinkRecord",
    "SnapshotRecord",
    "SubscriptionRecord",
    "TenantChunk",
    "TickRecord",
    "TopicRecord",
    "Trimmed",
    "UnknownRecord",
    "decode",
    "digest_of",
]

Record = (
    CatalogRecord
    | ShareRecord
    | Activity
    | PartitionRecord
    | LakeState
    | RequestRecord
    | JobRecord
    | ExportRecord
    | SinkRecord
    | IdentityRecord
    | AnyScheduleRecord
    | AnyAlertRecord
    | DropRecord
)

#: Every class of the union.
KINDS: tuple[type[Record], ...] = get_args(Record)

decode = Registry[Record](KINDS).decode
