"""A histogram: counts of values by upper bound."""

from __future__ import annotations

from bisect import bisect_left


class Histogram:
    """Counts by upper bound, as Prometheus wants them. Lives on the loop."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        #: One more than bounds: the last counts values above them all.
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, count: int = 1) -> float:
        """Count a value, so many times; returns how much that adds to the total.

        A value below 0 counts as 0: it is a time between two clocks. One that is no number, because
        nobody knows it any more, does not count.
        """
        if not value >= 0.0:
            if value != value:
                return 0.0
            value = 0.0
        self.counts[bisect_left(self.bounds, value)] += count
        added = value * count
        self.total += added
        return added

    def copy(self) -> Histogram:
        """The same counts, which stay as they are."""
        other = Histogram(self.bounds)
        other.counts = list(self.counts)
        other.total = self.total
        return other
