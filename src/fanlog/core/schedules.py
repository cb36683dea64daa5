"""The schedules of a broker and how far each is, all hard state; and the rule of the next step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import tzinfo
from typing import assert_never

from fanlog import limits
from fanlog.core.cron import Cron
from fanlog.core.names_table import NamesTable
from fanlog.core.records.schedules import AnyScheduleRecord, ScheduleRecord, TickRecord
from fanlog.errors import ScheduleNotFound
from fanlog.model.names import project_of
from fanlog.model.quotas import Usage
from fanlog.model.schedules import MissedPolicy, Progress, Schedule


class ScheduleTable:
    """Schedules by name. Not safe to share between threads."""

    def __init__(self) -> None:
        self._schedules: dict[str, Schedule] = {}
        self._progress: dict[str, Progress] = {}
        # Derived: names in order, and how many there are, for quotas.
        self._names = NamesTable[str]()
        self.usage = Usage()

    def __len__(self) -> int:
        return len(self._schedules)

    def find(self, name: str) -> Schedule | None:
        return self._schedules.get(name)

    def schedule(self, name: str) -> Schedule:
        """Raises ScheduleNotFound."""
        found = self._schedules.get(name)
        if found is None:
            raise ScheduleNotFound(f"schedule {name!r} does not exist")
        return found

    def progress(self, name: str) -> Progress:
        return self._progress[name]

    def names_after(self, prefix: str, after: str) -> Iterator[str]:
        return self._names.names_after(prefix, after)

    def names(self) -> list[str]:
        return list(self._schedules)

    def apply(self, record: AnyScheduleRecord) -> None:
        match record:
            case ScheduleRecord(name=name, schedule=schedule):
                self._count(name, -1)
                if schedule is not None:
                    self._schedules[name] = schedule
                    self._names.add(name, name)
                elif self._schedules.pop(name, None) is not None:
                    self._names.remove(name)
                self._count(name, 1)
            case TickRecord(name=name, ticks=ticks):
                if ticks is None:
                    self._progress.pop(name, None)
                else:
                    self._progress[name] = ticks.progress
            case _:
                assert_never(record)

    def check(self) -> None:
        """Raises ValueError: A schedule without its progress, or the reverse, as nothing writes."""
        if self._schedules.keys() != self._progress.keys():
            [one, *_] = self._schedules.keys() ^ self._progress.keys()
            raise ValueError(f"of schedule {one!r} only one of two records is there")

    def _count(self, name: str, sign: int) -> None:
        schedule = self._schedules.get(name)
        if schedule is not None:
            counts = {"schedules": 1, "schedule_bytes": schedule.size_bytes}
            self.usage.change(project_of(name), counts, sign)


@dataclass(frozen=True, slots=True)
class ScheduleStep:
    """What a schedule does next: publish a tick, or give up all ticks up to one."""

    tick_s: int
    #: Ticks given up, as far as they are counted; 0 for one that is published.
    missed: int = 0


def next_step(
    cron: Cron,
    zone: tzinfo,
    policy: MissedPolicy,
    *,
    decided_s: int,
    now_s: float,
    tried_s: int | None,
) -> ScheduleStep | None:
    """The next step of a schedule; None while no tick is due.

    The tick of now is the last that came: its time lasts until the next one. It is on time when it
    is met soon, or was tried and failed before. The policy is about the others.

    Args:
        decided_s: See `Progress`.
        tried_s: The tick that could not be published when it was tried.
    """
    due = cron.ticks_until(now_s, decided_s, zone, limits.SCHEDULE_COUNT_MAX)
    if not due:
        return None
    latest = due[-1]
    match policy:
        case "ALL":
            wanted = due[-limits.SCHEDULE_CATCH_UP_MAX :]
        case "LATEST":
            wanted = [latest]
        case "SKIP":
            is_late = now_s - latest > limits.SCHEDULE_LATE_S and latest != tried_s
            wanted = [] if is_late else [latest]
        case _:
            assert_never(policy)
    given_up = due[: len(due) - len(wanted)]
    return ScheduleStep(given_up[-1], len(given_up)) if given_up else ScheduleStep(wanted[0])
