"""Looks at the tables of the lake, for people: in a thread, and not more often than it helps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from fanlog import limits
from fanlog.broker.clock import Clock
from fanlog.errors import FailedPrecondition
from fanlog.model.lake_tables import TableLook

#: Looks at all tables, and blocks.
LookAtTables = Callable[[], Sequence[TableLook]]


class TableLooks:
    """The latest look. Lives on the loop; callers that come together share one."""

    def __init__(self, clock: Clock, look: LookAtTables | None) -> None:
        self._clock = clock
        self._look = look
        self._lock = asyncio.Lock()
        self._found: tuple[float, Sequence[TableLook]] | None = None

    async def recent(self) -> tuple[float, Sequence[TableLook]]:
        """The tables, and when they were looked at.

        Raises:
            FailedPrecondition: There is no lake.
            LakeError: It cannot be looked at.
        """
        if self._look is None:
            raise FailedPrecondition("this server has no lake")
        async with self._lock:
            now = self._clock.now()
            if self._found is None or now - self._found[0] > limits.LAKE_TABLES_LOOKED_AT_S:
                # A thread of its own: those of cold reads have readers that wait.
                threads = ThreadPoolExecutor(1, thread_name_prefix="lake-tables")
                try:
                    found = await asyncio.get_running_loop().run_in_executor(threads, self._look)
                finally:
                    threads.shutdown(wait=False)
                self._found = now, found
            return self._found
