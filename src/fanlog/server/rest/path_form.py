"""The path form: Google's resources and JSON, with verbs as the last part of the path.

`PUT` of a subscription is in Google's API too, where it only creates. Here it creates or replaces
all settings; but one who calls as Google's clients do gets what they expect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import orjson

from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.server.rest import google_json, json_in, positions
from fanlog.server.rest.google_json import Binding
from fanlog.server.rest.json_schema import (
    BOOLEAN,
    STRING,
    TIMESTAMP,
    integer,
    properties,
    record,
)
from fanlog.server.rest.route import Asked, Route
from fanlog.server.rest.short_shapes import PULL_MESSAGES_DEFAULT
from fanlog.wire import types

_TOPIC = "/v1/{topic=projects/*/topics/*}"
_SUBSCRIPTION = "/v1/{subscription=projects/*/subscriptions/*}"
_PULL_QUERY = frozenset({"max_messages", "return_immediately"})
_PUT = Binding("PUT", "/v1/{name=projects/*/subscriptions/*}", "Subscriber.CreateSubscription", "*")
_SEEK = {"time": TIMESTAMP, "snapshot": STRING, "position": STRING, "messageId": STRING}
_MOVED = record(
    {
        "reopened": integer(0, 2**53),
        "acknowledged": integer(0, 2**53),
        "reopenedFrom": TIMESTAMP,
        "hint": STRING,
    },
    "reopened",
    "acknowledged",
)
_SPELLINGS = {"message_id": "messageId"}


def routes() -> list[Route]:
    """All routes of the path form, the PUT of a subscription among them."""
    pull = Binding("POST", f"{_SUBSCRIPTION}/pull", "Subscriber.Pull", "*", _PULL_QUERY)
    return [
        google_json.route(Binding("POST", f"{_TOPIC}/publish", "Publisher.Publish", "*")),
        replace(
            google_json.route(pull),
            read=partial(_read_pull, pull),
            parameters={
                "maxMessages": integer(1, 2**31 - 1, default=PULL_MESSAGES_DEFAULT),
                "returnImmediately": BOOLEAN,
            },
        ),
        google_json.route(
            Binding("POST", f"{_SUBSCRIPTION}/acknowledge", "Subscriber.Acknowledge", "*")
        ),
        google_json.route(
            Binding(
                "POST", f"{_SUBSCRIPTION}/modifyAckDeadline", "Subscriber.ModifyAckDeadline", "*"
            )
        ),
        _put(),
        Route(
            http="GET",
            path=f"{_SUBSCRIPTION}/snapshot",
            method=positions.GET_POSITION,
            read=_read_get_position,
            write=_write_position,
            gives=positions.POSITION,
        ),
        Route(
            http="POST",
            path=f"{_SUBSCRIPTION}/seek",
            method=positions.SEEK,
            read=_read_seek,
            write=partial(positions.moved, {"reopened_from": "reopenedFrom"}),
            takes=record(_SEEK),
            gives=_MOVED,
        ),
    ]


def _read_pull(binding: Binding, asked: Asked) -> bytes:
    """As Google's, with the number of messages in the query, or not at all."""
    given = {key for key, _ in asked.query}
    if isinstance(asked.body, dict):
        given |= asked.body.keys()
    if given.isdisjoint(("maxMessages", "max_messages")):
        asked.query.append(("maxMessages", str(PULL_MESSAGES_DEFAULT)))
    return google_json.read_request(binding, types.PullRequest, asked)


def _read_put(asked: Asked) -> bytes:
    body = asked.body
    if isinstance(body, dict) and isinstance(body.get("topic"), str):
        asked.body = body | {"topic": _in_project("topics", body["topic"], asked)}
    if _only_creates(asked):
        asked.verb = "Subscriber.CreateSubscription"
    return google_json.read_request(_PUT, types.Subscription, asked)


def _put() -> Route:
    route = google_json.route(_PUT)
    shown = record(properties(types.Subscription.DESCRIPTOR) | {"createdAt": TIMESTAMP})
    return replace(
        route,
        method=positions.PUT_SUBSCRIPTION,
        read=_read_put,
        write=partial(_write_put, route.write),
        gives=shown,
    )


def _write_put(write: Callable[[bytes, Asked], Any], raw: bytes, asked: Asked) -> Any:
    """Google's answer, and when it was made; Google's clients get no field they do not know."""
    found = write(raw, asked)
    if asked.facts is not None and not _is_google_client(asked):
        told = asked.facts.of(types.Subscription.FromString(raw))
        if "created_at" in told:
            found["createdAt"] = told["created_at"]
    return found


def _only_creates(asked: Asked) -> bool:
    """Whether somebody asks who wants 409 when it exists: Google's clients, or `If-None-Match`."""
    return _is_google_client(asked) or asked.headers.get(b"if-none-match") == b"*"


def _is_google_client(asked: Asked) -> bool:
    return b"x-goog-api-client" in asked.headers or any(
        key in ("alt", "$alt") for key, _ in asked.query
    )


def _in_project(collection: str, name: str, asked: Asked) -> str:
    """The full name of something that is given by its id: it is of the project in the path."""
    if "/" in name:
        return name
    [own] = asked.variables.values()
    return f"projects/{names.project_of(own)}/{collection}/{name}"


def _read_get_position(asked: Asked) -> bytes:
    if asked.query:
        raise json_in.unknown_parameter(asked.query[0][0], ())
    return orjson.dumps({"subscription": asked.variables["subscription"]})


def _write_position(raw: bytes, _: Asked) -> Any:
    return orjson.loads(raw)


def _read_seek(asked: Asked) -> bytes:
    body = asked.body
    if not isinstance(body, dict):
        raise InvalidArgument(f"the body: must be a JSON object, not {json_in.kind(body)}")
    body = {_SPELLINGS.get(key, key): value for key, value in body.items() if value is not None}
    for key in body:
        if key not in _SEEK and key != "subscription":
            raise json_in.unknown_field(key, "seek", _SEEK)
    own = asked.variables["subscription"]
    if body.get("subscription", own) != own:
        raise InvalidArgument(
            f"subscription: the body says {names.shown(str(body['subscription']))}, the path "
            f"{names.shown(own)}"
        )
    if asked.query:
        raise json_in.unknown_parameter(asked.query[0][0], ())
    if isinstance(body.get("snapshot"), str):
        body["snapshot"] = _in_project("snapshots", body["snapshot"], asked)
    return positions.read_seek(body, "messageId", own)
