"""The life of the broker in one term of a node: built as nodes build it, behind the same guard."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from fanlog.broker.broker import Broker
from fanlog.broker.clock import Clock
from fanlog.broker.events import Event
from fanlog.broker.generations import Generations
from fanlog.broker.transaction import Ledger
from fanlog.cluster.guard import TenureGuard
from fanlog.cluster.tenure import OwnerTenure
from fanlog.errors import FanlogError
from fanlog.log.replicated.replicated import ReplicatedLog
from fanlog.transport.methods import RpcMethod
from simulator.life import Life, MortalClock

T = TypeVar("T")


class WitnessedTenure:
    """A `Tenure`; whoever looks finds out that the term has begun, when it is sure at first."""

    def __init__(self, tenure: OwnerTenure, on_first: Callable[[], None]) -> None:
        self._tenure = tenure
        self._on_first = on_first
        self._was_sure = False
        self.on_sure: Event[None] = tenure.on_sure

    @property
    def is_sure(self) -> bool:
        is_sure = self._tenure.is_sure
        if is_sure and not self._was_sure:
            self._was_sure = True
            self._on_first()
        return is_sure

    async def sure(self) -> None:
        if not self.is_sure:
            await self._tenure.sure()
            assert self.is_sure


class TermGenerations(Generations):
    """The real generations; the people are told when each lease is decided."""

    def __init__(self, ledger: Ledger, on_decided: Callable[[int], None]) -> None:
        super().__init__(ledger)
        self._on_decided = on_decided

    def next(self) -> int:
        generation = super().next()
        self._on_decided(generation)
        return generation


class TermLife(Life):
    """From a take-over to the end of its term. Lives on the loop of its node."""

    def __init__(
        self,
        number: int,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        log: ReplicatedLog,
        tenure: WitnessedTenure,
        on_mistake: Callable[[BaseException], None],
    ) -> None:
        super().__init__(number, loop, cast(MortalClock, clock), on_mistake)
        self.term = log.standing.term
        self.log = log
        self.tenure = tenure
        self.guard = TenureGuard(cast(OwnerTenure, tenure), _refusal)
        # Nothing is pushed in these worlds.
        self.senders = cast(Any, SimpleNamespace(_movers=()))
        self._streams: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        await self.broker.start()
        self.broker.tiers.begin()

    async def close(self) -> None:
        """As a shard is taken down."""
        self.is_serving = False
        await self.broker.stop()
        await self.broker.tiers.stop()

    async def answer(self, verb: Callable[[Broker], Awaitable[T]]) -> T:
        """Run a verb behind the guard."""

        async def unary(raw: bytes, call: Any) -> Any:
            return await verb(self.broker)

        (guarded,) = self.guard.methods([RpcMethod("/verb", 1, unary=unary)])
        assert guarded.unary is not None
        answer: Any = await guarded.unary(b"", cast(Any, None))
        return cast(T, answer)

    async def serve_stream(self, context: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        try:
            if not self.tenure.is_sure:
                await self.tenure.sure()
            await super().serve_stream(context)
        finally:
            self._streams.discard(task)

    def end_streams(self) -> None:
        """Streams belong to a backend, and end with it."""
        for task in sorted(self._streams, key=lambda one: one.get_name()):
            task.cancel()

    def kill(self) -> None:
        self.is_dead, self.is_serving = True, False
        for task in list(self._tasks):
            task.cancel()


def _refusal(error: FanlogError) -> Any:
    raise AssertionError("nothing is asked by HTTP here")
