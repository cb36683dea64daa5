"""After a nack or an expiry: how long to wait, and who is waiting. Soft state.

A restart forgets the waits, not the counts: what was waiting is delivered at once then.
"""

from __future__ import annotations

import heapq

from pyroaring import BitMap64

from fanlog.model import RetryPolicy

#: Jitter spreads a wait by up to this share upwards, so that it stays within the policy's bounds.
JITTER = 0.25


def backoff_s(policy: RetryPolicy | None, failures: int, jitter: float) -> float:
    """Seconds before the next delivery after `failures` of them; `jitter` is in [0, 1).

    Without a policy a failed message comes back at once.
    """
    if policy is None:
        return 0.0
    # Beyond this power every policy is at its maximum; the bound keeps floats finite.
    wait_s = policy.minimum_backoff_s * 2.0 ** min(failures - 1, 30)
    wait_s = min(wait_s, policy.maximum_backoff_s)
    return min(wait_s * (1.0 + JITTER * jitter), policy.maximum_backoff_s)


class Delayed:
    """Offsets that wait for their back-off, by the time they are due."""

    __slots__ = ("_count", "_heap", "offsets")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, BitMap64]] = []
        self._count = 0
        #: All that wait.
        self.offsets = BitMap64()

    def add(self, due_s: float, offsets: BitMap64) -> None:
        self._count += 1
        heapq.heappush(self._heap, (due_s, self._count, offsets))
        self.offsets |= offsets

    def discard(self, offsets: BitMap64) -> None:
        """They no longer wait: acknowledged late, or expired."""
        self.offsets -= offsets

    def due(self, now: float) -> BitMap64:
        """Take out what is due."""
        out = BitMap64()
        while self._heap and self._heap[0][0] <= now:
            out |= heapq.heappop(self._heap)[2]
        out &= self.offsets
        self.offsets -= out
        return out

    def next_deadline(self) -> float | None:
        if not self.offsets:
            self._heap.clear()
        return self._heap[0][0] if self._heap else None
