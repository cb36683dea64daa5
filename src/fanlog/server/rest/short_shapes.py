"""The fields of the short form's JSON: its reader takes no others, and OpenAPI shows them."""

from __future__ import annotations

from typing import get_args

from fanlog import limits
from fanlog.model.attributes import (
    DELAY,
    DELIVER_AT,
    DEPENDS_ON,
    LABEL_ASSIGNMENT,
    LABEL_BACKLOG_AGE,
    LABEL_BACKLOG_BLOCK,
    LABEL_BACKLOG_BYTES,
    LABEL_BACKLOG_CRITICAL,
    LABEL_BACKLOG_FALLBACK,
    LABEL_BACKLOG_GROUP,
    LABEL_BACKLOG_HIGH,
    LABEL_BACKLOG_LOW,
    LABEL_BACKLOG_MESSAGES,
    LABEL_BACKLOG_POLICY,
    LABEL_BACKLOG_SUMMARIES,
    LABEL_DELIVERY,
    LABEL_DEPENDENCY_POLICY,
    LABEL_DEPENDENCY_TIMEOUT,
    LABEL_EXPIRED,
    LABEL_FAIRNESS,
    LABEL_KEY_SLOTS,
    LABEL_MAX_OUTSTANDING_BYTES,
    LABEL_MAX_OUTSTANDING_MESSAGES,
    LABEL_ORDERING,
    LABEL_PUBLISH_BURST,
    LABEL_PUBLISH_BYTES_BURST,
    LABEL_PUBLISH_BYTES_RATE,
    LABEL_PUBLISH_RATE,
    LABEL_PUSH_BODY,
    LABEL_PUSH_BREAKER_FAILURES,
    LABEL_PUSH_BREAKER_MAX_WAIT,
    LABEL_PUSH_BREAKER_WAIT,
    LABEL_PUSH_RATE,
    LABEL_PUSH_TIMEOUT,
    LABEL_RETRY,
    LABEL_TTL,
    PRIORITY,
    PUBLISHER,
    PUBLISHER_EPOCH,
    SEQUENCE,
    TENANT,
    TTL,
)
from fanlog.model.backlog_policy import WAYS
from fanlog.model.json_value import Json
from fanlog.model.resources import (
    DELIVERIES,
    DEPENDENCY_POLICIES,
    EXPIRED_WAYS,
    FIRST_IMMEDIATE,
    PUSH_BODIES,
    TOPIC_ORDERINGS,
    Compatibility,
)
from fanlog.server.rest.json_schema import (
    BASE64,
    BOOLEAN,
    DURATION,
    LABELS,
    STRING,
    TIMESTAMP,
    JsonSchema,
    array,
    integer,
    properties,
    record,
)
from fanlog.wire import types

#: In this form; elsewhere it is Google's 10 s.
ACK_DEADLINE_S_DEFAULT = 30
PULL_MESSAGES_DEFAULT = 10

