"""Alerts, said on every surface that makes them. An alert is given as the fields of its JSON."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import json_format

from fanlog.client import CallFailed, Client
from fanlog.client.alerts import AlertClient
from fanlog.v1 import alerts_pb2 as pb
from server.asking_surfaces import Refused, Unsaid, command, rest
from server.setting_surfaces import ensured

Fields = Mapping[str, Any]


def _message(fields: Fields) -> pb.Alert:
    return json_format.ParseDict(dict(fields), pb.Alert())


def by_grpc(server: Any, name: str, fields: Fields, _: Path) -> None:
    parent, _, alert_id = name.partition("/alerts/")
    request = pb.CreateAlertRequest(parent=parent, alert_id=alert_id, alert=_message(fields))
    with server.channel() as channel:
        call = channel.unary_unary("/fanlog.v1.Alerts/CreateAlert")
        try:
            call(request.SerializeToString(), timeout=30)
        except grpc.RpcError as error:
            raise Refused(error.details()) from error


def by_python(server: Any, name: str, fields: Fields, _: Path) -> None:
    wanted = _message(fields)
    wanted.name = name
    try:
        with Client(server.endpoint) as client:
            AlertClient(client).create(wanted)
    except CallFailed as failure:
        raise Refused(failure.message) from failure


def by_rest(server: Any, name: str, fields: Fields, _: Path) -> None:
    if not isinstance(fields.get("condition", ""), str):
        raise Unsaid("JSON has names for conditions, and other sentences for numbers")
    parent, _, alert_id = name.partition("/alerts/")
    rest(server, "POST", f"/v1/{parent}/alerts?alertId={alert_id}", dict(fields))


def by_command(server: Any, name: str, fields: Fields, _: Path) -> None:
    known = ("subscription", "limit", "clear", "minimum_time")
    condition = fields.get("condition")
    if not isinstance(condition, str) or fields.keys() - {"condition", *known}:
        raise Unsaid("no such option")
    if "/" not in fields.get("subscription", "/") or str(fields.get("minimum_time"))[0] == "-":
        raise Unsaid("a short name means one here, and a duration has its own rules")
    words = [
        f"--{field.replace('_', '-')}={fields[field]}"
        for field in known
        if fields.get(field) is not None
    ]
    command(server, "alert", "create", name, condition.lower().replace("_", "-"), *words)


def by_file(server: Any, name: str, fields: Fields, folder: Path) -> None:
    if "/" not in fields.get("subscription", "/"):
        raise Unsaid("a short name means one here")
    ensured(server, folder, {"alerts": {name: dict(fields)}})


ALERTING: dict[str, Any] = {
    "grpc": by_grpc,
    "python": by_python,
    "rest": by_rest,
    "command": by_command,
    "file": by_file,
}
