"""Every role on the surfaces beside unary gRPC: every route of REST, CloudEvents, every stream."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

import grpc
import pytest

from access.conftest import PROJECT, Guarded
from fanlog.core.roles import ROLES
from fanlog.server.http_api import rest_routes
from fanlog.server.permissions import (
    CONSUME,
    GET_TOPIC,
    METRICS,
    PERMISSIONS,
    PUBLISH,
    READ_LOG,
    WRITE_SINKS,
)
from fanlog.server.rest.facts import Facts
from fanlog.server.rest.positions import GET_POSITION, PUT_SUBSCRIPTION
from fanlog.server.rest.route import Asked, Route, parse_template
from fanlog.server.services import SERVICES
from fanlog.v1 import log_pb2, overview_pb2, sink_pb2
from fanlog.wire import types

TOPIC, SUBSCRIPTION = f"{PROJECT}/topics/orders", f"{PROJECT}/subscriptions/billing"
ROUTES = [(form, route) for form, routes in rest_routes().items() for route in routes]
_METHODS = {
    f"{s.short_name}.{m.name}": (s.full_name(m), m.request) for s in SERVICES for m in s.methods
}
#: What stands for a variable of a path.
_COLLECTIONS = {
    "topics": "orders",
    "subscriptions": "billing",
    "snapshots": "monday",
    "projects": "shop",
    "schemas": "order",
    "jobs": "one",
    "revisions": "1",
    "schedules": "daily",
    "alerts": "behind",
    "messages": "7000000000000",
    "accounts": "nobody",
}
_DEFINITION = '{"type": "object"}'
#: Bodies of methods that refuse an empty one before they look whose it is.
_BODIES: dict[str, Any] = {
    "Publisher.Publish": {"messages": [{"data": "eA=="}]},
    "Subscriber.Pull": {"maxMessages": 1, "returnImmediately": True},
    "Subscriber.Acknowledge": {"ackIds": ["x"]},
    "Subscriber.ModifyAckDeadline": {"ackIds": ["x"], "ackDeadlineSeconds": 10},
    "Subscriber.CreateSnapshot": {"subscription": SUBSCRIPTION},
    "Subscriber.PutSubscription": {"topic": TOPIC},
    "Replay.Seek": {"time": "2026-01-01T00:00:00Z"},
    "Jobs.CreateJob": {"kind": "verify"},
    "Catalog.DescribeTopics": {"topics": [TOPIC]},
    "Catalog.DescribeSubscriptions": {"subscriptions": [SUBSCRIPTION]},
    "Catalog.DescribeSchema": {"name": f"{PROJECT}/schemas/order"},
    "SchemaService.ValidateMessage": {"name": f"{PROJECT}/schemas/order"},
    "Schedules.CreateSchedule": {"topic": TOPIC},
    "Alerts.CreateAlert": {"condition": "DISK_LOW", "limit": 1},
    "Inspection.Estimate": {"act": "purge", "resource": SUBSCRIPTION},
    "Browse.Messages": {"topic": TOPIC},
    "Browse.TryFilter": {"topic": TOPIC},
    "Auth.CreateAccount": {"name": "nobody"},
    "Auth.SetPolicy": {"resource": PROJECT},
    "Schedules.UpdateSchedule": {"schedule": {"topic": TOPIC}, "updateMask": "topic"},
}
#: Queries of methods that refuse an empty one before they look whose it is.
_QUERIES = {"Auth.GetPolicy": [("resource", PROJECT)]}
#: Fields that the short form cannot do without.
_SHORT: dict[str, Any] = {
    "name": "orders",
    "topic": "orders",
    "subscription": "billing",
    "type": "JSON",
    "definition": _DEFINITION,
    "revision": 1,
    "encoding": "JSON",
    "message": "e30=",
    "messages": [{"data": "eA=="}],
    "ack_ids": ["x"],
    "ack_deadline_seconds": 10,
    "id": "1",
    "source": "/s",
    "specversion": "1.0",
}
_SHORT_BODIES: dict[str, Any] = {
    "Replay.Seek": {"time": "2026-01-01T00:00:00Z"},
    "SchemaService.ValidateMessage": {"name": "order", "encoding": "JSON", "message": "e30="},
}


def path_of(route: Route) -> str:
    """The path of a route with names for its variables."""
    segments, verb, _ = parse_template(route.path)
    before = ""
    path = ""
    for segment in segments:
        before = _COLLECTIONS[before] if segment == "*" else segment
        path += f"/{before}"
    return path + verb


def body_of(form: str, route: Route) -> Any:
    if route.takes is None:
        return None
    if form == "The short form" and route.method in _SHORT_BODIES:
        return _SHORT_BODIES[route.method]
    required = route.takes.get("required", ())
    if required:
        return {
            name: "orders" if route.handle and name == "type" else _SHORT[name] for name in required
        }
    if form == "The short form":
        return {"labels": {}} if route.http == "PATCH" else {}
    return _BODIES.get(route.method, {})


def needs_of(guarded: Guarded, form: str, route: Route) -> set[str]:
    """The permissions that the table says for what the route makes of its request."""
    hard = guarded.server.broker.hard
    if route.handle is not None:
        return {PUBLISH}
    path = path_of(route)
    _, _, spans = parse_template(route.path)
    parts = re.sub(":[A-Za-z_]+$", "", path).split("/")[1:]
    asked = Asked(
        variables={name: "/".join(parts[i:j]) for name, (i, j) in spans.items()},
        query=_QUERIES.get(route.method, []),
        body=body_of(form, route) or {},
        project="shop",
        facts=Facts(guarded.server.broker),
    )
    raw = route.read(asked)
    verb = asked.verb or route.method
    if verb == GET_POSITION:
        full_name, kind = "fanlog.rest.Position.Get", types.GetSubscriptionRequest
    elif verb == PUT_SUBSCRIPTION:
        full_name, kind = "google.pubsub.v1.Subscriber.CreateSubscription", types.Subscription
    else:
        full_name, kind = _METHODS[verb]
    request = kind.FromString(raw)
    return {need for rule in PERMISSIONS[full_name] for need, *_ in rule.find(request, hard)}


async def answer_to(
    guarded: Guarded, form: str, route: Route, token: str | None
) -> tuple[int, str]:
    body = body_of(form, route)
    kind = "application/json" if route.handle is None else "application/cloudevents+json"
    query = urlencode(_QUERIES.get(route.method, []))
    path = f"{path_of(route)}?{query}" if query else path_of(route)
    answer = await guarded.http(route.http, path, body, token, kind=kind)
    return answer.status, answer.text


async def _prepared(guarded: Guarded) -> None:
    topic = types.Topic(name=TOPIC)
    await guarded.call("google.pubsub.v1.Publisher/CreateTopic", topic, types.Topic)


@pytest.mark.parametrize("role", sorted(ROLES))
async def test_every_route_as_every_role(guarded: Guarded, role: str):
    """Refused with 403 exactly where the role lacks a permission of the table."""
    await _prepared(guarded)
    token = await guarded.token("caller")
    await guarded.grant("server", role, guarded.member("caller"))
    for form, route in ROUTES:
        needed = needs_of(guarded, form, route)
        status, text = await answer_to(guarded, form, route, token)
        said = (form, route.http, route.path, status, needed - ROLES[role], text)
        is_found = not any(
            words in text
            for words in ("does not exist", "MESSAGE_NOT_FOUND", "has no key", "has no token")
        )
        assert status not in (401, 404) or not is_found, said
        assert (status == 403) == (not needed <= ROLES[role]), said


async def test_every_route_without_a_credential(guarded: Guarded):
    await _prepared(guarded)
    for form, route in ROUTES:
        status, text = await answer_to(guarded, form, route, None)
        assert status == 401, (form, route.http, route.path, status, text)


def test_every_route_has_a_request_that_says_something():
    """A request that is refused for its form would be refused as everybody."""
    assert len(ROUTES) > 100
    assert {route.method for _, route in ROUTES if route.takes} >= set(_BODIES)


_KEY = sink_pb2.StageKey(query="q" * 8, epoch=1, partition=0, attempt="a")
_ROWS = sink_pb2.StagedRows(topic=TOPIC, messages=[{"data": b"x"}])
#: A request of each stream, and what it needs.
STREAMS: dict[str, tuple[Any, set[str]]] = {
    "google.pubsub.v1.Subscriber/StreamingPull": (
        types.StreamingPullRequest(subscription=SUBSCRIPTION, stream_ack_deadline_seconds=10),
        {CONSUME},
    ),
    "fanlog.v1.Log/Read": (
        log_pb2.ReadRequest(ranges=[log_pb2.Range(topic=TOPIC, partition=1, start=0, end=1)]),
        {READ_LOG},
    ),
    "fanlog.v1.Overview/Watch": (
        overview_pb2.WatchRequest(topics=[TOPIC]),
        {METRICS, GET_TOPIC},
    ),
    "fanlog.v1.Sink/Stage": (
        sink_pb2.StageRequest(key=_KEY, rows=[_ROWS]),
        {PUBLISH, WRITE_SINKS},
    ),
}


async def _stream_code(guarded: Guarded, path: str, request: Any, token: str | None) -> str:
    metadata = () if token is None else (("authorization", f"Bearer {token}"),)
    call = guarded.channel.stream_stream(f"/{path}")(
        iter([request.SerializeToString()]), metadata=metadata, timeout=20
    )
    try:
        async for _ in call:
            break
    except grpc.aio.AioRpcError as error:
        return error.code().name
    return (await call.code()).name if call.done() else "OK"


def test_every_stream_is_tried():
    assert set(STREAMS) == {f"{s.name}/{m.name}" for s in SERVICES for m in s.streams}


@pytest.mark.parametrize("role", sorted(ROLES))
async def test_every_stream_as_every_role(guarded: Guarded, role: str):
    await _prepared(guarded)
    token = await guarded.token("caller")
    await guarded.grant("server", role, guarded.member("caller"))
    for path, (request, needed) in STREAMS.items():
        code = await _stream_code(guarded, path, request, token)
        assert code not in ("UNAUTHENTICATED", "UNIMPLEMENTED"), path
        assert (code == "PERMISSION_DENIED") == (not needed <= ROLES[role]), (path, code)


async def test_every_stream_without_a_credential(guarded: Guarded):
    for path, (request, _) in STREAMS.items():
        assert await _stream_code(guarded, path, request, None) == "UNAUTHENTICATED", path


async def test_a_stage_without_rows_needs_the_permission_too(guarded: Guarded):
    """It would stand in place of an attempt of somebody else."""
    token = await guarded.token("caller")
    await guarded.grant("server", "roles/pubsub.publisher", guarded.member("caller"))
    request = sink_pb2.StageRequest(key=_KEY)
    path = "fanlog.v1.Sink/Stage"
    assert await _stream_code(guarded, path, request, token) == "PERMISSION_DENIED"
    assert await _stream_code(guarded, path, request, None) == "UNAUTHENTICATED"
