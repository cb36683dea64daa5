"""The records of a schedule: its settings, and how far it is.

Two, since each tick writes how far it is, and the settings have the message.
"""

from __future__ import annotations

from dataclasses import dataclass

from fanlog.core.records.codec import Form, Stored, digest_of, json_of, record
from fanlog.model.schedules import Progress, Schedule

#: As with jobs: a name may be longer than a key.
_HASHED_NAME = Form(digest_of, lambda digest: (digest,))


@record("c", key=_HASHED_NAME, value=json_of(Schedule), key_of=lambda found: (found.name,))
@dataclass(frozen=True, slots=True)
class ScheduleRecord(Stored):
    name: str
    schedule: Schedule | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleTicks:
    """The progress of the schedule of that name."""

    name: str
    progress: Progress


@record("t", key=_HASHED_NAME, value=json_of(ScheduleTicks), key_of=lambda found: (found.name,))
@dataclass(frozen=True, slots=True)
class TickRecord(Stored):
    name: str
    ticks: ScheduleTicks | None


def tick_record(name: str, progress: Progress) -> TickRecord:
    return TickRecord(name, ScheduleTicks(name=name, progress=progress))


AnyScheduleRecord = ScheduleRecord | TickRecord
