"""A node with the broker: the product's `ClusterNode`, on the loop of its process, and its terms.

Clients, links between nodes and the gateway's calls are stood for: `Gateway` says where calls go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fanlog.cluster.announcements import Announcement, KnownOwner
from fanlog.cluster.cards import NodeCard
from fanlog.cluster.node import ClusterNode
from fanlog.cluster.ownership import Seen, Vigil
from fanlog.cluster.tenure import OwnerTenure
from fanlog.errors import FailedPrecondition, FanlogError, Unavailable
from fanlog.log.api import Commit
from fanlog.log.replicated.replicated import ReplicatedLog
from fanlog.log.replicated.state_feed import StateListener
from simulator.cluster.loops import TurnLoop
from simulator.cluster.machines import Machine
from simulator.cluster.standby import SimStandbyState
from simulator.cluster.terms import TermLife
from simulator.life import task_factory
from simulator.loop import Deadlock

if TYPE_CHECKING:
    from simulator.cluster.serving import ServingWorld

#: How long calls wait for the owner.
HOLD_S = 10.0
#: How often tasks of a dead process are cancelled.
_ROUNDS = 20


class WitnessedLog(ReplicatedLog):
    """The log; what it is asked is told to `witness`, which is set before it is used."""

    witness: OwningNode

    def commit(self, commit: Commit) -> None:
        judge = self.witness.serving_world.judge
        if self.standing.role == "owning":
            judge.note_attempt(self.standing.term, self.witness.name, commit)
        super().commit(commit)
        judge.note_commit(commit)

    def take_over(self) -> bool:
        node = self.witness
        is_ours = super().take_over()
        if is_ours and self.standing.role == "owning":
            node.world.judge.note_term(node)
        return is_ours


class Gateway:
    """Where the calls go that clients send to a node."""

    def __init__(self) -> None:
        self.local: Shard | None = None
        self.target: NodeCard | None = None

    def serve_locally(self, shard: Shard) -> None:
        self.local, self.target = shard, None

    def forward_to(self, card: NodeCard) -> None:
        self._end_streams()
        self.local, self.target = None, card

    def hold(self, *, ends_streams: bool = False) -> None:
        if ends_streams:
            self._end_streams()
        self.local = self.target = None

    def _end_streams(self) -> None:
        if self.local is not None:
            self.local.life.end_streams()


class Shard:
    """A `ServedShard`: the broker of one term, as the world's people meet it."""

    def __init__(self, life: TermLife, on_close: Callable[[TermLife], None]) -> None:
        self.life = life
        self._on_close = on_close
        self._is_lost = False
        life.broker.ledger.on_end.listen(self._lose)

    @property
    def is_lost(self) -> bool:
        return self._is_lost

    def _lose(self, _: FanlogError) -> None:
        self._is_lost = True

    async def ease(self, patience_s: float) -> None:
        pass

    def drain(self) -> None:
        self.life.broker.drain()

    async def settle(self, patience_s: float) -> None:
        await self.life.guard.settle(patience_s)

    async def close(self) -> None:
        await self.life.close()
        self._on_close(self.life)


class Links:
    """The ways of one node to the others."""

    def __init__(self, node: OwningNode) -> None:
        self._node = node

    async def announce(self, to: NodeCard, said: Announcement) -> KnownOwner:
        return (await self._reach(to)).take_announcement(said)

    async def ask_owner(self, of: NodeCard) -> KnownOwner:
        return (await self._reach(of)).known_owner

    async def _reach(self, card: NodeCard) -> SteeredNode:
        node = self._node
        await asyncio.sleep(node.world.temper.trip_s)
        other = node.serving_world.owners[card.name]
        if not other.is_alive or other.node is None or node.is_apart(other):
            raise Unavailable(f"{card.name} cannot be reached")
        return other.node


class RivalVigil(Vigil):
    """Finds at once that it is time, when it was told to."""

    is_rival = False

    def is_time(self, seen: Seen, now: float) -> bool:
        if self.is_rival and not self.obstacle(seen):
            return True
        return super().is_time(seen, now)


class SteeredNode(ClusterNode[Shard]):
    """The product's node, but that it takes over whatever the rules say, when it is told to."""

    _decided: Callable[[Seen, bool], None]

    def steer(self, decided: Callable[[Seen, bool], None]) -> RivalVigil:
        """`decided` is told of each decision to take over, and whether it is one of the rules."""
        self._decided = decided
        found = self._bearings.vigil = RivalVigil(self.session, self.card.name)
        return found

    async def _take_over(self, before: Seen) -> OwnerTenure | None:
        vigil = self._bearings.vigil
        assert isinstance(vigil, RivalVigil)
        self._decided(before, not vigil.is_rival)
        if vigil.is_rival:
            # It has not waited for the owner's silence.
            vigil.is_rival = False
            before = before._replace(applied_offset=-1)
        return await super()._take_over(before)


