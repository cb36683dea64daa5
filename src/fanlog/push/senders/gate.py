"""Connections are few: so many to one host, so many to all. First come, first served.

A place at the host comes first, and whoever has none waits for that alone: a full host holds up no
other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable


class _Places:
    """So many places, and those who wait for one."""

    __slots__ = ("_waiters", "free", "users")

    def __init__(self, count: int) -> None:
        self.free = count
        #: Those who have one, or wait for it.
        self.users = 0
        self._waiters: deque[asyncio.Future[None]] = deque()

    async def acquire(self) -> None:
        if self.free > 0:
            self.free -= 1
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled():
                # It was given one, and does not want it any more.
                self.release()
            raise

    def release(self) -> None:
        """Give a place back: to who waits longest, or to whoever comes."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self.free += 1


class Gate:
    def __init__(self, per_host: int, total: int) -> None:
        self._per_host = per_host
        self._total = _Places(total)
        self._hosts: dict[Hashable, _Places] = {}

    def enter_nowait(self, host: Hashable) -> bool:
        """Have a place at once, if there is one; give it back with `leave`."""
        places = self._hosts.get(host)
        if self._total.free <= 0 or (places is not None and places.free <= 0):
            return False
        if places is None:
            places = self._hosts[host] = _Places(self._per_host)
        places.users += 1
        places.free -= 1
        self._total.free -= 1
        return True

    async def enter(self, host: Hashable) -> None:
        """Wait for a place; give it back with `leave`."""
        places = self._hosts.get(host)
        if places is None:
            places = self._hosts[host] = _Places(self._per_host)
        places.users += 1
        try:
            await places.acquire()
            try:
                await self._total.acquire()
            except BaseException:
                places.release()
                raise
        except BaseException:
            self._forget(host, places)
            raise

    def leave(self, host: Hashable) -> None:
        places = self._hosts[host]
        self._total.release()
        places.release()
        self._forget(host, places)

    def _forget(self, host: Hashable, places: _Places) -> None:
        places.users -= 1
        if places.users == 0:
            del self._hosts[host]
