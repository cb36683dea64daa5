"""Schedules as the disk has them, and what it must say of their ticks.

The ticks of a world are the multiples of a period, so that the checker needs no calendar. From one
commit to the next, a schedule decides the ticks up to some time: each of them is a message of the
same commit, or is counted as missed, as its policy has it. So no tick is there twice, and none is
lost. When all faults are over, no schedule is behind.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from fanlog import limits
from fanlog.core import records as codec
from fanlog.core.records import ScheduleRecord, TickRecord
from fanlog.model.attributes import REDRIVEN_FROM, SCHEDULE, TICK
from fanlog.model.schedules import Progress, Schedule
from fanlog.times import parse
from simulator.chronicle import Message

if TYPE_CHECKING:
    from simulator.world import World

#: Expressions, by the seconds between their ticks.
PERIODS = {
    1: "* * * * * *",
    10: "*/10 * * * * *",
    60: "* * * * *",
    600: "*/10 * * * *",
    3600: "@hourly",
    86400: "@daily",
}
_SECONDS = {cron: seconds for seconds, cron in PERIODS.items()}
#: A tick is published within so long when nothing is wrong: a look at the clock, a try, a commit.
LATE_S = 60.0


class Ticks:
    """What the disk of a world says of schedules."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"{seed}: schedules at work")
        self._schedules: dict[bytes, Schedule] = {}
        self._progress: dict[bytes, Progress] = {}
        self.published = 0
        #: Ticks of each schedule that are published, since it was made.
        self._ticks: dict[tuple[bytes, float], set[int]] = {}

    def committed(
        self, state: Mapping[bytes, bytes | None], messages: Sequence[Message]
    ) -> Iterator[str]:
        """Learn of a commit; gives the sentences of what it breaks."""
        ticks: dict[str, list[int]] = {}
        for message in messages:
            tick = message.attributes.get(TICK)
            if tick and not message.source_id and REDRIVEN_FROM not in message.attributes:
                name = message.attributes[SCHEDULE]
                ticks.setdefault(name, []).append(int(parse(tick).timestamp()))
        before, self._schedules = self._schedules, dict(self._schedules)
        for key, value in state.items():
            if key[:1] == ScheduleRecord.KIND:
                _put(self._schedules, key[1:], value)
        ended: dict[bytes, Progress | None] = {}
        for key, value in state.items():
            if key[:1] == TickRecord.KIND and value is None:
                ended[key[1:]] = self._progress.pop(key[1:], None)
            elif key[:1] == TickRecord.KIND and value is not None:
                yield from self._decided(before, key[1:], value, ticks)
        for name, found in ticks.items():
            key = codec.digest_of(name)
            if key not in ended:
                yield f"schedule: {name} published {found} and did not note it in the same commit"
            elif (last := ended[key]) is not None:
                # It was deleted in the commit of its last ticks.
                self.published += len(found)
                yield from self._once(key, before[key], last, last, found)
                yield from _check_ticks(before[key], last, float("inf"), found)

    def _decided(
        self,
        before: Mapping[bytes, Schedule],
        key: bytes,
        value: bytes,
        ticks: dict[str, list[int]],
    ) -> Iterator[str]:
        last = self._progress.pop(key, None)
        record = codec.decode(TickRecord.KIND + key, value)
        assert isinstance(record, TickRecord)
        assert record.ticks is not None
        name, now = record.name, record.ticks.progress
        self._progress[key] = now
        found = ticks.pop(name, [])
        schedule = self._schedules[key]
        self.published += len(found)
        yield from self._once(key, schedule, last, now, found)
        if key not in before or last is None:
            if now.published != len(found):
                yield f"schedule: {name} begins with {now.published} ticks"
            return
        if before[key].created_s != schedule.created_s:
            return  # It was made in place of another, whose ticks may be in the commit, too.
        if now.published - last.published != len(found):
            yield (
                f"schedule: {name} says it published {now.published - last.published} ticks, and "
                f"{found} are in the commit"
            )
        missed = now.missed - last.missed
        if before[key] != schedule or not (found or missed):
            return  # It began anew, or noted an error.
        yield from _check_span(schedule, last, now, found, missed)

    def _once(
        self,
        key: bytes,
        schedule: Schedule,
        last: Progress | None,
        now: Progress,
        found: Sequence[int],
    ) -> Iterator[str]:
        """No tick is published twice, whatever the clock and its owners do."""
        ticks = self._ticks.setdefault((key, schedule.created_s), set())
        if last is not None and last.decided_s - now.decided_s > limits.SCHEDULE_AHEAD_S:
            # The clock was wrong when they were decided.
            ticks.clear()
        if again := ticks.intersection(found):
            yield f"schedule: {schedule.name} published {sorted(again)} again"
        ticks.update(found)

    def end(self, world: World, life_schedules: Sequence[tuple[Schedule, Progress]]) -> None:
        """All faults are over, and there was time enough: no schedule is behind."""
        now = world.clock.wall_ns() / 1e9
        for schedule, progress in life_schedules:
            has_topic = any(t.name == schedule.topic for t in world.disk.topics.values())
            late = now - progress.decided_s - _SECONDS[schedule.cron]
            if has_topic and not schedule.is_paused and late > LATE_S:
                world.broken.append(f"schedule: {schedule.name} is {late:.0f} s behind")


def _check_span(
    schedule: Schedule, last: Progress, now: Progress, found: list[int], missed: int
) -> Iterator[str]:
    """The ticks from one decision to the next are published, or missed."""
    period = _SECONDS[schedule.cron]
    yield from _check_ticks(schedule, last, now.decided_s, found)
    due = now.decided_s // period - last.decided_s // period
    decided = len(found) + missed
    if decided != due and missed < limits.SCHEDULE_COUNT_MAX - limits.SCHEDULE_CATCH_UP_MAX:
        yield (
            f"schedule: {schedule.name} had {due} ticks from {last.decided_s} to {now.decided_s}; "
            f"{len(found)} are published and {missed} missed"
        )
    if len(set(found)) < len(found):
        yield f"schedule: {schedule.name} published {found}"


def _check_ticks(
    schedule: Schedule, last: Progress, until_s: float, found: Sequence[int]
) -> Iterator[str]:
    """Ticks are those of the schedule, and were not decided before."""
    period = _SECONDS[schedule.cron]
    if any(tick % period or not last.decided_s < tick <= until_s for tick in found):
        yield (
            f"schedule: {schedule.name} published {found} every {period} s, after "
            f"{last.decided_s} was decided"
        )


def _put(schedules: dict[bytes, Schedule], key: bytes, value: bytes | None) -> None:
    schedules.pop(key, None)
    if value is not None:
        record = codec.decode(ScheduleRecord.KIND + key, value)
        assert isinstance(record, ScheduleRecord)
        assert record.schedule is not None
        schedules[key] = record.schedule
