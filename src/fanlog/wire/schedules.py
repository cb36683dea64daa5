"""Schedules: protobuf to values and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fanlog import limits
from fanlog.errors import InvalidArgument, TooLarge
from fanlog.model import names
from fanlog.model.schedules import MissedPolicy, Schedule, ScheduleState, check_policy
from fanlog.v1 import schedules_pb2 as pb
from fanlog.wire.fields import mask_paths, timestamp

_SERVER: Final = "is set by the server"
_OUTPUT: Final = {
    "create_time": _SERVER,
    "next_tick_time": _SERVER,
    "last_tick_time": _SERVER,
    "last_message_id": _SERVER,
    "published_ticks": _SERVER,
    "missed_ticks": _SERVER,
    "last_error": _SERVER,
    "last_error_time": _SERVER,
}
_IMMUTABLE: Final = {"name": "cannot be changed; make another schedule"} | _OUTPUT


def _missed(schedule: pb.Schedule) -> MissedPolicy:
    if schedule.missed == pb.Schedule.MISSED_UNSPECIFIED:
        return "SKIP"
    if schedule.missed not in pb.Schedule.Missed.values():
        raise InvalidArgument(f"missed: {schedule.missed} is not one of SKIP, LATEST, ALL")
    return check_policy(pb.Schedule.Missed.Name(schedule.missed))


def _topic(schedule: pb.Schedule) -> str:
    topic = str(names.parse_topic(schedule.topic))
    names.refuse_system(topic)
    return topic


def _data(schedule: pb.Schedule) -> bytes:
    if len(schedule.data) > limits.SCHEDULE_BYTES_MAX:
        raise TooLarge(
            f"data: {len(schedule.data)} bytes; the message of a schedule may have "
            f"{limits.SCHEDULE_BYTES_MAX}"
        )
    return schedule.data


#: The fields that a caller sets: that of `Schedule`, and how it is read.
_FIELDS: Final[dict[str, tuple[str, Callable[[pb.Schedule], Any]]]] = {
    "topic": ("topic", _topic),
    "cron": ("cron", lambda one: one.cron),
    "time_zone": ("time_zone", lambda one: one.time_zone or "UTC"),
    "data": ("data", _data),
    "attributes": ("attributes", lambda one: dict(one.attributes)),
    "ordering_key": ("ordering_key", lambda one: one.ordering_key),
    "missed": ("missed", _missed),
    "paused": ("is_paused", lambda one: one.paused),
}


def schedule_of(name: str, given: pb.Schedule) -> Schedule:
    """Read a schedule that is to be made.

    Raises:
        InvalidArgument: Names the field, its value and what it may be.
    """
    names.parse_schedule(name)
    names.refuse_system(name, field="name")
    if given.name not in ("", name):
        raise InvalidArgument(f"schedule.name: {names.shown(given.name)} is not {name!r}")
    for descriptor, _ in given.ListFields():
        if descriptor.name in _OUTPUT:
            raise InvalidArgument(f"schedule.{descriptor.name}: {_SERVER}; leave it unset")
    return Schedule(name=name, **{field: read(given) for field, read in _FIELDS.values()})


def changes_of(request: pb.UpdateScheduleRequest) -> dict[str, Any]:
    """The fields that an update changes, with their new values.

    Raises:
        InvalidArgument: The mask is empty or names what cannot be changed, or a value is wrong.
    """
    given = request.schedule
    paths = mask_paths(request.update_mask, _FIELDS, _IMMUTABLE, given)
    return {_FIELDS[path][0]: _FIELDS[path][1](given) for path in paths}


def schedule_pb(state: ScheduleState) -> pb.Schedule:
    schedule, progress = state.schedule, state.progress
    shown = pb.Schedule(
        name=schedule.name,
        topic=schedule.topic,
        cron=schedule.cron,
        time_zone=schedule.time_zone,
        data=schedule.data,
        attributes=dict(schedule.attributes),
        ordering_key=schedule.ordering_key,
        missed=schedule.missed,
        paused=schedule.is_paused,
        last_message_id=progress.last_message_id,
        published_ticks=progress.published,
        missed_ticks=progress.missed,
        last_error=progress.error,
    )
    for field, seconds in (
        ("create_time", schedule.created_s),
        ("next_tick_time", state.next_tick_s),
        ("last_tick_time", progress.last_tick_s),
        ("last_error_time", progress.error_s),
    ):
        if seconds:
            getattr(shown, field).CopyFrom(timestamp(seconds))
    return shown
