"""The mark of a backlog: whether it is high, and when that changes. Pure.

It becomes high above the high mark, and stays so until it is down at the low mark. So a backlog
that swings around either of them crosses it once.
"""

from __future__ import annotations

from typing import Literal

Crossing = Literal["high", "low"]


class Watermark:
    """Whether one backlog is high. Soft state: after a restart it is not, until it is looked at."""

    __slots__ = ("is_high",)

    def __init__(self) -> None:
        self.is_high = False

    def observe(self, fill: float, *, high: float, low: float) -> Crossing | None:
        """Take how full the backlog is; the mark that was crossed by that, if one was."""
        if not self.is_high and fill > high:
            self.is_high = True
            return "high"
        if self.is_high and fill <= low:
            self.is_high = False
            return "low"
        return None
