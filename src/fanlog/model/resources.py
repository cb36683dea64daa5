"""The frozen values users know: topics, subscriptions, snapshots and their policies.

Names are the full resource names (`projects/p/topics/t`). Ids are the broker's own numbers: they
are never used twice, so a topic deleted and made again is another topic. Durations are seconds,
times are seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NewType, cast, get_args

from fanlog import limits
from fanlog.model import attributes, names
from fanlog.model.backlog_policy import BacklogPolicy, backlog_policy_of

TopicId = NewType("TopicId", int)
SubscriptionId = NewType("SubscriptionId", int)
SnapshotId = NewType("SnapshotId", int)
SchemaId = NewType("SchemaId", int)
#: One partition of one topic. Unique in the broker and never used twice.
PartitionId = NewType("PartitionId", int)
Offset = int

#: Shown as a subscription's topic once that is deleted (Google's spelling).
DELETED_TOPIC = "_deleted-topic_"

#: Shown as a topic's schema once that is deleted (Google's spelling).
DELETED_SCHEMA = "_deleted-schema_"

#: `JSON` (JSON Schema) is ours; the others are Google's.
SchemaType = Literal["AVRO", "PROTOCOL_BUFFER", "JSON"]
Encoding = Literal["JSON", "BINARY"]
#: Which revisions of a schema must read which: new ones old messages, old ones new messages, both;
#: against the latest revision, or (`_TRANSITIVE`) against all.
Compatibility = Literal[
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
]

#: `none`: as it comes. `key`: runs of a key, in order. `strict`: one of a key at a time.
Ordering = Literal["none", "key", "strict"]


#: How the body of a push request is made; see `fanlog.push.rules.web_content`.
PushForm = Literal["wrapped", "unwrapped", "unwrapped-metadata", "plain", "cloudevents", "event"]

#: How messages leave a subscription: asked for, sent, or taken to the lake by the pipeline.
Mode = Literal["pull", "push", "export"]
FileFormat = Literal["text", "avro"]
#: Whether an export goes on (Google's words).
ExportState = Literal["ACTIVE", "PERMISSION_DENIED", "NOT_FOUND", "SCHEMA_MISMATCH"]

#: The schedule of retries whose first wait is none, and whose others double.
FIRST_IMMEDIATE: Final = "first-immediate"
#: The dead letter policy of subscriptions that are made without one: none, or one of their own.
DeadLetterDefault = Literal["none", "auto"]
#: What messages of a topic are ordered by: nothing, senders' keys, their publisher, all together.
TopicOrdering = Literal["none", "key", "publisher", "total"]
DEFAULT_ORDERING: Final = "key"
TOPIC_ORDERINGS: tuple[TopicOrdering, ...] = get_args(TopicOrdering)
#: Labels of topics that are particular about what is published to them.
_PARTICULAR: Final = frozenset(
    {
        attributes.LABEL_ORDERING,
        attributes.LABEL_PUBLISH_RATE,
        attributes.LABEL_PUBLISH_BYTES_RATE,
    }
)
#: Labels of subscriptions that change what consumers get, or how many share it.
_CHANGING: Final = frozenset(
    {
        attributes.LABEL_SCHEMA_REVISION,
        attributes.LABEL_BACKLOG_POLICY,
        attributes.LABEL_ASSIGNMENT,
        attributes.LABEL_MAX_OUTSTANDING_MESSAGES,
        attributes.LABEL_MAX_OUTSTANDING_BYTES,
    }
)
AT_MOST_ONCE: Final = "at-most-once"
DELIVERIES = ("at-least-once", AT_MOST_ONCE)
#: What becomes of messages whose time-to-live is over; the first is the default.
EXPIRED_WAYS = ("drop", "dead-letter")
#: What becomes of messages that have waited too long for others; the first is the default.
DEPENDENCY_POLICIES = ("deliver", "dead-letter")
PUSH_BODIES = ("wrapped", "plain", "cloudevents", "event")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A schema without its revisions; definitions are theirs."""

    id: SchemaId
    name: str
    type: SchemaType
    compatibility: Compatibility = "NONE"
    #: The highest number that a revision of it had and that went; 0 while none later is missing.
    last_number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRevision:
    schema_id: SchemaId
    #: 1, 2, 3 …, never given twice: a later revision has a higher one.
    number: int
    #: The name that users see: eight hex digits.
    id: str
    definition: str
    created_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaSettings:
    """The schema that a topic's messages must conform to, and its revisions and encoding."""

    #: Full name of the schema as it was when it was set.
    schema: str
    encoding: Encoding
    #: Oldest and newest revision that messages may conform to; empty leaves that end open.
    first_revision_id: str = ""
    last_revision_id: str = ""
    #: None before the catalog has seen it, and once the schema was deleted.
    schema_id: SchemaId | None = None

    @property
    def schema_shown(self) -> str:
        return self.schema if self.schema_id is not None else DELETED_SCHEMA


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePolicy:
    """Where a topic's messages may be: regions, of which the server's own must be one."""

    allowed_regions: tuple[str, ...]
    #: Whether publishing and subscribing is for those regions alone, too; one server has one.
    enforce_in_transit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    id: TopicId
    name: str
    partitions: tuple[PartitionId, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    #: Messages are kept this long, acknowledged or not; None keeps nothing for the topic itself.
    message_retention_s: float | None = None
    schema_settings: SchemaSettings | None = None
    #: None for one that was made before this was kept.
    created_s: float | None = None
    #: None for anywhere.
    storage_policy: StoragePolicy | None = None
    #: The principal that made it; None where callers were not authenticated.
    maker: str | None = None

    @property
    def ordering(self) -> TopicOrdering:
        """What its messages are ordered by."""
        found = self.labels.get(attributes.LABEL_ORDERING, DEFAULT_ORDERING)
        # Its spec was checked.
        return cast(TopicOrdering, found)

    @property
    def is_archived(self) -> bool:
        """Whether the archive takes this topic, where there is one."""
        return self.labels.get(attributes.LABEL_ARCHIVE) != "off"

    @property
    def is_rated(self) -> bool:
        """Whether there is a limit to what may be published to it."""
        labels = self.labels
        return attributes.LABEL_PUBLISH_RATE in labels or (
            attributes.LABEL_PUBLISH_BYTES_RATE in labels
        )

    @property
    def is_plain(self) -> bool:
        """Whether it takes any message as it comes: no schema, no rate, no order of its own."""
        return self.schema_settings is None and _PARTICULAR.isdisjoint(self.labels)

    @property
    def dedup_window_s(self) -> float:
        """How long a dedup id is known; 0 when it is not asked for."""
        text = self.labels.get(attributes.LABEL_DEDUP_WINDOW)
        return limits.DEDUP_WINDOW_S_DEFAULT if text is None else float(text)

    @property
    def gap_timeout_s(self) -> float:
        """How long messages behind a gap in their publisher's numbers are held back at most."""
        return float(self.labels.get(attributes.LABEL_GAP_TIMEOUT, limits.GAP_TIMEOUT_S_DEFAULT))

    @property
    def publisher_life_s(self) -> float:
        """How long a publisher that numbers its messages is remembered while it is silent."""
        text = self.labels.get(attributes.LABEL_PUBLISHER_LIFE, limits.PUBLISHER_LIFE_S_DEFAULT)
        return float(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    minimum_backoff_s: float = limits.RETRY_MINIMUM_BACKOFF_S_DEFAULT
    maximum_backoff_s: float = limits.RETRY_MAXIMUM_BACKOFF_S_DEFAULT


#: How long a message waits after a failed delivery; None for not at all.
RetrySchedule = RetryPolicy | Literal["first-immediate"] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterPolicy:
    #: Full name of the topic that messages are forwarded to after too many attempts.
    dead_letter_topic: str
    max_delivery_attempts: int = limits.DELIVERY_ATTEMPTS_DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class PushConfig:
    """Where a subscription sends its messages, and how the receiver knows that they are ours."""

    #: An http or https address, or `topic:NAME`.
    endpoint: str
    #: As given, without the secrets.
    attributes: Mapping[str, str] = field(default_factory=dict)
    #: Whether the body is the data alone, and whether headers then say the rest.
    no_wrapper: bool = False
    write_metadata: bool = False
    #: Empty for no OIDC token.
    oidc_email: str = ""
    #: Empty for the endpoint itself.
    oidc_audience: str = ""
    #: Of webhook signatures; in no answer and in no log.
    webhook_secrets: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableExport:
    """The table of the lake that a subscription's messages become rows of."""

    #: As Google writes it: names with dots between them.
    table: str
    #: Columns by the topic's schema; otherwise the data is one column.
    use_topic_schema: bool = False
    write_metadata: bool = False
    #: Leave out fields that the table has no column for, and not the message.
    drop_unknown_fields: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileExport:
    """The files that a subscription's messages are written to."""

    #: A folder of the lake, or the address of another place: `s3://bucket/prefix`.
    bucket: str
    filename_prefix: str = ""
    filename_suffix: str = ""
    #: Empty for the default.
    filename_datetime_format: str = ""
    format: FileFormat = "text"
    #: Only of Avro.
    write_metadata: bool = False
    use_topic_schema: bool = False
    #: When a file is full: so long after its first message, with so many bytes, messages.
    max_duration_s: float = limits.EXPORT_FILE_S_DEFAULT
    #: 0 for no bound.
    max_bytes: int = 0
    max_messages: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterChange:
    """A filter that a subscription had once, and still has for messages published then."""

    filter: str
    #: It judges the messages of all commits before this one.
    before_sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    id: SubscriptionId
    name: str
    #: Full topic name as it was at creation, or a pattern of topic names; see `topic_id` for
    #: whether it is still that topic.
    topic: str
    #: None once the topic was deleted, and for a pattern.
    topic_id: TopicId | None
    #: Empty for a pattern, which reads the partitions that it has cursors in.
    partitions: tuple[PartitionId, ...]
    ack_deadline_s: int = limits.ACK_DEADLINE_S_DEFAULT
    retain_acked: bool = False
    message_retention_s: float = limits.RETENTION_S_DEFAULT
    labels: Mapping[str, str] = field(default_factory=dict)
    enable_message_ordering: bool = False
    enable_exactly_once: bool = False
    #: None never expires.
    expiration_ttl_s: float | None = limits.EXPIRATION_TTL_S_DEFAULT
    dead_letter: DeadLetterPolicy | None = None
    retry: RetryPolicy | None = None
    detached: bool = False
    created_s: float = 0.0
    #: As it was given; empty for none.
    filter: str = ""
    #: Earlier filters that some unacknowledged message may still have to be judged by, in order.
    filter_changes: tuple[FilterChange, ...] = ()
    #: None for pull.
    push: PushConfig | None = None
    #: Why nothing is pushed until the push config is set anew; empty while it is.
    push_off: str = ""
    #: At most one of push, table and files is set; with none, messages are pulled.
    table: TableExport | None = None
    files: FileExport | None = None
    #: The principal that made it; None where callers were not authenticated.
    maker: str | None = None

    @property
    def mode(self) -> Mode:
        if self.push is not None:
            return "push"
        return "pull" if self.table is None and self.files is None else "export"

    @property
    def is_plain(self) -> bool:
        """Whether its consumers get messages as they are stored, and as many as they have room for.

        So it has no schema revision, no samples, no key slots and no window of its own.
        """
        return _CHANGING.isdisjoint(self.labels)

    @property
    def is_pattern(self) -> bool:
        return names.is_pattern(self.topic)

    @property
    def is_filtered(self) -> bool:
        return bool(self.filter or self.filter_changes)

    @property
    def schema_revision(self) -> str:
        """Id or number of the schema revision its messages are wanted in; empty for as written."""
        return self.labels.get(attributes.LABEL_SCHEMA_REVISION, "")

    @property
    def topic_shown(self) -> str:
        return _show_topic(self.topic, self.topic_id)

    @property
    def ordering(self) -> Ordering:
        if not self.enable_message_ordering:
            return "none"
        # Requests overtake each other: in order means one after the other.
        is_strict = self.push is not None or self.labels.get(attributes.LABEL_ORDERING) == "strict"
        return "strict" if is_strict else "key"

    @property
    def is_at_most_once(self) -> bool:
        """Whether messages are acknowledged when they are sent, and so never sent twice."""
        return self.labels.get(attributes.LABEL_DELIVERY) == AT_MOST_ONCE

    @property
    def is_fair(self) -> bool:
        """Whether tenants are served in turn."""
        return attributes.LABEL_FAIRNESS in self.labels

    @property
    def key_slots(self) -> int:
        """How many key slots its streams share; 0 when any stream may have any message."""
        if self.labels.get(attributes.LABEL_ASSIGNMENT) != "sticky":
            return 0
        return int(self.labels.get(attributes.LABEL_KEY_SLOTS, limits.KEY_SLOTS_DEFAULT))

    @property
    def retry_schedule(self) -> RetrySchedule:
        """The waits between deliveries: the policy's; `first-immediate` where that is asked for.

        It is the rule of push: an endpoint is not to be asked again and again without a pause.
        """
        if self.retry is not None:
            return self.retry
        is_asked_for = self.labels.get(attributes.LABEL_RETRY) == FIRST_IMMEDIATE
        return FIRST_IMMEDIATE if is_asked_for or self.push is not None else None

    @property
    def push_form(self) -> PushForm:
        if self.push is not None and self.push.no_wrapper:
            return "unwrapped-metadata" if self.push.write_metadata else "unwrapped"
        match self.labels.get(attributes.LABEL_PUSH_BODY):
            case "plain":
                return "plain"
            case "cloudevents":
                return "cloudevents"
            case "event":
                return "event"
        return "wrapped"

    @property
    def message_ttl_s(self) -> float | None:
        """The time-to-live of messages that have none of their own; None for none."""
        text = self.labels.get(attributes.LABEL_TTL)
        return None if text is None else float(text)

    @property
    def forwards_lapsed(self) -> bool:
        """Whether messages whose time-to-live is over become dead letters."""
        return self.labels.get(attributes.LABEL_EXPIRED) == "dead-letter"

    @property
    def dependency_timeout_s(self) -> float:
        """How long a message waits at most for those that it depends on."""
        text = self.labels.get(attributes.LABEL_DEPENDENCY_TIMEOUT)
        return float(limits.DEPENDENCY_TIMEOUT_S_DEFAULT if text is None else text)

    @property
    def forwards_overdue(self) -> bool:
        """Whether messages that have waited too long for others become dead letters."""
        return self.labels.get(attributes.LABEL_DEPENDENCY_POLICY) == "dead-letter"

    @property
    def push_rate(self) -> int | None:
        """Messages a second that its endpoint gets at most; None for no limit."""
        text = self.labels.get(attributes.LABEL_PUSH_RATE)
        return None if text is None else int(text)

    @property
    def window(self) -> tuple[int, int]:
        """Messages and bytes that may be outstanding over all consumers; 0 for no limit."""
        labels = self.labels
        return (
            int(labels.get(attributes.LABEL_MAX_OUTSTANDING_MESSAGES, 0)),
            int(labels.get(attributes.LABEL_MAX_OUTSTANDING_BYTES, 0)),
        )

    @property
    def backlog_policy(self) -> BacklogPolicy | None:
        """What happens when its backlog is full; None where it has no limits."""
        return backlog_policy_of(self.labels)

    @property
    def push_timeout_s(self) -> int:
        """How long an endpoint has to answer."""
        return int(self.labels.get(attributes.LABEL_PUSH_TIMEOUT, limits.PUSH_TIMEOUT_S_DEFAULT))


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    id: SnapshotId
    name: str
    topic: str
    #: None once the topic was deleted.
    topic_id: TopicId | None
    partitions: tuple[PartitionId, ...]
    expire_s: float
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_pattern(self) -> bool:
        return names.is_pattern(self.topic)

    @property
    def topic_shown(self) -> str:
        return _show_topic(self.topic, self.topic_id)


def _show_topic(topic: str, topic_id: TopicId | None) -> str:
    return topic if topic_id is not None or names.is_pattern(topic) else DELETED_TOPIC
