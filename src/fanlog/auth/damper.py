"""How often something that strangers cause is written down: so many a minute, the rest counted.

Anybody can fail to authenticate as often as they like. Files that are put aside when they are full
would be put aside for good by it, and with them what administrators did.
"""

from __future__ import annotations

from typing import Final

#: Written at once after a rest, and a minute.
WRITTEN_A_MINUTE: Final = 300


class Damper:
    """A bucket of entries. Time is an argument."""

    __slots__ = ("_left", "_left_out", "_since_s")

    def __init__(self) -> None:
        self._left = float(WRITTEN_A_MINUTE)
        self._since_s = 0.0
        self._left_out = 0

    def take(self, now_s: float) -> int | None:
        """How many were left out since the last that was written; None to leave this one out."""
        more = max(0.0, now_s - self._since_s) * WRITTEN_A_MINUTE / 60
        self._left = min(float(WRITTEN_A_MINUTE), self._left + more)
        self._since_s = now_s
        if self._left < 1:
            self._left_out += 1
            return None
        self._left -= 1
        left_out, self._left_out = self._left_out, 0
        return left_out
