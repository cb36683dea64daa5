"""The circuit breaker of one endpoint: one that does not answer is left alone for a while.

| From      | Event                                | To        |
|-----------|--------------------------------------|-----------|
| closed    | so many failures without a success   | open      |
| open      | its time is over                     | half-open |
| half-open | the one probe succeeds               | closed    |
| half-open | the one probe fails                  | open, for twice as long |
| any       | the endpoint says for how long to leave it alone | open for that long |

A success closes it from any state: requests that were under way when it opened may still be
answered. Only a time that the endpoint itself asked for is kept to its end. Time is an argument.
"""

from __future__ import annotations

from typing import Literal

from fanlog import limits

State = Literal["closed", "open", "half-open"]


class Breaker:
    __slots__ = ("_failures", "_held_until", "_open_s", "_until")

    def __init__(self) -> None:
        self._failures = 0
        self._open_s = limits.PUSH_BREAKER_OPEN_S_MIN
        self._until: float | None = None
        self._held_until = 0.0

    @property
    def until(self) -> float | None:
        """When a probe may be sent, or might have been; None while it is closed."""
        return self._until

    def state(self, now: float) -> State:
        if self._until is None:
            return "closed"
        return "open" if now < self._until else "half-open"

    def permits(self, now: float, under_way: int) -> bool:
        """Whether one more request may be sent beside those under way."""
        state = self.state(now)
        return state == "closed" or (state == "half-open" and under_way == 0)

    def note_success(self, now: float) -> None:
        self._failures = 0
        self._open_s = limits.PUSH_BREAKER_OPEN_S_MIN
        if now >= self._held_until:
            self._until = None

    def hold(self, now: float, seconds: float) -> None:
        """The endpoint asked to be left alone."""
        self._held_until = max(self._held_until, now + seconds)
        self._until = max(self._until or 0.0, self._held_until)

    def note_failure(self, now: float) -> bool:
        """Count a failure; whether that opened it."""
        self._failures += 1
        if self._until is not None:
            if now < self._until:
                # One of those that were under way when it opened: nothing new.
                return False
            self._open_s = min(self._open_s * 2, limits.PUSH_BREAKER_OPEN_S_MAX)
        elif self._failures < limits.PUSH_BREAKER_FAILURES:
            return False
        self._until = now + self._open_s
        return True
