"""Sweeping every few seconds, for as long as the broker lives."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from fanlog.broker.clock import Clock, sleep
from fanlog.errors import FanlogError

log = logging.getLogger("fanlog.broker")

#: How often retention is looked after; more often while trimmed bytes wait to be freed.
SWEEP_S = 5.0
SWEEP_GARBAGE_S = 0.1
#: After a sweep nobody is listened to who asks for another, for so long.
SWEEP_REST_S = 0.5


class Sweeper:
    """Calls `sweep` again and again; a sweep that fails is tried again."""

    def __init__(
        self, clock: Clock, sweep: Callable[[], Awaitable[None]], has_garbage: Callable[[], bool]
    ) -> None:
        self._clock = clock
        self._sweep = sweep
        self._has_garbage = has_garbage
        self._task: asyncio.Task[None] | None = None
        self._asked = asyncio.Event()

    def ask(self) -> None:
        """Do not wait for long before the next sweep."""
        self._asked.set()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._sweep_for_ever())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _sweep_for_ever(self) -> None:
        while True:
            await self._wait(SWEEP_GARBAGE_S if self._has_garbage() else SWEEP_S)
            self._asked.clear()
            try:
                await self._sweep()
            except FanlogError as error:
                log.error("action=sweep_failed error=%s; trying again in %d s", error, SWEEP_S)

    async def _wait(self, seconds: float) -> None:
        """Wait so long, or less when somebody asks."""
        until_s = self._clock.now() + seconds
        await sleep(self._clock, min(seconds, SWEEP_REST_S))
        if self._clock.now() >= until_s:
            return
        timer = self._clock.call_at(until_s, self._asked.set)
        try:
            await self._asked.wait()
        finally:
            timer.cancel()
