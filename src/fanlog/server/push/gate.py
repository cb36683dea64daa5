"""Connections are few: so many to one host, so many to all. First come, first served."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable


class Gate:
    def __init__(self, per_host: int, total: int) -> None:
        self._per_host = per_host
        self._total = asyncio.Semaphore(total)
        self._hosts: dict[Hashable, tuple[asyncio.Semaphore, list[int]]] = {}

    def has_place(self, host: Hashable) -> bool:
        """Whether `enter` would not wait."""
        entry = self._hosts.get(host)
        return not self._total.locked() and (entry is None or not entry[0].locked())

    async def enter(self, host: Hashable) -> None:
        """Wait for a place; give it back with `leave`."""
        entry = self._hosts.get(host)
        if entry is None:
            entry = self._hosts[host] = (asyncio.Semaphore(self._per_host), [0])
        places, users = entry
        users[0] += 1
        try:
            await places.acquire()
            try:
                await self._total.acquire()
            except BaseException:
                places.release()
                raise
        except BaseException:
            self._forget(host, users)
            raise

    def leave(self, host: Hashable) -> None:
        places, users = self._hosts[host]
        self._total.release()
        places.release()
        self._forget(host, users)

    def _forget(self, host: Hashable, users: list[int]) -> None:
        users[0] -= 1
        if users[0] == 0:
            del self._hosts[host]
