"""Cold reads: archived messages as the batches they were, for every way of delivery.

A row group is the unit: read whole, rebuilt whole, kept while there is room, and the next one is
fetched while this one is delivered. All that blocks is done in threads of its own; the rest lives
on the broker's loop. Memory is bounded by the row groups that are kept, for a lake of any size.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

import pyarrow.compute as pc

from fanlog.errors import LakeUnavailable
from fanlog.lake import inspection
from fanlog.lake.api import Content, LakeBeliefs, LakeStanding
from fanlog.lake.index import FileDamaged, FileIndex, Footer, Footers, LakeFile, sort_read_errors
from fanlog.lake.location import LakeError, Location
from fanlog.lake.rebuild import COLUMNS, batches_of
from fanlog.lake.tables import MESSAGES, ensure_lake, open_table
from fanlog.log.api import Damaged
from fanlog.log.batch import Batch
from fanlog.model.resources import Offset, PartitionId

#: Rebuilt row groups that are kept, in bytes of messages.
KEPT_BYTES = 64 * 1024 * 1024
#: One reads for a waiting reader, one ahead.
THREADS = 2
#: Memory of a message beyond its bytes, roughly: its slot, its hash, its share of a batch.
_MESSAGE_BYTES = 32

T = TypeVar("T")
_Batches = Mapping[PartitionId, Sequence[Batch]]


class ColdReader:
    """A `Lake` of Delta tables. Lives on one loop; `close` when done."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self._beliefs = LakeBeliefs()
        self._footers = Footers(location.filesystem())
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="fanlog-lake")
        self._index: FileIndex | None = None
        self._groups = _Groups(KEPT_BYTES)
        self._under_way: dict[tuple[str, int], asyncio.Future[_Batches]] = {}
        self._ahead: set[asyncio.Task[None]] = set()

    def follow(self, beliefs: LakeBeliefs) -> None:
        self._beliefs = beliefs

    async def refresh(self, version: int | None = None) -> None:
        """See the table as it is now, or as it was at a version.

        Raises:
            LakeError: It cannot be opened.
            LakeUnavailable: It is not the right one.
        """
        index = await self.in_thread(lambda: self.index_at(version))
        if not self._beliefs.is_right(index.lake_id, index.version):
            raise LakeUnavailable(
                f"another lake, or an older copy, is at {self.uri}: {index.lake_id}, version "
                f"{index.version}"
            )
        self._index = index

    async def ensure(self) -> str:
        return await self.in_thread(lambda: ensure_lake(self.location))

    async def standing(self, log_id: str) -> LakeStanding:
        return await self.in_thread(lambda: inspection.standing(self.location, log_id))

    async def whole_content(self) -> Content:
        return await self.in_thread(
            lambda: inspection.whole_content(self._footers, self.index_at())
        )

    async def content_after(
        self,
        table_version: int,
        *,
        after_sequence: int,
        to_sequence: int,
        synced_version: int,
    ) -> Content:
        def look() -> Content:
            index = self.index_at(table_version)
            content = inspection.content_after(
                self._footers, index, after_sequence=after_sequence, to_sequence=to_sequence
            )
            inspection.sync(self.location, index.after(after_sequence), from_version=synced_version)
            return content

        return await self.in_thread(look)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run work that blocks."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def index_at(self, version: int | None = None) -> FileIndex:
        """The files of a version of the table. Blocks."""
        return FileIndex(open_table(self.location, MESSAGES, version=version))

    @property
    def uri(self) -> str:
        return self.location.uri

    async def close(self) -> None:
        for task in self._ahead:
            task.cancel()
        await asyncio.gather(*self._ahead, return_exceptions=True)
        self._threads.shutdown(wait=True, cancel_futures=True)

    async def read(
        self, partition: PartitionId, offset: Offset, *, end: Offset, max_bytes: int
    ) -> list[Batch | Damaged]:
        """Batches from the one that holds `offset` on, up to about `max_bytes`; at least one.

        Offsets before `end` are in the lake: missing ones are reported as damaged. A batch may
        reach beyond `end`.

        Raises:
            LakeUnavailable: The lake cannot be reached.
        """
        found: list[Batch | Damaged] = []
        size_bytes = 0
        while offset < end and (not found or size_bytes < max_bytes):
            try:
                batches = await self._group_with(partition, offset, end)
            except FileDamaged as error:
                if not found:
                    found.append(await self._find_damage(partition, offset, end, str(error)))
                return found
            for batch in _from(batches, offset):
                if found and size_bytes + len(batch.content) > max_bytes:
                    size_bytes = max_bytes
                    break
                found.append(batch)
                size_bytes += len(batch.content)
                offset = batch.end_offset
        return found

    async def offset_for_time(
        self, partition: PartitionId, time_ns: int, *, start: Offset, end: Offset
    ) -> Offset:
        """First offset from `start` on with a publish time at or after `time_ns`; `end` if none.

        Raises:
            LakeUnavailable: The lake cannot be reached.
        """
        index = await self._current()
        time_us = -(-time_ns // 1_000)

        def look() -> Offset:
            best = end
            for file in index.with_partition(partition, from_us=time_us):
                try:
                    found = _first_at(self._footers, file, partition, time_us, start)
                except FileDamaged:
                    continue
                if found is not None and found < best:
                    best = found
                    # Later commits have later times and higher offsets.
                    break
            return best

        return await self.in_thread(look)

    # Private.

    async def _current(self) -> FileIndex:
        if self._index is None:
            await self._refresh_for_read()
        assert self._index is not None
        return self._index

    async def _refresh_for_read(self) -> None:
        try:
            await self.refresh()
        except LakeError as error:
            raise LakeUnavailable(f"the lake cannot be read: {error}") from error

    async def _group_with(
        self, partition: PartitionId, offset: Offset, end: Offset
    ) -> Sequence[Batch]:
        """The batches of a partition in the row group that has an offset."""
        kept = self._groups.find(partition, offset)
        if kept is None:
            try:
                kept = await self._load(partition, offset)
            except LakeUnavailable:
                # A file may have been replaced since: look at the table as it is now.
                await self._refresh_for_read()
                kept = await self._load(partition, offset)
        if kept[-1].end_offset < end:
            self._read_ahead(partition, kept[-1].end_offset)
        return kept

    async def _load(self, partition: PartitionId, offset: Offset) -> Sequence[Batch]:
        index = await self._current()
        place = await self.in_thread(lambda: self._place(index, partition, offset))
        if place is None:
            raise FileDamaged(f"no file of the table has offset {offset} of partition {partition}")
        file, footer, group = place
        batches = (await self._rebuilt(file, footer, group)).get(partition)
        if batches is None or not _has(batches, offset):
            raise FileDamaged(f"file {file.path} is damaged: its rows are not what its footer says")
        return batches

    def _place(
        self, index: FileIndex, partition: PartitionId, offset: Offset
    ) -> tuple[LakeFile, Footer, int] | None:
        file = index.find(partition, offset, self._footers.get)
        if file is None:
            for candidate in index.candidates(partition, offset):
                # Perhaps it is in one that cannot be read: that one is to be named.
                self._footers.get(candidate)
            return None
        footer = self._footers.get(file)
        row = footer.row_of(partition, offset)
        assert row is not None
        return file, footer, footer.group_of(row)

    async def _rebuilt(self, file: LakeFile, footer: Footer, group: int) -> _Batches:
        """The batches of a row group: kept, under way, or read now."""
        key = (file.path, group)
        kept = self._groups.get(key)
        if kept is not None:
            return kept
        running = self._under_way.get(key)
        if running is None:
            running = asyncio.ensure_future(
                self.in_thread(lambda: self._read_group(file, footer, group))
            )
            self._under_way[key] = running

            def done(_: object) -> None:
                del self._under_way[key]
                if not running.cancelled() and running.exception() is None:
                    self._groups.put(key, running.result())

            running.add_done_callback(done)
        # Others wait for it too: one that goes away does not take it along.
        return await asyncio.shield(running)

    def _read_group(self, file: LakeFile, footer: Footer, group: int) -> _Batches:
        with (
            sort_read_errors(self._footers.files, file),
            self._footers.open(file, footer.metadata) as opened,
        ):
            # A file from before there were seals has no column for them, and gives none.
            rows = opened.read_row_group(group, columns=list(COLUMNS), use_threads=False)
            return batches_of(rows, self._beliefs.topic_of)

    def _read_ahead(self, partition: PartitionId, offset: Offset) -> None:
        if self._ahead or self._groups.find(partition, offset) is not None:
            return

        async def fetch() -> None:
            # A reader that needs this group loads it again, and gets the error then.
            with suppress(FileDamaged, LakeUnavailable):
                await self._load(partition, offset)

        task = asyncio.get_running_loop().create_task(fetch())
        self._ahead.add(task)
        task.add_done_callback(self._ahead.discard)

    async def _find_damage(
        self, partition: PartitionId, offset: Offset, end: Offset, reason: str
    ) -> Damaged:
        """As little as can be said to be damaged: to where something can be read again."""
        index = await self._current()

        def look() -> Offset:
            nearest = end
            for file in index.with_partition(partition):
                try:
                    footer = self._footers.get(file)
                except FileDamaged:
                    continue
                if footer.row_of(partition, offset) is not None:
                    return footer.end_in_group(partition, offset)
                firsts = [run.first for run, _ in footer.runs_in(partition) if run.first > offset]
                nearest = min([nearest, *firsts])
            return nearest

        stop = await self.in_thread(look)
        return Damaged(
            partition=partition,
            base_offset=offset,
            count=min(stop, end) - offset,
            reason=reason,
        )


class _Groups:
    """Rebuilt row groups, those used lately, and where each partition's offsets are in them."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._kept: OrderedDict[tuple[str, int], tuple[_Batches, int]] = OrderedDict()
        self._holding: dict[PartitionId, list[tuple[str, int]]] = {}
        self._size_bytes = 0

    def get(self, key: tuple[str, int]) -> _Batches | None:
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[0]

    def find(self, partition: PartitionId, offset: Offset) -> Sequence[Batch] | None:
        for key in self._holding.get(partition, ()):
            batches = self._kept[key][0][partition]
            if _has(batches, offset):
                self._kept.move_to_end(key)
                return batches
        return None

    def put(self, key: tuple[str, int], batches: _Batches) -> None:
        if key in self._kept:
            return
        size_bytes = sum(
            len(batch.content) + _MESSAGE_BYTES * batch.count
            for some in batches.values()
            for batch in some
        )
        self._kept[key] = (batches, size_bytes)
        self._size_bytes += size_bytes
        for partition in batches:
            self._holding.setdefault(partition, []).append(key)
        while self._size_bytes > self._most_bytes and len(self._kept) > 1:
            dropped, (gone, gone_bytes) = self._kept.popitem(last=False)
            self._size_bytes -= gone_bytes
            for partition in gone:
                self._holding[partition].remove(dropped)
                if not self._holding[partition]:
                    del self._holding[partition]


def _index_of(batches: Sequence[Batch], offset: Offset) -> int:
    return bisect_right(batches, offset, key=lambda batch: batch.base_offset) - 1


def _has(batches: Sequence[Batch], offset: Offset) -> bool:
    at = _index_of(batches, offset)
    return at >= 0 and batches[at].end_offset > offset


def _from(batches: Sequence[Batch], offset: Offset) -> list[Batch]:
    """Batches from the one with an offset on, as long as they follow each other."""
    found: list[Batch] = []
    for batch in batches[_index_of(batches, offset) :]:
        if found and batch.base_offset != found[-1].end_offset:
            break
        found.append(batch)
    return found


def _first_at(
    footers: Footers, file: LakeFile, partition: PartitionId, time_us: int, start: Offset
) -> Offset | None:
    """First offset of a partition in a file, from `start` on, published at a time or later."""
    footer = footers.get(file)
    groups = sorted(
        {
            group
            for run, row in footer.runs_in(partition)
            if run.end > start
            for group in range(footer.group_of(row), footer.group_of(row + run.rows - 1) + 1)
        }
    )
    if not groups:
        return None
    with sort_read_errors(footers.files, file), footers.open(file, footer.metadata) as opened:
        for group in groups:
            if _last_us(footer, group) < time_us:
                continue
            names = ["partition", "offset", "publish_time"]
            rows = opened.read_row_group(group, columns=names, use_threads=False)
            wanted = pc.and_(
                pc.equal(rows["partition"], partition),
                pc.and_(
                    pc.greater_equal(rows["publish_time"].cast("int64"), time_us),
                    pc.greater_equal(rows["offset"], start),
                ),
            )
            found = pc.min(rows["offset"].filter(wanted)).as_py()
            if found is not None:
                return Offset(found)
    return None


def _last_us(footer: Footer, group: int) -> float:
    """Time of the latest message in a row group, as far as the footer says."""
    columns = footer.metadata.row_group(group)
    for number in range(columns.num_columns):
        column = columns.column(number)
        if column.path_in_schema == "publish_time":
            found = column.statistics
            if found is not None and found.has_min_max:
                return float(found.max_raw)
    return float("inf")
