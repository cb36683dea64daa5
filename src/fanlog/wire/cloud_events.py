"""CloudEvents 1.0 over HTTP: binary, structured and batch mode, read and made publish requests.

| In the event                       | In the message                                            |
|------------------------------------|-----------------------------------------------------------|
| `type`                             | the topic: its id                                         |
| every attribute, extensions too    | attribute `ce-` and its name                              |
| `datacontenttype`                  | attribute `content-type`                                  |
| data                               | data, as it came; JSON data of structured mode as JSON    |
| `source` and `id`, which are unique| `fanlog-dedup-id`                                         |
| extensions `fanlogdelay`,          | attributes `fanlog-delay`, `fanlog-deliver-at`,           |
| `fanlogdeliverat`, `fanlogttl`,    | `fanlog-ttl` and so on: names of extensions have          |
| `fanlogpriority`, `fanlogdependson`,| letters and digits alone                                  |

Numbers of publishers are refused: an event is known by its `source` and `id` already.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from urllib.parse import unquote_to_bytes

import orjson

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.model.attributes import DEDUP_ID, SEQUENCES, TERMS
from fanlog.wire import types

STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
PREFIX = "ce-"

#: Extensions by which an event asks for something.
_ASKING = {name.replace("-", ""): name for name in TERMS}

#: Extensions that would say what it repeats.
_NUMBERS = frozenset(name.replace("-", "") for name in SEQUENCES)

_REQUIRED = ("id", "source", "type")
_NAME = re.compile(r"[a-z0-9]{1,64}")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


@dataclass(frozen=True, slots=True)
class CloudEvent:
    """A valid event: its context attributes as strings, and its data."""

    attributes: Mapping[str, str]
    data: bytes

    def __post_init__(self) -> None:
        """Raises InvalidArgument: Names the attribute that is missing or malformed."""
        version = self.attributes.get("specversion")
        if version != "1.0":
            given = "missing" if version is None else names.shown(version)
            raise InvalidArgument(f"specversion: {given}; only '1.0' is supported")
        for name in _REQUIRED:
            if not self.attributes.get(name):
                raise InvalidArgument(f"{name}: required, and must not be empty")
        for name in self.attributes:
            if not _NAME.fullmatch(name):
                raise InvalidArgument(
                    f"{names.shown(name)}: an attribute's name has 1 to 64 lower-case letters "
                    "and digits"
                )
            if name in _NUMBERS:
                raise InvalidArgument(
                    f"{name}: an event is known by its source and id, and has no number of its "
                    "publisher; leave it out, or publish it as a message"
                )
        time = self.attributes.get("time")
        if time is not None and not _TIME.fullmatch(time):
            raise InvalidArgument(f"time: {names.shown(time)} is not an RFC 3339 time")

    def publish_request(self, project: str) -> types.PublishRequest:
        """The request that publishes it to the topic its type names, once."""
        attributes = {
            _ASKING.get(name, PREFIX + name): value for name, value in self.attributes.items()
        }
        content_type = attributes.pop(PREFIX + "datacontenttype", None)
        if content_type is not None:
            attributes["content-type"] = content_type
        attributes[DEDUP_ID] = self.dedup_id
        topic = names.topic_name(project, self.attributes["type"])
        message = types.PubsubMessage(data=self.data, attributes=attributes)
        return types.PublishRequest(topic=topic, messages=[message])

    @property
    def dedup_id(self) -> str:
        """Source and id together are unique, says the specification; as one, of any length."""
        source, event_id = self.attributes["source"], self.attributes["id"]
        digest = blake2b(f"{len(source)} {source} {event_id}".encode(), digest_size=16)
        return f"ce-{digest.hexdigest()}"


def media_type_of(headers: Mapping[bytes, bytes]) -> str:
    given = headers.get(b"content-type", b"").decode("latin-1")
    return given.partition(";")[0].strip().lower()


def read_binary(headers: Mapping[bytes, bytes], data: bytes) -> CloudEvent:
    """An event with its attributes in headers. Raises InvalidArgument."""
    attributes: dict[str, str] = {}
    for key, value in headers.items():
        if key.startswith(b"ce-"):
            try:
                text = unquote_to_bytes(value).decode()
            except UnicodeDecodeError as error:
                raise InvalidArgument(f"{key.decode('latin-1')}: not UTF-8") from error
            attributes[key[3:].decode("latin-1")] = text
    if b"content-type" in headers:
        attributes["datacontenttype"] = headers[b"content-type"].decode("latin-1")
    return CloudEvent(attributes, data)


def read_structured(event: object) -> CloudEvent:
    """An event as JSON values. Raises InvalidArgument."""
    if not isinstance(event, dict):
        raise InvalidArgument("an event is an object")
    if len(event) > limits.ATTRIBUTES_MAX + 2:
        raise InvalidArgument(
            f"the event has {len(event)} members; at most {limits.ATTRIBUTES_MAX} attributes are "
            "allowed"
        )
    attributes: dict[str, str] = {}
    for name, value in event.items():
        if name in ("data", "data_base64") or value is None:
            continue
        if isinstance(value, bool):
            value = "true" if value else "false"
        elif isinstance(value, int):
            value = str(value)
        elif not isinstance(value, str):
            raise InvalidArgument(f"{names.shown(name)}: must be a string, a number or a boolean")
        attributes[name] = value
    return CloudEvent(attributes, _data_of(event, attributes))


def _data_of(event: Mapping[str, object], attributes: dict[str, str]) -> bytes:
    if event.get("data_base64") is not None:
        if event.get("data") is not None:
            raise InvalidArgument("data: stands beside data_base64; give one of them")
        encoded = event["data_base64"]
        try:
            if not isinstance(encoded, str):
                raise TypeError
            return b64decode(encoded, validate=True)
        except (ValueError, TypeError) as error:
            raise InvalidArgument("data_base64: not base64") from error
    data = event.get("data")
    if data is None:
        return b""
    if "datacontenttype" not in attributes:
        # The specification has it so for data without a type in this mode.
        attributes["datacontenttype"] = "application/json"
    if isinstance(data, str) and not _is_json(attributes["datacontenttype"]):
        return data.encode()
    return orjson.dumps(data)


def _is_json(content_type: str) -> bool:
    media_type = content_type.partition(";")[0].strip().lower()
    return media_type.endswith(("/json", "+json"))
