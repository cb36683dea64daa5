"""Credit for long messages of one connection: those that do not fit the window of their stream.

A message is credited whole, once the connection has room for it; others wait for their turn, with
no more than their stream's first window in memory. A message that has all the room to itself always
fits, so that something goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

#: A call; hashable.
Credited = TypeVar("Credited")


class RequestCredit(Generic[Credited]):
    """Of one connection. Soft state."""

    __slots__ = ("_bytes_max", "_given_bytes", "_waiting")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._given_bytes = 0
        self._waiting: dict[Credited, None] = {}

    def take(self, call: Credited, size_bytes: int) -> bool:
        """Take credit for the rest of a call's message; False when it has to wait.

        Calls wait in one row: one that does not fit is not passed by others.
        """
        is_first = not self._waiting or next(iter(self._waiting)) is call
        fits = not self._given_bytes or self._given_bytes + size_bytes <= self._bytes_max
        if not (is_first and fits):
            self._waiting[call] = None
            return False
        self._waiting.pop(call, None)
        self._given_bytes += size_bytes
        return True

    def give_back(self, size_bytes: int, again: Callable[[Credited], None]) -> None:
        """Bytes are free: calls that wait ask again, in their order, while there is room."""
        self._given_bytes -= size_bytes
        while self._waiting:
            first = next(iter(self._waiting))
            again(first)
            if first in self._waiting:
                return

    def forget(self, call: Credited) -> None:
        """A call is over."""
        if self._waiting:
            self._waiting.pop(call, None)
