"""One timer for all shares: the share that is due next is asked to expire. Soft state."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from fanlog.broker.clock import Clock, Timer
from fanlog.core.share import Share


class Timers:
    """Calls `expire(share)` when a share's `next_deadline` has passed.

    The caller watches the share again after that, as after each of its decisions, unless it has
    forgotten it meanwhile: a share that is gone may still have deadlines.
    """

    def __init__(self, clock: Clock, expire: Callable[[Share], None]) -> None:
        self._clock = clock
        self._expire = expire
        self._heap: list[tuple[float, int, Share]] = []
        #: The earliest time each share stands in the heap for; others are left-overs.
        self._due: dict[int, float] = {}
        self._timer: Timer | None = None
        self._timer_due = float("inf")
        self._count = 0

    def watch(self, share: Share) -> None:
        """Look at a share's next deadline again; called after each of its decisions."""
        deadline = share.next_deadline()
        if deadline is None or self._due.get(id(share), float("inf")) <= deadline:
            return
        self._due[id(share)] = deadline
        self._count += 1
        heapq.heappush(self._heap, (deadline, self._count, share))
        self._arm()

    def clear(self) -> None:
        self._heap.clear()
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_due = None, float("inf")

    def _arm(self) -> None:
        due = self._heap[0][0]
        if due < self._timer_due:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_due = due
            self._timer = self._clock.call_at(due, self._fire)

    def _fire(self) -> None:
        self._timer, self._timer_due = None, float("inf")
        now = self._clock.now()
        while self._heap and self._heap[0][0] <= now:
            due, _, share = heapq.heappop(self._heap)
            if self._due.get(id(share)) != due:
                continue
            del self._due[id(share)]
            self._expire(share)
        if self._heap:
            self._arm()
