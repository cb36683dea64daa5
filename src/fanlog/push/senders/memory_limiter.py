"""Limit of the message bytes under way over all push subscriptions, however slow their endpoints.

The size of messages is known only after they are leased. So a sender *reserves* the most that it
may lease, and gives the excess back at once; the rest is *held* until its request is over. First
come, first served.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class MemoryLimiter:
    """Counts bytes. Lives on one loop."""

    def __init__(self, total_bytes: int) -> None:
        self._total = total_bytes
        self._free = total_bytes
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._turned_away: dict[Callable[[], None], None] = {}
        #: Bytes of messages under way.
        self.held = 0

    @property
    def is_scarce(self) -> bool:
        """Whether half of it is held: the rest is for senders that hold nothing yet."""
        return self.held > self._total // 2

    def tell(self, wake: Callable[[], None]) -> None:
        """Call `wake` once, when it is no longer scarce."""
        self._turned_away[wake] = None

    async def reserve(self, size_bytes: int) -> None:
        """Wait until so much is free, and take it; follow with `hold`."""
        if not self._waiters and self._free >= size_bytes:
            self._free -= size_bytes
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append((size_bytes, waiter))
        try:
            await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled():
                self._free += size_bytes
            self._serve()
            raise

    def hold(self, size_bytes: int, reserved: int) -> None:
        """Keep so much of a reservation, and free the rest; give it back with `give`."""
        self.held += size_bytes
        self._free += reserved - size_bytes
        self._serve()

    def give(self, size_bytes: int) -> None:
        self.held -= size_bytes
        self._free += size_bytes
        self._serve()
        if self._turned_away and not self.is_scarce:
            turned_away, self._turned_away = self._turned_away, {}
            for wake in turned_away:
                wake()

    def _serve(self) -> None:
        while self._waiters:
            size_bytes, waiter = self._waiters[0]
            if not waiter.done():
                if self._free < size_bytes:
                    return
                self._free -= size_bytes
                waiter.set_result(None)
            self._waiters.popleft()
