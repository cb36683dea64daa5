"""The plot of a world of writers: it lives with faults, then these end and it is judged.

A node has a writer in place of a broker: such a world is quick, and meets all that logs can meet.
"""

from __future__ import annotations

from pathlib import Path

from simulator.cluster.judge import WriterJudge
from simulator.cluster.nodes import SimNode
from simulator.cluster.world import World
from simulator.cluster.writers import Said


class WritingWorld(World):
    """Of one seed; `live` it."""

    judge: WriterJudge

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.said = Said()
        self.judge = WriterJudge(self)

    @property
    def operations(self) -> int:
        return len(self.said.attempts)

    def _new_node(self, name: str, place: Path) -> SimNode:
        return SimNode(self, name, place)

    def _plot(self, place: Path) -> None:
        self.turns.after(0.1, self._read)
        self.begin_faults()
        self.run(self.temper.length_s)
        if not self.broken:
            self._recover()
        self.is_ending = True
        if not self.broken:
            # What is late comes, and everybody reads it.
            self.run(self.turns.now + 6 * self.temper.late_s)
        self.end_processes()
        if not self.broken:
            self.broken += self.judge.at_the_end()
            self.judge_caches(place)

    def _recover(self) -> None:
        """All faults end: soon some node answers and commits."""
        self.end_faults()
        began_s = self.turns.now
        self.run(began_s + self.recovery_s)
        if not self.broken and min(self.judge.last_answer_s, self.judge.last_commit_s) < began_s:
            self.accuse(f"J6: nothing is answered, {self.recovery_s:.0f} s after the last fault")

    def _read(self) -> None:
        """Somebody reads at each node."""
        for node in self.nodes.values():
            if node.is_alive and self.turns.now >= node.stands_until and node.may_answer:
                self.judge.note_answer(node)
        self.turns.after(self.rng.uniform(0.01, 0.1), self._read)
