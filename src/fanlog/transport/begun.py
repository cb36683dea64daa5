"""A coroutine that has begun: its first step is taken at once, the rest when it is awaited.

A task takes its first step in a later turn of the loop, and something may come in between.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class Begun(Generic[Result]):
    """Await it once. The coroutine must wait for something in its first step."""

    def __init__(self, coroutine: Coroutine[Any, None, Result]) -> None:
        self._coroutine = coroutine
        self._waits_for = coroutine.send(None)

    def __await__(self) -> Generator[Any, None, Result]:
        waits_for = self._waits_for
        try:
            while True:
                yield waits_for
                waits_for = self._coroutine.send(None)
        except StopIteration as end:
            result: Result = end.value
            return result
        finally:
            self._coroutine.close()
