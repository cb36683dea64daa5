"""The verbs of schedules. They answer when the state that they saw and changed is durable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from fanlog.broker.time_zones import time_zone
from fanlog.broker.transaction import Ledger
from fanlog.broker.verbs.ticking import Ticking
from fanlog.core.cron import parse_cron
from fanlog.core.records.schedules import ScheduleRecord, TickRecord, tick_record
from fanlog.errors import AlreadyExists
from fanlog.model import names
from fanlog.model.quotas import Quotas
from fanlog.model.schedules import WHEN, Progress, Schedule, ScheduleState


@dataclass(eq=False)
class Schedules:
    """Schedule verbs of one broker."""

    _ledger: Ledger
    _ticking: Ticking
    _quotas: Quotas

    async def create(self, schedule: Schedule) -> ScheduleState:
        """Make a schedule; its first tick is the first after now.

        Raises:
            AlreadyExists: There is one of that name.
            InvalidArgument: It would never tick, or has no message that can be published.
            TopicNotFound: There is no such topic.
            SchemaMismatch: The message does not conform to the topic's schema.
            ResourceExhausted: The project has as many as it may.
        """
        await self._check(schedule)
        table = self._ledger.hard.schedules
        if table.find(schedule.name) is not None:
            raise AlreadyExists(f"schedule {schedule.name!r} exists already")
        self._check_quotas(schedule.name, schedules=1, schedule_bytes=schedule.size_bytes)
        now = self._ticking.now()
        schedule = replace(schedule, created_s=now)
        committed = self._ledger.commit(
            [
                ScheduleRecord(schedule.name, schedule),
                tick_record(schedule.name, Progress(decided_s=int(now))),
            ]
        )
        self._ticking.watch(schedule.name)
        state = self._state(schedule)
        await committed
        return state

    async def get(self, name: str) -> ScheduleState:
        """Raises ScheduleNotFound."""
        state = self._state(self._ledger.hard.schedules.schedule(name))
        await self._ledger.sync()
        return state

    async def list_all(self, project: str, after: str, limit: int) -> list[ScheduleState]:
        """Schedules of a project by name, after one of them."""
        table = self._ledger.hard.schedules
        found = table.names_after(names.schedule_name(project, ""), after)
        states = [self._state(table.schedule(name)) for name in islice(found, limit)]
        await self._ledger.sync()
        return states

    async def update(self, name: str, changes: Mapping[str, Any]) -> ScheduleState:
        """Change fields of a schedule. One that ticks at other times begins anew from now.

        Raises as `create` does, and ScheduleNotFound.
        """
        while True:
            before = self._ledger.hard.schedules.schedule(name)
            after = replace(before, **changes)
            if after != before and changes.keys() != {"is_paused"}:
                await self._check(after)
            if self._ledger.hard.schedules.find(name) == before:
                break
        self._check_quotas(name, schedule_bytes=after.size_bytes - before.size_bytes)
        records: list[ScheduleRecord | TickRecord] = [ScheduleRecord(name, after)]
        is_resumed = before.is_paused and not after.is_paused
        if is_resumed or any(getattr(before, one) != getattr(after, one) for one in WHEN):
            progress = self._ledger.hard.schedules.progress(name)
            records.append(tick_record(name, progress.begin_anew(self._ticking.now())))
        committed = self._ledger.commit(records)
        self._ticking.watch(name)
        state = self._state(after)
        await committed
        return state

    async def delete(self, name: str) -> None:
        """Raises ScheduleNotFound."""
        self._ledger.hard.schedules.schedule(name)
        committed = self._ledger.commit([ScheduleRecord(name, None), TickRecord(name, None)])
        self._ticking.watch(name)
        await committed

    async def run(self, name: str) -> str:
        """Publish the message of a schedule now, besides its ticks; gives the message's id.

        Raises:
            ScheduleNotFound: There is no such schedule.
            FanlogError: As a publish.
        """
        return await self._ticking.publish_now(self._ledger.hard.schedules.schedule(name))

    async def _check(self, schedule: Schedule) -> None:
        """Check what a schedule says against all that a publish at a tick would be."""
        schedule.check()
        parse_cron(schedule.cron)
        time_zone(schedule.time_zone)
        await self._ticking.check(schedule)

    def _check_quotas(self, name: str, **more: int) -> None:
        usage, project = self._ledger.hard.schedules.usage, names.project_of(name)
        for noun, count in more.items():
            self._quotas.check(noun, project, usage, count)

    def _state(self, schedule: Schedule) -> ScheduleState:
        progress = self._ledger.hard.schedules.progress(schedule.name)
        trouble = self._ticking.trouble(schedule.name)
        if trouble is not None:
            progress = progress.fail(trouble.error, trouble.failed_s)
        return ScheduleState(schedule, progress, self._ticking.next_tick(schedule))
