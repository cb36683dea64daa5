"""How many requests of one subscription may be under way: small at first, more while all is well.

A window full of successes doubles it, every failure halves it.
"""

from __future__ import annotations

from fanlog import limits


class Window:
    __slots__ = ("_good", "size")

    def __init__(self) -> None:
        self.size = limits.PUSH_WINDOW_FIRST
        self._good = 0

    def note_success(self) -> None:
        self._good += 1
        if self._good >= self.size:
            self.size = min(self.size * 2, limits.PUSH_WINDOW_MAX)
            self._good = 0

    def note_failure(self) -> None:
        self.size = max(1, self.size // 2)
        self._good = 0
