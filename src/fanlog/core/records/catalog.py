"""Records of the catalog: topics, subscriptions, snapshots, policies, schemas, and its counters.

A resource is written as a JSON object of its fields. A field that came later is left out where it
is not needed: builds from before it can read such a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fanlog.core.iam import Policy
from fanlog.core.records.codec import NOTHING, Stored, json_of, numbers, record
from fanlog.model.resources import (
    PushConfig,
    Schema,
    SchemaId,
    SchemaRevision,
    Snapshot,
    SnapshotId,
    Subscription,
    SubscriptionId,
    Topic,
    TopicId,
)

_ID = numbers(">Q")


def _id_of(resource: Topic | Subscription | Snapshot | Policy | Schema) -> tuple[int]:
    return (resource.id,)


def _unset(*names: str) -> Callable[[object], Iterable[str]]:
    """Leaves fields out that are None."""
    return lambda resource: [name for name in names if getattr(resource, name) is None]


@record("I", key=NOTHING, value=numbers("<QQ"))
@dataclass(frozen=True, slots=True)
class Counters(Stored):
    """The broker's own counters: ids never used twice, and how often it was started."""

    next_id: int
    boots: int


_TOPIC = json_of(Topic, leave_out=_unset("schema_settings", "storage_policy", "created_s", "maker"))


@record("T", key=_ID, value=_TOPIC, key_of=_id_of)
@dataclass(frozen=True, slots=True)
class TopicRecord(Stored):
    id: TopicId
    topic: Topic | None


@record("F", key=_ID, value=_TOPIC, key_of=_id_of)
@dataclass(frozen=True, slots=True)
class FormerTopicRecord(Stored):
    """A deleted topic of which a pattern still has messages: they need its name."""

    id: TopicId
    topic: Topic | None


def _unset_modes(subscription: Subscription) -> Iterable[str]:
    """The fields of the ways of delivery that a subscription does not have."""
    if subscription.push is None:
        yield from ("push", "push_off")
    yield from _unset("table", "files", "maker")(subscription)


_SUBSCRIPTION = json_of(
    Subscription,
    leave_out=_unset_modes,
    # Without these, a damaged record would pass for one of a subscription without policies, or of
    # an endpoint whose requests are not signed.
    always={Subscription: ("dead_letter", "retry"), PushConfig: ("webhook_secrets",)},
)


@record("S", key=_ID, value=_SUBSCRIPTION, key_of=_id_of)
@dataclass(frozen=True, slots=True)
class SubscriptionRecord(Stored):
    id: SubscriptionId
    subscription: Subscription | None


@record("N", key=_ID, value=json_of(Snapshot), key_of=_id_of)
@dataclass(frozen=True, slots=True)
class SnapshotRecord(Stored):
    id: SnapshotId
    snapshot: Snapshot | None


@record("P", key=_ID, value=json_of(Policy, always={Policy: ("bindings",)}), key_of=_id_of)
@dataclass(frozen=True, slots=True)
class PolicyRecord(Stored):
    """The IAM policy of the topic, subscription, snapshot or schema that has that id."""

    id: int
    policy: Policy | None


def _no_number(schema: Schema) -> Iterable[str]:
    return () if schema.last_number else ("last_number",)


@record("M", key=_ID, value=json_of(Schema, leave_out=_no_number), key_of=_id_of)
@dataclass(frozen=True, slots=True)
class SchemaRecord(Stored):
    id: SchemaId
    schema: Schema | None


@record(
    "R",
    key=numbers(">QI"),
    value=json_of(SchemaRevision),
    key_of=lambda revision: (revision.schema_id, revision.number),
)
@dataclass(frozen=True, slots=True)
class SchemaRevisionRecord(Stored):
    """One revision of a schema, apart from it: a definition is large, and is written once."""

    id: SchemaId
    number: int
    revision: SchemaRevision | None


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
