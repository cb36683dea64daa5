"""Credit for long messages of one connection: those that do not fit the window of their stream.

A message is credited whole, once the connection has room for it; others wait for their turn, with
no more than their stream's first window in memory. A message that has all the room to itself always
fits, so that something goes on.
"""

from __future__ import annotations

from collections.abc import Callable

from fanlog.transport.server_call import ServerCall


class RequestCredit:
    """Of one connection. Soft state."""

    __slots__ = ("_bytes_max", "_given_bytes", "_waiting")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._given_bytes = 0
        self._waiting: dict[ServerCall, None] = {}

    def take(self, call: ServerCall, size_bytes: int) -> bool:
        """Take credit for the rest of a call's message; False when it has to wait."""
        if self._given_bytes and self._given_bytes + size_bytes > self._bytes_max:
            self._waiting[call] = None
            return False
        self._waiting.pop(call, None)
        self._given_bytes += size_bytes
        return True

    def give_back(self, size_bytes: int, again: Callable[[ServerCall], None]) -> None:
        """Bytes are free: calls that wait ask again, in their order, while there is room."""
        self._given_bytes -= size_bytes
        for call in list(self._waiting):
            if self._given_bytes >= self._bytes_max:
                return
            again(call)

    def forget(self, call: ServerCall) -> None:
        """A call is over."""
        if self._waiting:
            self._waiting.pop(call, None)
