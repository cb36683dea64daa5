"""Calls that wait: in their order, for a bounded time, and not too many of them."""

from __future__ import annotations

import asyncio

from fanlog.cluster import bounds
from fanlog.errors import Unavailable


class WaitingRoom:
    """Lives on the loop."""

    def __init__(
        self,
        calls_max: int = bounds.WAITING_CALLS_MAX,
        bytes_max: int = bounds.WAITING_BYTES_MAX,
    ) -> None:
        self._calls_max = calls_max
        self._bytes_max = bytes_max
        self._waiting: dict[asyncio.Future[bool], int] = {}
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    async def wait(self, size_bytes: int, patience_s: float, why: str) -> bool:
        """Wait to be called, holding so many bytes; False when that took too long.

        Raises:
            Unavailable: Too many wait already.
        """
        if len(self._waiting) >= self._calls_max or self.size_bytes + size_bytes > self._bytes_max:
            raise Unavailable(f"{why}, and too many calls wait already; try again")
        loop = asyncio.get_running_loop()
        called: asyncio.Future[bool] = loop.create_future()
        self._waiting[called] = size_bytes
        self.size_bytes += size_bytes
        timer = loop.call_later(patience_s, self._give_up, called)
        try:
            return await called
        finally:
            timer.cancel()
            self._leave(called)

    def call_all(self) -> None:
        """Whatever they wait for may be there."""
        for called in list(self._waiting):
            self._leave(called)
            if not called.done():
                called.set_result(True)

    def _give_up(self, called: asyncio.Future[bool]) -> None:
        if not called.done():
            called.set_result(False)

    def _leave(self, called: asyncio.Future[bool]) -> None:
        self.size_bytes -= self._waiting.pop(called, 0)
