"""The callers that one connection of a link has told its other side of, by their connections.

A caller is told of with its first call, and later calls have its number alone; when its connection
ends, the other side is told so. Many end in one turn of the loop: they are told of together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from fanlog.transport.lifetime import Lifetime

#: Callers that are told of as gone in one message, and when it is tried again to tell.
_GONE_MAX: Final = 10_000
_AGAIN_S: Final = 0.05


class Callers:
    """Soft state; ends with its connection. Lives on the loop."""

    def __init__(self, tell_gone: Callable[[Sequence[int]], bool]) -> None:
        """`tell_gone` says whether it could be told."""
        self._tell_gone = tell_gone
        self._numbers: dict[Lifetime, int] = {}
        self._last = 0
        self._gone: list[int] = []
        self._is_over = False

    def find(self, lifetime: Lifetime | None) -> int | None:
        """The number of a caller that was told of."""
        return None if lifetime is None else self._numbers.get(lifetime)

    def number(self, lifetime: Lifetime | None) -> int | None:
        """A number for a caller that is told of now; None for one that is not remembered."""
        if lifetime is None or self._is_over:
            return None
        self._last += 1
        self._numbers[lifetime] = self._last
        lifetime.at_end(partial(self._end, lifetime, self._last))
        # At once, if it has ended: then its one call has no number.
        return self.find(lifetime)

    def forget(self, lifetime: Lifetime | None) -> None:
        """The other side may not have heard of a caller: the next call tells it anew."""
        if lifetime is not None and lifetime in self._numbers:
            self._end(lifetime, self._numbers[lifetime])

    def _end(self, lifetime: Lifetime, number: int) -> None:
        if self._is_over or self._numbers.get(lifetime) != number:
            return
        del self._numbers[lifetime]
        if not self._gone:
            asyncio.get_running_loop().call_soon(self._tell)
        self._gone.append(number)

    def _tell(self) -> None:
        while self._gone and not self._is_over:
            if not self._tell_gone(self._gone[:_GONE_MAX]):
                asyncio.get_running_loop().call_later(_AGAIN_S, self._tell)
                return
            del self._gone[:_GONE_MAX]

    def end(self) -> None:
        """The connection is over, and the other side knows it."""
        self._is_over = True
        self._numbers.clear()
