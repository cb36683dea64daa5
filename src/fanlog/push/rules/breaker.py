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

from fanlog.model.push_settings import BreakerRules, breaker_rules

State = Literal["closed", "open", "half-open"]


class Breaker:
    __slots__ = ("_failures", "_held_until", "_open_s", "_rules", "_until")

    def __init__(self, rules: BreakerRules | None = None) -> None:
        self._rules = rules or breaker_rules({})
        self._failures = 0
        self._open_s = self._rules.open_s_min
        self._until: float | None = None
        self._held_until = 0.0

    def change(self, rules: BreakerRules) -> None:
        """Take other rules. What it is open for now stays; a later time is by the new ones."""
        if rules != self._rules:
            self._rules = rules
            self._open_s = min(max(self._open_s, rules.open_s_min), rules.open_s_max)
            if self._until is None:
                self._open_s = rules.open_s_min

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
        self._open_s = self._rules.open_s_min
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
            self._open_s = min(self._open_s * 2, self._rules.open_s_max)
        elif self._failures < self._rules.failures:
            return False
        self._until = now + self._open_s
        return True
