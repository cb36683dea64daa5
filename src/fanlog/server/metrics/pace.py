"""Sharing the loop: long work is done in slices, with a pause behind each."""

from __future__ import annotations

import asyncio
import time
from typing import Final

#: Work between two pauses, and the length of a pause: the loop is free for half of the time.
SLICE_S: Final = 0.002


class Pace:
    """Of one long piece of work on the loop; call `rest` between steps that are much shorter."""

    __slots__ = ("_began_s",)

    def __init__(self) -> None:
        self._began_s = time.perf_counter()

    async def rest(self) -> None:
        """Pause, if a slice is over."""
        if time.perf_counter() - self._began_s >= SLICE_S:
            await asyncio.sleep(SLICE_S)
            self._began_s = time.perf_counter()
