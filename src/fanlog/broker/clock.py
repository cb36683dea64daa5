"""Time as a port, so that tests and the simulator can pass a clock of their own.

Two readings. `now` is steady: it does not step when the machine's clock is set, so that a lease
lasts as long as it says. `wall_ns` is the time of day as the machine shows it, for publish times.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch, steady."""

    def wall_ns(self) -> int:
        """Nanoseconds since the epoch, as the machine's clock says."""

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Call back on the loop, once `now()` has reached `when`."""


async def sleep(clock: Clock, seconds: float) -> None:
    """Return when so much time has passed on a clock."""
    woken = asyncio.Event()
    timer = clock.call_at(clock.now() + seconds, woken.set)
    try:
        await woken.wait()
    finally:
        timer.cancel()


class SystemClock:
    """The machine's clock, on the running loop."""

    def __init__(self) -> None:
        self._epoch = time.time() - time.monotonic()

    def now(self) -> float:
        return self._epoch + time.monotonic()

    def wall_ns(self) -> int:
        return time.time_ns()

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        return SystemTimer(self, when, callback)


class SystemTimer:
    """A timer of the running loop, for a clock of seconds.

    Loops may call up to a millisecond early; the callback must not read an earlier time.
    """

    def __init__(self, clock: Clock, when: float, callback: Callable[[], None]) -> None:
        self._clock = clock
        self._when = when
        self._callback = callback
        self._arm()

    def cancel(self) -> None:
        self._handle.cancel()

    def _arm(self) -> None:
        delay_s = max(0.0, self._when - self._clock.now())
        self._handle = asyncio.get_running_loop().call_later(delay_s, self._fire)

    def _fire(self) -> None:
        if self._clock.now() < self._when:
            self._arm()
        else:
            self._callback()


class ManualClock:
    """A clock that stands still until it is told otherwise; for tests."""

    def __init__(self, start: float = 1_000_000.0) -> None:
        self._now = start
        self._timers: list[tuple[float, int, _ManualTimer]] = []
        self._count = 0

    def now(self) -> float:
        return self._now

    def wall_ns(self) -> int:
        return int(self._now * 1e9)

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        timer = _ManualTimer(callback)
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Let time pass; timers that fall due on the way are called in order."""
        target = self._now + seconds
        while self._timers and self._timers[0][0] <= target:
            when, _, timer = heapq.heappop(self._timers)
            self._now = max(self._now, when)
            timer.fire()
        self._now = target


class _ManualTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self._callback = None

    def fire(self) -> None:
        if self._callback is not None:
            self._callback()