#: Facts about a resource beyond its own fields.
_TOLD: dict[str, JsonSchema] = {"created_at": TIMESTAMP}
_RETENTION: dict[str, JsonSchema] = {"retention_seconds": {"type": "number", "minimum": 0}}
#: Fields of a topic that are labels in the other forms, as `SETTINGS` of a subscription.
FIXED_TOPIC_SETTINGS: dict[str, tuple[str, type]] = {"ordering": (LABEL_ORDERING, str)}
RATES: dict[str, tuple[str, type]] = {
    "publish_rate": (LABEL_PUBLISH_RATE, int),
    "publish_burst": (LABEL_PUBLISH_BURST, int),
    "publish_bytes_rate": (LABEL_PUBLISH_BYTES_RATE, int),
    "publish_bytes_burst": (LABEL_PUBLISH_BYTES_BURST, int),
}
TOPIC_SETTINGS = FIXED_TOPIC_SETTINGS | RATES
TOPIC: dict[str, JsonSchema] = properties(types.Topic.DESCRIPTOR, snake_case=True) | _RETENTION
TOPIC |= {
    "ordering": {"type": "string", "enum": list(TOPIC_ORDERINGS)},
    **{name: integer(1, limits.PUBLISH_RATE_MAX) for name in RATES},
}
NEW_TOPIC = TOPIC | {"partition_count": integer(1, 1, default=1)}
#: How long a topic keeps messages that no subscription needs; without a duration for good, in the
#: lake.
_KEPT: JsonSchema = record(
    {
        "duration": DURATION,
        "by": {"type": "string", "enum": ["topic", "server", "lake", "nobody"]},
    },
    "by",
)
TOPIC_SHOWN = NEW_TOPIC | _TOLD | {"effective_retention": _KEPT}
_REPLACED = frozenset({"push_config", "dead_letter_policy"})
#: The same of a subscription's fields that are read when it is made, and stay.
FIXED_SETTINGS: dict[str, tuple[str, type]] = {
    "assignment": (LABEL_ASSIGNMENT, str),
    "slots": (LABEL_KEY_SLOTS, int),
    "fairness": (LABEL_FAIRNESS, str),
}
#: Fields that are labels in the other forms: the label, and the type of the value in JSON.
SETTINGS: dict[str, tuple[str, type]] = FIXED_SETTINGS | {
    "delivery": (LABEL_DELIVERY, str),
    "retry": (LABEL_RETRY, str),
    "push_body": (LABEL_PUSH_BODY, str),
    "push_timeout_seconds": (LABEL_PUSH_TIMEOUT, int),
    "push_rate": (LABEL_PUSH_RATE, int),
    "push_breaker_failures": (LABEL_PUSH_BREAKER_FAILURES, int),
    "push_breaker_wait_seconds": (LABEL_PUSH_BREAKER_WAIT, int),
    "push_breaker_max_wait_seconds": (LABEL_PUSH_BREAKER_MAX_WAIT, int),
    "message_ttl_seconds": (LABEL_TTL, int),
    "expired": (LABEL_EXPIRED, str),
    "dependency_timeout_seconds": (LABEL_DEPENDENCY_TIMEOUT, int),
    "dependency_policy": (LABEL_DEPENDENCY_POLICY, str),
    "max_outstanding_messages": (LABEL_MAX_OUTSTANDING_MESSAGES, int),
    "max_outstanding_bytes": (LABEL_MAX_OUTSTANDING_BYTES, int),
    "backlog_policy": (LABEL_BACKLOG_POLICY, str),
    "backlog_messages": (LABEL_BACKLOG_MESSAGES, int),
    "backlog_bytes": (LABEL_BACKLOG_BYTES, int),
    "backlog_age_seconds": (LABEL_BACKLOG_AGE, int),
    "backlog_high": (LABEL_BACKLOG_HIGH, float),
    "backlog_low": (LABEL_BACKLOG_LOW, float),
    "backlog_critical": (LABEL_BACKLOG_CRITICAL, bool),
    "backlog_fallback": (LABEL_BACKLOG_FALLBACK, str),
    "backlog_block_seconds": (LABEL_BACKLOG_BLOCK, int),
    "backlog_group": (LABEL_BACKLOG_GROUP, str),
    "backlog_summaries_seconds": (LABEL_BACKLOG_SUMMARIES, int),
}
SUBSCRIPTION: dict[str, JsonSchema] = {
    name: schema
    for name, schema in properties(types.Subscription.DESCRIPTOR, snake_case=True).items()
    if name not in _REPLACED
} | {
    "mode": {"type": "string", "enum": ["pull", "push", "export"]},
    "delivery_url": STRING,
    "delivery": {"type": "string", "enum": list(DELIVERIES)},
    "fairness": {"type": "string", "enum": ["tenant"]},
    "assignment": {"type": "string", "enum": ["sticky"]},
    "slots": integer(1, limits.KEY_SLOTS_MAX, default=limits.KEY_SLOTS_DEFAULT),
    "retry": {"type": "string", "enum": [FIRST_IMMEDIATE]},
    "push_body": {"type": "string", "enum": list(PUSH_BODIES)},
    "push_timeout_seconds": integer(
        limits.PUSH_TIMEOUT_S_MIN, limits.PUSH_TIMEOUT_S_MAX, default=limits.PUSH_TIMEOUT_S_DEFAULT
    ),
    "push_rate": integer(1, limits.PUSH_RATE_MAX),
    "push_breaker_failures": integer(1, limits.PUSH_BREAKER_FAILURES_MAX),
    "push_breaker_wait_seconds": integer(1, limits.PUSH_BREAKER_WAIT_S_MAX),
    "push_breaker_max_wait_seconds": integer(1, limits.PUSH_BREAKER_WAIT_S_MAX),
    "message_ttl_seconds": integer(1, int(limits.MESSAGE_TTL_S_MAX)),
    "expired": {"type": "string", "enum": list(EXPIRED_WAYS)},
    "dependency_timeout_seconds": integer(
        1, limits.DEPENDENCY_TIMEOUT_S_MAX, default=limits.DEPENDENCY_TIMEOUT_S_DEFAULT
    ),
    "dependency_policy": {"type": "string", "enum": list(DEPENDENCY_POLICIES)},
    "max_outstanding_messages": integer(0, limits.MAX_OUTSTANDING_MAX),
    "max_outstanding_bytes": integer(0, limits.MAX_OUTSTANDING_MAX),
    "backlog_policy": {"type": "string", "enum": list(WAYS)},
    "backlog_messages": integer(1, limits.BACKLOG_LIMIT_MESSAGES_MAX),
    "backlog_bytes": integer(1, limits.BACKLOG_LIMIT_BYTES_MAX),
    "backlog_age_seconds": integer(1, int(limits.RETENTION_S_MAX)),
    "backlog_high": {"type": "number", "minimum": 0, "maximum": 1},
    "backlog_low": {"type": "number", "minimum": 0, "maximum": 1},
    "backlog_critical": BOOLEAN,
    "backlog_fallback": {"type": "string", "enum": list(WAYS[:-1])},
    "backlog_block_seconds": integer(1, limits.BACKLOG_BLOCK_S_MAX),
    "backlog_group": STRING,
    "backlog_summaries_seconds": integer(1, limits.BACKLOG_SUMMARIES_S_MAX),
    "dead_letter": record(
        {
            "topic": STRING,
            "max_delivery_attempts": integer(
                limits.DELIVERY_ATTEMPTS_MIN, limits.DELIVERY_ATTEMPTS_MAX
            ),
        }
    ),
}
SUBSCRIPTION |= _RETENTION
#: `hints` are sentences for the caller about a request that was done.
SUBSCRIPTION_SHOWN: dict[str, JsonSchema] = SUBSCRIPTION | _TOLD | {"hints": array(STRING)}
SNAPSHOT = properties(types.Snapshot.DESCRIPTOR, snake_case=True)
NEW_SNAPSHOT = {"name": STRING, "subscription": STRING, "labels": LABELS}
MESSAGE = {"data": BASE64, "attributes": LABELS, "ordering_key": STRING}
#: What a message may ask for: fields that are attributes in the other forms.
ASKING: dict[str, str] = {
    "delay_seconds": DELAY,
    "deliver_at": DELIVER_AT,
    "ttl_seconds": TTL,
    "priority": PRIORITY,
    "depends_on": DEPENDS_ON,
    "publisher": PUBLISHER,
    "sequence": SEQUENCE,
    "publisher_epoch": PUBLISHER_EPOCH,
    "tenant": TENANT,
}
#: Those that are whole numbers.
WHOLE = frozenset({"priority", "sequence", "publisher_epoch"})
NEW_MESSAGE: dict[str, JsonSchema] = MESSAGE | {
    "delay_seconds": {"type": "number", "minimum": 0, "maximum": limits.DELAY_S_MAX},
    "deliver_at": TIMESTAMP,
    "ttl_seconds": {"type": "number", "minimum": 0.001, "maximum": limits.MESSAGE_TTL_S_MAX},
    "priority": integer(0, 9),
    "tenant": STRING,
    "depends_on": array(STRING, minItems=1, maxItems=limits.DEPENDENCIES_MAX),
    "publisher": STRING,
    "sequence": integer(0, limits.SEQUENCE_MAX),
    "publisher_epoch": integer(0, limits.SEQUENCE_MAX),
}
MESSAGES = {
    "messages": array(record(NEW_MESSAGE), minItems=1, maxItems=limits.PUBLISH_MESSAGES_MAX)
}
PUBLISHED = record({"message_ids": array(STRING)}, "message_ids")
PULL: dict[str, JsonSchema] = {
    "max_messages": integer(1, limits.PULL_MESSAGES_MAX, default=PULL_MESSAGES_DEFAULT),
    "return_immediately": BOOLEAN,
}
#: The same in a query; `max` is short for `max_messages`.
PULL_QUERY: dict[str, JsonSchema] = {"max": PULL["max_messages"], **PULL}
_RECEIVED = record(
    {
        "ack_id": STRING,
        "message": record(
            {"id": STRING, **MESSAGE, "publish_time": TIMESTAMP, "expires_at": TIMESTAMP},
            "id",
            "data",
            "attributes",
            "ordering_key",
            "publish_time",
        ),
        "delivery_attempt": integer(1, 2**31 - 1),
    },
    "ack_id",
    "message",
)
PULLED = record({"received_messages": array(_RECEIVED)}, "received_messages")
ACK_IDS = {"ack_ids": array(STRING, minItems=1)}
NACK = ACK_IDS | {
    "requeue": BOOLEAN,
    "counted": BOOLEAN,
    "delay_seconds": {"type": "number", "minimum": 0, "maximum": limits.NACK_DELAY_S_MAX},
    "reason": STRING,
}
MODIFY = ACK_IDS | {"ack_deadline_seconds": integer(0, limits.ACK_DEADLINE_S_MAX)}
SEEK: dict[str, JsonSchema] = {
    "time": TIMESTAMP,
    "snapshot": STRING,
    "position": STRING,
    "message_id": STRING,
}
POSITION = record(
    {
        "subscription": STRING,
        "topic": STRING,
        "position": STRING,
        "unacked_messages": integer(0, 2**53),
        "outstanding_messages": integer(0, 2**53),
        "oldest_unacked_age": DURATION,
    },
    "subscription",
    "topic",
    "position",
)
PAGE = {"page_size": integer(0, 2**31 - 1), "page_token": STRING}


