"""A world: its partition, its machines, and what happens to them.

Worlds of two kinds inherit: in `writing` the nodes have writers, in `serving` the broker and its
clients.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from fanlog.log.replicated import replicated
from fanlog.log.replicated.partition import OffsetGone, PartitionUnavailable
from fanlog.log.replicated.replicated import ReplicatedLog
from simulator.cluster.judge import Judge
from simulator.cluster.machines import Machine
from simulator.cluster.temper import temper_of
from simulator.cluster.topic import SimTopic
from simulator.cluster.turns import Bystander, Turn, Turns

_START_NS = 1_700_000_000 * 1_000_000_000
_HOUR_S = 3_600.0
#: How long a cluster may take until all is well again, in sessions, besides Kafka's patience.
_RECOVERY_SESSIONS = 12


class World:
    """Of one seed; `live` it."""

    judge: Judge

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.temper = temper_of(seed)
        self.turns = Turns()
        self.topic = SimTopic(self.turns, self.rng, self.temper, wall_ns=self.wall_ns)
        self.nodes: dict[str, Machine] = {}
        self.faults = self.topic.faults
        self.broken: list[str] = []
        self.is_ending = False
        self.are_faults_over = False
        #: When a node could not reach Kafka: its name, from, to.
        self._silences: list[tuple[str, float, float]] = []

    def wall_ns(self) -> int:
        return _START_NS + int(self.turns.now * 1e9)

    def accuse(self, sentence: str) -> None:
        self.broken.append(f"{sentence} (at {self.turns.now:.3f} s)")

    def live(self) -> None:
        urandom = SimpleNamespace(urandom=random.Random(self.seed + 1).randbytes)
        place = Path(tempfile.mkdtemp(prefix="fanlog-cluster-", dir=_memory()))
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, place)
            stack.enter_context(self.turns.patched())
            stack.enter_context(mock.patch.object(replicated, "os", urandom))
            for name in ("a", "b", "c"):
                self.nodes[name] = self._new_node(name, place / name)
            try:
                for node in self.nodes.values():
                    node.start()
                self._plot(place)
            finally:
                for node in self.nodes.values():
                    if node.is_alive:
                        node.kill()

    def was_silent(self, node: Machine, begin: float, end: float, seconds: float) -> bool:
        """Whether the node could not reach Kafka for so long within a time."""
        return any(
            min(end, until) - max(begin, since) > seconds
            for name, since, until in self._silences
            if name in (node.name, "")
        )

    # What inherits.

    def _new_node(self, name: str, place: Path) -> Machine:
        raise NotImplementedError

    def _plot(self, place: Path) -> None:
        """All that happens; the nodes are started."""
        raise NotImplementedError

    @property
    def operations(self) -> int:
        raise NotImplementedError

    @property
    def all_faults(self) -> dict[str, int]:
        return dict(self.faults)

    def told_of(self, value: bytes) -> bytes:
        """What of a record is the same in every process."""
        return value

    def story_digest(self) -> str:
        """Of what else happened than appends."""
        return ""

    # The plot.

    def begin_faults(self) -> None:
        for fault in (
            self._kill,
            self._stand,
            self._cut,
            self._change_leader,
            self._go_down,
            self._set_clock,
            self._move,
            self._rival,
        ):
            self._plan(fault)

    def run(self, until: float) -> None:
        self.turns.run(until)
        for mistake in self.turns.mistakes:
            text = f"broke: {type(mistake).__name__}: {mistake}"
            if text not in self.broken:
                self.broken.append(text)

    def end_faults(self) -> None:
        self.are_faults_over = True
        self.temper = self.topic.temper = replace(self.temper, doubt=0.0)
        self.topic.down_until = self.topic.hidden_until = 0.0
        self._silences = [
            (name, since, min(until, self.turns.now)) for name, since, until in self._silences
        ]
        for node in self.nodes.values():
            node.cut_until, node.cut_off, node.stands_until = 0.0, set(), 0.0
            node.clock.ahead_s = 0.0
            if not node.is_alive:
                node.start()

    def end_processes(self) -> None:
        self.is_ending = True
        for node in self.nodes.values():
            if node.is_alive:
                node.kill()

    @property
    def recovery_s(self) -> float:
        """How long a cluster may take until all is well again."""
        return _RECOVERY_SESSIONS * self.temper.session_s + 2 * self.temper.delivery_s + 10

    def judge_caches(self, place: Path) -> None:
        """Every cache, read to the end, and that of a node that is new."""

        def look() -> None:
            for name in (*self.nodes, "new"):
                node = self.nodes.get(name) or self.nodes["a"]
                log = node.open_engine(place / name)
                try:
                    _read_all(log, self.topic)
                    self.broken += self.judge.judge_cache(f"the cache of {name!r}", log)
                except Exception as error:
                    self.broken.append(f"J5: {name!r} cannot read: {error!r}")
                finally:
                    log.close()

        self.topic.hidden_until = 0.0
        judging = Turn(self.turns, look, Bystander("judge"))
        judging.start()
        self.run(self.turns.now + 60.0)
        if not judging.is_over:
            self.broken.append("J5: a cache is not read to its end")
            judging.kill()

    # Faults.

    def _plan(self, fault: Callable[[], tuple[str, float]]) -> None:
        """Let a fault happen again and again, as often as the world's temper says."""

        def happen() -> None:
            if not self.are_faults_over:
                name, per_s = fault()
                self.faults[name] += 1
                self.turns.after(self.rng.expovariate(per_s), happen)

        words = {
            self._kill: self.temper.kills,
            self._stand: self.temper.stands,
            self._cut: self.temper.cuts,
            self._change_leader: self.temper.leaders,
            self._go_down: self.temper.outages,
            self._set_clock: self.temper.clocks,
            self._move: self.temper.moves,
            self._rival: self.temper.rivals,
        }
        per_s = words[fault]
        if per_s:
            self.turns.after(self.rng.expovariate(per_s), happen)

    def _someone(self) -> Machine:
        """The owner, more often than others."""
        owners = [node for node in self.nodes.values() if node.owns]
        if owners and self.rng.random() < 0.6:
            return self.rng.choice(owners)
        return self.rng.choice(list(self.nodes.values()))

    def _kill(self) -> tuple[str, float]:
        node = self._someone()
        if not node.is_alive:
            return "killed_twice", self.temper.kills
        node.kill()
        self.turns.after(self.rng.uniform(0.1, 8.0), lambda: self._restart(node))
        return "kills", self.temper.kills

    def _restart(self, node: Machine) -> None:
        if node.is_alive:
            return
        what = self.rng.choice(("as it was", "as it was", "lost", "older", "torn", "booted"))
        older = node.place.with_name(f"{node.name} older")
        if what == "lost" and node.place.exists():
            node.lose_cache()
        elif what == "older" and older.exists():
            node.lose_cache()
            shutil.copytree(older, node.place)
        elif what == "torn":
            data = node.place / "log" / "data.mdb"
            if data.exists():
                data.write_bytes(data.read_bytes()[: self.rng.randrange(20_000)])
            node.boot()
        elif what == "booted":
            node.boot()
        if what == "as it was" and node.place.exists():
            shutil.rmtree(older, ignore_errors=True)
            shutil.copytree(node.place, older)
        self.faults[f"restarts_{what.replace(' ', '_')}"] += 1
        node.start()

    def _stand(self) -> tuple[str, float]:
        node = self._someone()
        # At once, or when it is in the middle of something.
        node.stands_until = self.turns.now + self.rng.choice((0.3, 1.0, 2.0, 4.0, 10.0))
        return "stands", self.temper.stands

    def _cut(self) -> tuple[str, float]:
        node = self._someone()
        seconds = self.rng.choice((0.3, 1.0, 3.0, 10.0))
        if self.rng.random() < 0.7:
            node.cut_until = max(node.cut_until, self.turns.now + seconds)
            self._silences.append((node.name, self.turns.now, self.turns.now + seconds))
        if self.rng.random() < 0.5:
            for other in self.nodes.values():
                node.cut_off.add(other.name)
                other.cut_off.add(node.name)

        def heal() -> None:
            for other in self.nodes.values():
                other.cut_off.discard(node.name)
            node.cut_off.clear()

        self.turns.after(seconds, heal)
        return "cuts", self.temper.cuts

    def _change_leader(self) -> tuple[str, float]:
        self._be_down(self.rng.uniform(0.05, 4.0))
        return "leaders", self.temper.leaders

    def _go_down(self) -> tuple[str, float]:
        self._be_down(self.rng.uniform(5.0, 40.0))
        return "outages", self.temper.outages

    def _be_down(self, seconds: float) -> None:
        self.topic.change_leader(seconds)
        self._silences.append(("", self.turns.now, self.topic.down_until))

    def _set_clock(self) -> tuple[str, float]:
        node = self._someone()
        node.clock.ahead_s = self.rng.choice((0.0, 0.0, -_HOUR_S, _HOUR_S, 4.0, -4.0))
        return "clocks", self.temper.clocks

    def _move(self) -> tuple[str, float]:
        for node in self.nodes.values():
            if node.is_alive:
                node.move()
        return "moves", self.temper.moves

    def _rival(self) -> tuple[str, float]:
        self._someone().oust()
        return "rivals", self.temper.rivals


def _read_all(log: ReplicatedLog, topic: SimTopic) -> None:
    for _ in range(100_000):
        try:
            log._follow()
            if log.standing.applied_offset >= len(topic.history):
                return
        except (PartitionUnavailable, OffsetGone):
            topic.turns.sleep(0.1)


def _memory() -> str | None:
    """A folder in memory, if the machine has one."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
