"""The loop and the clock, as a timer finds them: how late it is called, and steps of time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from fanlog.broker.histogram import Histogram

#: How often the timer is to be called: a stall of a tenth of a second is met by two in five.
TICK_S: Final = 0.25
LAG_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
#: The machine's clock is slewed by less than this between two ticks; more is a step.
STEP_S: Final = 0.5


class LoopWatch:
    """Of one loop. `start` on it, `stop` before it ends."""

    def __init__(
        self,
        *,
        wall_s: Callable[[], float] = time.time,
        steady_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wall_s = wall_s
        self._steady_s = steady_s
        self._handle: asyncio.TimerHandle | None = None
        self._expected_s = 0.0
        #: The time of day when the steady clock was at 0.
        self._epoch_s = wall_s() - steady_s()
        self.lag_seconds = Histogram(LAG_SECONDS)
        self.clock_steps = 0

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._expected_s = loop.time() + TICK_S
        self._handle = loop.call_at(self._expected_s, self._tick)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        self.lag_seconds.observe(loop.time() - self._expected_s)
        self.look_at_clock()
        self.start()

    def look_at_clock(self) -> None:
        """Count a step of the machine's clock since the last look."""
        epoch_s = self._wall_s() - self._steady_s()
        if abs(epoch_s - self._epoch_s) > STEP_S:
            self.clock_steps += 1
        self._epoch_s = epoch_s
