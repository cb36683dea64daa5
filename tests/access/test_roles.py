"""Every role and every method of every service: the table of permissions is what is enforced."""

from __future__ import annotations

from typing import Any

import pytest

from access.conftest import PROJECT, Guarded
from fanlog.core.roles import ALL, ROLES
from fanlog.errors import FanlogError
from fanlog.server.http_api import rest_routes
from fanlog.server.needs import Rule
from fanlog.server.permissions import INSIDE, PERMISSIONS
from fanlog.server.services import SERVICES
from fanlog.wire import types

#: Requests that name what is there; others are filled by `_request`.
_NAMES = {
    "topic": f"{PROJECT}/topics/orders",
    "subscription": f"{PROJECT}/subscriptions/billing",
    "snapshot": f"{PROJECT}/snapshots/monday",
    "project": PROJECT,
    "parent": PROJECT,
    "resource": f"{PROJECT}/topics/orders",
    "name": f"{PROJECT}/topics/orders",
    "account": "nobody",
}
_UNARY = [(s, m) for s in SERVICES for m in s.methods]
_STREAMS = [(s, m) for s in SERVICES for m in s.streams]


def _request(full_name: str, kind: type[Any]) -> Any:
    """A request whose names are well-formed; nothing else in it has to be right."""
    request = kind()
    for field in request.DESCRIPTOR.fields:
        if field.name in _NAMES and field.type == field.TYPE_STRING and not field.is_repeated:
            setattr(request, field.name, _NAMES[field.name])
    if "Schema" in full_name.rpartition(".")[2] and hasattr(request, "name"):
        request.name = f"{PROJECT}/schemas/order"
    if ".Jobs." in full_name and hasattr(request, "name"):
        request.name = f"{PROJECT}/jobs/one"
    if ".Schedules." in full_name and hasattr(request, "name"):
        request.name = f"{PROJECT}/schedules/daily"
    if ".Alerts." in full_name and hasattr(request, "name"):
        request.name = f"{PROJECT}/alerts/behind"
    if full_name.endswith(("CreateSchedule", "UpdateSchedule")):
        request.schedule.name = f"{PROJECT}/schedules/daily"
        request.schedule.topic = _NAMES["topic"]
    if full_name.endswith("UpdateAlert"):
        request.alert.name = f"{PROJECT}/alerts/behind"
    if full_name.endswith("CreateSubscription"):
        request.name = f"{PROJECT}/subscriptions/billing"
    if full_name.endswith("CreateSnapshot"):
        request.name = f"{PROJECT}/snapshots/monday"
    if full_name.endswith("UpdateTopic"):
        request.topic.name = _NAMES["topic"]
    if full_name.endswith("UpdateSubscription"):
        request.subscription.name = _NAMES["subscription"]
    if full_name.endswith("UpdateSnapshot"):
        request.snapshot.name = _NAMES["snapshot"]
    if full_name.endswith("CreateJob"):
        request.kind = "verify"
    if full_name.endswith(("GetPolicy", "SetPolicy")) and full_name.startswith("fanlog."):
        request.resource = PROJECT
    if full_name.endswith("Publish"):
        request.messages.add(data=b"x")
    if full_name.endswith("Pull"):
        request.max_messages = 1
        request.return_immediately = True
    if full_name.endswith(("Acknowledge", "ModifyAckDeadline")):
        request.ack_ids.append("x")
    return request


def _needs(rules: tuple[Rule, ...], request: Any, guarded: Guarded) -> set[str]:
    hard = guarded.server.broker.hard
    return {permission for rule in rules for permission, *_ in rule.find(request, hard)}


def test_every_method_has_declared_its_permission():
    declared = {service.full_name(m) for service, m in (*_UNARY, *_STREAMS)}
    others = {"grpc.reflection.ServerReflectionInfo", "fanlog.rest.Position.Get"}
    assert set(PERMISSIONS) == declared | others
    assert declared >= INSIDE


def test_every_permission_that_is_needed_exists():
    for rules in PERMISSIONS.values():
        for rule in rules:
            for permission in rule.permission.split(", "):
                assert permission in ALL or "COLLECTION" in permission, permission


def test_every_route_of_rest_is_a_method_behind_the_gate():
    names = {f"{s.short_name}.{m.name}" for s, m in _UNARY}
    names |= {"Position.Get", "Subscriber.PutSubscription", "Events.Publish"}
    assert {route.method for routes in rest_routes().values() for route in routes} <= names


@pytest.mark.parametrize("role", sorted(ROLES))
async def test_every_method_as_every_role(guarded: Guarded, role: str):
    """A caller with a role on the server is refused exactly where the role lacks a permission."""
    await guarded.call(
        "google.pubsub.v1.Publisher/CreateTopic", types.Topic(name=_NAMES["topic"]), types.Topic
    )
    token = await guarded.token("caller")
    await guarded.grant("server", role, guarded.member("caller"))
    for service, method in _UNARY:
        full_name = service.full_name(method)
        request = _request(full_name, method.request)
        needed = _needs(PERMISSIONS[full_name], request, guarded)
        path = f"{service.name}/{method.name}"
        code = await guarded.code(path, request, method.answer, token)
        is_refused = code in ("PERMISSION_DENIED", "UNAUTHENTICATED")
        assert is_refused == (not needed <= ROLES[role]), (full_name, code, needed)


async def test_nobody_without_a_credential(guarded: Guarded):
    for service, method in _UNARY:
        request = _request(service.full_name(method), method.request)
        path = f"{service.name}/{method.name}"
        assert await guarded.code(path, request, method.answer, None) == "UNAUTHENTICATED", path
    for service, stream in _STREAMS:
        call = guarded.channel.stream_stream(f"/{service.name}/{stream.name}")
        request = (
            stream.request(subscription="projects/p/subscriptions/sss")
            if (stream.name == "StreamingPull")
            else stream.request()
        )
        with pytest.raises(Exception) as refused:
            async for _ in call(iter([request.SerializeToString()])):
                pass
        code = refused.value.code().name  # type: ignore[attr-defined]
        assert code in ("UNAUTHENTICATED", "INVALID_ARGUMENT"), stream.name


def test_a_role_of_the_table_is_no_wider_than_the_owner():
    for permissions in ROLES.values():
        assert permissions <= ALL


def test_the_rules_refuse_names_that_have_no_project():
    for full_name, rules in PERMISSIONS.items():
        for rule in rules:
            kind = {service.full_name(m): m.request for service, m in _UNARY}.get(full_name)
            if kind is None or not kind.DESCRIPTOR.fields:
                continue
            request = kind()
            for field in request.DESCRIPTOR.fields:
                if field.type == field.TYPE_STRING and not field.is_repeated:
                    setattr(request, field.name, "nonsense")
            try:
                found = list(rule.find(request, None))  # type: ignore[arg-type]
            except (FanlogError, AttributeError):
                continue
            assert all(name == "server" or name.startswith("projects/") for _, name, *_ in found), (
                full_name
            )
