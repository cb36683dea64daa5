"""What the JSON of the short form looks like: which fields it has, for readers and for OpenAPI."""

from __future__ import annotations

from fanlog import limits
from fanlog.model.attributes import LABEL_PUSH_BODY, LABEL_PUSH_TIMEOUT, LABEL_RETRY
from fanlog.model.resources import FIRST_IMMEDIATE, PUSH_BODIES
from fanlog.server.rest.json_schema import (
    BASE64,
    BOOLEAN,
    DURATION,
    LABELS,
    STRING,
    TIMESTAMP,
    Schema,
    array,
    integer,
    properties,
    record,
)
from fanlog.wire import types

#: In this form; elsewhere it is Google's 10 s.
ACK_DEADLINE_S_DEFAULT = 30
PULL_MESSAGES_DEFAULT = 10

#: What is told of resources besides their fields.
_TOLD: dict[str, Schema] = {"created_at": TIMESTAMP}
_RETENTION: dict[str, Schema] = {"retention_seconds": {"type": "number", "minimum": 0}}
TOPIC = properties(types.Topic.DESCRIPTOR, snake_case=True) | _RETENTION
NEW_TOPIC = TOPIC | {"partition_count": integer(1, 1, default=1)}
#: How long a topic keeps messages that no subscription needs; without a duration for good, in the
#: lake.
_KEPT: Schema = record(
    {
        "duration": DURATION,
        "by": {"type": "string", "enum": ["topic", "server", "lake", "nobody"]},
    },
    "by",
)
TOPIC_SHOWN = NEW_TOPIC | _TOLD | {"effective_retention": _KEPT}
_REPLACED = frozenset({"push_config", "dead_letter_policy"})
#: Fields that are labels everywhere else, and what their values are in JSON.
SETTINGS: dict[str, tuple[str, type]] = {
    "retry": (LABEL_RETRY, str),
    "push_body": (LABEL_PUSH_BODY, str),
    "push_timeout_seconds": (LABEL_PUSH_TIMEOUT, int),
}
SUBSCRIPTION: dict[str, Schema] = {
    name: schema
    for name, schema in properties(types.Subscription.DESCRIPTOR, snake_case=True).items()
    if name not in _REPLACED
} | {
    "mode": {"type": "string", "enum": ["pull", "push", "export"]},
    "delivery_url": STRING,
    "retry": {"type": "string", "enum": [FIRST_IMMEDIATE]},
    "push_body": {"type": "string", "enum": list(PUSH_BODIES)},
    "push_timeout_seconds": integer(
        limits.PUSH_TIMEOUT_S_MIN, limits.PUSH_TIMEOUT_S_MAX, default=limits.PUSH_TIMEOUT_S_DEFAULT
    ),
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
#: With what the caller should know about a request that was done.
SUBSCRIPTION_SHOWN: dict[str, Schema] = SUBSCRIPTION | _TOLD | {"hints": array(STRING)}
SNAPSHOT = properties(types.Snapshot.DESCRIPTOR, snake_case=True)
NEW_SNAPSHOT = {"name": STRING, "subscription": STRING, "labels": LABELS}
MESSAGE = {"data": BASE64, "attributes": LABELS, "ordering_key": STRING}
MESSAGES = {"messages": array(record(MESSAGE), minItems=1, maxItems=limits.PUBLISH_MESSAGES_MAX)}
PUBLISHED = record({"message_ids": array(STRING)}, "message_ids")
PULL: dict[str, Schema] = {
    "max_messages": integer(1, limits.PULL_MESSAGES_MAX, default=PULL_MESSAGES_DEFAULT),
    "return_immediately": BOOLEAN,
}
#: The same in a query; `max` is short for `max_messages`.
PULL_QUERY: dict[str, Schema] = {"max": PULL["max_messages"], **PULL}
_RECEIVED = record(
    {
        "ack_id": STRING,
        "message": record(
            {"id": STRING, **MESSAGE, "publish_time": TIMESTAMP},
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
    "delay_seconds": {"type": "number", "minimum": 0, "maximum": limits.NACK_DELAY_S_MAX},
    "reason": STRING,
}
MODIFY = ACK_IDS | {"ack_deadline_seconds": integer(0, limits.ACK_DEADLINE_S_MAX)}
SEEK: dict[str, Schema] = {
    "time": TIMESTAMP,
    "snapshot": STRING,
    "position": STRING,
    "message_id": STRING,
}
MOVED = record(
    {
        "reopened": integer(0, 2**53),
        "acknowledged": integer(0, 2**53),
        "reopened_from": TIMESTAMP,
        "hint": STRING,
    },
    "reopened",
    "acknowledged",
)
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


def page_of(key: str, entry: Schema) -> Schema:
    return record({key: array(entry), "next_page_token": STRING}, key)
