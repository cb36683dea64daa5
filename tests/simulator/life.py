"""One life of the simulated process: a broker, its tasks and its clock, until it is killed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, copy_context
from typing import Any

from fanlog.broker.broker import Broker
from fanlog.broker.clock import Timer
from fanlog.broker.generations import Generations
from fanlog.broker.transaction import Ledger
from fanlog.errors import FanlogError
from fanlog.push.rules.guard import Guard
from fanlog.push.senders.host_resolver import HostResolver
from fanlog.push.service import PushService
from fanlog.server.streaming_pull import streaming_pull
from simulator.chronicle import Chronicle, Op
from simulator.loop import SimulatedClock
from simulator.store import SimulatedCommitter

#: Whose task this is; None for clients and for the world itself.
LIFE: ContextVar[Life | None] = ContextVar("LIFE", default=None)


class ObservedGenerations(Generations):
    """The real generations; the chronicle is told when each lease is decided."""

    def __init__(self, ledger: Ledger, clock: MortalClock, chronicle: Chronicle) -> None:
        super().__init__(ledger)
        self._clock = clock
        self._chronicle = chronicle

    def next(self) -> int:
        generation = super().next()
        self._chronicle.decided(generation, self._clock.now())
        return generation


class MortalClock:
    """A clock whose timers die with the process that set them, and may be late."""

    def __init__(self, clock: SimulatedClock, late_s: Callable[[], float]) -> None:
        self._clock = clock
        self._late_s = late_s
        self.now = clock.now
        self.wall_ns = clock.wall_ns
        self.is_dead = False

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        when += self._late_s()
        return self._clock.call_at(when, lambda: None if self.is_dead else callback())


class Life:
    """From a start to a crash or a stop. Tasks that its tasks make are its own, too."""

    def __init__(
        self,
        number: int,
        loop: asyncio.AbstractEventLoop,
        clock: MortalClock,
        on_mistake: Callable[[BaseException], None],
    ) -> None:
        self.number = number
        self.clock = clock
        self.is_dead = False
        self.is_serving = False
        self.broker: Broker
        self.senders: PushService
        self.resolver = HostResolver(Guard(), clock.now)
        self.committer: SimulatedCommitter
        #: Verbs that run, and what to tell their callers should they never end.
        self.running: dict[Op, asyncio.Future[Any] | None] = {}
        self._loop = loop
        self._on_mistake = on_mistake
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._context = copy_context()
        self._context.run(LIFE.set, self)

    async def start(self) -> None:
        """As the server does."""
        await self.broker.start()
        self.broker.tiers.begin()
        self.senders.start("http://simulated")

    async def stop(self, patience_s: float) -> None:
        """As the server does on SIGTERM."""
        self.broker.drain()
        await self.senders.stop(patience_s)
        await self.broker.stop()
        await self.broker.tiers.stop()

    async def serve_stream(self, context: Any) -> None:
        """Serve one StreamingPull until it ends."""
        await streaming_pull(self.broker, context)

    def begin(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run something inside the process."""
        return self._loop.create_task(work, context=self._context.copy())

    def adopt(self, task: asyncio.Task[Any]) -> None:
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def kill(self) -> None:
        """Nothing of this life reaches the disk or anybody else from now on."""
        self.is_dead, self.is_serving = True, False
        self.clock.is_dead = True
        self.committer.kill()
        for task in list(self._tasks):
            task.cancel()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled() or self.is_dead:
            return
        error = task.exception()
        if error is not None and not isinstance(error, FanlogError):
            self._on_mistake(error)


def task_factory(
    loop: asyncio.AbstractEventLoop,
    work: Coroutine[Any, Any, Any],
    context: Any = None,
) -> asyncio.Task[Any]:
    """Make a task, and have its life adopt it."""
    task = asyncio.Task(work, loop=loop, context=context)
    life = LIFE.get() if context is None else context.get(LIFE)
    if life is not None:
        life.adopt(task)
    return task
