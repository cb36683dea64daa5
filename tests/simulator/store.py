"""A disk that survives the process, and a committer that does to commits what disks do."""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_left
from collections.abc import Callable

from fanlog.broker.committer import Done
from fanlog.errors import CommitFailed, DiskFull, FanlogError
from fanlog.log.api import Commit, Damaged, LogStats, StoredBatch
from fanlog.log.batch import Batch
from fanlog.log.memory import MemoryLog
from fanlog.model.resources import Offset, PartitionId
from simulator.faults import Odds
from simulator.warmth import Warmth

#: A commit on a good day, and on a bad one.
FAST_S = 0.0005
SLOW_S = 2.0
ROOM_BYTES = 1 << 40


class SimulatedStore(MemoryLog):
    """A log in memory that outlives the simulated process; batches of it may rot.

    Args:
        odds: How unkind the world is now.
        on_commit: Called when a commit is durable, before anybody is told.
    """

    def __init__(
        self,
        identity: bytes,
        rng: random.Random,
        odds: Callable[[], Odds],
        on_commit: Callable[[Commit], None],
    ) -> None:
        super().__init__(identity=identity)
        self._rng = rng
        self._odds = odds
        self._on_commit = on_commit
        self.is_full = False
        self.warmth = Warmth()
        #: Batches whose bytes are damaged, by partition and base offset.
        self.damaged: set[tuple[PartitionId, Offset]] = set()
        #: Batches as decoded when first read.
        self._decoded: dict[tuple[PartitionId, Offset], Batch | Damaged] = {}

    def commit(self, commit: Commit) -> None:
        super().commit(commit)
        self.warmth.note(commit)
        self._on_commit(commit)

    async def read(
        self, partition: PartitionId, offset: Offset, *, max_bytes: int
    ) -> list[Batch | Damaged]:
        await self._maybe_wait()
        found: list[Batch | Damaged] = []
        held = self._partitions.get(partition)
        if held is None or offset >= held.end:
            return found
        size_bytes = 0
        for base in held.bases[held.index_of(max(offset, held.start)) :]:
            size_bytes += held.size_bytes(base)
            if found and size_bytes > max_bytes:
                break
            item = self._decoded.get((partition, base))
            if item is None:
                (item, *_) = await super().read(partition, base, max_bytes=1)
                self._decoded[partition, base] = item
            found.append(self._as_stored(item))
        return found

    async def read_stored(
        self, partition: PartitionId, offset: Offset, *, end: Offset, max_bytes: int
    ) -> list[StoredBatch | Damaged]:
        await self._maybe_wait()
        found = await super().read_stored(partition, offset, end=end, max_bytes=max_bytes)
        return [
            _rotten(item.partition, item.base_offset, item.end_offset - item.base_offset)
            if (item.partition, item.base_offset) in self.damaged
            else item
            for item in found
        ]

    async def offset_for_time(self, partition: PartitionId, time_ns: int) -> Offset:
        """As in memory, by bisection: publish times never run backwards."""
        await self._maybe_wait()
        held = self._partitions.get(partition)
        if held is None:
            return 0
        at = bisect_left(held.bases, time_ns, key=held.time_ns)
        return max(held.bases[at], held.start) if at < len(held.bases) else held.end

    def stats(self) -> LogStats:
        return LogStats(file_bytes=0, free_bytes=0, room_bytes=0 if self.is_full else ROOM_BYTES)

    def batches(self) -> list[tuple[PartitionId, Offset, Offset]]:
        """Partition, base offset and end offset of every batch that is stored."""
        return [
            (partition, base, held.end_of(base))
            for partition, held in self._partitions.items()
            for base in held.bases
        ]

    async def _maybe_wait(self) -> None:
        odds = self._odds()
        if odds.read_slow and self._rng.random() < odds.read_slow:
            await asyncio.sleep(self._rng.choice((0.0, 0.001)))

    def _as_stored(self, item: Batch | Damaged) -> Batch | Damaged:
        if isinstance(item, Batch) and (item.partition, item.base_offset) in self.damaged:
            return _rotten(item.partition, item.base_offset, item.count)
        return item


def _rotten(partition: PartitionId, base_offset: Offset, count: int) -> Damaged:
    return Damaged(
        partition=partition, base_offset=base_offset, count=count, reason="rotten in this world"
    )


class SimulatedCommitter:
    """Commits after a while, or fails, or takes the process down with it.

    One per life of the broker: after `kill` nothing of it reaches the disk or the broker.
    """

    def __init__(
        self,
        store: SimulatedStore,
        rng: random.Random,
        odds: Callable[[], Odds],
        *,
        crash: Callable[[], None],
        on_failure: Callable[[], None],
    ) -> None:
        self._store = store
        self._rng = rng
        self._odds = odds
        self._crash = crash
        self._on_failure = on_failure
        self._is_dead = False

    def start(self, commit: Commit, done: Done) -> None:
        if self._is_dead:
            return
        odds, rng = self._odds(), self._rng
        wait_s = rng.random() * (SLOW_S if rng.random() < odds.commit_slow else FAST_S)
        asyncio.get_running_loop().call_later(wait_s, self._finish, commit, done)

    def close(self) -> None:
        """The broker has drained; nothing is under way."""

    def kill(self) -> None:
        self._is_dead = True

    def _finish(self, commit: Commit, done: Done) -> None:
        if self._is_dead:
            return
        odds, rng = self._odds(), self._rng
        if odds.commit_crashes and rng.random() < odds.commit_crashes:
            if rng.random() < 0.5:
                self._store.commit(commit)
            self._crash()
            return
        error: FanlogError | None = None
        if self._store.is_full and commit.appends:
            error = DiskFull("the simulated disk is full")
        elif odds.commit_fails and rng.random() < odds.commit_fails:
            error = CommitFailed("the simulated disk failed")
        if error is not None:
            self._on_failure()
        else:
            # Not through `run_commit`: an engine's assertion is a mistake of the broker's.
            self._store.commit(commit)
        done(error)
