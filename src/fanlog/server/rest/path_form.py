"""The path form: Google's resources and JSON, with verbs as the last part of the path.

`PUT` of a subscription is in Google's API too, where it only creates. Here it creates or replaces
all settings; a request that looks like one of Google's clients only creates, as they expect.
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.model.json_value import Json, JsonObject
from fanlog.server.rest import google_json, json_in, json_out, positions
from fanlog.server.rest.binding import HttpBinding
from fanlog.server.rest.json_schema import (
    BOOLEAN,
    STRING,
    TIMESTAMP,
    JsonSchema,
    integer,
    properties,
    record,
)
from fanlog.server.rest.route import Asked, Route
from fanlog.server.rest.short_shapes import PULL_MESSAGES_DEFAULT
from fanlog.v1 import replay_pb2
from fanlog.wire import types

_TOPIC = "/v1/{topic=projects/*/topics/*}"
_SUBSCRIPTION = "/v1/{subscription=projects/*/subscriptions/*}"
_PULL_QUERY: dict[str, JsonSchema] = {
    "max_messages": integer(1, 2**31 - 1, default=PULL_MESSAGES_DEFAULT),
    "return_immediately": BOOLEAN,
}
_SEEK = {"time": TIMESTAMP, "snapshot": STRING, "position": STRING, "messageId": STRING}


def _default_count(body: Json, asked: Asked) -> Json:
    """Give a pull its number of messages where neither the body nor the query has one."""
    given = {key for key, _ in asked.query}
    if isinstance(body, dict):
        given |= body.keys()
    if given.isdisjoint(("maxMessages", "max_messages")):
        asked.query.append(("maxMessages", str(PULL_MESSAGES_DEFAULT)))
    return body


def _translate_put(body: Json, asked: Asked) -> Json:
    if _is_google_client(asked) or asked.headers.get(b"if-none-match") == b"*":
        # Both expect 409 when the subscription exists.
        asked.verb = "Subscriber.CreateSubscription"
    if isinstance(body, dict) and isinstance(body.get("topic"), str):
        return body | {"topic": _in_project("topics", body["topic"], asked)}
    return body


def _write_put(raw: bytes, asked: Asked) -> JsonObject:
    """Google's answer with the time of creation, a field that Google's clients do not know."""
    made = types.Subscription.FromString(raw)
    found = json_out.resource(made, has_integer_enums=asked.has_integer_enums)
    if asked.facts is not None and not _is_google_client(asked):
        facts = asked.facts.of(made)
        if "created_at" in facts:
            found["createdAt"] = facts["created_at"]
    return found


def _is_google_client(asked: Asked) -> bool:
    return b"x-goog-api-client" in asked.headers or any(
        key in ("alt", "$alt") for key, _ in asked.query
    )


def _in_project(collection: str, name: str, asked: Asked) -> str:
    """The full name of a resource that is given by its id: it is of the project in the path."""
    if "/" in name:
        return name
    [own] = asked.variables.values()
    return f"projects/{names.project_of(own)}/{collection}/{name}"


def _without_query(body: Json, asked: Asked) -> Json:
    if asked.query:
        raise json_in.unknown_parameter(asked.query[0][0], ())
    return body


def _write_position(raw: bytes, _: Asked) -> Json:
    found: Json = orjson.loads(raw)
    return found


def _translate_seek(given: Json, asked: Asked) -> Mapping[str, Json]:
    if not isinstance(given, dict):
        raise InvalidArgument(f"the body: must be a JSON object, not {json_in.kind(given)}")
    body: JsonObject = {
        "messageId" if key == "message_id" else key: value
        for key, value in given.items()
        if value is not None
    }
    for key in body:
        if key not in _SEEK and key != "subscription":
            raise json_in.unknown_field(key, "seek", _SEEK)
    own = asked.variables["subscription"]
    if body.get("subscription", own) != own:
        raise InvalidArgument(
            f"subscription: the body says {names.shown(str(body['subscription']))}, the path "
            f"{names.shown(own)}"
        )
    _without_query(body, asked)
    snapshot = body.get("snapshot")
    if isinstance(snapshot, str):
        body["snapshot"] = _in_project("snapshots", snapshot, asked)
    return positions.seek_target(body, "messageId")


def _write_moved(raw: bytes, asked: Asked) -> JsonObject:
    answer = replay_pb2.SeekSubscriptionResponse.FromString(raw)
    return positions.show_moved(answer, asked, google_json.camel_case)


BINDINGS = (
    HttpBinding("POST", f"{_TOPIC}/publish", "Publisher.Publish", "*"),
    HttpBinding(
        *("POST", f"{_SUBSCRIPTION}/pull", "Subscriber.Pull", "*"),
        query=_PULL_QUERY,
        translate=_default_count,
    ),
    HttpBinding("POST", f"{_SUBSCRIPTION}/acknowledge", "Subscriber.Acknowledge", "*"),
    HttpBinding("POST", f"{_SUBSCRIPTION}/modifyAckDeadline", "Subscriber.ModifyAckDeadline", "*"),
    HttpBinding(
        *("PUT", "/v1/{name=projects/*/subscriptions/*}", positions.PUT_SUBSCRIPTION, "*"),
        translate=_translate_put,
        gives=record(properties(types.Subscription.DESCRIPTOR) | {"createdAt": TIMESTAMP}),
        write=_write_put,
    ),
    HttpBinding(
        *("GET", f"{_SUBSCRIPTION}/snapshot", positions.GET_POSITION),
        translate=_without_query,
        gives=positions.POSITION,
        write=_write_position,
    ),
    HttpBinding(
        *("POST", f"{_SUBSCRIPTION}/seek", positions.SEEK, "*"),
        takes=record(_SEEK),
        translate=_translate_seek,
        gives=positions.moved_schema(google_json.camel_case),
        write=_write_moved,
    ),
)


def routes() -> list[Route]:
    """All routes of the path form, the PUT of a subscription among them."""
    return [google_json.route(binding) for binding in BINDINGS]
