"""Calls that wait for room on a link: in their order, for a bounded time, and not too many.

Streams have a row of their own: calls with one answer do not wait behind them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fanlog.cluster import bounds
from fanlog.cluster.link.call import LinkCall, NeverLeft
from fanlog.errors import FanlogError, Unavailable

_Row = dict[asyncio.Future[LinkCall], tuple[Callable[[], LinkCall], int]]


class LinkQueue:
    """Lives on the loop."""

    def __init__(self) -> None:
        self._calls: _Row = {}
        self._streams: _Row = {}
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._calls) + len(self._streams)

    def has_any(self, *, is_stream: bool) -> bool:
        return bool(self._streams if is_stream else self._calls)

    async def wait(
        self, start: Callable[[], LinkCall], size_bytes: int, *, is_stream: bool, patience_s: float
    ) -> LinkCall:
        """The call, once there was room to start it.

        Raises:
            NeverLeft: The connection was lost before.
            FanlogError: There is no room, not even to wait; or not in time.
        """
        if (
            len(self) >= bounds.WAITING_CALLS_MAX
            or self.size_bytes + size_bytes > bounds.WAITING_BYTES_MAX
        ):
            raise Unavailable("too many calls wait for the link to the owner; try again")
        loop = asyncio.get_running_loop()
        started: asyncio.Future[LinkCall] = loop.create_future()
        row = self._streams if is_stream else self._calls
        row[started] = start, size_bytes
        self.size_bytes += size_bytes
        timer = loop.call_later(patience_s, _give_up, started)
        try:
            return await started
        except asyncio.CancelledError:
            if started.done() and not started.cancelled() and started.exception() is None:
                # Both in one turn of the loop: there was room, and the caller is gone.
                started.result().cancel()
            raise
        finally:
            timer.cancel()
            self._leave(row, started)

    def start_some(self, has_room: Callable[[int, bool], bool]) -> None:
        """Start those that there is room for, by size and by whether it is a stream."""
        for row, is_stream in ((self._calls, False), (self._streams, True)):
            while row:
                started = next(iter(row))
                start, size_bytes = row[started]
                if not started.done() and not has_room(size_bytes, is_stream):
                    break
                self._leave(row, started)
                if not started.done():
                    _start(started, start)

    def fail_all(self, error: Exception) -> None:
        for row in (self._calls, self._streams):
            for started in list(row):
                self._leave(row, started)
                if not started.done():
                    started.set_exception(error)

    def _leave(self, row: _Row, started: asyncio.Future[LinkCall]) -> None:
        entry = row.pop(started, None)
        if entry is not None:
            self.size_bytes -= entry[1]


def _start(started: asyncio.Future[LinkCall], start: Callable[[], LinkCall]) -> None:
    try:
        call = start()
    except (NeverLeft, FanlogError) as error:
        started.set_exception(error)
    else:
        started.set_result(call)


def _give_up(started: asyncio.Future[LinkCall]) -> None:
    if not started.done():
        started.set_exception(
            Unavailable("there was no room on the link to the owner in time; try again")
        )
