"""The pace of taking: of messages that come one by one, close together, several are taken at once.

A take costs the core about as much for ten messages as for one, and so does waking a thread for
them. So a consumer that has taken few messages again and again, with hardly a pause between, pauses
for a moment before the next take. Where that gains nothing (whoever publishes waits for the
callback) it is tried less and less often. Pure: time comes in as an argument.
"""

from __future__ import annotations

#: The pause, in seconds.
PAUSE_S = 0.002
#: Takes of fewer messages are small, and those that follow one so soon are close to it.
_FEW = 4
#: A pause was worth it if so many messages had come.
_GAIN = 2
_CLOSE_S = 0.001
#: Small takes close together before the first pause, and at most.
_FIRST = 8
_MOST = 1 << 12


class FlowPace:
    """Says when to pause."""

    __slots__ = ("_has_paused", "_last_s", "_small", "_wanted")

    def __init__(self) -> None:
        self._last_s = float("-inf")
        self._small = 0
        self._wanted = _FIRST
        self._has_paused = False

    def pause_s(self, now_s: float, count: int) -> float:
        """How long to pause after a take of so many messages; mostly 0."""
        is_close = now_s - self._last_s < _CLOSE_S + self._has_paused * 2 * PAUSE_S
        self._last_s = now_s
        if self._has_paused:
            self._has_paused = False
            if count >= _GAIN and is_close:
                self._wanted = _FIRST
                # It gained something: there is as much again, probably.
                self._has_paused = True
                return PAUSE_S
            self._wanted = min(2 * self._wanted, _MOST)
            self._small = 0
            return 0.0
        if count >= _FEW or not is_close:
            self._small = 0
            return 0.0
        self._small += 1
        if self._small < self._wanted:
            return 0.0
        self._small = 0
        self._has_paused = True
        return PAUSE_S
