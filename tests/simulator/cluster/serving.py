"""The plot of a world of brokers: clients publish and consume while nodes come and go.

When the clients are done all faults end, and everything is drained and checked as with one process
(`simulator.story`); then every cache is held against the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest import mock

from fanlog.log.api import Commit
from fanlog.log.encoded import EncodedCommit
from fanlog.log.replicated.replicated import ReplicatedLog
from simulator import admins, clients, story
from simulator.cluster.judge import Judge
from simulator.cluster.owners import OwningNode
from simulator.cluster.people import DEADLINES_S, People
from simulator.cluster.truth import Truth
from simulator.cluster.turns import Turn
from simulator.cluster.world import World
from simulator.runner import judged

#: A world is over by then.
_LIFE_S = 20_000.0
_SLICE_S = 5.0
#: How often all nodes are looked at.
_LOOK_S = 0.05


class ServingWorld(World):
    """Of one seed; `live` it."""

    judge: ServingJudge

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        # Deadlines of leases are judged by one clock; those of clocks that drift are for writers.
        self.temper = self.topic.temper = replace(self.temper, drift=0.0)
        self.owners: dict[str, OwningNode] = {}
        self.people = People(self)
        self.judge = ServingJudge(self)
        self.topic.on_append = self.judge.truth.catch_up

    @property
    def operations(self) -> int:
        return self.people.operations

    @property
    def all_faults(self) -> dict[str, int]:
        return {**self.faults, **self.people.faults, "terms": self.people.lives}

    def told_of(self, value: bytes) -> bytes:
        # Protobuf writes maps in any order.
        return b"%d" % len(value)

    def story_digest(self) -> str:
        return self.people.chronicle.digest()

    def _new_node(self, name: str, place: Path) -> OwningNode:
        node = self.owners[name] = OwningNode(self, name, place)
        return node

    def _plot(self, place: Path) -> None:
        people = self.people
        with (
            mock.patch.object(clients, "DEADLINES_S", DEADLINES_S),
            mock.patch.object(admins, "DEADLINES_S", DEADLINES_S),
        ):
            self._live(people)
        # What clients met is judged by a log that is one story.
        self.broken += self.judge.truth.mistakes
        self.broken += people.broken if self.broken else judged(people)[0]
        if not self.broken:
            self.judge_caches(place)

    def _live(self, people: People) -> None:
        living = Turn(self.turns, lambda: story.live(people), people.process)
        people.process.threads.append(living)
        living.start()
        self.turns.after(0.1, self._look)
        self.begin_faults()
        while not living.is_over and not self.broken and self.turns.now < _LIFE_S:
            self.run(self.turns.now + _SLICE_S)
        if not living.is_over:
            self.broken.append("broke: the world does not end")
            living.kill()
        self.end_processes()

    def _look(self) -> None:
        self.people.look()
        self.turns.after(_LOOK_S, self._look)

    # What the people do to nodes.

    def kill_owner(self, term: int, down_s: float | None) -> None:
        for node in self.owners.values():
            if node.life is not None and node.life.term == term:
                node.kill()
                wait_s = self.rng.uniform(0.1, 8.0) if down_s is None else down_s
                self.turns.after(wait_s, partial(self._restart, node))
                return

    def move_owner(self) -> None:
        for node in self.owners.values():
            if node.is_alive:
                node.move()


class ServingTruth(Truth):
    """Keeps what counts in the people's own log, which tells their chronicle."""

    def __init__(self, world: ServingWorld) -> None:
        super().__init__(world.topic)
        self._people = world.people
        #: What was tried, by term and sequence, and by which node.
        self.attempts: dict[tuple[int, int], tuple[str, Commit]] = {}
        self.counted: set[int] = set()

    def _commit(self, offset: int, body: EncodedCommit) -> None:
        node, commit = self.attempts[self.term, body.sequence]
        if f'"{node}"'.encode() not in self.owner:
            self.mistakes.append(f"J2: {node} commits at {offset}, in a term of another")
        try:
            self._people.store.commit(commit)
        except AssertionError as error:
            self.mistakes.append(f"J2: the commit at {offset}: {error}")
        self.counted.add(id(commit))


class ServingJudge(Judge):
    """Of a world of brokers."""

    def __init__(self, world: ServingWorld) -> None:
        self._story = ServingTruth(world)
        self._people = world.people
        super().__init__(world, self._story)

    def note_attempt(self, term: int, node: str, commit: Commit) -> None:
        self._story.attempts[term, commit.sequence] = node, commit

    def note_commit(self, commit: Commit) -> None:
        """A commit is acknowledged."""
        if id(commit) not in self._story.counted:
            self._accuse(f"J1: commit {commit.sequence} was acknowledged, and does not count")

    def judge_cache(self, whose: str, log: ReplicatedLog) -> Iterable[str]:
        return [f"J5: {whose} {sentence}" for sentence in self._differences(log)]

    def _differences(self, log: ReplicatedLog) -> Iterator[str]:
        store = self._people.store
        if not log.standing.is_whole or log.last_sequence != store.last_sequence:
            yield f"is as of {log.last_sequence} of {store.last_sequence}"
            return
        if dict(log.state()) != dict(store.state()):
            yield "has another state"
        if dict(log.partitions()) != dict(store.partitions()):
            yield f"has {log.partitions()}, and the log {store.partitions()}"