class OwningNode(Machine):
    """A machine whose process is a node with the broker."""

    engine_class = WitnessedLog

    def __init__(self, world: ServingWorld, name: str, place: Path) -> None:
        self.serving_world = world
        self.processes = 0
        super().__init__(world, name, place)

    def _reset(self) -> None:
        super()._reset()
        self.gateway = Gateway()
        self.node: SteeredNode | None = None
        self.loop: TurnLoop | None = None
        #: The broker of its term, if it has one.
        self.life: TermLife | None = None
        self._vigil: RivalVigil | None = None
        self._news = asyncio.Event()

    def _listener(self) -> StateListener:
        self.processes += 1
        seed = f"{self.world.seed}: standby {self.name} {self.processes}"
        self.standby_state = SimStandbyState(seed)
        return self.standby_state

    def open_engine(self, place: Path, listener: StateListener | None = None) -> ReplicatedLog:
        engine = super().open_engine(place, listener)
        assert isinstance(engine, WitnessedLog)
        engine.witness = self
        return engine

    def _changed(self) -> None:
        if self.loop is not None and self.node is not None:
            self.loop.call_soon_threadsafe(self._news.set)

    @property
    def may_answer(self) -> bool:
        return self.node is not None and self.node.is_sure

    def oust(self) -> None:
        if self._vigil is not None and not self.owns:
            self._vigil.is_rival = True

    def move(self) -> None:
        """Hand over, and stay or leave."""
        if self.node is None or not self.owns:
            return
        if self.world.rng.random() < 0.5:
            self.node.leave(0.1)
        else:
            with suppress(FailedPrecondition):
                self.node.move("")

    # The process.

    def _run(self) -> None:
        loop = self.loop = TurnLoop(self.world.turns, self)
        loop.set_task_factory(task_factory)  # type: ignore[arg-type]
        loop.set_exception_handler(self.serving_world.people.excepted)
        loop.run_until_complete(self._live())
        # It has left.
        self.world.turns.after(0.0, self._exit)

    async def _live(self) -> None:
        node = self.node = SteeredNode(
            self.engine,
            self.card,
            self.session,
            self.clock,
            switch=self.gateway,
            peers=Links(self),
            open_shard=self._open,
            changed=self._news,
            hold_s=HOLD_S,
        )
        self._vigil = node.steer(
            lambda seen, is_lawful: self.world.judge.note_decision(
                self, seen, is_rival=not is_lawful
            )
        )
        await node.run()

    async def _open(self, tenure: OwnerTenure) -> Shard:
        people = self.serving_world.people
        assert self.loop is not None
        life = self.life = people.new_life(self, self.loop, tenure)
        starting = life.begin(life.start())
        try:
            await asyncio.wait([starting])
            if starting.cancelled():
                raise Unavailable("another term has begun")
            starting.result()
        except BaseException:
            starting.cancel()
            await life.close()
            self._close(life)
            raise
        life.is_serving = True
        return Shard(life, self._close)

    def _close(self, life: TermLife) -> None:
        self.life = None
        self.serving_world.people.life_over(life, "stopped")

    def _exit(self) -> None:
        if self.is_alive and self.threads[0].is_over:
            self.kill()
            self.world.turns.after(self.world.rng.uniform(0.1, 4.0), self._begin_again)

    def _begin_again(self) -> None:
        if not self.is_alive and not self.world.is_ending:
            self.start()

    def kill(self) -> None:
        super().kill()
        self.node = self._vigil = None
        life, self.life = self.life, None
        if life is not None:
            self.serving_world.people.life_over(life, "crashed")
        loop, self.loop = self.loop, None
        if loop is not None:
            _bury(loop)


def _bury(loop: TurnLoop) -> None:
    """Let what is left of the tasks of a dead process end, where nothing of it matters."""
    loop.die()
    for _ in range(_ROUNDS):
        tasks = sorted(asyncio.all_tasks(loop), key=lambda task: int(task.get_name()[5:]))
        if not tasks:
            break
        for task in tasks:
            task.cancel()
        # Some wait in the end for a commit of a thread that is gone: they are cancelled again.
        with suppress(Deadlock):
            loop.run_until_complete(_all_of(tasks))
    loop.close()


async def _all_of(tasks: list[asyncio.Task[object]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
