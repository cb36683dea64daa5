"""Room for new messages: spare messages go before any publish is refused.

While only the disk's reserve is left, or the hot log is full, a publish waits for messages that
only the server's default retention keeps to be let go of, oldest first. It is refused when there
are none left. How much waits that way is bounded.
"""

from __future__ import annotations

import asyncio

from fanlog import limits
from fanlog.broker.retention.retention import Retention
from fanlog.broker.transaction import Ledger
from fanlog.log.api import Log


class Room:
    """Makes room on one broker. Lives on the loop."""

    def __init__(self, ledger: Ledger, store: Log, retention: Retention) -> None:
        self._ledger = ledger
        self._store = store
        self._retention = retention
        self._lock = asyncio.Lock()
        self._waiting_bytes = 0

    async def make(self, size_bytes: int) -> bool:
        """Whether there is room, perhaps because spare messages were let go of for it.

        Other publishes may have taken it by the time the caller goes on: `Ledger.check_room` has
        the last word.
        """
        if not self._ledger.shortage(size_bytes):
            return True
        if (
            not self._retention.has_default
            or self._waiting_bytes + size_bytes > limits.WRITER_BACKLOG_BYTES_MAX
        ):
            return False
        self._waiting_bytes += size_bytes
        try:
            async with self._lock:
                return await self._make(size_bytes)
        finally:
            self._waiting_bytes -= size_bytes

    async def _make(self, size_bytes: int) -> bool:
        while shortage := self._ledger.shortage(size_bytes):
            if self._store.has_garbage:
                # Commits free the trimmed batches, a few each.
                await self._ledger.begin().commit()
            elif not await self._retention.let_go(shortage):
                return False
            self._ledger.forget_room()
        return True
