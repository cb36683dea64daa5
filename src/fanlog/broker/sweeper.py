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


class Sweeper:
    """Calls `sweep` again and again; a sweep that fails is tried again."""

    def __init__(
        self, clock: Clock, sweep: Callable[[], Awaitable[None]], has_garbage: Callable[[], bool]
    ) -> None:
        self._clock = clock
        self._sweep = sweep
        self._has_garbage = has_garbage
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._sweep_for_ever())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _sweep_for_ever(self) -> None:
        while True:
            await sleep(self._clock, SWEEP_GARBAGE_S if self._has_garbage() else SWEEP_S)
            try:
                await self._sweep()
            except FanlogError as error:
                log.error("action=sweep_failed error=%s; trying again in %d s", error, SWEEP_S)
