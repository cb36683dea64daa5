"""Schedules of a resources file: read from it, made when they are missing.

    [schedules.report]
    topic = "reports"
    cron = "0 7 * * mon-fri"
    time_zone = "Europe/Berlin"
    data = "make the daily report"
    attributes = { kind = "daily" }
    missed = "LATEST"

The fields are those of the API's JSON form, but for `data`, which is a text here; bytes that are
none are given as `data_base64`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace

from google.protobuf import json_format

from fanlog.broker.broker import Broker
from fanlog.broker.time_zones import time_zone
from fanlog.core.cron import parse_cron
from fanlog.errors import InvalidArgument
from fanlog.model.schedules import Schedule
from fanlog.v1 import schedules_pb2
from fanlog.wire.schedules import schedule_of


def read_schedule(name: str, value: Mapping[str, object], topic: str) -> Schedule:
    """Read one schedule, of that full name on that topic.

    Raises:
        InvalidArgument: Names the field and the mistake in it.
        ParseError: A field that does not exist, or a value of another kind.
    """
    fields = dict(value) | {"topic": topic}
    data = _data(fields)
    given = schedules_pb2.Schedule(data=data)
    json_format.ParseDict(fields, given)
    schedule = schedule_of(name, given)
    schedule.check()
    parse_cron(schedule.cron)
    time_zone(schedule.time_zone)
    return schedule


def find_schedule(broker: Broker, wanted: Schedule) -> Schedule | None:
    """The schedule of that name as it is, but for what no file says; None if there is none."""
    present = broker.hard.schedules.find(wanted.name)
    return present and replace(present, created_s=wanted.created_s)


def _data(fields: dict[str, object]) -> bytes:
    """Take the message's data out of the fields."""
    text, coded = fields.pop("data", None), fields.pop("data_base64", None)
    if text is not None and coded is not None:
        raise InvalidArgument("data_base64: give this or data, not both")
    for field, given in (("data", text), ("data_base64", coded)):
        if given is not None and not isinstance(given, str):
            raise InvalidArgument(f"{field}: must be a text")
    if isinstance(coded, str):
        try:
            return base64.b64decode(coded, validate=True)
        except ValueError:
            raise InvalidArgument("data_base64: is not base64") from None
    return str(text or "").encode()
