"""Ticking: every schedule's message is published at its ticks, each tick exactly once.

The message of a tick and the record that the tick is decided are one commit. So a broker that is
killed at any point has either both or neither: no tick comes twice, and one that was not published
is due again at the next start. `fanlog.core.schedules.next_step` is the rule of what is due.

Ticks are times of the day, and so they go by the machine's clock. The timers go by the steady one:
while there are schedules, the two are compared every few seconds, since the machine's clock may be
set at any time. A tick that is decided stays decided when it is set back.

A tick that cannot be published is tried again until the next one is due; then the policy of the
schedule about missed ticks decides.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from fanlog import limits, times
from fanlog.broker import parts
from fanlog.broker.clock import Clock
from fanlog.broker.metrics import Metrics
from fanlog.broker.parts import Placed
from fanlog.broker.ports import Contents
from fanlog.broker.time_zones import time_zone
from fanlog.broker.transaction import Ledger
from fanlog.broker.verbs.admission import PublishAdmission
from fanlog.core.cron import parse_cron
from fanlog.core.hard_state import HardState
from fanlog.core.records.schedules import tick_record
from fanlog.core.schedules import ScheduleStep, next_step
from fanlog.errors import FanlogError, InvalidArgument
from fanlog.log.batch import Body
from fanlog.model import ids
from fanlog.model.attributes import SCHEDULE, TICK
from fanlog.model.schedules import Progress, Schedule

log = logging.getLogger("fanlog.schedules")

#: How often the machine's clock is looked at while no tick is near.
CLOCK_CHECK_S = 5.0
#: Before a tick that could not be published is tried again; doubled each time, up to the second.
RETRY_S = 1.0
RETRY_S_MAX = 30.0
#: A wait is no shorter: the two clocks may differ by a hair when a tick is near.
_WAIT_S_MIN = 0.001


@dataclass(frozen=True, slots=True)
class TickTrouble:
    """A tick that could not be published when it was tried last. Soft state."""

    tick_s: int
    error: str
    failed_s: float
    tries: int


#: A step that was taken, and its commit.
_Taken = tuple[Schedule, ScheduleStep, asyncio.Future[None]]


class Ticking:
    """Publishes the messages of one broker's schedules. Lives on the loop."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        metrics: Metrics,
        admission: PublishAdmission,
        contents: Contents | None,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._metrics = metrics
        self._admission = admission
        self._contents = contents
        self._task: asyncio.Task[None] | None = None
        self._asked = asyncio.Event()
        #: Held while steps are taken.
        self._taking = asyncio.Lock()
        #: When each schedule is looked at next, by the machine's clock; and the same in order.
        self._due: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        self._troubles: dict[str, TickTrouble] = {}
        ledger.on_load.listen(self._load)

    # Life.

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._tick_for_ever())

    def drain(self) -> None:
        """Take no more steps; those that were taken are committed all the same."""
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        self.drain()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    # Schedules.

    def now(self) -> float:
        """Seconds since the epoch, by the machine's clock."""
        return self._clock.wall_ns() / 1e9

    def watch(self, name: str) -> None:
        """A schedule was made, changed or deleted: find out anew when it ticks next."""
        self._troubles.pop(name, None)
        self._plan(name)
        self._asked.set()

    def next_tick(self, schedule: Schedule) -> int | None:
        """The next tick of a schedule that is not decided; None if it is paused, or cannot tick."""
        if schedule.is_paused:
            return None
        decided_s = self._ledger.hard.schedules.progress(schedule.name).decided_s
        try:
            return self._tick_after(schedule, decided_s)
        except FanlogError:
            return None

    def troubled(self) -> Sequence[str]:
        """Names of the schedules whose latest tick could not be published."""
        return list(self._troubles)

    def trouble(self, name: str) -> TickTrouble | None:
        return self._troubles.get(name)

    def body(self, schedule: Schedule, tick_s: int | None) -> Body:
        """The message of a schedule at a tick; without one, for a run between the ticks.

        Raises:
            InvalidArgument: No message can be so.
        """
        assert self._contents is not None, "a broker with schedules needs to write messages"
        attributes = {**schedule.attributes, SCHEDULE: schedule.name}
        if tick_s is not None:
            attributes[TICK] = _shown(tick_s)
        return self._contents.body(schedule.data, attributes, schedule.ordering_key)

    async def check(self, schedule: Schedule) -> None:
        """Check that the message of a schedule could be published now. Raises as a publish does."""
        try:
            await self._admission.check(schedule.topic, self.body(schedule, 0))
        except InvalidArgument as error:
            # A schedule has one message: which one it is goes without saying.
            raise type(error)(error.message.removeprefix("messages[0].")) from error

    async def publish_now(self, schedule: Schedule) -> str:
        """Publish the message of a schedule between its ticks; gives its id. Raises as `admit`."""
        topic, body = await self._admission.admit(schedule.topic, self.body(schedule, None))
        transaction = self._ledger.begin()
        placed = parts.append(transaction, topic, body)
        await transaction.commit()
        return _message_id(placed)

    async def tick(self) -> None:
        """Take all steps that are due now; come back when all that were begun are durable."""
        async with self._taking:
            taken: list[_Taken] = []
            # Each once: the clock may be set back meanwhile, and then none of them is due any more.
            for name in self._pop_due():
                await self._take_steps(name, taken)
                self._plan(name)
                # Many may be due at once: others are let in between.
                await asyncio.sleep(0)
            for schedule, step, commit in taken:
                try:
                    await commit
                except FanlogError as error:
                    # Hard state was loaded again, and with it all plans: this one waits a little.
                    self._fail(schedule, step, error)
                    self._plan(schedule.name)
                else:
                    self._count(schedule, step)

    # Private.

    def _pop_due(self) -> list[str]:
        """The schedules that are due now; they are planned again when they were looked at."""
        found: list[str] = []
        now = self.now()
        while self._heap and self._heap[0][0] <= now:
            due_s, name = heapq.heappop(self._heap)
            if self._due.get(name) == due_s:
                del self._due[name]
                found.append(name)
        return found

    async def _take_steps(self, name: str, taken: list[_Taken]) -> None:
        while True:
            schedule, step = self._ledger.hard.schedules.find(name), None
            if schedule is None or schedule.is_paused:
                return
            try:
                step = self._next_step(schedule)
                if step is None:
                    return
                commit = await self._take(schedule, step)
            except FanlogError as error:
                self._fail(schedule, step, error)
                return
            if commit is not None:
                taken.append((schedule, step, commit))

    def _next_step(self, schedule: Schedule) -> ScheduleStep | None:
        trouble = self._troubles.get(schedule.name)
        return next_step(
            parse_cron(schedule.cron),
            time_zone(schedule.time_zone),
            schedule.missed,
            decided_s=self._ledger.hard.schedules.progress(schedule.name).decided_s,
            now_s=self.now(),
            tried_s=None if trouble is None else trouble.tick_s,
        )

    async def _take(self, schedule: Schedule, step: ScheduleStep) -> asyncio.Future[None] | None:
        """Take a step, in one commit; None if the schedule has become another meanwhile."""
        name, schedules = schedule.name, self._ledger.hard.schedules
        progress = schedules.progress(name)
        if step.missed:
            decided = self._with_trouble(name, progress).miss(step.tick_s, step.missed)
            return self._ledger.commit([tick_record(name, decided)])
        topic, body = await self._admission.admit(schedule.topic, self.body(schedule, step.tick_s))
        schedules = self._ledger.hard.schedules
        if schedules.find(name) != schedule or schedules.progress(name) != progress:
            return None
        transaction = self._ledger.begin()
        message_id = _message_id(parts.append(transaction, topic, body))
        decided = self._with_trouble(name, progress).publish(step.tick_s, message_id)
        transaction.apply([tick_record(name, decided)])
        return transaction.commit()

    def _count(self, schedule: Schedule, step: ScheduleStep) -> None:
        """A step is durable."""
        if not step.missed:
            self._metrics.ticks_published += 1
            return
        self._metrics.ticks_missed += step.missed
        log.warning(
            "action=ticks_missed schedule=%s count=%d last=%s policy=%s",
            *(schedule.name, step.missed, _shown(step.tick_s), schedule.missed),
        )

    def _tick_after(self, schedule: Schedule, tick_s: int) -> int | None:
        """Raises InvalidArgument: The time zone is gone from the database of this machine."""
        return parse_cron(schedule.cron).next_after(tick_s, time_zone(schedule.time_zone))

    def _with_trouble(self, name: str, progress: Progress) -> Progress:
        """Progress with the last error of the tick that it decides: from then on it is hard."""
        trouble = self._troubles.pop(name, None)
        return progress if trouble is None else progress.fail(trouble.error, trouble.failed_s)

    def _fail(self, schedule: Schedule, step: ScheduleStep | None, error: FanlogError) -> None:
        before = self._troubles.get(schedule.name)
        tick_s = 0 if step is None else step.tick_s
        is_same = before is not None and before.tick_s == tick_s
        tries = before.tries + 1 if before is not None and is_same else 1
        self._troubles[schedule.name] = TickTrouble(tick_s, str(error), self.now(), tries)
        self._metrics.ticks_failed += 1
        log.warning(
            "action=tick_failed schedule=%s tick=%s tries=%d error=%s",
            *(schedule.name, _shown(tick_s), tries, error),
        )

    def _load(self, hard: HardState) -> None:
        """Hard state was loaded: all plans are made anew."""
        self._due.clear()
        self._heap.clear()
        for name in hard.schedules.names():
            self._plan(name)
        self._asked.set()

    def _plan(self, name: str) -> None:
        """Note when a schedule is to be looked at next."""
        self._due.pop(name, None)
        schedule = self._ledger.hard.schedules.find(name)
        if schedule is None or schedule.is_paused:
            return
        trouble = self._troubles.get(name)
        decided_s = self._ledger.hard.schedules.progress(name).decided_s
        try:
            # The tick after one that fails does not wait for the next try.
            tick_s = self._tick_after(schedule, decided_s if trouble is None else trouble.tick_s)
            due_s = inf if tick_s is None else float(tick_s)
        except FanlogError:
            # Looked at, so that it is told.
            due_s = self.now() if trouble is None else inf
        if trouble is not None:
            wait_s = min(RETRY_S * 2 ** min(trouble.tries - 1, 10), RETRY_S_MAX)
            due_s = min(due_s, self.now() + wait_s)
        self._due[name] = due_s
        heapq.heappush(self._heap, (due_s, name))

    async def _tick_for_ever(self) -> None:
        while True:
            self._asked.clear()
            await self.tick()
            await self._wait()

    async def _wait(self) -> None:
        """Wait for the next tick; or until the clock is to be looked at, or a schedule changed."""
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        if not self._heap:
            await self._asked.wait()
            return
        wait_s = min(max(self._heap[0][0] - self.now(), _WAIT_S_MIN), CLOCK_CHECK_S)
        timer = self._clock.call_at(self._clock.now() + wait_s, self._asked.set)
        try:
            await self._asked.wait()
        finally:
            timer.cancel()


def _shown(tick_s: int) -> str:
    return times.of_ns(tick_s * 1_000_000_000)


def _message_id(placed: Sequence[Placed]) -> str:
    [(partition, [offset, *_], _)] = placed
    return ids.message_id(partition, offset)


assert limits.SCHEDULE_LATE_S > CLOCK_CHECK_S + RETRY_S
