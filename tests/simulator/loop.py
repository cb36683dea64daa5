"""An event loop whose time is virtual: it jumps to the next timer when nothing is left to run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from fanlog.broker.clock import Timer

#: Where simulated time begins, in seconds since the epoch.
EPOCH_S = 1_700_000_000.0
#: Turns of the loop without any time passing: more than this is somebody running in circles.
TURNS_MAX = 200_000


class Deadlock(AssertionError):
    """Nothing is ready and nothing is scheduled, yet somebody waits."""


class Livelock(AssertionError):
    """Something is always ready, so that time never goes on."""


class _JumpingSelector:
    """Stands in for the selector: instead of waiting it moves the loop's time forward."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._turns = 0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Deadlock("the world stands still: nothing is ready and no timer is set")
        if timeout > 0:
            self._turns = 0
            self._loop.jump(timeout)
        else:
            self._turns += 1
            if self._turns > TURNS_MAX:
                raise Livelock(f"{TURNS_MAX} turns of the loop and no time has passed")
        return []


class SimulatedLoop(asyncio.BaseEventLoop):
    """Single-threaded, no files, no sockets; order of callbacks as in any asyncio loop."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._selector = _JumpingSelector(self)
        # Timers fall due exactly when they say, not within the resolution of a real clock.
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._now

    def jump(self, seconds: float) -> None:
        """Let time pass without anybody running: a wait, or a process that stands still."""
        if seconds > 0:
            self._now += seconds

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """There are no threads: it is done in the loop's next turn."""
        future: asyncio.Future[Any] = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except Exception as error:
                # As an executor does: whatever it is, it is for who waits.
                future.set_exception(error)

        self.call_soon(work)
        return future

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list

    def _write_to_self(self) -> None:
        """Nobody calls from another thread."""


class SimulatedClock:
    """The machine's clock on a simulated loop, read as `fanlog.broker.clock.SystemClock` reads it.

    The wall may step at any time. `now` never does while a process lives; a new process takes it
    from the wall.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._step_s = 0.0
        self._epoch_s = EPOCH_S

    def now(self) -> float:
        return self._epoch_s + self._loop.time()

    def wall_ns(self) -> int:
        return int((EPOCH_S + self._loop.time() + self._step_s) * 1e9)

    def step(self, seconds: float) -> None:
        """Somebody sets the machine's clock."""
        self._step_s += seconds

    def restart(self) -> None:
        """A new process looks at the wall."""
        self._epoch_s = EPOCH_S + self._step_s

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        return self._loop.call_at(when - self._epoch_s, callback)
