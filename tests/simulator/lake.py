"""A lake that outlives the process: a table of commits in memory, and a reader of it per life.

The table grows by the rule of the real one (`fanlog.lake.commit_order`): each commit of the archive
says which one it follows. It may be away for a while, or another one may lie in its place: an older
copy of it, or an empty one. Those are written by nobody; in the end the right one comes back.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from fanlog.errors import LakeUnavailable
from fanlog.lake import commit_order
from fanlog.lake.api import Content, LakeBeliefs, LakeStanding, RowRun
from fanlog.lake.location import LakeError
from fanlog.log.api import Damaged
from fanlog.log.batch import Batch
from fanlog.model.resources import Offset, PartitionId

#: What lies where the lake should be.
Shown = Literal["the lake", "nothing", "an older copy", "an empty lake"]

#: A look at the lake on a good day, at most.
LOOK_S = 0.002


@dataclass(frozen=True, slots=True)
class View:
    """A table as somebody sees it: a lake's id, and its first so many commits."""

    lake_id: str
    version: int


class SimulatedLake:
    """The storage of one world.

    Args:
        is_slow: Whether looks take a while.
        broken: Sentences of promises found broken.
    """

    def __init__(
        self, log_id: str, rng: random.Random, is_slow: bool, broken: Callable[[str], None]
    ) -> None:
        self.log_id = log_id
        self.rng = rng
        self.is_slow = is_slow
        self._broken = broken
        self.id = f"lake-{rng.randrange(1 << 32):08x}"
        self.shown: Shown = "the lake"
        #: How often what is shown changed.
        self.changes = 0
        self._copy = View(self.id, 0)
        #: By version from 1 on: the last commit of the log in it, and what it added.
        self._added: list[tuple[int, Sequence[Batch]]] = []
        #: Of the right lake, whatever is shown.
        self.batches: dict[PartitionId, dict[Offset, Batch]] = {}
        self.cold_reads = 0

    # What lies there.

    def show(self, what: Shown) -> None:
        self.shown = what
        self.changes += 1
        if what == "an older copy":
            self._copy = View(self.id, self.rng.randint(0, len(self._added)))
        elif what == "an empty lake":
            self._copy = View(f"empty-{self.changes}", 0)

    def view(self) -> View:
        """What is to be seen now.

        Raises:
            LakeError: Nothing.
        """
        match self.shown:
            case "the lake":
                return View(self.id, len(self._added))
            case "nothing":
                raise LakeError("the simulated lake is away")
            case _:
                return self._copy

    def sequence_of(self, view: View) -> int:
        return self._added[view.version - 1][0] if view.version else 0

    @property
    def version(self) -> int:
        """Of the right lake's table."""
        return len(self._added)

    @property
    def sequence(self) -> int:
        """Commits of the log up to and with this one are in the right lake."""
        return self._added[-1][0] if self._added else 0

    def batches_in(self, view: View, after: int = 0, to: int = 1 << 62) -> Iterator[Batch]:
        """Of the commits after one up to and with another."""
        for _, batches in self._added[: view.version]:
            yield from (batch for batch in batches if after < batch.sequence <= to)

    def has(self, partition: PartitionId, offset: Offset) -> bool:
        return offset in self.batches.get(partition, ())

    def lacks(self, view: View, partition: PartitionId, start: Offset, end: Offset) -> bool:
        """Whether something of a range is not to be seen in a view."""
        seen: set[Offset] = set()
        for batch in self.batches_in(view) if view.lake_id == self.id else ():
            if batch.partition == partition:
                seen.update(range(batch.base_offset, batch.end_offset))
        return not seen.issuperset(range(start, end))

    # Writing.

    def commit(self, batches: Sequence[Batch], *, after: int, to: int) -> int:
        """Add what the commits after one up to another published; the table's version with it.

        Raises:
            CommitLost: Another archive came first.
            LakeError: It cannot be written.
        """
        if self.shown != "the lake":
            raise LakeError(f"{self.shown} lies where the simulated lake should be")
        last = self.sequence if self._added else None
        if not commit_order.has_happened("messages", last, to, after=after):
            self._added.append((to, batches))
            for batch in batches:
                held = self.batches.setdefault(batch.partition, {})
                for offset in range(batch.base_offset, batch.end_offset):
                    if offset in held:
                        self._broken(f"P9: {batch.partition}:{offset} is in the lake twice")
                    held[offset] = batch
        return len(self._added)


