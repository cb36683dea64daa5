"""A record of each kind, stored and removed."""

from __future__ import annotations

from dataclasses import replace

from pyroaring import BitMap64

from fanlog.core.drops import Drops, DropStretch
from fanlog.core.iam import Binding, Policy
from fanlog.core.records import (
    AccountRecord,
    Activity,
    AddressRecord,
    AgendaChunk,
    AlertRecord,
    AlertStateRecord,
    ArchivedRecord,
    AttemptsChunk,
    Committing,
    CommittingRecord,
    Counters,
    CursorChunk,
    CursorHead,
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
    digest_of,
)
from fanlog.core.records.alerts import state_record
from fanlog.core.records.schedules import tick_record
from fanlog.core.reopening import OpenChunk
from fanlog.core.roles import CustomRole
from fanlog.model.alerts import Alert, AlertState
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

ALERT = Alert(
    name="projects/p/alerts/behind",
    condition="BACKLOG_AGE",
    subscription="projects/p/subscriptions/s",
    limit=BIG,
    clear=0,
    minimum_s=0.5,
    created_s=1.5,
)
REFUSING = Alert(name="projects/p/alerts/full", condition="PUBLISHES_REFUSED")
HOLDING = AlertState(
    is_holding=True,
    since_s=1.5,
    turning_s=2.5,
    number=3,
    last_message_id="2000000000000",
    sentence="behind: ä",
)

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
    AlertRecord(ALERT.name, ALERT),
    AlertRecord(REFUSING.name, REFUSING),
    state_record(ALERT.name, HOLDING),
    state_record(REFUSING.name, AlertState(since_s=0.0)),
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
    AlertRecord(ALERT.name, None),
    AlertStateRecord(ALERT.name, None),
    QueryRecord(digest_of("q"), None),
    CommittingRecord(digest_of("q"), None),
    ProgressRecord(digest_of("q"), None),
    ExportRecord(FILED.id, None),
]
