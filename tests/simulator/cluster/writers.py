"""What stands for the broker of a term: it commits messages, state and trims, and stages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fanlog.errors import CommitFailed, Fenced, OutcomeUnknown
from fanlog.log.api import Append, Commit, Trim
from fanlog.model.resources import PartitionId
from fanlog.testing.author import TOPIC, make_body

if TYPE_CHECKING:
    from simulator.cluster.nodes import SimNode

#: The key whose value names the commit.
LAST = b"last"
KEYS = 12
PARTITIONS = tuple(map(PartitionId, (1, 2, 3)))


@dataclass(slots=True)
class Attempt:
    """A commit that a node tried, and what it was told."""

    node: str
    commit: Commit
    appended: dict[PartitionId, list[bytes]]
    outcome: str = "under way"


@dataclass(slots=True)
class StageAttempt:
    """A stage of a node."""

    node: str
    content: bytes = b""
    is_finished: bool = False
    is_removed: bool = False


@dataclass(slots=True)
class Said:
    """All that was tried and answered."""

    attempts: dict[bytes, Attempt] = field(default_factory=dict)
    stages: dict[str, StageAttempt] = field(default_factory=dict)


class Writer:
    """Runs on a thread of its own, until the term is over."""

    def __init__(self, node: SimNode) -> None:
        self._node = node
        self._world = node.writing_world
        self._log = node.engine
        self._rng = node.world.rng
        self.is_ending = False
        #: Whether a commit found that the term is over.
        self.is_lost = False
        self._draft: str | None = None

    def run(self) -> None:
        turns, temper = self._world.turns, self._world.temper
        while not self._is_over():
            turns.sleep(self._rng.expovariate(1 / temper.pace_s))
            if self._is_over() or not self._node.owns or self._world.is_ending:
                continue
            try:
                if self._rng.random() < 0.06:
                    self._stage()
                else:
                    self._commit()
                    self._log.prepare()
            except CommitFailed:
                self.is_lost = not self._node.owns

    def _is_over(self) -> bool:
        return self.is_ending or self.is_lost

    def _commit(self) -> None:
        log, said = self._log, self._world.said
        name = b"%d" % (len(said.attempts) + 1)
        bodies = {
            partition: [b"%s of %d" % (name, partition)] * self._rng.randint(1, 3)
            for partition in PARTITIONS
            if self._rng.random() < 0.4
        }
        commit = Commit(
            sequence=log.last_sequence + 1,
            publish_time_ns=max(log.last_publish_time_ns, self._node.clock.wall_ns()),
            appends=[
                Append(
                    topic=TOPIC,
                    partition=partition,
                    base_offset=log.bounds(partition).end,
                    bodies=[make_body(*messages)],
                )
                for partition, messages in bodies.items()
            ],
            state=self._state(name),
            trims=self._trims(),
        )
        attempt = said.attempts[name] = Attempt(self._node.name, commit, bodies)
        # Before it is sure, a broker commits for itself alone: nobody is told.
        is_sure = self._node.may_answer
        try:
            log.commit(commit)
        except Fenced:
            attempt.outcome = "fenced"
            raise
        except OutcomeUnknown:
            attempt.outcome = "unknown"
            raise
        attempt.outcome = "acknowledged"
        if is_sure:
            self._world.judge.note_commit(commit.sequence)

    def _state(self, name: bytes) -> dict[bytes, bytes | None]:
        state: dict[bytes, bytes | None] = {LAST: name}
        if self._rng.random() < 0.05:
            state[b"for ever " + name] = name
        for _ in range(self._rng.randint(0, 3)):
            key = b"key %d" % self._rng.randrange(KEYS)
            state[key] = None if self._rng.random() < 0.3 else name * self._rng.randint(1, 20)
        return state

    def _trims(self) -> list[Trim]:
        if self._rng.random() >= 0.3:
            return []
        # The first partition is hardly ever trimmed: its batches must be carried.
        partition = self._rng.choice(PARTITIONS[1:] if self._rng.random() < 0.97 else PARTITIONS)
        bounds = self._log.bounds(partition)
        if bounds.end == bounds.start:
            return []
        return [Trim(partition=partition, before=self._rng.randint(bounds.start, bounds.end))]

    def _stage(self) -> None:
        stages = self._world.said.stages
        old = [name for name, one in stages.items() if one.is_finished and not one.is_removed]
        if old and self._rng.random() < 0.2:
            gone = self._rng.choice(old)
            # From here on it may be gone.
            stages[gone].is_removed = True
            self._log.remove_stages([gone])
            return
        if self._draft is None:
            self._draft = f"stage-{len(stages)}"
            stages[self._draft] = StageAttempt(self._node.name)
        stage = stages[self._draft]
        content = b"part %d " % self._rng.randrange(1_000) * self._rng.randint(1, 30)
        position = len(stage.content)
        if position and self._rng.random() < 0.5:
            self._log.end_stage(self._draft, position, content)
            stage.content += content
            stage.is_finished, self._draft = True, None
        else:
            self._log.write_stage(self._draft, position, content)
            stage.content += content
