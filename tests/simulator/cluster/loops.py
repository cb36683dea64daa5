"""An event loop that is one of the threads that take turns: it gives its turn away while it waits.

Several of them live in one world, one in each process. Because one thread runs at a time, a task of
one may settle a future of another without more ado: its loop is woken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any

from simulator.cluster.turns import Process, Turn, Turns
from simulator.loop import TURNS_MAX, Deadlock, Livelock

#: So long a loop may go on after its death, by its own time.
_AFTER_S = 5.0


class TurnLoop(asyncio.BaseEventLoop):
    """Of one process. `run_until_complete` it on one of its threads; `die` when it is killed."""

    def __init__(self, turns: Turns, process: Process) -> None:
        super().__init__()
        self._turns = turns
        self._process = process
        self._selector = _TurnSelector(self)
        # Timers fall due exactly when they say, not within the resolution of a real clock.
        self._clock_resolution = 1e-9
        self._parked: list[Turn] = []
        self._is_dead = False
        #: How far the time of a dead loop is ahead of that of its world.
        self._after_s = 0.0

    def time(self) -> float:
        return self._turns.now + self._after_s

    def die(self) -> None:
        """Its thread is gone: what is left of its tasks runs where it is told to, at once."""
        self._is_dead = True

    def wait(self, seconds: float | None) -> None:
        """Give the turn away until something is to be run."""
        if not self._is_dead:
            self._turns.park(self._parked, seconds)
        else:
            self._after_s += _AFTER_S if seconds is None else seconds
            if self._after_s >= _AFTER_S:
                self._after_s = 0.0
                raise Deadlock("a task of a dead process waits for too long")

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = super().call_soon(callback, *args, context=context)
        self._write_to_self()
        return handle

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = super().call_at(when, callback, *args, context=context)
        self._write_to_self()
        return handle

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """A thread of the process runs it."""
        future: asyncio.Future[Any] = self.create_future()
        if self._is_dead:
            future.set_result(None)
            return future

        def work() -> None:
            try:
                answer, error = func(*args), None
            except Exception as raised:
                answer, error = None, raised
            if not future.done():
                future.set_result(answer) if error is None else future.set_exception(error)

        turn = Turn(self._turns, work, self._process)
        self._process.threads.append(turn)
        turn.start()
        return future

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list

    def _write_to_self(self) -> None:
        self._turns.wake_all(self._parked)


class _TurnSelector:
    def __init__(self, loop: TurnLoop) -> None:
        self._loop = loop
        self._count = 0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None or timeout > 0:
            self._count = 0
            self._loop.wait(timeout)
        else:
            self._count += 1
            if self._count > TURNS_MAX:
                raise Livelock(f"{TURNS_MAX} turns of a loop and no time has passed")
        return []
