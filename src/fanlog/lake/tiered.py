"""The log in two tiers: a hot engine, and the lake below where it starts.

`TieredLog` is a `Log`: readers see one sequence of offsets and do not know where a batch comes
from. Only offsets that the hot engine has trimmed are read from the lake; offsets in both are read
hot. The broker says, from its hard state, which offsets of a partition the lake has: nothing is
taken from a lake that the broker has not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from fanlog.errors import LakeUnavailable
from fanlog.lake.api import Lake, LakeBeliefs
from fanlog.log.api import (
    Bounds,
    Commit,
    Damaged,
    Extent,
    Features,
    Log,
    LogPosition,
    LogStats,
    StoredBatch,
)
from fanlog.log.batch import Batch
from fanlog.model.resources import Offset, PartitionId


class TieredLog:
    """A `Log` over a hot engine and a lake. `close` closes the hot one; the reader is the server's.

    It reads as the beliefs say that it follows; until then all is hot. Messages that the lake
    should have and cannot give are waited for, unless they were given up.
    """

    features: Features

    def __init__(self, hot: Log, cold: Lake) -> None:
        self.hot = hot
        self.cold = cold
        self.features = hot.features
        self._beliefs = LakeBeliefs()

    def follow(self, beliefs: LakeBeliefs) -> None:
        """Read as a broker believes, from now on; called once, when its tiers are made."""
        self._beliefs = beliefs
        self.cold.follow(beliefs)

    @property
    def identity(self) -> bytes:
        return self.hot.identity

    @property
    def last_sequence(self) -> int:
        return self.hot.last_sequence

    @property
    def last_publish_time_ns(self) -> int:
        return self.hot.last_publish_time_ns

    @property
    def has_garbage(self) -> bool:
        return self.hot.has_garbage

    def commit(self, commit: Commit) -> None:
        self.hot.commit(commit)

    def prepare(self) -> None:
        self.hot.prepare()

    async def read(
        self, partition: PartitionId, offset: Offset, *, max_bytes: int
    ) -> list[Batch | Damaged]:
        while True:
            bounds = self.hot.bounds(partition)
            cold = self._below(partition, bounds)
            if cold is None or offset >= cold.end:
                found = await self.hot.read(partition, offset, max_bytes=max_bytes)
                if found and found[0].base_offset > offset and self._is_cold(partition, offset):
                    # Trimmed just now.
                    continue
                return found
            self._check_trouble()
            items = await self.cold.read(
                partition, max(offset, cold.start), end=cold.end, max_bytes=max_bytes
            )
            return [self._pass_over(item) if isinstance(item, Damaged) else item for item in items]

    async def read_stored(
        self, partition: PartitionId, offset: Offset, *, end: Offset, max_bytes: int
    ) -> list[StoredBatch | Damaged]:
        """Of the hot engine alone: the lake has no stored batches, and its readers go there."""
        return await self.hot.read_stored(partition, offset, end=end, max_bytes=max_bytes)

    def sequence_of(self, partition: PartitionId, offset: Offset) -> int | None:
        return self.hot.sequence_of(partition, offset)

    def bounds(self, partition: PartitionId) -> Bounds:
        return self._whole(partition, self.hot.bounds(partition))

    def partitions(self) -> Mapping[PartitionId, Bounds]:
        return {
            partition: self._whole(partition, bounds)
            for partition, bounds in self.hot.partitions().items()
        }

    async def offset_for_time(self, partition: PartitionId, time_ns: int) -> Offset:
        found = await self.hot.offset_for_time(partition, time_ns)
        bounds = self.hot.bounds(partition)
        cold = self._below(partition, bounds)
        if cold is None or found > bounds.start:
            # The hot log's first message is older: all in the lake is older still.
            return found
        self._check_trouble()
        first = await self.cold.offset_for_time(partition, time_ns, start=cold.start, end=cold.end)
        return first if first < cold.end else found

    async def extents(
        self, partition: PartitionId, offset: Offset, *, step_bytes: int, limit: int
    ) -> list[Extent]:
        """Of the hot engine alone: messages in the lake take no room here."""
        return await self.hot.extents(partition, offset, step_bytes=step_bytes, limit=limit)

    def state(self) -> Iterator[tuple[bytes, bytes]]:
        return self.hot.state()

    def positions(self, after: int, *, limit: int) -> list[LogPosition]:
        """Of the hot engine alone."""
        return self.hot.positions(after, limit=limit)

    def stats(self) -> LogStats:
        return self.hot.stats()

    def close(self) -> None:
        self.hot.close()

    def _below(self, partition: PartitionId, hot: Bounds) -> Bounds | None:
        """What is in the lake alone."""
        cold = self._beliefs.cold_bounds(partition)
        if cold is None or cold.start >= min(cold.end, hot.start):
            # Of a topic that is kept out of the archive the lake has nothing, and says so.
            return None
        return Bounds(cold.start, min(cold.end, hot.start))

    def _is_cold(self, partition: PartitionId, offset: Offset) -> bool:
        below = self._below(partition, self.hot.bounds(partition))
        return below is not None and offset < below.end

    def _whole(self, partition: PartitionId, hot: Bounds) -> Bounds:
        below = self._below(partition, hot)
        return hot if below is None else Bounds(below.start, hot.end)

    def _pass_over(self, damaged: Damaged) -> Damaged:
        """The part, from the first on, of unreadable offsets that was given up and is passed over.

        Raises:
            LakeUnavailable: None of it was given up: an operator has to decide.
        """
        count = self._beliefs.given_up(damaged)
        if not count:
            raise LakeUnavailable(
                f"archived messages cannot be read: {damaged.reason}; restore it, or accept that "
                "they are lost (fanlog lake accept)"
            )
        return replace(damaged, count=count)

    def _check_trouble(self) -> None:
        trouble = self._beliefs.trouble
        if trouble:
            raise LakeUnavailable(f"archived messages cannot be read now: {trouble}")
