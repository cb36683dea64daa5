"""The tenure of an owner: whether it may answer just now, for broker and gateway.

An owner that could not renew in time is not sure: calls wait, and nothing is delivered. It is sure
again as soon as a record is acknowledged in order, or its tenure is over. Lives on the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fanlog.broker.events import Event
from fanlog.cluster.ownership import OwnerSession, may_answer
from fanlog.errors import Unavailable

OVER = "this node does not own the log any more; call again"


class OwnerTenure:
    """A `Tenure` of one term. `look` after each renewal; `end` when the term is over."""

    def __init__(
        self,
        session: OwnerSession,
        *,
        from_s: float,
        renewed_s: Callable[[], float],
        boottime_s: Callable[[], float],
        hold_s: float,
    ) -> None:
        """It begins at `from_s`; `renewed_s` is when the last record was sent."""
        self._session = session
        self._from_s = from_s
        self._renewed_s = renewed_s
        self._boottime_s = boottime_s
        self._hold_s = hold_s
        self._is_over = False
        self._was_unsure = True
        #: In the order in which they came.
        self._waiters: dict[asyncio.Future[None], None] = {}
        self.on_sure: Event[None] = Event()
        #: Calls that have waited for it.
        self.held = 0

    @property
    def is_over(self) -> bool:
        return self._is_over

    @property
    def has_begun(self) -> bool:
        """Whether no owner before can answer any more."""
        return self._boottime_s() >= self._from_s

    @property
    def is_sure(self) -> bool:
        if not self._is_over and may_answer(
            self._session,
            from_s=self._from_s,
            renewed_s=self._renewed_s(),
            now=self._boottime_s(),
        ):
            return True
        self._was_unsure = True
        return False

    async def sure(self) -> None:
        """Return when it is sure.

        Raises:
            Unavailable: It is over, or was unsure for longer than calls wait.
        """
        if self.is_sure:
            return
        self.held += 1
        try:
            async with asyncio.timeout(self._hold_s):
                while not self.is_sure:
                    if self._is_over:
                        raise Unavailable(OVER)
                    await self._wait()
        except TimeoutError:
            raise Unavailable(
                "the owner of the log could not reach it for some seconds; call again"
            ) from None

    async def _wait(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        try:
            await waiter
        finally:
            self._waiters.pop(waiter, None)

    def look(self) -> None:
        """It may be sure again: let calls and consumers go on."""
        if self._was_unsure and self.is_sure:
            self._was_unsure = False
            self._wake()
            self.on_sure.tell(None)

    def end(self) -> None:
        """The term is over: nothing is answered any more."""
        self._is_over = True
        self._wake()

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
