"""Body and headers of the HTTP request that brings one message, in each of the forms.

| form                           | body                                              |
|--------------------------------|---------------------------------------------------|
| wrapped                        | Google's: `{"message": {…}, "subscription": …}`   |
| unwrapped (`no_wrapper`)       | the data as it was published                      |
| plain (`fanlog-push-body`)     | `{"message": {…}, "ack_id": …}`                   |
| cloudevents (`fanlog-push-body`) | the data; `ce-` headers describe the event     |
| event (`fanlog-push-body`)     | `{"event_id": …, "payload": …}`, see `message`    |

Every request has `X-Event-Id`, `X-Event-Type` and `X-Delivery-Attempt`.
"""

from __future__ import annotations

import base64
import re
from typing import NamedTuple
from urllib.parse import quote

import orjson

from fanlog import times
from fanlog.model.resources import PushForm
from fanlog.push.rules.message import PushedMessage, event, event_id, event_type

CLOUDEVENT_TYPE = "google.cloud.pubsub.topic.v1.messagePublished"
CLOUDEVENT_SOURCE = "//pubsub.googleapis.com/"
USER_AGENT = "fanlog-push"

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_EXTENSION = re.compile(r"[a-z0-9]{1,64}")
#: Headers that are ours or the connection's: no attribute may stand in their place.
_RESERVED = frozenset(
    {
        "authorization", "connection", "content-encoding", "content-length", "content-type",
        "cookie", "date", "expect", "forwarded", "host", "keep-alive", "origin", "proxy-connection",
        "set-cookie", "te", "trailer", "transfer-encoding", "upgrade", "user-agent", "via",
        "x-delivery-attempt", "x-event-encoding", "x-event-id", "x-event-type",
    }
)  # fmt: skip
_RESERVED_PREFIXES = ("x-goog-", "webhook-", "proxy-", "sec-", "x-forwarded-", "access-control-")
#: Characters that percent-encoding leaves alone in a header's value: printable ASCII but `%`.
_SAFE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
_PLAIN = re.compile(r"[\x20-\x24\x26-\x7e]*")
_SAFE_CLOUDEVENT = _SAFE.replace(" ", "").replace('"', "")


class WebContent(NamedTuple):
    body: bytes
    headers: dict[str, str]


def write_content(message: PushedMessage, form: PushForm) -> WebContent:
    """The content of a request for a message, without signatures and tokens."""
    headers = {
        "User-Agent": USER_AGENT,
        "X-Event-Id": event_id(message),
        "X-Event-Type": _value(event_type(message)),
        "X-Delivery-Attempt": str(message.attempt),
    }
    match form:
        case "wrapped":
            headers["Content-Type"] = "application/json"
            return WebContent(orjson.dumps(_wrap(message)), headers)
        case "plain":
            headers["Content-Type"] = "application/json"
            return WebContent(orjson.dumps(_plain(message)), headers)
        case "event":
            body, encoding = event(message)
            headers |= {"Content-Type": "application/json", "X-Event-Encoding": encoding}
            return WebContent(orjson.dumps(body), headers)
        case "cloudevents":
            return WebContent(message.data, headers | _cloudevent_headers(message))
        case "unwrapped":
            headers["Content-Type"] = _content_type(message)
            return WebContent(message.data, headers)
        case "unwrapped-metadata":
            headers["Content-Type"] = _content_type(message)
            return WebContent(message.data, headers | _metadata_headers(message))


def _wrap(message: PushedMessage) -> dict[str, object]:
    publish_time = times.of_ns(message.publish_time_ns)
    inner: dict[str, object] = {
        # Google's servers write both spellings, and receivers read either.
        "messageId": message.message_id,
        "message_id": message.message_id,
        "publishTime": publish_time,
        "publish_time": publish_time,
    }
    if message.data:
        inner["data"] = base64.b64encode(message.data).decode()
    if message.attributes:
        inner["attributes"] = dict(message.attributes)
    if message.ordering_key:
        inner["orderingKey"] = message.ordering_key
    wrapped: dict[str, object] = {"message": inner, "subscription": message.subscription}
    if message.is_counted:
        wrapped["deliveryAttempt"] = message.attempt
    return wrapped


def _plain(message: PushedMessage) -> dict[str, object]:
    return {
        "message": {
            "id": message.message_id,
            "data": base64.b64encode(message.data).decode(),
            "attributes": dict(message.attributes),
            "ordering_key": message.ordering_key,
            "publish_time": times.of_us(message.publish_time_ns),
        },
        "ack_id": message.ack_id,
    }


def _metadata_headers(message: PushedMessage) -> dict[str, str]:
    headers = {
        "x-goog-pubsub-subscription-name": _value(message.subscription),
        "x-goog-pubsub-message-id": message.message_id,
        "x-goog-pubsub-publish-time": times.of_ns(message.publish_time_ns),
    }
    if message.ordering_key:
        headers["x-goog-pubsub-ordering-key"] = _value(message.ordering_key)
    if message.is_counted:
        headers["x-goog-pubsub-delivery-attempt"] = str(message.attempt)
    for name, value in message.attributes.items():
        lower = name.lower()
        if (
            _TOKEN.fullmatch(name)
            and lower not in _RESERVED
            and not lower.startswith(_RESERVED_PREFIXES)
        ):
            headers[name] = _value(value)
    return headers


def _cloudevent_headers(message: PushedMessage) -> dict[str, str]:
    """Attributes of an event that came as one (`ce-…`) stay; the rest is made of the message."""
    event = {
        "ce-specversion": "1.0",
        "ce-id": event_id(message),
        "ce-source": CLOUDEVENT_SOURCE + message.topic,
        "ce-type": CLOUDEVENT_TYPE,
        "ce-time": times.of_ns(message.publish_time_ns),
    }
    if message.ordering_key:
        event["ce-partitionkey"] = message.ordering_key
    for name, value in message.attributes.items():
        lower = name.lower()
        if lower.startswith("ce-") and _EXTENSION.fullmatch(lower[3:]):
            event[lower] = value
        elif _EXTENSION.fullmatch(name):
            event.setdefault(f"ce-{name}", value)
    headers = {name: quote(value, safe=_SAFE_CLOUDEVENT) for name, value in event.items()}
    headers["Content-Type"] = _content_type(message)
    return headers


def _content_type(message: PushedMessage) -> str:
    given = next((v for k, v in message.attributes.items() if k.lower() == "content-type"), "")
    return _value(given) or "application/octet-stream"


def _value(text: str) -> str:
    """Any text as a header's value: one line of ASCII."""
    if _PLAIN.fullmatch(text) is None:
        text = quote(text, safe=_SAFE)
    return text.strip(" ")
