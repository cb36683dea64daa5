"""Long loops in small steps, so that other tasks run in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")

#: Items before other tasks may run: about half a millisecond, where an item is a partition.
STEP = 100


async def paced(items: Iterable[T]) -> AsyncIterator[T]:
    """The items one by one, with a pause now and then. For loops that take all of them."""
    for number, item in enumerate(items):
        if number % STEP == STEP - 1:
            await asyncio.sleep(0)
        yield item