_COUNT = integer(0, 2**53)
_OFFSET = integer(0, limits.OFFSET_MAX)
_WINDOW: dict[str, JsonSchema] = {"start_time": TIMESTAMP, "end_time": TIMESTAMP}
#: Which dead letters are meant.
CRITERIA: dict[str, JsonSchema] = {
    "source_subscription": STRING,
    "reason": STRING,
    "filter": STRING,
    **_WINDOW,
}
_OFFSETS = {"partition": integer(1, 2**32 - 1), "start": _OFFSET, "end": _OFFSET, "bitmap": BASE64}
REOPEN: dict[str, JsonSchema] = {
    **_WINDOW,
    "offsets": array(record(_OFFSETS, "partition")),
    "message_ids": array(STRING),
    "request_id": STRING,
}
DISCARD: dict[str, JsonSchema] = {
    **CRITERIA,
    "message_ids": array(STRING),
    "all": BOOLEAN,
    "max_messages": integer(0, limits.LETTERS_MAX),
    "page_token": STRING,
}
REDRIVE = DISCARD | {"request_id": STRING, "copies": BOOLEAN}
REOPENED: dict[str, JsonSchema] = {
    "reopened": _COUNT,
    "skipped": _COUNT,
    "skipped_messages": array(record({"reason": STRING, "count": _COUNT})),
}
_SKIPPED: dict[str, JsonSchema] = {
    "skipped": _COUNT,
    "skipped_letters": array(record({"message_id": STRING, "reason": STRING})),
    "next_page_token": STRING,
}
REDRIVEN = {"reopened": _COUNT, "copied": _COUNT, **_SKIPPED}
DISCARDED = {"discarded": _COUNT, **_SKIPPED}
LETTER: dict[str, JsonSchema] = {
    "message": record({"id": STRING, **MESSAGE, "publish_time": STRING}),
    "source_subscription": STRING,
    "source_topic": STRING,
    "source_message_id": STRING,
    "delivery_attempts": _COUNT,
    "reason": STRING,
    "leased": BOOLEAN,
}

