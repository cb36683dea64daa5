"""Schedules, said on every surface that makes or changes them.

A schedule is given as the fields of its JSON; its data is a text.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import json_format

from fanlog.client import CallFailed, Client
from fanlog.client.schedules import ScheduleClient
from fanlog.v1 import schedules_pb2 as pb
from server.asking_surfaces import Refused, Unsaid, command, rest
from server.setting_surfaces import ensured

Fields = Mapping[str, Any]


def _json(fields: Fields) -> dict[str, Any]:
    coded = base64.b64encode(fields.get("data", "").encode()).decode()
    return {**fields, **({"data": coded} if "data" in fields else {})}


def _message(fields: Fields) -> pb.Schedule:
    return json_format.ParseDict(_json(fields), pb.Schedule())


class ByGrpc:
    """The service by itself, as a program of any language calls it."""

    def create(self, server: Any, name: str, fields: Fields, _: Path) -> None:
        parent, _, schedule_id = name.partition("/schedules/")
        request = pb.CreateScheduleRequest(
            parent=parent, schedule_id=schedule_id, schedule=_message(fields)
        )
        self._call(server, "CreateSchedule", request)

    def update(self, server: Any, name: str, fields: Fields) -> None:
        changed = _message(fields)
        changed.name = name
        request = pb.UpdateScheduleRequest(schedule=changed)
        request.update_mask.paths.extend(fields)
        self._call(server, "UpdateSchedule", request)

    def _call(self, server: Any, method: str, request: Any) -> None:
        with server.channel() as channel:
            call = channel.unary_unary(f"/fanlog.v1.Schedules/{method}")
            try:
                call(request.SerializeToString(), timeout=30)
            except grpc.RpcError as error:
                raise Refused(error.details()) from error


class ByPython:
    def create(self, server: Any, name: str, fields: Fields, _: Path) -> None:
        wanted = _message(fields)
        wanted.name = name
        self._call(server, lambda client: client.create(wanted))

    def update(self, server: Any, name: str, fields: Fields) -> None:
        changed = _message(fields)
        changed.name = name
        self._call(server, lambda client: client.update(changed, list(fields)))

    def _call(self, server: Any, verb: Callable[[ScheduleClient], object]) -> None:
        try:
            with Client(server.endpoint) as client:
                verb(ScheduleClient(client))
        except CallFailed as failure:
            raise Refused(failure.message) from failure


def _check_names(fields: Fields) -> None:
    if not isinstance(fields.get("missed", ""), str):
        raise Unsaid("JSON has names for policies, and other sentences for numbers")


class ByRest:
    def create(self, server: Any, name: str, fields: Fields, _: Path) -> None:
        _check_names(fields)
        parent, _, schedule_id = name.partition("/schedules/")
        path = f"/v1/{parent}/schedules?scheduleId={schedule_id}"
        rest(server, "POST", path, _json(fields))

    def update(self, server: Any, name: str, fields: Fields) -> None:
        _check_names(fields)
        body = {"schedule": _json(fields), "updateMask": ",".join(fields)}
        rest(server, "PATCH", f"/v1/{name}", body)


class ByCommand:
    def create(self, server: Any, name: str, fields: Fields, _: Path) -> None:
        if "/" not in fields["topic"]:
            raise Unsaid("a short name means one here")
        words = self._words(fields, ("time_zone", "data", "attributes", "ordering_key", "missed"))
        command(server, "schedule", "create", name, fields["topic"], fields["cron"], *words)

    def update(self, server: Any, name: str, fields: Fields) -> None:
        known = ("topic", "cron", "time_zone", "data", "attributes", "ordering_key", "missed")
        command(server, "schedule", "update", name, *self._words(fields, known))

    def _words(self, fields: Fields, known: tuple[str, ...]) -> list[str]:
        if fields.keys() - {"topic", "cron", *known}:
            raise Unsaid("no such option")
        words: list[str] = []
        for field in known:
            value = fields.get(field)
            if value is None:
                continue
            if field == "topic" and "/" not in value:
                raise Unsaid("a short name means one here")
            if field == "attributes":
                words += [word for pair in value.items() for word in ("--attr", "=".join(pair))]
            elif field == "missed":
                if not isinstance(value, str):
                    raise Unsaid("a number for a policy")
                words += ["--missed", value.lower()]
            else:
                option = "key" if field == "ordering_key" else field.replace("_", "-")
                words += [f"--{option}", value]
        return words


class ByFile:
    def create(self, server: Any, name: str, fields: Fields, folder: Path) -> None:
        if "/" not in fields["topic"]:
            raise Unsaid("a short name means one here")
        ensured(server, folder, {"schedules": {name: dict(fields)}})

    def update(self, server: Any, name: str, fields: Fields) -> None:
        raise Unsaid("a file changes nothing")


SCHEDULING: dict[str, Any] = {
    "grpc": ByGrpc(),
    "python": ByPython(),
    "rest": ByRest(),
    "command": ByCommand(),
    "file": ByFile(),
}
