"""Planted bugs of schedules; see `mutants`."""

from __future__ import annotations

from typing import Any

from fanlog.broker import parts
from fanlog.broker.verbs import ticking
from fanlog.broker.verbs.ticking import Ticking
from fanlog.core.records.schedules import tick_record
from fanlog.core.schedules import ScheduleStep
from fanlog.model.schedules import Progress, Schedule
from simulator.planting import mutant


@mutant("a tick and that it is decided are two commits", 40, (Ticking, "_take"), needs="schedulers")
def _(take: Any) -> Any:
    async def torn(self: Ticking, schedule: Schedule, step: ScheduleStep) -> Any:
        if step.missed:
            return await take(self, schedule, step)
        body = self.body(schedule, step.tick_s)
        topic, body = await self._admission.admit(schedule.topic, body)
        transaction = self._ledger.begin()
        parts.append(transaction, topic, body)
        await transaction.commit()
        schedules = self._ledger.hard.schedules
        if schedules.find(schedule.name) is None:
            return None
        decided = schedules.progress(schedule.name).publish(step.tick_s, "")
        return self._ledger.commit([tick_record(schedule.name, decided)])

    return torn


@mutant("ticks before the last are forgotten", 60, (ticking, "next_step"), needs="schedulers")
def _(next_step: Any) -> Any:
    def hasty(*given: Any, **times: Any) -> ScheduleStep | None:
        step: ScheduleStep | None = next_step(*given, **times)
        while step is not None and step.missed:
            step = next_step(*given, **{**times, "decided_s": step.tick_s})
        return step

    return hasty


@mutant("ticks begin anew with the process", 40, (Ticking, "_load"), needs="schedulers")
def _(load: Any) -> Any:
    def anew(self: Ticking, hard: Any) -> None:
        for name in hard.schedules.names():
            decided = Progress.begin_anew(hard.schedules.progress(name), self.now())
            hard.apply(tick_record(name, decided))
        load(self, hard)

    return anew
