"""Limits of connections: to one host, and to all hosts. First come, first served.

A request takes a place at its host first, and while it has none it waits for that alone: a full
host holds up no other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable


class _Places:
    """A number of places, and the tasks that wait for one."""

    __slots__ = ("_waiters", "free", "users")

    def __init__(self, count: int) -> None:
        self.free = count
        #: Tasks that have a place, or wait for one.
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
                # The place was given, and the task is cancelled before it knows.
                self.release()
            raise

    def release(self) -> None:
        """Give a place back: to the task that waits longest, or else to the next that comes."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self.free += 1


class ConnectionLimiter:
    """Counts places. Lives on one loop."""

    def __init__(self, per_host: int, total: int) -> None:
        self._per_host = per_host
        self._total = _Places(total)
        self._hosts: dict[Hashable, _Places] = {}
        self._waiting = 0
        #: Set while no request waits for a place.
        self.calm = asyncio.Event()
        self.calm.set()

    def enter_nowait(self, host: Hashable) -> bool:
        """Take a place at once, if there is one; give it back with `leave`."""
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
        self._waiting += 1
        self.calm.clear()
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
        finally:
            self._waiting -= 1
            if not self._waiting:
                self.calm.set()

    def leave(self, host: Hashable) -> None:
        places = self._hosts[host]
        self._total.release()
        places.release()
        self._forget(host, places)

    def _forget(self, host: Hashable, places: _Places) -> None:
        places.users -= 1
        if places.users == 0:
            del self._hosts[host]
