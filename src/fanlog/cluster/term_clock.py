"""The clock of a term: the steady time that deadlines in the log are written in.

It is the partition's own time, the append time of its records, counted on by a clock that never
jumps. So a deadline that one owner wrote means the same moment to the next, on a machine whose
clock is seconds away, and what was left of it at the last append is what is left.
"""

from __future__ import annotations

from collections.abc import Callable

from fanlog.broker.clock import Clock, SystemTimer, Timer
from fanlog.log.replicated.api import ReplicaClock


class TermClock(Clock):
    """A `Clock` of one term, on the running loop."""

    def __init__(self, clock: ReplicaClock, ahead_s: float | None) -> None:
        """`ahead_s` is how far the machine's time of day is ahead of the partition's."""
        self._clock = clock
        self._epoch_s = clock.wall_ns() / 1e9 - (ahead_s or 0.0) - clock.boottime_s()

    def now(self) -> float:
        return self._epoch_s + self._clock.boottime_s()

    def wall_ns(self) -> int:
        return self._clock.wall_ns()

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        return SystemTimer(self, when, callback)
