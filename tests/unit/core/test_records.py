"""Records: to bytes and back, and what this build refuses to read."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyroaring import BitMap64

from fanlog.core import records as package
from fanlog.core.drops import Drops, DropStretch
from fanlog.core.hard_state import HardState
from fanlog.core.iam import Binding, Policy
from fanlog.core.records import (
    KINDS,
    AccountRecord,
    Activity,
    AddressRecord,
    AgendaChunk,
    ArchivedRecord,
    AttemptsChunk,
    Committing,
    CommittingRecord,
    Counters,
    CursorChunk,
    CursorHead,
    DamagedRecord,
    DedupEntry,
    DropRecord,
    EpochProgress,
    ExportProgress,
    ExportRecord,
    ForgottenRecord,
    FormerTopicRecord,
    JobRecord,
    LakeRecord,
    LeaseHeld,
    LostRecord,
    NumbersRecord,
    PlaceRecord,
    PolicyRecord,
    ProgressRecord,
    PublisherRecord,
    Query,
    QueryRecord,
    Record,
    RememberedAnswer,
    ReopenedChunk,
    RequestRecord,
    RoleRecord,
    ScheduleRecord,
    SchemaRecord,
    SchemaRevisionRecord,
    ScopePolicy,
    ScopePolicyRecord,
    Secret,
    SecretRecord,
    SnapshotRecord,
    SubscriptionRecord,
    TenantChunk,
    TickRecord,
    TopicRecord,
    Trimmed,
    UnknownRecord,
    decode,
    digest_of,
)
from fanlog.core.records.codec import Registry, Stored, numbers, record
from fanlog.core.records.schedules import tick_record
from fanlog.core.reopening import OpenChunk
from fanlog.core.roles import CustomRole
from fanlog.errors import DataLoss
from fanlog.model.identity import AccountKey, ApiToken, ServiceAccount
from fanlog.model.jobs import Job
from fanlog.model.resources import (
    DeadLetterPolicy,
    FileExport,
    FilterChange,
    PartitionId,
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
from fanlog.model.schedules import Progress, Schedule

ROOT = Path(__file__).parents[3]
P = PartitionId(2**32 - 1)
BIG = 2**63

TOPIC = Topic(
    id=TopicId(1),
    name="projects/p/topics/top",
    partitions=(PartitionId(1), PartitionId(2)),
    labels={"a": "ä"},
    message_retention_s=600.5,
)
PLAIN = Subscription(
    id=SubscriptionId(2),
    name="projects/p/subscriptions/s",
    topic=TOPIC.name,
    topic_id=None,
    partitions=(),
    expiration_ttl_s=None,
)
FULL = Subscription(
    id=SubscriptionId(2),
    name="projects/p/subscriptions/s",
    topic=TOPIC.name,
    topic_id=TOPIC.id,
    partitions=TOPIC.partitions,
    ack_deadline_s=77,
    retain_acked=True,
    labels={"fanlog-ordering": "strict"},
    enable_message_ordering=True,
    enable_exactly_once=True,
    dead_letter=DeadLetterPolicy(dead_letter_topic="projects/p/topics/d", max_delivery_attempts=7),
    retry=RetryPolicy(minimum_backoff_s=0.25, maximum_backoff_s=8.0),
    detached=True,
    created_s=1_700_000_000.25,
)
ROUTED = Subscription(
    id=SubscriptionId(9),
    name="projects/p/subscriptions/r",
    topic="projects/p/topics/a.*.#",
    topic_id=None,
    partitions=(),
    filter='payload.a = "é*"',
    filter_changes=(
        FilterChange(filter="", before_sequence=1),
        FilterChange(filter='{"k": "v"}', before_sequence=BIG),
    ),
)
PUSHED = Subscription(
    id=SubscriptionId(10),
    name="projects/p/subscriptions/h",
    topic=TOPIC.name,
    topic_id=TOPIC.id,
    partitions=TOPIC.partitions,
    push=PushConfig(
        endpoint="https://example.com/é",
        attributes={"x-goog-version": "v1"},
        no_wrapper=True,
        write_metadata=True,
        oidc_email="a@b.c",
        oidc_audience="aud",
        webhook_secrets=("whsec_one", "whsec_two"),
    ),
    push_off="HTTP 410",
)
TABLED = Subscription(
    id=SubscriptionId(11),
    name="projects/p/subscriptions/t",
    topic=TOPIC.name,
    topic_id=TOPIC.id,
    partitions=TOPIC.partitions,
    table=TableExport(table="a.b", use_topic_schema=True, drop_unknown_fields=True),
)
FILED = replace(
    TABLED,
    id=SubscriptionId(12),
    table=None,
    files=FileExport(bucket="box", format="avro", max_duration_s=60.5),
)
EXPORTING = ExportProgress(
    number=3,
    advanced=2,
    created_s=12.5,
    files=FILED.files,
    offsets={PartitionId(1): BitMap64(range(5, 70_000)), PartitionId(2): BitMap64([BIG])},
)
SNAPSHOT = Snapshot(
    id=SnapshotId(4),
    name="projects/p/snapshots/n",
    topic=TOPIC.name,
    topic_id=TOPIC.id,
    partitions=TOPIC.partitions,
    expire_s=12.5,
)

POLICY = Policy(
    id=1,
    revision=2,
    bindings=(Binding(role="roles/pubsub.viewer", members=("allUsers", "user:a@example.com")),),
)

SCHEMA = Schema(
    id=SchemaId(6), name="projects/p/schemas/s", type="JSON", compatibility="FULL_TRANSITIVE"
)
REVISION = SchemaRevision(
    schema_id=SCHEMA.id, number=2**32 - 1, id="0123abcd", definition='{"é": 1}', created_s=1.5
)
SETTINGS = SchemaSettings(
    schema=SCHEMA.name,
    encoding="BINARY",
    first_revision_id="0123abcd",
    last_revision_id="4567ef89",
    schema_id=SCHEMA.id,
)
CHECKED = replace(TOPIC, id=TopicId(11), schema_settings=SETTINGS)
ORPHAN = replace(TOPIC, id=TopicId(12), schema_settings=replace(SETTINGS, schema_id=None))
EUROPEAN = replace(
    TOPIC,
    id=TopicId(13),
    storage_policy=StoragePolicy(allowed_regions=("europe-west1",), enforce_in_transit=True),
)
MADE = replace(TOPIC, id=TopicId(14), maker="serviceAccount:ci@a.fanlog.internal")

MINE = replace(PLAIN, id=SubscriptionId(15), maker="user:ann@example.com")

JOB = Job(name="projects/p/jobs/j", kind="replay", arguments={"a": [1, None]}, state="DONE")

SCHEDULE = Schedule(
    name="projects/p/schedules/daily",
    topic=TOPIC.name,
    cron="0 7 * * *",
    time_zone="Europe/Berlin",
    data=b"\0\xff",
    attributes={"a": "ä"},
    ordering_key="k",
    missed="ALL",
    is_paused=True,
    created_s=1.5,
)
PROGRESS = Progress(decided_s=BIG, last_tick_s=60, last_message_id="2000000000000", error="no room")

ACCOUNT = ServiceAccount(
    id=9,
    name="ci",
    email="ci@0123456789abcdef.fanlog.internal",
    created_s=1.5,
    keys=(AccountKey(id="k", public="PEM", created_s=2.0, expires_s=3.5),),
    tokens=(ApiToken(id="t", digest="ab", created_s=2.0),),
)
SCOPE = ScopePolicy(
    scope="projects/p",
    policy=Policy(revision=2, bindings=(Binding(role="roles/owner", members=("user:a@b",)),)),
)
ROLE = CustomRole(name="roles/custom.reader", permissions=("pubsub.topics.get",))
SECRET = Secret(name="ack-ids", text="00ff", boot=3)

DROPS = Drops({"age": BIG}, (DropStretch("age", 1, BIG, 3, 1.5, 2.0),), ((5, 1), (9, 0)))
STORED: list[Record] = [
    AccountRecord(ACCOUNT.id, ACCOUNT),
    ScopePolicyRecord(SCOPE.scope, SCOPE),
    RoleRecord(ROLE.name, ROLE),
    SecretRecord(SECRET.name, SECRET),
    Counters(next_id=5, boots=BIG),
    TopicRecord(TOPIC.id, TOPIC),
    TopicRecord(CHECKED.id, CHECKED),
    TopicRecord(ORPHAN.id, ORPHAN),
    TopicRecord(EUROPEAN.id, EUROPEAN),
    TopicRecord(MADE.id, MADE),
    SchemaRecord(SCHEMA.id, SCHEMA),
    SchemaRevisionRecord(SCHEMA.id, 2**32 - 1, REVISION),
    FormerTopicRecord(TOPIC.id, TOPIC),
    SubscriptionRecord(PLAIN.id, PLAIN),
    SubscriptionRecord(FULL.id, FULL),
    SubscriptionRecord(ROUTED.id, ROUTED),
    SubscriptionRecord(PUSHED.id, PUSHED),
    SubscriptionRecord(TABLED.id, TABLED),
    SubscriptionRecord(FILED.id, FILED),
    SubscriptionRecord(MINE.id, MINE),
    ExportRecord(FILED.id, EXPORTING),
    ExportRecord(TABLED.id, ExportProgress(number=0, advanced=0)),
    SnapshotRecord(SNAPSHOT.id, SNAPSHOT),
    PolicyRecord(1, POLICY),
    CursorHead(3, P, 0),
    CursorHead(BIG, P, BIG, BIG + 1),
    CursorChunk(3, P, 1, BitMap64([65_536, 131_071])),
    CursorChunk(3, P, BIG, BitMap64(range(10, 60_000))),
    AttemptsChunk(3, P, 9, ((0, 1), (1_023, 255))),
    LeaseHeld(3, P, BIG, 2, 1_700_000_000.125, BitMap64([1, 2, BIG])),
    Activity(3, 1_700_000_000.5),
    LakeRecord("0b6c", 7, BIG),
    ArchivedRecord(P, 3, BIG),
    ArchivedRecord(PartitionId(7), 0, 0, is_open=False),
    LostRecord(P, BitMap64([*range(10, 60_000), BIG])),
    ReopenedChunk(3, P, 0, OpenChunk(BitMap64(range(7, 900)), BIG, 1_700_000_000.5)),
    Trimmed(P, BIG),
    DedupEntry(P, digest_of("d"), BIG, 1_700_000_000.5),
    AddressRecord(P, 3, BitMap64(range(7, 900))),
    AgendaChunk(P, 9, 1, BitMap64(range(65_536, 66_000))),
    PlaceRecord(P, BIG, (7, BIG, 3)),
    PublisherRecord(P, digest_of("p"), 2**63 - 1, BIG, 7, 1_700_000_000.5),
    NumbersRecord(P, digest_of("p"), 2**63 - 1, BIG, 1_700_000_000.5, bytes(range(16))),
    ForgottenRecord(P, 7, 2**63 - 1),
    TenantChunk(P, BIG, 1, BitMap64(range(65_536, 66_000))),
    DropRecord(7, P, DROPS),
    RequestRecord(3, digest_of("r"), RememberedAnswer(reopened=BIG, copied=1), 1_700_000_000.5),
    JobRecord(JOB.name, JOB),
    ScheduleRecord(SCHEDULE.name, SCHEDULE),
    tick_record(SCHEDULE.name, PROGRESS),
    QueryRecord(digest_of("q"), Query("q", 7, BIG, 1.5)),
    CommittingRecord(digest_of("q"), Committing("q", 8, ("aa", "bb"))),
    ProgressRecord(digest_of("q"), EpochProgress(1, 2, BIG)),
]
REMOVED: list[Record] = [
    AccountRecord(9, None),
    ScopePolicyRecord("server", None),
    RoleRecord("roles/custom.reader", None),
    SecretRecord("ack-ids", None),
    LostRecord(P, None),
    SchemaRecord(SchemaId(1), None),
    SchemaRevisionRecord(SchemaId(1), 2, None),
    TopicRecord(TopicId(1), None),
    FormerTopicRecord(TopicId(1), None),
    SubscriptionRecord(SubscriptionId(1), None),
    SnapshotRecord(SnapshotId(1), None),
    PolicyRecord(1, None),
    CursorHead(3, P, None),
    CursorChunk(3, P, 1, None),
    AttemptsChunk(3, P, 9, None),
    LeaseHeld(3, P, 5, 0, 0.0, None),
    Activity(3, None),
    ArchivedRecord(P, None),
    ReopenedChunk(3, P, 0, None),
    Trimmed(P, None),
    DedupEntry(P, digest_of("d"), None, 0.0),
    AddressRecord(P, 3, None),
    AgendaChunk(P, 9, 1, None),
    PlaceRecord(P, 9, None),
    PublisherRecord(P, digest_of("p"), None, 0, 0, 0.0),
    NumbersRecord(P, digest_of("p"), 7, None, 0.0, b""),
    ForgottenRecord(P, None, 0),
    TenantChunk(P, BIG, 1, None),
    DropRecord(7, P, None),
    RequestRecord(3, digest_of("r"), None, 0.0),
    JobRecord(JOB.name, None),
    ScheduleRecord(SCHEDULE.name, None),
    TickRecord(SCHEDULE.name, None),
    QueryRecord(digest_of("q"), None),
    CommittingRecord(digest_of("q"), None),
    ProgressRecord(digest_of("q"), None),
    ExportRecord(FILED.id, None),
]


class TestSchedules:
    def test_data_that_is_not_base64_is_damage(self):
        record = ScheduleRecord(SCHEDULE.name, SCHEDULE)
        value = (record.value() or b"").replace(b'"AP8="', b'"?"')
        with pytest.raises(DamagedRecord, match="data: is not base64"):
            decode(record.key(), value)

    @pytest.mark.parametrize(
        "one", [ScheduleRecord(SCHEDULE.name, SCHEDULE), tick_record(SCHEDULE.name, PROGRESS)]
    )
    def test_one_record_without_the_other_is_damage(self, one):
        with pytest.raises(DataLoss, match="only one of two records is there"):
            HardState.load([(one.key(), one.value())])


class TestTheRegistry:
    def test_every_kind_is_tried_in_this_file(self):
        assert {type(one) for one in STORED} == set(KINDS)
        never_removed = {Counters, LakeRecord}
        assert {type(one) for one in REMOVED} == set(KINDS) - never_removed

    def test_every_class_is_of_the_union(self):
        modules = [
            importlib.import_module(f"{package.__name__}.{found.name}")
            for found in pkgutil.iter_modules(package.__path__)
        ]
        classes = {
            value
            for module in modules
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, Stored) and value is not Stored
        }
        assert classes == set(KINDS)

    def test_every_letter_is_unique_and_in_the_document(self):
        letters = [kind.KIND.decode() for kind in KINDS]
        assert len(set(letters)) == len(letters)
        text = (ROOT / "docs" / "internals" / "data_files.md").read_text()
        table = text.partition("## State records")[2].partition("\n## ")[0]
        assert sorted(letters) == sorted(re.findall(r"^\| `([A-Za-z])` \|", table, re.MULTILINE))

    def test_a_letter_cannot_be_given_twice(self):
        @record("H", key=numbers(">Q"), value=numbers("<Q"))
        @dataclass(frozen=True, slots=True)
        class Other(Stored):
            owner: int
            count: int | None

        with pytest.raises(AssertionError, match="the letter of Other"):
            Registry[Stored]([CursorHead, Other])

    def test_the_forms_take_all_fields(self):
        with pytest.raises(AssertionError, match="Odd has other fields"):

            @record("?", key=numbers(">Q"), value=numbers("<Q"))
            @dataclass(frozen=True, slots=True)
            class Odd(Stored):
                owner: int

    @pytest.mark.parametrize("one", [*STORED, *REMOVED], ids=lambda one: type(one).__name__)
    def test_hard_state_applies_every_kind(self, one):
        HardState().apply(one)

    def test_hard_state_is_rebuilt_from_all_of_them(self):
        hard = HardState.load((one.key(), one.value() or b"") for one in STORED)
        assert hard.jobs == {JOB.name: JOB}
        assert hard.sinks.progress("q") == EpochProgress(1, 2, BIG)
        for one in REMOVED:
            hard.apply(one)
        assert (hard.jobs, hard.trimmed, hard.lost, hard.activity) == ({}, {}, {}, {})

    def test_hard_state_refuses_another(self):
        with pytest.raises(AssertionError):
            HardState().apply("no record")  # type: ignore[arg-type]


@pytest.mark.parametrize("record", STORED, ids=lambda record: type(record).__name__)
def test_a_record_survives_its_bytes(record):
    value = record.value()
    assert value is not None
    assert decode(record.key(), value) == record


@pytest.mark.parametrize("record", REMOVED, ids=lambda record: type(record).__name__)
def test_a_removal_has_a_key_and_no_value(record):
    assert record.key()[:1] == record.KIND
    assert record.value() is None


def test_keys_are_distinct_and_ordered_by_number():
    # Two of them are the same subscription.
    keys = [record.key() for record in STORED if record != SubscriptionRecord(PLAIN.id, PLAIN)]
    assert len(set(keys)) == len(keys)
    assert CursorChunk(3, P, 255, None).key() < CursorChunk(3, P, 256, None).key()
    assert all(len(key) <= 511 for key in keys), "LMDB's bound"


def test_encoding_leaves_the_bitmap_alone():
    bits = BitMap64(range(1_000))
    before = bits.serialize()
    CursorChunk(3, P, 0, bits).value()
    assert bits.serialize() == before


def test_unknown_versions_and_kinds_are_named():
    key, value = CursorHead(3, P, 0).key(), CursorHead(3, P, 0).value()
    assert value is not None
    with pytest.raises(UnknownRecord, match=r"version b'\\x02'; this build reads version 1"):
        decode(key, b"\x02" + value[1:])
    with pytest.raises(UnknownRecord, match="has version b''"):
        decode(key, b"")
    with pytest.raises(UnknownRecord, match="of a kind this build does not know"):
        decode(b"?" + key[1:], value)


@pytest.mark.parametrize("record", STORED, ids=lambda record: type(record).__name__)
def test_cut_bytes_are_an_error_and_never_another_record(record):
    value = record.value()
    assert value is not None
    for length in range(1, len(value)):
        try:
            found = decode(record.key(), value[:length])
        except DamagedRecord:
            continue
        assert isinstance(found, AttemptsChunk), "its entries are all of one length"


@pytest.mark.parametrize("record", STORED, ids=lambda record: type(record).__name__)
def test_a_key_of_another_length_is_an_error(record):
    for key in (record.key() + b"\0", record.key()[:-1]):
        if key:
            with pytest.raises((DamagedRecord, UnknownRecord)):
                decode(key, record.value())


@pytest.mark.parametrize("missing", ["dead_letter", "retry"])
def test_a_subscription_without_its_policies_is_damaged(missing):
    stored = SubscriptionRecord(FULL.id, FULL)
    fields = json.loads((stored.value() or b"")[1:])
    del fields[missing]
    with pytest.raises(DamagedRecord, match=missing):
        decode(stored.key(), b"\x01" + json.dumps(fields).encode())


@pytest.mark.parametrize(
    "changes", [{"id": 1}, {"table_version": True}, {"sequence": "7"}, {"more": 1}]
)
def test_a_lake_that_is_none_is_refused(changes):
    stored = LakeRecord("0b6c", 7, 8)
    fields = json.loads((stored.value() or b"")[1:]) | changes
    with pytest.raises(DamagedRecord):
        decode(stored.key(), b"\x01" + json.dumps(fields).encode())


@pytest.mark.parametrize(
    "stored",
    [one for one in STORED if type(one) in (TopicRecord, JobRecord, QueryRecord, CommittingRecord)],
    ids=lambda one: type(one).__name__,
)
def test_a_value_under_the_key_of_another_is_refused(stored):
    other = stored.key()[:-1] + bytes([stored.key()[-1] ^ 1])
    with pytest.raises(DamagedRecord, match="than its key says"):
        decode(other, stored.value())


def test_the_bytes_of_a_policy():
    assert PolicyRecord(1, POLICY).key() == b"P" + bytes(7) + b"\x01"
    assert PolicyRecord(1, POLICY).value() == (
        b'\x01{"id":1,"revision":2,"bindings":[{"role":"roles/pubsub.viewer",'
        b'"members":["allUsers","user:a@example.com"]}]}'
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"id": 2},
        {"revision": "2"},
        {"bindings": [{"role": "r"}]},
        {"bindings": [{"role": 1, "members": ["m"]}]},
        {"bindings": [{"role": "r", "members": [1]}]},
        {"bindings": None},
    ],
)
def test_policies_that_are_none(changes):
    stored = PolicyRecord(1, POLICY).value()
    assert stored is not None
    fields = json.loads(stored[1:]) | changes
    with pytest.raises(DamagedRecord):
        decode(PolicyRecord(1, POLICY).key(), stored[:1] + json.dumps(fields).encode())


def test_a_subscription_from_before_there_were_filters_has_none():
    stored = SubscriptionRecord(PLAIN.id, PLAIN).value()
    assert stored is not None
    fields = json.loads(stored[1:])
    del fields["filter"], fields["filter_changes"]
    value = stored[:1] + json.dumps(fields).encode()
    assert decode(SubscriptionRecord(PLAIN.id, PLAIN).key(), value) == SubscriptionRecord(
        PLAIN.id, PLAIN
    )


def test_a_subscription_without_push_is_written_as_ever():
    stored = SubscriptionRecord(FULL.id, FULL).value()
    assert stored is not None
    assert b"push" not in stored


@pytest.mark.parametrize("push", [{}, "x", [1], {"endpoint": "http://x"}, {"endpoint": 1}])
def test_a_push_config_that_is_none_is_refused(push):
    stored = SubscriptionRecord(PUSHED.id, PUSHED).value()
    assert stored is not None
    push = push or {"webhook_secrets": []}
    fields = json.loads(stored[1:]) | {"push": push}
    with pytest.raises(DamagedRecord):
        decode(
            SubscriptionRecord(PUSHED.id, PUSHED).key(), stored[:1] + json.dumps(fields).encode()
        )


def test_secrets_are_in_no_text():
    assert "whsec_one" not in repr(PUSHED)


@pytest.mark.parametrize("changes", [[{}], [{"filter": 1, "before_sequence": 2}], "x", [[]]])
def test_filter_changes_that_are_none(changes):
    stored = SubscriptionRecord(ROUTED.id, ROUTED).value()
    assert stored is not None
    fields = json.loads(stored[1:]) | {"filter_changes": changes}
    with pytest.raises(DamagedRecord):
        decode(
            SubscriptionRecord(ROUTED.id, ROUTED).key(), stored[:1] + json.dumps(fields).encode()
        )


def test_a_topic_without_a_schema_is_written_as_ever():
    assert b"schema" not in (TopicRecord(TOPIC.id, TOPIC).value() or b"schema")


@pytest.mark.parametrize(
    ("record", "before", "after"),
    [
        (SchemaRecord(SCHEMA.id, SCHEMA), b'"JSON"', b'"XML"'),
        (SchemaRecord(SCHEMA.id, SCHEMA), b'"id":6', b'"id":7'),
        (SchemaRevisionRecord(SCHEMA.id, 2**32 - 1, REVISION), b'"schema_id":6', b'"schema_id":7'),
        (SchemaRevisionRecord(SCHEMA.id, 2**32 - 1, REVISION), b"1.5", b'"x"'),
    ],
)
def test_a_schema_that_is_none_is_refused(record, before, after):
    value = record.value()
    assert before in value
    with pytest.raises(DamagedRecord):
        decode(record.key(), value.replace(before, after))