class SimulatedReader:
    """A `Lake`, as one life of the broker sees it."""

    def __init__(self, lake: SimulatedLake) -> None:
        self._lake = lake
        self._beliefs = LakeBeliefs()
        self._index: View | None = None

    def follow(self, beliefs: LakeBeliefs) -> None:
        self._beliefs = beliefs

    @property
    def uri(self) -> str:
        return "simulated"

    async def ensure(self) -> str:
        await self._wait()
        return self._lake.view().lake_id

    async def standing(self, log_id: str) -> LakeStanding:
        await self._wait()
        assert log_id == self._lake.log_id
        view = self._lake.view()
        return LakeStanding(view.lake_id, view.version, self._lake.sequence_of(view))

    async def whole_content(self) -> Content:
        await self._wait()
        return _content(self._lake.batches_in(self._lake.view()))

    async def content_after(
        self,
        table_version: int,
        *,
        after_sequence: int,
        to_sequence: int,
        synced_version: int,
    ) -> Content:
        await self._wait()
        view = self._lake.view()
        if table_version > view.version:
            raise LakeError(f"the simulated table has no version {table_version}")
        asked = View(view.lake_id, table_version)
        return _content(self._lake.batches_in(asked, after_sequence, to_sequence))

    async def refresh(self) -> None:
        await self._wait()
        view = self._lake.view()
        if not self._beliefs.is_right(view.lake_id, view.version):
            raise LakeUnavailable(f"{self._lake.shown} is in the place of the simulated lake")
        self._index = view

    async def read(
        self, partition: PartitionId, offset: Offset, *, end: Offset, max_bytes: int
    ) -> list[Batch | Damaged]:
        assert offset < end
        await self._wait()
        held = await self._files(partition)
        found: list[Batch | Damaged] = []
        size_bytes = 0
        while offset < end and offset in held:
            batch = held[offset]
            if found and size_bytes + len(batch.content) > max_bytes:
                break
            found.append(batch)
            size_bytes += len(batch.content)
            offset = batch.end_offset
        if not found:
            stop = min((o for o in held if offset < o < end), default=end)
            found.append(
                Damaged(
                    partition=partition,
                    base_offset=offset,
                    count=stop - offset,
                    reason="no file of the simulated table has it",
                )
            )
        self._lake.cold_reads += 1
        return found

    async def offset_for_time(
        self, partition: PartitionId, time_ns: int, *, start: Offset, end: Offset
    ) -> Offset:
        await self._wait()
        held = await self._files(partition)
        for offset in sorted(held):
            if start <= offset < end and held[offset].publish_time_ns >= time_ns:
                return offset
        return end

    async def close(self) -> None:
        pass

    async def _files(self, partition: PartitionId) -> dict[Offset, Batch]:
        """What is in the table as last looked at; its files must lie there now."""
        if self._index is None or not self._is_there(self._index):
            await self._refresh_for_read()
        assert self._index is not None
        if self._index.version == self._lake.version:
            return self._lake.batches.get(partition, {})
        return {
            offset: batch
            for batch in self._lake.batches_in(self._index)
            if batch.partition == partition
            for offset in range(batch.base_offset, batch.end_offset)
        }

    def _is_there(self, index: View) -> bool:
        try:
            now = self._lake.view()
        except LakeError as error:
            raise LakeUnavailable(str(error)) from error
        return now.lake_id == index.lake_id and now.version >= index.version

    async def _refresh_for_read(self) -> None:
        try:
            await self.refresh()
        except LakeError as error:
            raise LakeUnavailable(f"the lake cannot be read: {error}") from error

    async def _wait(self) -> None:
        if self._lake.is_slow:
            await asyncio.sleep(self._lake.rng.random() * LOOK_S)


def _content(batches: Iterator[Batch]) -> Content:
    found: dict[int, list[RowRun]] = {}
    for batch in batches:
        run = RowRun(batch.partition, batch.base_offset, batch.count)
        found.setdefault(batch.partition, []).append(run)
    content = Content()
    content.gather(found)
    return content
