"""Specs: topics, subscriptions and snapshots as a caller asks for them, before they have ids.

A spec that exists is valid: each checks itself when it is made, so that every surface (gRPC, files,
command line) refuses the same things with the same sentences. Sentences name fields as the API
spells them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from fanlog import limits
from fanlog.errors import InvalidArgument, OutOfRange
from fanlog.model import endpoints, exports, names, push_settings
from fanlog.model.at_most_once import check_at_most_once
from fanlog.model.attributes import (
    LABEL_ARCHIVE,
    LABEL_ASSIGNMENT,
    LABEL_DEAD_LETTER,
    LABEL_DEDUP_WINDOW,
    LABEL_DEPENDENCY_POLICY,
    LABEL_DEPENDENCY_TIMEOUT,
    LABEL_EXPIRED,
    LABEL_KEY_SLOTS,
    LABEL_MAX_OUTSTANDING_BYTES,
    LABEL_MAX_OUTSTANDING_MESSAGES,
    LABEL_ORDERING,
    LABEL_PUSH_BODY,
    LABEL_PUSH_TIMEOUT,
    LABEL_RETRY,
    LABEL_SCHEMA_REVISION,
    LABEL_START,
    LABEL_TTL,
)
from fanlog.model.backlog_policy import check_backlog
from fanlog.model.fairness import check_fairness
from fanlog.model.labels import (
    SNAPSHOT_LABELS,
    SUBSCRIPTION_LABELS,
    TOPIC_LABELS,
    Start,
    check_labels,
    check_publishers,
    check_settings,
    check_topic_ordering,
    parse_start,
)
from fanlog.model.publish_rates import check_publish_rates
from fanlog.model.resources import (
    DeadLetterPolicy,
    FileExport,
    PushConfig,
    RetryPolicy,
    SchemaSettings,
    StoragePolicy,
    Subscription,
    TableExport,
    Topic,
)
from fanlog.routing import filter_parse
from fanlog.routing.pattern import Pattern

#: Regions that an error sentence names one by one.
_REGIONS_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A valid topic to be made; fields as in `model.Topic`."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    message_retention_s: float | None = None
    schema_settings: SchemaSettings | None = None
    storage_policy: StoragePolicy | None = None
    maker: str | None = None

    def __post_init__(self) -> None:
        names.parse_topic(self.name, field="name")
        if self.storage_policy is not None:
            _check_storage_policy(self.storage_policy)
        if self.schema_settings is not None:
            _check_schema_settings(self.schema_settings)
        check_labels(self.labels, TOPIC_LABELS, "a topic")
        check_topic_ordering(self.labels)
        check_publishers(self.labels)
        check_publish_rates(self.labels)
        _check_dedup_window(self.labels.get(LABEL_DEDUP_WINDOW, "0"))
        archive = self.labels.get(LABEL_ARCHIVE)
        if archive not in (None, "on", "off"):
            raise InvalidArgument(
                f"label {LABEL_ARCHIVE}: {names.shown(archive)} is not 'on' or 'off'"
            )
        if self.message_retention_s is not None:
            _check_topic_retention(self.message_retention_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionSpec:
    """A valid subscription to be made; fields as in `model.Subscription`.

    The topic may be a pattern of topic names. A filter that says nothing is kept as none.
    """

    name: str
    topic: str
    ack_deadline_s: int = limits.ACK_DEADLINE_S_DEFAULT
    retain_acked: bool = False
    message_retention_s: float = limits.RETENTION_S_DEFAULT
    labels: Mapping[str, str] = field(default_factory=dict)
    enable_message_ordering: bool = False
    enable_exactly_once: bool = False
    expiration_ttl_s: float | None = limits.EXPIRATION_TTL_S_DEFAULT
    dead_letter: DeadLetterPolicy | None = None
    retry: RetryPolicy | None = None
    filter: str = ""
    push: PushConfig | None = None
    table: TableExport | None = None
    files: FileExport | None = None
    maker: str | None = None

    def __post_init__(self) -> None:
        names.parse_subscription(self.name, field="name")
        names.parse_topic_or_pattern(self.topic)
        if filter_parse.parse(self.filter) is None:
            object.__setattr__(self, "filter", "")
        check_ack_deadline(self.ack_deadline_s)
        _check_retention(self.message_retention_s)
        check_labels(self.labels, SUBSCRIPTION_LABELS, "a subscription")
        _check_expiration(self.expiration_ttl_s, self.message_retention_s)
        if self.retry is not None:
            _check_retry(self.retry)
        if self.dead_letter is not None:
            _check_dead_letter(self.dead_letter, self.topic)
        self._check_own_labels()
        if self.push is not None:
            self._check_push(self.push)
        if self.table is not None or self.files is not None:
            self._check_export()

    @property
    def is_pattern(self) -> bool:
        return names.is_pattern(self.topic)

    @property
    def start(self) -> Start:
        """Where the subscription begins, as the label `fanlog-start` says."""
        return parse_start(self.labels.get(LABEL_START, "now"))

    @property
    def makes_dead_letter_topic(self) -> bool:
        """Whether the broker is to make `dead_letter`'s topic, and a subscription on it."""
        return self.labels.get(LABEL_DEAD_LETTER) == "auto"

    def _check_own_labels(self) -> None:
        _ = self.start
        ordering = self.labels.get(LABEL_ORDERING)
        if ordering is not None:
            if ordering not in ("strict", "key"):
                raise InvalidArgument(
                    f"label {LABEL_ORDERING}: {names.shown(ordering)} is not 'strict' or 'key'"
                )
            if not self.enable_message_ordering:
                raise InvalidArgument(
                    f"label {LABEL_ORDERING}: needs enable_message_ordering, which is not set"
                )
        self._check_assignment()
        check_settings(self.labels)
        check_fairness(
            self.labels,
            is_ordered=self.enable_message_ordering,
            filter_=self.filter,
            export_field=self._export_field,
        )
        self._check_at_most_once()
        check_backlog(
            self.labels,
            has_dead_letters=self.dead_letter is not None,
            export_field=self._export_field,
        )
        if self.retry is not None and LABEL_RETRY in self.labels:
            raise InvalidArgument(
                f"label {LABEL_RETRY}: asks for another schedule than retry_policy, which is set; "
                "leave one of them out"
            )
        for label in (LABEL_EXPIRED, LABEL_DEPENDENCY_POLICY):
            if self.labels.get(label) == "dead-letter" and self.dead_letter is None:
                raise InvalidArgument(
                    f"label {label}: 'dead-letter' needs a dead_letter_policy, to say where to"
                )
        if LABEL_SCHEMA_REVISION in self.labels:
            self._check_schema_revision(self.labels[LABEL_SCHEMA_REVISION])
        dead_letter = self.labels.get(LABEL_DEAD_LETTER)
        if dead_letter is not None:
            self._check_dead_letter_label(dead_letter)

    def _check_at_most_once(self) -> None:
        push = self.push
        check_at_most_once(
            self.labels,
            is_exactly_once=self.enable_exactly_once,
            has_dead_letters=self.dead_letter is not None,
            has_retry=self.retry is not None,
            forwards=push is not None and push.endpoint.startswith(endpoints.TOPIC_SCHEME),
            export_field=self._export_field,
        )

    @property
    def _export_field(self) -> str:
        """The field of its export; empty for none."""
        if self.table is not None:
            return exports.TABLE_FIELD
        return "" if self.files is None else exports.FILES_FIELD

    def _check_assignment(self) -> None:
        assignment, slots = self.labels.get(LABEL_ASSIGNMENT), self.labels.get(LABEL_KEY_SLOTS)
        if assignment not in (None, "sticky"):
            raise InvalidArgument(
                f"label {LABEL_ASSIGNMENT}: {names.shown(assignment)} is not 'sticky'"
            )
        if slots is not None and assignment is None:
            raise InvalidArgument(
                f"label {LABEL_KEY_SLOTS}: needs the label {LABEL_ASSIGNMENT}: 'sticky', which is "
                "not set"
            )
        most = limits.KEY_SLOTS_MAX
        is_count = slots is None or (slots.isascii() and slots.isdigit() and len(slots) < 5)
        if not is_count or not 1 <= int(slots or 1) <= most:
            raise InvalidArgument(
                f"label {LABEL_KEY_SLOTS}: {names.shown(slots or '')} is not a whole number from "
                f"1 to {most}"
            )
        if assignment is None:
            return
        others = {
            "push_config": self.push,
            exports.TABLE_FIELD: self.table,
            exports.FILES_FIELD: self.files,
        }
        for name, config in others.items():
            if config is not None:
                raise InvalidArgument(
                    f"label {LABEL_ASSIGNMENT}: 'sticky' gives each stream key slots of its own, "
                    f"and with {name} there are no streams; leave one of them out"
                )

    def _check_schema_revision(self, revision: str) -> None:
        names.check_revision_id(revision, field=f"label {LABEL_SCHEMA_REVISION}")
        if self.is_pattern:
            raise InvalidArgument(
                f"label {LABEL_SCHEMA_REVISION}: {names.shown(self.topic)} is a pattern, and its "
                "topics may have schemas of their own; a revision can be asked for on one topic"
            )

    def _check_push(self, push: PushConfig) -> None:
        endpoints.check(push.endpoint, self.name)
        if self.enable_exactly_once:
            raise InvalidArgument(
                "enable_exactly_once_delivery: is for subscriptions that are pulled from; "
                "leave it or push_config unset"
            )
        form = self.labels.get(LABEL_PUSH_BODY, "wrapped")
        if push.no_wrapper and form != "wrapped":
            raise InvalidArgument(
                f"push_config.no_wrapper: the label {LABEL_PUSH_BODY} asks for another body "
                f"({form}); leave one of them out"
            )
        is_plain = not push.no_wrapper and not push.webhook_secrets and form == "wrapped"
        if endpoints.is_grpc(push.endpoint) and (push.attributes or not is_plain):
            raise InvalidArgument(
                f"{endpoints.FIELD}: a gRPC endpoint gets messages, not bodies; no_wrapper, "
                f"secrets, x-goog-version and the label {LABEL_PUSH_BODY} mean nothing with it"
            )
        topic = endpoints.forward_topic(push.endpoint, self.name)
        if topic is None:
            return
        if reads(self.topic, topic):
            raise InvalidArgument(
                f"{endpoints.FIELD}: {names.shown(topic)} is a topic the subscription itself "
                "reads; what it forwards would come back to it"
            )
        is_timed = LABEL_PUSH_TIMEOUT in self.labels or LABEL_RETRY in self.labels
        for label in push_settings.LABELS:
            if label in self.labels:
                raise InvalidArgument(
                    f"label {label}: forwarding to a topic makes no request; leave it out"
                )
        if push.oidc_email or not is_plain or is_timed:
            raise InvalidArgument(
                f"{endpoints.FIELD}: forwarding to a topic makes no request; no_wrapper, "
                f"oidc_token, secrets and the labels {LABEL_PUSH_BODY}, {LABEL_PUSH_TIMEOUT} and "
                f"{LABEL_RETRY} mean nothing with it"
            )

    def _check_export(self) -> None:
        if self.table is not None:
            exports.check_table(self.table)
        if self.files is not None:
            exports.check_files(self.files)
        given = {
            "push_config": self.push,
            exports.TABLE_FIELD: self.table,
            exports.FILES_FIELD: self.files,
        }
        several = [name for name, config in given.items() if config is not None]
        if len(several) > 1:
            raise InvalidArgument(
                f"{' and '.join(several)}: only one of them can be set; an update that sets one "
                "must name the others in its mask, empty"
            )
        meaningless = {
            "enable_exactly_once_delivery": self.enable_exactly_once,
            "dead_letter_policy": self.dead_letter is not None,
            "retry_policy": self.retry is not None,
            f"label {LABEL_RETRY}": LABEL_RETRY in self.labels,
            f"label {LABEL_SCHEMA_REVISION}": LABEL_SCHEMA_REVISION in self.labels,
            f"label {LABEL_TTL}": LABEL_TTL in self.labels,
            f"label {LABEL_EXPIRED}": LABEL_EXPIRED in self.labels,
            f"label {LABEL_DEPENDENCY_TIMEOUT}": LABEL_DEPENDENCY_TIMEOUT in self.labels,
            f"label {LABEL_DEPENDENCY_POLICY}": LABEL_DEPENDENCY_POLICY in self.labels,
            **{
                f"label {label}": self.labels.get(label, "0") != "0"
                for label in (LABEL_MAX_OUTSTANDING_MESSAGES, LABEL_MAX_OUTSTANDING_BYTES)
            },
        }
        for name, is_set in meaningless.items():
            if is_set:
                raise InvalidArgument(
                    f"{name}: means nothing with {several[0]}: messages are written once, and what "
                    f"does not fit goes to a table of its own ({exports.REJECTED!r}); leave it out"
                )
        uses_schema = any(
            one is not None and one.use_topic_schema for one in (self.table, self.files)
        )
        if uses_schema and self.is_pattern:
            raise InvalidArgument(
                f"{several[0]}.use_topic_schema: {names.shown(self.topic)} is a pattern, and its "
                "topics may have schemas of their own; export one topic, or without its schema"
            )

    def _check_dead_letter_label(self, value: str) -> None:
        if value == "none":
            if self.dead_letter is not None:
                raise InvalidArgument(
                    f"label {LABEL_DEAD_LETTER}: 'none' with a dead_letter_policy; leave one of "
                    "them out"
                )
            return
        if value != "auto":
            raise InvalidArgument(
                f"label {LABEL_DEAD_LETTER}: {names.shown(value)} is not 'auto' or 'none'"
            )
        own = names.dead_letter_topic_of(self.name)
        if self.dead_letter is None or self.dead_letter.dead_letter_topic != own:
            raise InvalidArgument(
                f"label {LABEL_DEAD_LETTER}: 'auto' makes the topic {names.shown(own)}; a "
                "dead_letter_policy beside it may name that topic or none, not another"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSpec:
    """A valid snapshot to be made of a subscription as it stands."""

    name: str
    subscription: str
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names.parse_snapshot(self.name, field="name")
        names.parse_subscription(self.subscription)
        check_labels(self.labels, SNAPSHOT_LABELS, "a snapshot")


def subscription_spec_of(subscription: Subscription) -> SubscriptionSpec:
    """Give the spec that would make this subscription."""
    return SubscriptionSpec(
        **{part.name: getattr(subscription, part.name) for part in fields(SubscriptionSpec)}
    )


def reads(topic: str, name: str) -> bool:
    """Whether a subscription on `topic`, which may be a pattern, reads the topic `name`."""
    if not names.is_pattern(topic):
        return topic == name
    pattern, other = names.parse_topic_or_pattern(topic), names.parse_topic(name)
    return pattern.project == other.project and Pattern(pattern.id).matches(other.id)


def check_ack_deadline(seconds: int, *, field: str = "ack_deadline_seconds") -> None:
    if not limits.ACK_DEADLINE_S_MIN <= seconds <= limits.ACK_DEADLINE_S_MAX:
        raise InvalidArgument(
            f"{field}: {seconds} is out of range; "
            f"{limits.ACK_DEADLINE_S_MIN} to {limits.ACK_DEADLINE_S_MAX} seconds are allowed"
        )


def check_tier(topic: TopicSpec | Topic, before: Topic | None, *, has_lake: bool) -> None:
    """Check that a topic with a long retention is archived to a lake.

    A topic that was made when there was a lake may stay as it was before.

    Raises:
        InvalidArgument: There is no lake, or the topic is kept out of it.
    """
    retention_s, is_archived = topic.message_retention_s, _is_archived(topic)
    if retention_s is None or retention_s <= limits.RETENTION_S_MAX:
        return
    if before is not None and before.message_retention_s == retention_s:
        if is_archived or not before.is_archived:
            return
    elif not has_lake:
        _check_topic_retention(retention_s, limits.RETENTION_S_MAX)
    if not is_archived:
        raise InvalidArgument(
            f"message_retention_duration: more than {limits.RETENTION_S_MAX:.0f} s (31 days) is "
            f"kept by a lake alone, and the label {LABEL_ARCHIVE} keeps this topic out of it"
        )


def check_region(topic: TopicSpec | Topic, before: Topic | None, region: str) -> None:
    """See that the regions a topic's messages may be in have the server's own among them.

    A policy that was there before stays as it was: the server may have been moved since.

    Raises:
        InvalidArgument: They have not, or the server does not know where it is.
    """
    policy = topic.storage_policy
    if policy is None or (before is not None and before.storage_policy == policy):
        return
    if region not in policy.allowed_regions:
        named = ", ".join(map(names.shown, policy.allowed_regions[:_REGIONS_SHOWN]))
        own = f"is in {names.shown(region)}" if region else "has no region (setting region)"
        raise InvalidArgument(
            f"message_storage_policy.allowed_persistence_regions: this server {own}, which is not "
            f"one of {named}; messages would be stored where they may not be"
        )


def _check_storage_policy(policy: StoragePolicy) -> None:
    field = "message_storage_policy.allowed_persistence_regions"
    if not policy.allowed_regions:
        raise InvalidArgument(
            f"{field}: empty, with enforce_in_transit set; name the regions it is to hold for"
        )
    if len(policy.allowed_regions) > limits.STORAGE_REGIONS_MAX:
        raise InvalidArgument(
            f"{field}: {len(policy.allowed_regions)} regions; "
            f"at most {limits.STORAGE_REGIONS_MAX} are allowed"
        )
    for region in policy.allowed_regions:
        names.check_region(region, field=field)


def _is_archived(topic: TopicSpec | Topic) -> bool:
    return topic.labels.get(LABEL_ARCHIVE) != "off"


def _check_topic_retention(seconds: float, most_s: float = limits.LAKE_RETENTION_S_MAX) -> None:
    if not limits.RETENTION_S_MIN <= seconds <= most_s:
        raise InvalidArgument(
            f"message_retention_duration: {seconds:.15g} s is out of range; "
            f"{limits.RETENTION_S_MIN:.0f} s (10 minutes) to "
            f"{limits.RETENTION_S_MAX:.0f} s (31 days) are allowed, and up to "
            f"{limits.LAKE_RETENTION_S_MAX:.0f} s (100 years) where the broker has a lake (--lake)"
        )


def _check_retention(seconds: float) -> None:
    if not limits.RETENTION_S_MIN <= seconds <= limits.RETENTION_S_MAX:
        raise InvalidArgument(
            f"message_retention_duration: {seconds:.15g} s is out of range; "
            f"{limits.RETENTION_S_MIN:.0f} s (10 minutes) to "
            f"{limits.RETENTION_S_MAX:.0f} s (31 days) are allowed"
        )


def _check_dedup_window(text: str) -> None:
    if not (text.isascii() and text.isdigit() and int(text) <= limits.DEDUP_WINDOW_S_MAX):
        raise InvalidArgument(
            f"label {LABEL_DEDUP_WINDOW}: {names.shown(text)} is not a number of seconds from 0 "
            f"(off) to {limits.DEDUP_WINDOW_S_MAX} (a day)"
        )


def _check_schema_settings(settings: SchemaSettings) -> None:
    names.parse_schema(settings.schema, field="schema_settings.schema")
    for name in ("first_revision_id", "last_revision_id"):
        revision = getattr(settings, name)
        if revision:
            names.check_revision_id(revision, field=f"schema_settings.{name}")


def _check_expiration(ttl_s: float | None, retention_s: float) -> None:
    if ttl_s is None:
        return
    if ttl_s < limits.EXPIRATION_TTL_S_MIN:
        raise InvalidArgument(
            f"expiration_policy.ttl: {ttl_s:.15g} s is out of range; "
            f"at least {limits.EXPIRATION_TTL_S_MIN:.0f} s (1 day) is allowed"
        )
    if ttl_s < retention_s:
        raise InvalidArgument(
            f"expiration_policy.ttl: {ttl_s:.15g} s is shorter than message_retention_duration "
            f"({retention_s:.15g} s); it must be at least as long"
        )


def _check_retry(retry: RetryPolicy) -> None:
    for name, seconds in (
        ("minimum_backoff", retry.minimum_backoff_s),
        ("maximum_backoff", retry.maximum_backoff_s),
    ):
        if not 0 <= seconds <= limits.RETRY_BACKOFF_S_MAX:
            raise InvalidArgument(
                f"retry_policy.{name}: {seconds:.15g} s is out of range; "
                f"0 to {limits.RETRY_BACKOFF_S_MAX:.0f} s are allowed"
            )
    if retry.minimum_backoff_s > retry.maximum_backoff_s:
        raise InvalidArgument(
            f"retry_policy: minimum_backoff ({retry.minimum_backoff_s:.15g} s) is longer than "
            f"maximum_backoff ({retry.maximum_backoff_s:.15g} s)"
        )


def _check_dead_letter(policy: DeadLetterPolicy, topic: str) -> None:
    names.parse_topic(policy.dead_letter_topic, field="dead_letter_policy.dead_letter_topic")
    if reads(topic, policy.dead_letter_topic):
        raise InvalidArgument(
            f"dead_letter_policy.dead_letter_topic: {names.shown(policy.dead_letter_topic)} is a "
            "topic the subscription itself reads; its dead letters would come back to it"
        )
    attempts = policy.max_delivery_attempts
    if not limits.DELIVERY_ATTEMPTS_MIN <= attempts <= limits.DELIVERY_ATTEMPTS_MAX:
        # Google answers OUT_OF_RANGE here, not INVALID_ARGUMENT.
        raise OutOfRange(
            f"dead_letter_policy.max_delivery_attempts: {attempts} is out of range; "
            f"{limits.DELIVERY_ATTEMPTS_MIN} to {limits.DELIVERY_ATTEMPTS_MAX} are allowed"
        )