PEEK: dict[str, JsonSchema] = {
    "max_messages": integer(0, limits.PEEK_MESSAGES_MAX, default=limits.PEEK_MESSAGES_DEFAULT),
    "page_token": STRING,
    "message_id": STRING,
    "time": TIMESTAMP,
}
PURGE: dict[str, JsonSchema] = {"time": TIMESTAMP, "message_id": STRING, "dry_run": BOOLEAN}
BACKLOG_QUERY: dict[str, JsonSchema] = {"by_topic": BOOLEAN}
TRACE_QUERY: dict[str, JsonSchema] = {"subscription": STRING, "attributes": BOOLEAN}
PEEKED: dict[str, JsonSchema] = {
    "message": record({"id": STRING, **MESSAGE, "publish_time": TIMESTAMP}),
    "topic": STRING,
    "state": STRING,
    "until": TIMESTAMP,
    "failed_deliveries": _COUNT,
    "behind_message_id": STRING,
    "expires_at": TIMESTAMP,
    "lapsed": BOOLEAN,
    "priority": _COUNT,
    "waits_for": STRING,
}
_BEHIND: dict[str, JsonSchema] = {
    "messages": _COUNT,
    "bytes": _COUNT,
    "oldest_unacked_age": DURATION,
    "outstanding": _COUNT,
    "delayed": _COUNT,
    "lag_messages": _COUNT,
    "lag": DURATION,
    "pending": _COUNT,
    "depending": _COUNT,
}
BACKLOG: dict[str, JsonSchema] = {
    "subscription": STRING,
    **_BEHIND,
    "messages_estimated": BOOLEAN,
    "bytes_estimated": BOOLEAN,
    "forwarding": _COUNT,
    "topics": array(record({"topic": STRING, **_BEHIND})),
    "topics_left_off": _COUNT,
    "detached": BOOLEAN,
    "pressure": {"type": "number", "minimum": 0, "maximum": 1},
    "dropped": {"type": "object", "additionalProperties": _COUNT},
    "dropped_spans": array(
        record(
            {
                "topic": STRING,
                "reason": STRING,
                "first_message_id": STRING,
                "last_message_id": STRING,
                "messages": _COUNT,
                "first_time": TIMESTAMP,
                "last_time": TIMESTAMP,
            }
        )
    ),
}
PURGED = {"purged": _COUNT, "outstanding": _COUNT, "dry_run": BOOLEAN}
_EVENT = {"time": TIMESTAMP, "what": STRING, "reason": STRING, "message_id": STRING}
_TRACED: dict[str, JsonSchema] = {
    "subscription": STRING,
    "state": STRING,
    "until": TIMESTAMP,
    "delivered_at": TIMESTAMP,
    "client_id": STRING,
    "failed_deliveries": _COUNT,
    "next_delivery": STRING,
    "behind_message_id": STRING,
    "letter_message_id": STRING,
    "events": array(record(_EVENT)),
    "expires_at": TIMESTAMP,
    "lapsed": BOOLEAN,
    "waits_for": STRING,
}
TRACE: dict[str, JsonSchema] = {
    "message_id": STRING,
    "topic": STRING,
    "offset": _OFFSET,
    "publish_time": TIMESTAMP,
    "size_bytes": _COUNT,
    "ordering_key": STRING,
    "attributes": LABELS,
    "tier": {"type": "string", "enum": ["hot", "lake", "gone"]},
    "hint": STRING,
    "letter_of_message_id": STRING,
    "letter_of_topic": STRING,
    "letter_of_subscription": STRING,
    "letter_reason": STRING,
    "copy_of_message_id": STRING,
    "addressee": STRING,
    "subscriptions": array(record(_TRACED)),
    "subscriptions_left_off": _COUNT,
    "remembered_since": TIMESTAMP,
    "sampled": BOOLEAN,
    "due_at": TIMESTAMP,
    "priority": _COUNT,
}

