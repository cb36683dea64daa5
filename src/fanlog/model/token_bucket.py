"""A bucket of tokens: what may be done at a rate, with a burst. Time is an argument."""

from __future__ import annotations


class TokenBucket:
    """Tokens that come at a rate, up to as many as the bucket holds. A new one is full."""

    __slots__ = ("_left", "_since_s", "holds", "rate")

    def __init__(self, rate: float, holds: float, now_s: float) -> None:
        #: Tokens a second.
        self.rate = rate
        self.holds = holds
        self._left = holds
        self._since_s = now_s

    def left(self, now_s: float) -> float:
        """Tokens that are there; below 0 while it is in debt."""
        # A clock that is set back takes none away.
        return min(self.holds, self._left + max(0.0, now_s - self._since_s) * self.rate)

    def wait_s(self, now_s: float, tokens: float) -> float:
        """How long until so many are there, if none are taken until then; 0 when they are."""
        return max(0.0, tokens - self.left(now_s)) / self.rate

    def take(self, now_s: float, tokens: float) -> None:
        """Take tokens; more than there are leaves a debt."""
        self._left = self.left(now_s) - tokens
        self._since_s = now_s

    def change(self, now_s: float, rate: float, holds: float) -> None:
        """Take another rate and size. What is there stays, as far as it fits."""
        self._left = min(self.left(now_s), holds)
        self._since_s = now_s
        self.rate, self.holds = rate, holds
