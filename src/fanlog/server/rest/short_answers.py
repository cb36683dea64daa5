"""Answers of the short form, from those of gRPC: one way to show each class of messages."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from google.protobuf.message import Message

from fanlog import limits
from fanlog.model import endpoints
from fanlog.model import term_attributes as terms
from fanlog.model.attributes import LABEL_TTL
from fanlog.model.json_value import Json, JsonObject
from fanlog.model.resources import PUSH_BODIES
from fanlog.server import remarks
from fanlog.server.rest import json_out, positions
from fanlog.server.rest import short_shapes as shapes
from fanlog.server.rest.binding import MessageType
from fanlog.server.rest.json_schema import STRING, JsonSchema, record
from fanlog.server.rest.route import Asked
from fanlog.times import of_us
from fanlog.v1 import inspection_pb2, message_pb2, replay_pb2
from fanlog.wire import types

#: Makes JSON of a message, or of an entry of a page.
Show = Callable[[Any, Asked], Json]


@dataclass(frozen=True, slots=True)
class Shown:
    """How messages of one class are shown: their JSON Schema, and the function that makes JSON."""

    schema: JsonSchema
    show: Show
    #: HTTP code of the answer to a POST: 201 where the answer is a resource.
    posted: int = 200


def _short_name(name: str, asked: Asked) -> str:
    """The id of a resource of the own project; others, and deleted topics, as they are."""
    parts = name.split("/")
    return parts[3] if len(parts) == 4 and parts[1] == asked.project else name


def _resource(message: Message, asked: Asked) -> JsonObject:
    found = json_out.resource(message, snake_case=True)
    for field in ("name", "topic"):
        if field in found:
            found[field] = _short_name(str(found[field]), asked)
    settings = found.get("schema_settings")
    if isinstance(settings, dict):
        schema = _short_name(settings["schema"], asked)
        found["schema_settings"] = settings | {"schema": schema}
    return found


def _topic(message: Any, asked: Asked) -> JsonObject:
    found = _resource(message, asked)
    for name, (label, kind) in shapes.TOPIC_SETTINGS.items():
        if label in message.labels:
            found[name] = kind(message.labels[label])
    return found


def _subscription(message: Any, asked: Asked) -> JsonObject:
    found = _resource(message, asked)
    found.pop("push_config", None)
    url = message.push_config.push_endpoint
    is_export = "bigquery_config" in found or "cloud_storage_config" in found
    found["mode"] = "push" if url else "export" if is_export else "pull"
    if url:
        found["delivery_url"] = url
    # Settings of push that have their defaults, then those that labels give.
    if endpoints.is_web(url) and not message.push_config.HasField("no_wrapper"):
        found["push_body"] = PUSH_BODIES[0]
    if endpoints.is_web(url) or endpoints.is_grpc(url):
        found["push_timeout_seconds"] = limits.PUSH_TIMEOUT_S_DEFAULT
    for name, (label, kind) in shapes.SETTINGS.items():
        if label in message.labels:
            found[name] = shapes.setting_value(kind, message.labels[label])
    if found.pop("dead_letter_policy", None) is not None:
        policy = message.dead_letter_policy
        found["dead_letter"] = {
            "topic": _short_name(policy.dead_letter_topic, asked),
            "max_delivery_attempts": policy.max_delivery_attempts,
        }
    return found


def _schema(message: Any, asked: Asked) -> JsonObject:
    found = json_out.resource(message)
    shown = {
        "name": _short_name(message.name, asked),
        "type": found.get("type"),
        "definition": found.get("definition"),
        "revision_id": found.get("revisionId"),
        "revision_create_time": found.get("revisionCreateTime"),
    }
    return {name: value for name, value in shown.items() if value is not None}


#: Resources: JSON Schema, and the function that shows their fields.
_RESOURCES: dict[MessageType, tuple[JsonSchema, Callable[[Any, Asked], JsonObject]]] = {
    types.Topic: (record(shapes.TOPIC_SHOWN), _topic),
    types.Subscription: (record(shapes.SUBSCRIPTION_SHOWN), _subscription),
    types.Snapshot: (record(shapes.SNAPSHOT), _resource),
    types.Schema: (record(shapes.SCHEMA_SHOWN, "name"), _schema),
}


def _entry(message: Message, asked: Asked) -> JsonObject:
    """A resource with the facts about it beyond its own fields."""
    found = _RESOURCES[type(message)][1](message, asked)
    return found | asked.facts.of(message) if asked.facts else found


def _answer(message: Message, asked: Asked) -> JsonObject:
    """A resource with the hints about the request that it answers."""
    hints = [text for key, text in asked.said if key == remarks.HINT]
    return _entry(message, asked) | ({"hints": hints} if hints else {})


def _page(entry: JsonSchema, show: Show, field: str, key: str = "") -> Shown:
    """A page of a list, with entries in `field` of the message and under `key` in JSON."""

    def show_page(message: Any, asked: Asked) -> Json:
        found: JsonObject = {key or field: [show(one, asked) for one in getattr(message, field)]}
        if message.next_page_token:
            found["next_page_token"] = message.next_page_token
        return found

    return Shown(shapes.page_of(key or field, entry), show_page)


def _page_of(of: MessageType, field: str, key: str = "") -> Shown:
    return _page(_RESOURCES[of][0], _entry, field, key)


def _published(message: Any, _: Asked) -> Json:
    return {"message_ids": list(message.message_ids)}


def _pulled(message: Any, asked: Asked) -> Json:
    times = json_out.PublishTimes()
    ttl_s = next((float(value) for key, value in asked.said if key == LABEL_TTL), None)
    received: list[Json] = [_received(one, times, ttl_s) for one in message.received_messages]
    return {"received_messages": received}


def _received(one: Any, times: json_out.PublishTimes, ttl_s: float | None) -> JsonObject:
    found: JsonObject = {"ack_id": one.ack_id, "message": _message(one.message, times, ttl_s)}
    if one.delivery_attempt:
        found["delivery_attempt"] = one.delivery_attempt
    return found


def _message(message: Any, times: json_out.PublishTimes, ttl_s: float | None = None) -> JsonObject:
    found: JsonObject = {
        "id": message.message_id,
        "data": b64encode(message.data).decode("ascii"),
        "attributes": dict(message.attributes),
        "ordering_key": message.ordering_key,
        "publish_time": times.text(message.publish_time),
    }
    expires_ns = terms.expires_ns(
        message.attributes, message.ordering_key, message.publish_time.ToNanoseconds(), ttl_s
    )
    if expires_ns is not None:
        found["expires_at"] = of_us(expires_ns)
    return found


def _letter(letter: replay_pb2.DeadLetter, asked: Asked) -> JsonObject:
    return {name: getattr(letter, name) for name in shapes.LETTER} | {
        "message": _message(letter.message, json_out.PublishTimes()),
        "source_subscription": _short_name(letter.source_subscription, asked),
        "source_topic": _short_name(letter.source_topic, asked),
    }


#: Fields of inspections that are names of resources.
_NAMES = frozenset({"subscription", "topic", "letter_of_topic", "letter_of_subscription"})


def _inspected(message: Any, asked: Asked) -> JsonObject:
    """Every field of a message: numbers as such, times and durations as text where they are set."""
    found: JsonObject = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.is_repeated:
            is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
            found[field.name] = dict(value) if is_map else [_inspected(one, asked) for one in value]
        elif field.message_type is None:
            found[field.name] = _short_name(value, asked) if field.name in _NAMES else value
        elif message.HasField(field.name):
            is_message = isinstance(value, message_pb2.Message)
            found[field.name] = (
                _message(value, json_out.PublishTimes()) if is_message else value.ToJsonString()
            )
    return found


def _purged(message: Any, _: Asked) -> Json:
    return {name: getattr(message, name) for name in shapes.PURGED}


def _counts(fields: Mapping[str, JsonSchema]) -> Shown:
    """An answer of counts: all of `fields` under their own names, but for an empty page token."""

    def show(message: Any, _: Asked) -> Json:
        return {
            name: _plain(getattr(message, name))
            for name in fields
            if name != "next_page_token" or message.next_page_token
        }

    return Shown(record(dict(fields)), show)


def _plain(value: Any) -> Json:
    if isinstance(value, int | str):
        return value
    return [
        {field.name: getattr(one, field.name) for field in one.DESCRIPTOR.fields} for one in value
    ]


ANSWERS: dict[MessageType, Shown] = {
    **{of: Shown(schema, _answer, posted=201) for of, (schema, _) in _RESOURCES.items()},
    types.ListTopicsResponse: _page_of(types.Topic, "topics"),
    types.ListTopicSubscriptionsResponse: _page(STRING, _short_name, "subscriptions"),
    types.ListTopicSnapshotsResponse: _page(STRING, _short_name, "snapshots"),
    types.ListSubscriptionsResponse: _page_of(types.Subscription, "subscriptions"),
    types.ListSnapshotsResponse: _page_of(types.Snapshot, "snapshots"),
    types.ListSchemasResponse: _page_of(types.Schema, "schemas"),
    types.ListSchemaRevisionsResponse: _page_of(types.Schema, "schemas", "revisions"),
    types.PublishResponse: Shown(shapes.PUBLISHED, _published),
    types.PullResponse: Shown(shapes.PULLED, _pulled),
    replay_pb2.SeekSubscriptionResponse: Shown(positions.moved_schema(), positions.show_moved),
    replay_pb2.ReopenResponse: _counts(shapes.REOPENED),
    replay_pb2.RedriveResponse: _counts(shapes.REDRIVEN),
    replay_pb2.DiscardResponse: _counts(shapes.DISCARDED),
    inspection_pb2.PeekResponse: _page(record(shapes.PEEKED), _inspected, "messages"),
    inspection_pb2.Backlog: Shown(record(shapes.BACKLOG), _inspected),
    inspection_pb2.ListBacklogsResponse: _page(record(shapes.BACKLOG), _inspected, "backlogs"),
    inspection_pb2.TraceResponse: Shown(record(shapes.TRACE), _inspected),
    inspection_pb2.PurgeResponse: Shown(record(shapes.PURGED), _purged),
    replay_pb2.ListDeadLettersResponse: _page(record(shapes.LETTER), _letter, "letters"),
}


def write(answer: MessageType, raw: bytes, asked: Asked) -> Json:
    """Write a verb's serialised answer."""
    return ANSWERS[answer].show(answer.FromString(raw), asked)


def write_position(raw: bytes, asked: Asked) -> Json:
    """Write the position of a subscription."""
    found = orjson.loads(raw)
    return {
        "subscription": _short_name(found["subscription"], asked),
        "topic": _short_name(found["topic"], asked),
        "position": found["position"],
        "unacked_messages": found["unackedMessages"],
        "outstanding_messages": found["outstandingMessages"],
        "oldest_unacked_age": found["oldestUnackedAge"],
    }