_LEVEL: JsonSchema = {"type": "string", "enum": list(get_args(Compatibility))}
_NUMBER = integer(1, limits.SCHEMA_REVISION_NUMBER_MAX)
DEFINITION: dict[str, JsonSchema] = {
    "type": {"type": "string", "enum": ["AVRO", "PROTOCOL_BUFFER", "JSON"]},
    "definition": STRING,
}
REVISION = DEFINITION | {"compatibility": _LEVEL}
SCHEMA = {"name": STRING, **REVISION}
SCHEMA_SHOWN = SCHEMA | {
    "revision": _NUMBER,
    "revision_id": STRING,
    "revision_create_time": TIMESTAMP,
}
ROLLBACK: dict[str, JsonSchema] = {
    "revision": {"anyOf": [_NUMBER, STRING]},
    "compatibility": _LEVEL,
}
VALIDATION: dict[str, JsonSchema] = {
    "name": STRING,
    **DEFINITION,
    "encoding": {"type": "string", "enum": ["JSON", "BINARY"]},
    "message": BASE64,
}


def page_of(key: str, entry: JsonSchema) -> JsonSchema:
    return record({key: array(entry), "next_page_token": STRING}, key)


def label_value(value: Json) -> str:
    """The value of a label, from that of the field that stands for it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def setting_value(kind: type, text: str) -> Json:
    """The value of a field, from that of the label that it stands for."""
    found: Json = text == "true" if kind is bool else kind(text)
    return found
