"""A machine of the world: its clocks, its cache, and its process, which is killed and started.

What the process does is said by those who inherit: `nodes` and `owners`.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from fanlog.cluster.cards import NodeCard
from fanlog.cluster.ownership import OwnerSession
from fanlog.log.replicated.checkpoints import UpkeepPace
from fanlog.log.replicated.replicated import ReplicatedLog
from fanlog.log.replicated.state_feed import StateListener
from simulator.cluster.topic import SimPartition
from simulator.cluster.turns import Turn

if TYPE_CHECKING:
    from simulator.cluster.world import World


class NodeClock:
    """The clocks of one machine: they run at a rate of their own, and the wall clock can be set."""

    def __init__(self, world: World, rate: float) -> None:
        self._world = world
        self._rate = rate
        #: How far the wall clock is off.
        self.ahead_s = 0.0

    def boottime_s(self) -> float:
        return 1_000.0 + self._world.turns.now * self._rate

    def answer_s(self) -> float:
        """By which an owner says whether it may answer still."""
        return self.boottime_s()

    def wall_ns(self) -> int:
        return self._world.wall_ns() + int(self.ahead_s * 1e9)


class Machine:
    """One machine; `start` and `kill` its process in turn."""

    #: The log of its process.
    engine_class: type[ReplicatedLog] = ReplicatedLog

    def __init__(self, world: World, name: str, place: Path) -> None:
        self.world = world
        self.name = name
        self.place = place
        drift = world.temper.drift
        self.clock = NodeClock(world, 1 + world.rng.uniform(-drift, drift))
        self.session = OwnerSession(world.temper.session_s)
        self.boots = 1
        self.stands_until = 0.0
        #: It cannot reach Kafka until then.
        self.cut_until = 0.0
        #: Names of the nodes that it cannot talk to.
        self.cut_off: set[str] = set()
        self.threads: list[Turn] = []
        self._engine: ReplicatedLog | None = None
        self._reset()

    def _reset(self) -> None:
        """Before a process begins."""
        self.card = NodeCard(name=self.name, link_address="here:1", api_address=f"{self.boots}:2")

    def _run(self) -> None:
        """The main thread of the process."""
        raise NotImplementedError

    def oust(self) -> None:
        """Try to own, whatever the rules say."""
        raise NotImplementedError

    def move(self) -> None:
        """Hand over, if this node owns."""
        raise NotImplementedError

    @property
    def engine(self) -> ReplicatedLog:
        assert self._engine is not None, "alive"
        return self._engine

    @property
    def is_alive(self) -> bool:
        return self._engine is not None

    @property
    def owns(self) -> bool:
        return self._engine is not None and self._engine.standing.role == "owning"

    @property
    def may_answer(self) -> bool:
        """Whether it owns, and is sure of it."""
        raise NotImplementedError

    def is_apart(self, other: Machine) -> bool:
        """Whether the two cannot talk to each other just now."""
        now = self.world.turns.now
        return other.name in self.cut_off or now < max(self.stands_until, other.stands_until)

    # The process.

    def start(self) -> None:
        assert self._engine is None
        self.stands_until = 0.0
        self._reset()
        self._engine = self.open_engine(self.place, self._listener())
        self.threads = [Turn(self.world.turns, self._run, self)]
        self.threads[0].start()

    def _listener(self) -> StateListener | None:
        """Hears the hard state that the process follows."""
        return None

    def open_engine(self, place: Path, listener: StateListener | None = None) -> ReplicatedLog:
        temper = self.world.temper
        return self.engine_class(
            place,
            lambda: SimPartition(self.world.topic, lambda: self.world.turns.now < self.cut_until),
            self.card.to_bytes(),
            on_change=self._changed,
            clock=self.clock,
            pace=UpkeepPace(
                checkpoint_bytes=temper.checkpoint_bytes,
                snapshot_bytes_min=2 * temper.checkpoint_bytes,
                carry_bytes_min=3 * temper.checkpoint_bytes,
                piece_bytes=600,
            ),
            boot_id=f"boot {self.boots}",
            patience_s=3.0,
            listener=listener,
        )

    def _changed(self) -> None:
        """The engine's role or term changed."""

    def kill(self) -> None:
        """End the process where it waits; the cache stays as it is."""
        for turn in self.threads:
            turn.kill()
        engine, self._engine = self.engine, None
        engine.close()

    def boot(self) -> None:
        """The machine starts anew: its caches are not believed any more."""
        self.boots += 1

    def lose_cache(self) -> None:
        shutil.rmtree(self.place)
