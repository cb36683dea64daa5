"""One term of this node: the shard is built, served, and taken down again.

It ends when the log says so, when another node is to own, or when the shard cannot be served here.
Nothing is answered from the moment on at which that is known.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, Generic, Protocol, TypeVar

from fanlog.cluster.ownership import OwnerSession
from fanlog.cluster.renewing import Renewer
from fanlog.cluster.standbys import Standbys
from fanlog.cluster.tenure import OwnerTenure
from fanlog.errors import FanlogError
from fanlog.log.replicated.api import Member, ReplicaClock, ReplicatedEngine

log = logging.getLogger("fanlog.cluster")

#: How long calls under way have before a shard that is handed over is taken down.
SETTLE_S: Final = 0.3


class ServedShard(Protocol):
    """A shard that was built for a term, and is served."""

    @property
    def is_lost(self) -> bool:
        """Whether a commit found that the log is another's by now."""

    async def ease(self, patience_s: float) -> None:
        """Begin nothing more by itself: the requests of push are answered meanwhile."""

    def drain(self) -> None:
        """Send consumers away."""

    async def settle(self, patience_s: float) -> None:
        """Return when no call with one answer is under way, or after a time."""

    async def close(self) -> None:
        """Take it down; nothing of it stays behind."""


Shard = TypeVar("Shard", bound=ServedShard)

#: Builds a shard for a term; one that fails or is cancelled leaves nothing behind.
OpenShard = Callable[[OwnerTenure], Coroutine[Any, Any, Shard]]


class OwnerTerm(Generic[Shard]):
    """`await run()` it once; `leave` ends it gently."""

    def __init__(
        self,
        engine: ReplicatedEngine,
        session: OwnerSession,
        clock: ReplicaClock,
        tenure: OwnerTenure,
        standbys: Standbys,
        *,
        open_shard: OpenShard[Shard],
        changed: asyncio.Event,
        tick_s: float,
    ) -> None:
        """`changed` is set whenever the engine's role changes."""
        self._engine = engine
        self._session = session
        self._clock = clock
        self._standbys = standbys
        self._open_shard = open_shard
        self._changed = changed
        self._tick_s = tick_s
        self.tenure = tenure
        loop = asyncio.get_running_loop()
        self.renewer = Renewer(
            session,
            standing=lambda: engine.standing,
            renew=engine.renew,
            boottime_s=clock.boottime_s,
            on_renewed=lambda: _set_soon(loop, changed),
        )
        #: The node that is to own next, empty for any; None while this one stays.
        self.successor: str | None = None
        self._ease_s = 0.0
        #: Why the shard could not be served here; empty when it could.
        self.failure = ""

    def leave(self, successor: str, ease_s: float) -> None:
        """Hand the shard over; requests of push have so long to be answered."""
        self.successor, self._ease_s = successor, ease_s
        self._changed.set()

    async def run(
        self,
        *,
        serve: Callable[[Shard], None],
        hold: Callable[[], None],
        look: Callable[[], None],
        look_after: Callable[[], object],
    ) -> None:
        """Serve until the term is over; the shard is taken down when this returns.

        Args:
            serve: Called when the shard is there, `hold` when calls must wait again.
            look: Called several times in a session, until then.
            look_after: The same, while the shard is taken down.
        """
        self.renewer.start()
        shard = None
        try:
            shard = await self._open(look)
            if shard is not None:
                serve(shard)
                while self._owns(shard) and self.successor is None:
                    self._look(look)
                    await self._pause()
                if self._owns(shard):
                    await self._ease(shard, hold, look)
        finally:
            self.tenure.end()
            hold()
            self.renewer.stop()
            if shard is not None:
                shard.drain()
                await self._close(shard, look_after)

    async def _open(self, look: Callable[[], None]) -> Shard | None:
        """The shard of this term; None when it could not be built, or the term was over first."""
        opening = asyncio.ensure_future(self._open_shard(self.tenure))
        opening.add_done_callback(lambda _: self._changed.set())
        try:
            while not opening.done() and self.successor is None:
                self._look(look)
                if self._engine.standing.role != "owning":
                    return None
                await self._pause()
            return opening.result() if opening.done() else None
        except FanlogError as error:
            self.failure = error.message
            return None
        finally:
            if not opening.done():
                opening.cancel()
                await asyncio.gather(opening, return_exceptions=True)

    def _owns(self, shard: Shard) -> bool:
        return self._engine.standing.role == "owning" and not shard.is_lost

    def _look(self, look: Callable[[], None]) -> None:
        now = self._clock.boottime_s()
        self.renewer.tell_alive()
        self.tenure.look()
        self._standbys.note_place(self._engine.standing.applied_offset, now)
        self.renewer.tell_members(
            [Member(one.card.to_bytes(), one.applied_offset) for one in self._standbys.present(now)]
        )
        look()

    async def _ease(self, shard: Shard, hold: Callable[[], None], look: Callable[[], None]) -> None:
        """Let go of the shard gently: what it does by itself first, then calls."""
        easing = asyncio.create_task(shard.ease(self._ease_s))
        try:
            while not easing.done() and self._owns(shard):
                self._look(look)
                await asyncio.wait((easing,), timeout=self._tick_s)
        finally:
            easing.cancel()
            await asyncio.gather(easing, return_exceptions=True)
        hold()
        shard.drain()
        await shard.settle(SETTLE_S)

    async def _close(self, shard: Shard, look_after: Callable[[], object]) -> None:
        """Take the shard down. A commit may be under way, for as long as Kafka lets it wait."""
        closing = asyncio.create_task(shard.close())
        closing.add_done_callback(lambda _: self._changed.set())
        try:
            while not closing.done():
                if self._engine.standing.role != "owning":
                    look_after()
                await self._pause()
        finally:
            await closing

    async def _pause(self) -> None:
        await pause(self._changed, self._tick_s)


async def pause(changed: asyncio.Event, seconds: float) -> None:
    """Return when something has changed, or after so long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await changed.wait()
    changed.clear()


def _set_soon(loop: asyncio.AbstractEventLoop, changed: asyncio.Event) -> None:
    """Called on another thread; the loop may be gone."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(changed.set)
