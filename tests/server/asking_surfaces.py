"""What a message may ask for, said on every surface that publishes."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from google.api_core.exceptions import GoogleAPICallError

from commands import invoke
from fanlog.client import CallFailed, Client
from fanlog.wire import types
from server.rest.http import Http

DATA = b"x"
_FIELDS = {
    "fanlog-delay": "delay_seconds",
    "fanlog-deliver-at": "deliver_at",
    "fanlog-ttl": "ttl_seconds",
    "fanlog-priority": "priority",
    "fanlog-depends-on": "depends_on",
}
_EVENTS = {name: name.replace("-", "") for name in _FIELDS}
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


class Refused(Exception):
    """A surface refused a request, with a sentence."""


class Unsaid(Exception):
    """A surface has no words for it."""


def rest(server: Any, method: str, path: str, body: Any, **options: Any) -> Any:
    """An answer of REST, as JSON."""
    http = Http(server)
    try:
        response = http(method, path, body, **options)
    finally:
        http.close()
    if response.status_code >= 400:
        raise Refused(response.json()["error"]["message"])
    return response.json() if response.content else None


def command(server: Any, *words: str) -> str:
    """What a command said."""
    environ = {"PUBSUB_EMULATOR_HOST": server.endpoint, "FANLOG_PROJECT": None}
    done = invoke(words, env=environ)
    if done.exit_code:
        raise Refused(" ".join(done.stderr.split()))
    return done.stdout


Attributes = Mapping[str, str]
Publish = Callable[[Any, str, Attributes, str], None]


def by_grpc(server: Any, topic: str, attributes: Attributes, key: str) -> None:
    try:
        server.publish(topic, DATA, key=key, **attributes)
    except GoogleAPICallError as error:
        raise Refused(error.message) from error


def _json(attributes: Attributes, key: str) -> dict[str, Any]:
    return {
        "data": base64.b64encode(DATA).decode(),
        "attributes": dict(attributes),
        "orderingKey": key,
    }


def by_google_form(server: Any, topic: str, attributes: Attributes, key: str) -> None:
    rest(server, "POST", f"/v1/{topic}:publish", {"messages": [_json(attributes, key)]})


def by_path_form(server: Any, topic: str, attributes: Attributes, key: str) -> None:
    rest(server, "POST", f"/v1/{topic}/publish", {"messages": [_json(attributes, key)]})


def _short(server: Any, topic: str, message: dict[str, Any]) -> None:
    path = f"/v1/topics/{topic.rpartition('/')[2]}:publish"
    rest(server, "POST", path, {"messages": [message]})


def by_short_form(server: Any, topic: str, attributes: Attributes, key: str) -> None:
    """Attributes in our own form of REST."""
    message = _json(attributes, key)
    _short(server, topic, message | {"ordering_key": message.pop("orderingKey")})


def by_short_fields(server: Any, topic: str, attributes: Attributes, key: str) -> None:
    """The fields of our own form, in place of attributes."""
    message = _json({}, key)
    message["ordering_key"] = message.pop("orderingKey")
    for name, text in attributes.items():
        if name not in _FIELDS:
            message["attributes"][name] = text
        elif name == "fanlog-depends-on":
            message["depends_on"] = text.split(",")
        elif name == "fanlog-deliver-at":
            message["deliver_at"] = text
        elif _NUMBER.fullmatch(text):
            message[_FIELDS[name]] = json.loads(text)
        else:
            raise Unsaid(name)
    _short(server, topic, message)


def by_event(server: Any, topic: str, attributes: Attributes, key: str) -> None:
    """Extensions of a CloudEvent."""
    event = {"specversion": "1.0", "type": topic.rpartition("/")[2], "source": "/a", "id": "1"}
    event["data"] = "x"
    if key:
        raise Unsaid("an ordering key")
    for name, text in attributes.items():
        if name not in _EVENTS:
            raise Unsaid(name)
        event[_EVENTS[name]] = text
    headers = {"content-type": "application/cloudevents+json"}
    rest(server, "POST", "/v1/events", None, data=json.dumps(event).encode(), headers=headers)


def by_command(server: Any, topic: str, attributes: Attributes, key: str) -> None:
    words = [word for pair in attributes.items() for word in ("--attr", "=".join(pair))]
    command(server, "publish", topic, "x", "--key", key, *words)


def by_options(server: Any, topic: str, attributes: Attributes, key: str) -> None:
    """The options of the command line, in place of `--attr`."""
    words: list[str] = []
    for name, text in attributes.items():
        option = name.removeprefix("fanlog-")
        if name == "fanlog-depends-on":
            words += [word for one in text.split(",") for word in ("--depends-on", one)]
        elif name not in _FIELDS:
            words += ["--attr", f"{name}={text}"]
        elif name == "fanlog-deliver-at" or re.fullmatch(r"\d+(\.\d+)?", text):
            words += [f"--{option}", text]
        else:
            # The command line has words of its own for durations and numbers.
            raise Unsaid(name)
    command(server, "publish", topic, "x", "--key", key, *words)


def _by_client(server: Any, topic: str, message: types.PubsubMessage, **asked: Any) -> None:
    try:
        with Client(server.endpoint) as client:
            client.publish(topic, [message], **asked)
    except CallFailed as failure:
        raise Refused(failure.message) from failure


def by_client(server: Any, topic: str, attributes: Attributes, key: str) -> None:
    message = types.PubsubMessage(data=DATA, attributes=attributes, ordering_key=key)
    _by_client(server, topic, message)


def by_arguments(server: Any, topic: str, attributes: Attributes, key: str) -> None:
    """The arguments of our client for Python, in place of attributes."""
    message = types.PubsubMessage(data=DATA, ordering_key=key)
    asked: dict[str, Any] = {}
    for name, text in attributes.items():
        if name in ("fanlog-delay", "fanlog-ttl") and text != "soon" and "e" not in text:
            asked[f"{name.removeprefix('fanlog-')}_s"] = float(text) if "." in text else _int(text)
        elif name == "fanlog-deliver-at" and text[0].isdigit():
            asked["deliver_at"] = datetime.fromisoformat(text)
        elif name == "fanlog-priority" and text.isdigit():
            asked["priority"] = int(text)
        elif name == "fanlog-depends-on":
            asked["depends_on"] = text.split(",")
        elif name in _FIELDS:
            raise Unsaid(name)
        else:
            message.attributes[name] = text
    _by_client(server, topic, message, **asked)


def _int(text: str) -> float:
    return float(text) if text == "nan" else int(text)


PUBLISHING: tuple[Publish, ...] = (
    *(by_grpc, by_google_form, by_path_form, by_short_form, by_short_fields, by_event),
    *(by_command, by_options, by_client, by_arguments),
)
