"""What is staged and published through the sink, as the disk has it, and what was promised of it.

Every row says which one it is, so that the disk can be asked for it: each is there once, an epoch
that is answered is there whole, and in the end each is, or is not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fanlog import limits
from fanlog.broker.spool import Draft, MemorySpool, Stage
from fanlog.model.attributes import REDRIVEN_FROM
from fanlog.model.resources import TopicId
from simulator.chronicle import Message

if TYPE_CHECKING:
    from simulator.world import World

#: Says which row a message is.
ROW = "row"


@dataclass(frozen=True, slots=True)
class Task:
    """The rows of one task, the same in every attempt."""

    topic: str
    rows: Sequence[tuple[bytes, dict[str, str], str]]


@dataclass(slots=True)
class Epoch:
    """What is to be published at once, and what is known of it."""

    query: str
    number: int
    tasks: Sequence[Task]
    #: Rows that some attempt has staged, and the topic they are for.
    staged: dict[str, TopicId] = field(default_factory=dict)
    #: Somebody was told that it is done.
    is_answered: bool = False
    #: Some attempt had no topic to be for: which rows were committed is not known.
    is_vague: bool = False


class SimulatedSpool(MemorySpool):
    """Outlives the process: what is finished is there after a start, drafts are not."""

    def __init__(self) -> None:
        super().__init__(limits.STAGED_MEMORY_BYTES_MAX)
        self.stages: dict[str, Stage] = {}

    async def load(self) -> list[Stage]:
        return list(self.stages.values())

    async def draft(self, stage_id: str) -> Draft:
        return _Draft(await super().draft(stage_id), self.stages)

    async def remove(self, stages: Sequence[Stage]) -> None:
        await super().remove(stages)
        for stage in stages:
            self.stages.pop(stage.id, None)


class _Draft:
    def __init__(self, draft: Draft, stages: dict[str, Stage]) -> None:
        self._draft = draft
        self._stages = stages

    async def write(self, values: Sequence[bytes]) -> None:
        await self._draft.write(values)

    async def finish(self, stage: Stage) -> None:
        await self._draft.finish(stage)
        self._stages[stage.id] = stage

    async def discard(self) -> None:
        await self._draft.discard()


class Sinks:
    """What the disk has of rows, and what was promised of them."""

    def __init__(self) -> None:
        self.spool = SimulatedSpool()
        self.epochs: list[Epoch] = []
        #: Where each row is in the log.
        self.rows: dict[str, str] = {}
        self.queries = 0
        self._ids = 0

    def new_id(self) -> str:
        self._ids += 1
        return f"{self._ids:032x}"

    def committed(self, message: Message) -> Iterator[str]:
        """Learn of a message on the disk; gives the sentence of what it breaks."""
        row = message.attributes.get(ROW)
        if row is None or message.source_id or REDRIVEN_FROM in message.attributes:
            return
        where = f"{message.partition}:{message.offset}"
        if row in self.rows:
            yield f"sink: row {row} was published as {self.rows[row]}, and again as {where}"
        self.rows[row] = where

    def check_whole(self, world: World, *, is_end: bool = False) -> None:
        """An epoch that is answered is on the disk; in the end each is, or is not at all."""
        for epoch in self.epochs:
            expected = [row for row, topic in epoch.staged.items() if topic in world.disk.topics]
            there = [row for row in expected if row in self.rows]
            if len(there) == len(expected) or not (epoch.is_answered or (is_end and there)):
                continue
            if epoch.is_vague or len(expected) < len(epoch.staged):
                continue
            world.broken.append(
                f"sink: epoch {epoch.number} of {epoch.query} has {len(expected)} rows, and "
                f"{len(there)} of them are on the disk"
            )
            return
