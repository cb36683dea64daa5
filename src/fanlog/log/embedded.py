"""The default engine: one LMDB environment in a data folder.

One write transaction a commit, over batches, their index and hard state, synced before `commit`
returns: LMDB gives atomicity and recovery, and there is none of ours to get wrong. LMDB in turn
needs small values (`fanlog.log.batch` cuts), numeric keys, short read transactions, and deletion in
small portions. The layout is in `fanlog.log.folder`.

Readers never see a commit that was not answered: bounds and the last sequence are published after
LMDB's commit, and batches of a read transaction beyond them are not looked at. Freed batches may be
gone from a transaction that began after the bounds were looked up; then, and only then, the row
inside the transaction is asked.

Hard state: all of it in LMDB. Soft state: the bounds (a copy of the partition rows), which
partitions have garbage, and the cache of decoded batches.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

import lmdb

from fanlog import limits
from fanlog.log import batch as codec
from fanlog.log import folder, stored_batches
from fanlog.log.api import (
    Bounds,
    Commit,
    Damaged,
    Extent,
    Features,
    LogPosition,
    LogStats,
    StoredBatch,
    check_commit,
)
from fanlog.log.batch import Batch, BatchDamaged
from fanlog.log.cache import BatchCache
from fanlog.log.encoded import encode_commit
from fanlog.log.envelope import EnvelopeDamaged, Kind
from fanlog.log.folder import FolderFacts, PartitionRow
from fanlog.log.runway import Runway
from fanlog.log.writing import Writing
from fanlog.model.resources import Offset, PartitionId

Item = TypeVar("Item", Batch | Damaged, StoredBatch | Damaged)
Found = TypeVar("Found")

#: Partitions whose newest value is kept beside the cache, and its largest size: 16 MiB in all.
NEWEST_MAX = 1_024
NEWEST_BYTES_MAX = 16 * 1024


class EmbeddedLog:
    """A `Log` in a data folder, which it makes if need be and holds until `close`.

    Args:
        data_dir: The folder.
        begin: Facts of a new log, if it does not begin with the first commit.
        syncs: Whether a commit survives the machine, and not the process alone.

    Raises:
        DataFolderInUse: Another process holds the folder.
        DataLoss: LMDB's pages or the log's own records are damaged.
        ConfigError: The folder was written by a build with another format; or it is that of a node
            of a cluster.
    """

    features = Features(durable=True, total_order=True)

    def __init__(
        self, data_dir: Path, *, begin: FolderFacts | None = None, syncs: bool = True
    ) -> None:
        self._data_dir = data_dir
        self._is_closed = False
        #: Held while another thread reads, so that nothing is closed under its hands.
        self._weighing = threading.Lock()
        if syncs:
            folder.refuse_cache(data_dir)
        is_new = not (data_dir / folder.DATA_NAME).exists()
        folder.make(data_dir)
        self._lock = folder.take_lock(data_dir)
        try:
            self._store = folder.open_store(data_dir, syncs=syncs)
        except BaseException:
            os.close(self._lock)
            raise
        self._env = self._store.env
        self._page_bytes = int(self._env.stat()["psize"])
        try:
            self._runway = Runway(data_dir / folder.DATA_NAME) if syncs else None
        except BaseException:
            self._store.close()
            os.close(self._lock)
            raise
        try:
            # Readers that were killed would keep freed pages from being used again.
            self._env.reader_check()
            self._cache = BatchCache(limits.READ_CACHE_BYTES_MAX)
            #: The last value of a partition, from before its commit is published; small ones only.
            self._newest: dict[PartitionId, tuple[Offset, bytes]] = {}
            self._load(begin)
            if is_new and syncs:
                folder.sync_folder(data_dir)
                folder.sync_folder(data_dir.parent)
        except BaseException:
            self.close()
            raise

    @property
    def identity(self) -> bytes:
        return self._identity

    @property
    def last_sequence(self) -> int:
        return self._last_sequence

    @property
    def last_publish_time_ns(self) -> int:
        return self._last_publish_time_ns

    @property
    def has_garbage(self) -> bool:
        # LMDB uses freed pages again in the second transaction after: one more commit is needed.
        return bool(self._garbage) or self._has_freed

    def commit(self, commit: Commit) -> None:
        check_commit(self, commit)
        encoded = encode_commit(commit)
        self.change(lambda writing: writing.commit(encoded), f"commit {commit.sequence}")
        if self._runway is not None:
            self._runway.count(
                sum(len(body.content) for append in commit.appends for body in append.bodies)
            )

    def change(self, fill: Callable[[Writing], None], what: str) -> None:
        """Have `fill` put into one transaction, and let readers see it; `what` is its name.

        For engines that wrap this one; on the thread that commits. Whatever `fill` raises, or the
        disk, nothing changed then.

        Raises:
            DiskFull: No room.
            CommitFailed: LMDB refused.
        """
        last = self._last_sequence, self._last_publish_time_ns
        try:
            with self._env.begin(write=True, buffers=True) as txn:
                changes = Writing(self._store, txn, self._bounds, self._garbage, last)
                fill(changes)
                changes.finish()
        except lmdb.Error as error:
            raise folder.write_error(error, what, self._data_dir) from error
        self._publish(changes)

    def look(self, read: Callable[[folder.Store, stored_batches.Transaction], Found]) -> Found:
        """What `read` finds in one transaction; for engines that wrap this one.

        Raises:
            DataLoss: It found something damaged.
        """
        try:
            with self._env.begin(buffers=True) as txn:
                return read(self._store, txn)
        except (EnvelopeDamaged, BatchDamaged, *folder.UNREADABLE) as error:
            raise folder.data_loss(self._data_dir, str(error)) from error

    def prepare(self) -> None:
        if self._runway is not None:
            self._runway.extend(self._end_bytes())

    async def read(
        self, partition: PartitionId, offset: Offset, *, max_bytes: int
    ) -> list[Batch | Damaged]:
        found: list[Batch | Damaged] = []
        bounds = self._bounds.get(partition)
        if bounds is None or offset >= bounds.end:
            return found
        offset = max(offset, bounds.start)
        room_bytes = max_bytes
        # Many subscriptions read the same new batch: serve cached batches without a transaction.
        while (cached := self._find_cached(partition, offset, bounds.end)) is not None:
            if found and len(cached.content) > room_bytes:
                return found
            found.append(cached)
            offset = cached.end_offset
            room_bytes -= len(cached.content)
            if offset >= bounds.end or room_bytes <= 0:
                return found
        with self._open_cursor(self._store.batches) as (txn, at):
            span = Bounds(offset, bounds.end)
            self._walk(txn, at, partition, span, room_bytes, self._load_cached, found)
        return found

    async def read_stored(
        self, partition: PartitionId, offset: Offset, *, end: Offset, max_bytes: int
    ) -> list[StoredBatch | Damaged]:
        found: list[StoredBatch | Damaged] = []
        bounds = self.bounds(partition)
        span = Bounds(max(offset, bounds.start), min(end, bounds.end))
        if span.start < span.end:
            with self._open_cursor(self._store.batches) as (txn, at):
                self._walk(txn, at, partition, span, max_bytes, stored_batches.copy, found)
        return found

    def sequence_of(self, partition: PartitionId, offset: Offset) -> int | None:
        bounds = self.bounds(partition)
        if not bounds.start <= offset < bounds.end:
            return None
        with self._open_cursor(self._store.batches) as (_, at):
            return stored_batches.sequence_of(at, partition, offset)

    def bounds(self, partition: PartitionId) -> Bounds:
        return self._bounds.get(partition) or Bounds(0, 0)

    def partitions(self) -> Mapping[PartitionId, Bounds]:
        return dict(self._bounds)

    async def offset_for_time(self, partition: PartitionId, time_ns: int) -> Offset:
        bounds = self._bounds.get(partition)
        if bounds is None:
            return 0
        # Publish times never decrease, so the offsets can be bisected. Everything below `low` is
        # too early, everything from `high` on is late enough.
        low, high = bounds.start, bounds.end
        with self._open_cursor(self._store.batches) as (_, at):
            while low < high:
                middle = (low + high) // 2
                base, after, published_ns = stored_batches.probe(at, partition, middle, bounds.end)
                if published_ns < time_ns:
                    low = after
                else:
                    high = base
        return max(low, bounds.start)

    async def extents(
        self, partition: PartitionId, offset: Offset, *, step_bytes: int, limit: int
    ) -> list[Extent]:
        bounds = self.bounds(partition)
        span = Bounds(max(offset, bounds.start), bounds.end)
        if span.start >= span.end:
            return []
        return await asyncio.to_thread(self._weigh, partition, span, step_bytes, limit)

    def state(self) -> Iterator[tuple[bytes, bytes]]:
        with self._open_cursor(self._store.state) as (_, at):
            for key, value in at:
                try:
                    yield bytes(key), folder.open_envelope(Kind.STATE, key, value)
                except EnvelopeDamaged as error:
                    reason = f"state under the key {bytes(key).hex()}: {error}"
                    raise folder.data_loss(self._data_dir, reason) from error

    def positions(self, after: int, *, limit: int) -> list[LogPosition]:
        found: list[LogPosition] = []
        with self._open_cursor(self._store.commits) as (txn, at):
            for _, group in groupby(self._walk_commits(txn, at, after), key=attrgetter("sequence")):
                commit_positions = list(group)
                if found and len(found) + len(commit_positions) > limit:
                    break
                found += commit_positions
        return found

    def stats(self) -> LogStats:
        self._env.reader_check()
        store = self._store
        with self._env.begin() as txn:
            databases = [store.batches, store.commits, store.state, store.partitions, store.meta]
            trees = [self._env.stat(), *(txn.stat(database) for database in databases)]
        # Two meta pages; the free list's own pages are not counted by LMDB and pass for free.
        used_pages = 2 + sum(
            tree["branch_pages"] + tree["leaf_pages"] + tree["overflow_pages"] for tree in trees
        )
        end_bytes = self._end_bytes()
        free_bytes = max(0, end_bytes - used_pages * self._page_bytes)
        # Asked through the open lock, for the loop must not wait for a path to be looked up.
        disk = os.fstatvfs(self._lock)
        return LogStats(
            file_bytes=end_bytes,
            free_bytes=free_bytes,
            room_bytes=disk.f_bavail * disk.f_frsize
            + free_bytes
            + (0 if self._runway is None else self._runway.left_bytes(end_bytes)),
        )

    def disown(self) -> None:
        """In the child of a fork: let go of the folder's lock, and touch nothing else.

        Otherwise the child would hold it for as long as it lives; LMDB must not be used there.
        """
        self._is_closed = True
        os.close(self._lock)

    def close(self) -> None:
        with self._weighing:
            if not self._is_closed:
                self._is_closed = True
                end_bytes = self._end_bytes()
                self._store.close()
                if self._runway is not None:
                    self._runway.close(end_bytes)
                os.close(self._lock)

    def _end_bytes(self) -> int:
        """Where LMDB's last page ends in the file."""
        return int(self._env.info()["last_pgno"] + 1) * self._page_bytes

    # Opening.

    def _load(self, begin: FolderFacts | None) -> None:
        try:
            with self._env.begin(write=True, buffers=True) as txn:
                facts = folder.read_facts(self._store, txn)
                if facts is None:
                    facts = begin or FolderFacts(os.urandom(16), 0, 0, is_salvaged=False)
                    folder.write_facts(self._store, txn, facts)
                rows = self._load_rows(txn)
                self._garbage = {
                    partition: row
                    for partition, row in rows.items()
                    if row.is_dropped or self._has_garbage(txn, partition, row)
                }
        except (EnvelopeDamaged, *folder.UNREADABLE) as error:
            raise folder.data_loss(self._data_dir, str(error)) from error
        self._has_freed = False
        self._identity = facts.identity
        self._last_sequence = facts.last_sequence
        self._last_publish_time_ns = facts.last_publish_time_ns
        self._bounds = {
            partition: Bounds(row.start, row.end)
            for partition, row in rows.items()
            if not row.is_dropped
        }

    def _load_rows(self, txn: stored_batches.Transaction) -> dict[PartitionId, PartitionRow]:
        rows = {}
        with txn.cursor(self._store.partitions) as at:
            for key, value in at:
                payload = folder.open_envelope(Kind.PARTITION, key, value)
                rows[folder.parse_partition_key(key)] = folder.parse_row(payload)
        return rows

    def _has_garbage(
        self, txn: stored_batches.Transaction, partition: PartitionId, row: PartitionRow
    ) -> bool:
        with txn.cursor(self._store.batches) as at:
            first = stored_batches.seek(at, partition, 0)
            return (
                first is not None and stored_batches.next_base(at, partition, row.end) <= row.start
            )

    # Committing.

    def _publish(self, changes: Writing) -> None:
        """Let readers see them. Each assignment is one step for readers on other threads."""
        self._keep_newest(changes.newest)
        dropped = [partition for partition, row in changes.rows.items() if row.is_dropped]
        bounds = dict(self._bounds) if dropped else self._bounds
        bounds.update(
            {partition: Bounds(row.start, row.end) for partition, row in changes.rows.items()}
        )
        for partition in dropped:
            del bounds[partition]
            self._newest.pop(partition, None)
        self._bounds = bounds
        self._garbage = changes.garbage
        self._has_freed = changes.has_freed
        self._last_publish_time_ns = changes.publish_time_ns
        self._last_sequence = changes.sequence

    def _keep_newest(self, newest: dict[PartitionId, tuple[Offset, bytes | memoryview]]) -> None:
        """Subscribers that wait read it at once: then it need not be looked up again."""
        if len(self._newest) > NEWEST_MAX:
            self._newest = {}
        for partition, (base, value) in newest.items():
            if len(value) <= NEWEST_BYTES_MAX:
                self._newest[partition] = (base, bytes(value))
            else:
                self._newest.pop(partition, None)

    # Reading.

    @contextmanager
    def _open_cursor(
        self, database: lmdb._Database
    ) -> Iterator[tuple[stored_batches.Transaction, stored_batches.Cursor]]:
        try:
            with self._env.begin(buffers=True) as txn, txn.cursor(database) as at:
                yield txn, at
        except folder.UNREADABLE as error:
            raise folder.data_loss(self._data_dir, str(error)) from error

    def _walk(
        self,
        txn: stored_batches.Transaction,
        at: stored_batches.Cursor,
        partition: PartitionId,
        bounds: Bounds,
        room_bytes: int,
        load: Callable[[PartitionId, Offset, Offset, memoryview], Item],
        found: list[Item],
    ) -> None:
        """Add the batches in `bounds` to `found`, the one that holds its start included."""
        position = bounds.start
        for base, after, value in stored_batches.walk(at, partition, bounds.start, bounds.end):
            if base > position:
                found += self._find_lost(txn, partition, position, base)
            if found and len(value) > room_bytes:
                return
            item = load(partition, base, after, value)
            if item.end_offset <= position:
                continue
            found.append(item)
            position = item.end_offset
            room_bytes -= len(value)
            if room_bytes <= 0:
                return
        if position < bounds.end:
            found += self._find_lost(txn, partition, position, bounds.end)

    def _weigh(
        self, partition: PartitionId, span: Bounds, step_bytes: int, limit: int
    ) -> list[Extent]:
        """Called in a thread of its own; the caller may be gone meanwhile, and the log closed."""
        with self._weighing:
            if self._is_closed:
                return []
            with self._open_cursor(self._store.batches) as (_, at):
                return stored_batches.extents(
                    at, partition, span, step_bytes=step_bytes, limit=limit
                )

    def _find_cached(self, partition: PartitionId, offset: Offset, end: Offset) -> Batch | None:
        """The batch that holds `offset`, if it was read lately, or is the last before `end`."""
        batch = self._cache.find(partition, offset)
        if batch is None and (newest := self._newest.get(partition)) is not None:
            base, value = newest
            if base <= offset < end:
                batch = codec.decode(value)
                self._cache.add(batch)
        return batch

    def _load_cached(
        self, partition: PartitionId, base: Offset, after: Offset, value: memoryview
    ) -> Batch | Damaged:
        batch = self._cache.get(partition, base)
        if batch is not None:
            return batch
        loaded = stored_batches.load(partition, base, after, value)
        if isinstance(loaded, Batch):
            self._cache.add(loaded)
        return loaded

    def _find_lost(
        self, txn: stored_batches.Transaction, partition: PartitionId, position: Offset, end: Offset
    ) -> list[Damaged]:
        """Offsets where no batch stands, unless they were freed since bounds were looked up."""
        row = folder.read_row(self._store, txn, partition)
        position = end if row is None else max(position, row.start)
        if position >= end:
            return []
        return [stored_batches.mark_damaged(partition, position, end, "the batch is missing")]

    def _walk_commits(
        self, txn: stored_batches.Transaction, at: stored_batches.Cursor, after: int
    ) -> Iterator[LogPosition]:
        last_sequence = self._last_sequence
        batches = txn.cursor(self._store.batches)
        more = at.set_range(folder.commit_key(after + 1, PartitionId(0), 0))
        while more:
            sequence, partition, base_offset = folder.parse_commit_key(at.key())
            if sequence > last_sequence:
                return
            bounds = self._bounds.get(partition)
            if bounds is not None and base_offset < bounds.end:
                after, size_bytes = stored_batches.extent(
                    batches, partition, base_offset, bounds.end
                )
                # Trimmed in part, it still holds the start.
                if base_offset >= bounds.start or (size_bytes and after > bounds.start):
                    yield LogPosition(
                        sequence=sequence,
                        partition=partition,
                        base_offset=base_offset,
                        end_offset=after,
                        size_bytes=size_bytes,
                    )
            more = at.next()
