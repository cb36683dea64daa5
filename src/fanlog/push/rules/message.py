"""One message on its way to an endpoint, and the facts that it states as an event.

| of the event     | the first of these that is there and not empty                    |
|------------------|-------------------------------------------------------------------|
| `event_id`       | of a redriven copy its original's message id; the message id      |
| `event_type`     | attributes, see `_TYPE_ATTRIBUTES`; the topic's id                |
| `source_service` | attributes, see `_SOURCE_ATTRIBUTES`; the topic's project         |
| `schema_version` | the revision of its schema; attribute `schema_version`; null      |
| `payload`        | the data: as JSON if it is that, else as text, else in base64     |
| `published_at`   | the publish time                                                  |
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import orjson

from fanlog import times
from fanlog.model import attributes

#: How the payload of an event is written.
PayloadEncoding = Literal["json", "text", "base64"]

_TYPE_ATTRIBUTES = ("ce-type", "type", "event_type", "eventType")
_SOURCE_ATTRIBUTES = ("ce-source", "source_service", "sourceService", "source")
_VERSION_ATTRIBUTES = (attributes.SCHEMA_REVISION, "schema_version", "schemaVersion")


@dataclass(slots=True, kw_only=True)
class PushedMessage:
    """One message on its way to an endpoint. Not frozen: that would triple the cost of one."""

    data: bytes
    attributes: Mapping[str, str]
    ordering_key: str
    message_id: str
    publish_time_ns: int
    #: Full names.
    topic: str
    subscription: str
    ack_id: str
    #: The event's id, if that is another than the message's: a redriven copy has its original's.
    original_id: str = ""
    #: The number of this delivery, from 1: counted by a dead letter policy, or by its sender.
    attempt: int
    #: Whether a dead letter policy counts the deliveries: then the body says so, as Google's does.
    is_counted: bool


def event_id(message: PushedMessage) -> str:
    """The id that receivers know a message by: the same for all copies of it."""
    return message.original_id or message.message_id


def event_type(message: PushedMessage) -> str:
    """The kind of event that a message is."""
    return _first_of(message, _TYPE_ATTRIBUTES) or message.topic.rpartition("/")[2]


def source_service(message: PushedMessage) -> str:
    """The program that an event comes from."""
    return _first_of(message, _SOURCE_ATTRIBUTES) or message.topic.split("/")[1]


def schema_version(message: PushedMessage) -> str | None:
    return _first_of(message, _VERSION_ATTRIBUTES) or None


def event(message: PushedMessage) -> tuple[dict[str, object], PayloadEncoding]:
    """A message as an event, and how its payload is written."""
    payload, encoding = _payload(message.data)
    found = {
        "event_id": event_id(message),
        "event_type": event_type(message),
        "source_service": source_service(message),
        "schema_version": schema_version(message),
        "payload": payload,
        "published_at": times.of_us(message.publish_time_ns),
    }
    return found, encoding


def _first_of(message: PushedMessage, names: tuple[str, ...]) -> str:
    return next((message.attributes[name] for name in names if message.attributes.get(name)), "")


def _payload(data: bytes) -> tuple[object, PayloadEncoding]:
    if not data:
        return None, "json"
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    else:
        # The bytes as published: reading them may have lost digits of numbers.
        return orjson.Fragment(data), "json"
    try:
        return data.decode(), "text"
    except UnicodeDecodeError:
        return base64.b64encode(data).decode(), "base64"
