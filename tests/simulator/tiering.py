"""P9, looked at while a world with a lake lives: what is believed, what is let go of, and when.

The disk says what was trimmed and what is believed; the simulated lake says what is in it. So at
each commit both can be compared. What the process itself says of the lake, its alarm, is asked at
the moment it decides to let go of something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from fanlog.broker.tiering.lake_tiers import LakeTiers
from fanlog.broker.transaction import Ledger
from fanlog.core import records as codec
from fanlog.core.records import ArchivedRecord, Record
from fanlog.lake.location import LakeError
from fanlog.lake.tiered import TieredLog
from fanlog.log.api import Commit, Log, Trim
from fanlog.model.resources import Offset, PartitionId
from simulator.lake import SimulatedLake, SimulatedReader
from simulator.ledger import EPSILON_S

if TYPE_CHECKING:
    from simulator.life import MortalClock
    from simulator.world import World


class Tiering:
    """What the disk of a world with a lake says of its two tiers."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.lake = SimulatedLake(
            world.store.identity.hex(), world.rng, world.temper.is_laggy, world.broken.append
        )
        self._archived: dict[PartitionId, ArchivedRecord] = {}
        self._hot_starts: dict[PartitionId, Offset] = {}
        #: Partitions of topics that were kept out of the archive for a while.
        self.kept_out: set[PartitionId] = set()
        #: Partitions of topics that ever had a retention: what it ends may be let go of early.
        self._retained: set[PartitionId] = set()

    def log(self) -> TieredLog:
        """The log of a life, over the disk and the lake that outlive it."""
        return TieredLog(self._world.store, SimulatedReader(self.lake))

    def new_tiers(self, clock: MortalClock, store: Log) -> Callable[[Ledger], ObservedTiers]:
        assert isinstance(store, TieredLog)
        return lambda ledger: ObservedTiers(self._world, ledger, clock, store, self.lake)

    def start(self, partition: PartitionId) -> Offset:
        """First offset that is hot or cold, as the disk has it."""
        hot = self._hot_starts.get(partition, 0)
        record = self._archived.get(partition)
        if record is None or record.start is None or record.start == record.end:
            return hot
        return min(hot, record.start)

    def committed(self, commit: Commit) -> Iterator[str]:
        """Learn of a commit; gives the sentences of what it breaks."""
        for partition, topic in self._world.disk.on.items():
            if not topic.is_archived:
                self.kept_out.add(partition)
            if topic.message_retention_s is not None:
                self._retained.add(partition)
        for key, value in commit.state.items():
            if key[:1] == ArchivedRecord.KIND:
                yield from self._believed(key, value)
        for trim in commit.trims:
            if trim.dropped:
                self._archived.pop(trim.partition, None)
                self._hot_starts.pop(trim.partition, None)
            else:
                yield from self._trimmed(trim)
                self._hot_starts[trim.partition] = trim.before

    def _believed(self, key: bytes, value: bytes | None) -> Iterator[str]:
        if value is None:
            self._archived.pop(PartitionId(int.from_bytes(key[1:], "big")), None)
            return
        record = codec.decode(key, value)
        assert isinstance(record, ArchivedRecord)
        assert record.start is not None
        before = self._archived.get(record.partition)
        self._archived[record.partition] = record
        # What was looked at before is there still.
        follows = before is not None and before.end >= record.start and before.end <= record.end
        first = before.end if before is not None and follows else record.start
        missing = self._missing(record.partition, first, record.end)
        if missing:
            yield (f"P9: {record.partition}:{missing[0]} is believed to be in the lake, and is not")

    def _trimmed(self, trim: Trim) -> Iterator[str]:
        partition, topic = trim.partition, self._world.disk.on.get(trim.partition)
        first = self._hot_starts.get(partition, 0)
        if topic is None or (partition in self.kept_out and not trim.is_archived):
            return
        missing = self._missing(partition, first, trim.before)
        if missing:
            yield f"P9: {partition}:{missing[0]} was trimmed and is not in the lake"
        if partition in self._retained or partition in self.kept_out:
            return
        until_s = self._world.now - self._world.temper.hot_retention_s + EPSILON_S
        for offset in range(first, trim.before):
            message = self._world.chronicle.message(partition, offset)
            if message is not None and message.publish_ns / 1e9 > until_s:
                yield (
                    f"P9: {partition}:{offset} was trimmed "
                    f"{message.publish_ns / 1e9 - until_s:.3f} s before its hot retention ended"
                )
                return

    def _missing(self, partition: PartitionId, start: Offset, end: Offset) -> list[Offset]:
        return [offset for offset in range(start, end) if not self.lake.has(partition, offset)]

    # In the end.

    def check_lake(self) -> Iterator[str]:
        """All that was published to an archived topic is in the lake, as it was published."""
        for partition, topic in self._world.disk.on.items():
            if not topic.is_archived or partition in self.kept_out:
                continue
            held = self.lake.batches.get(partition, {})
            for message in self._world.chronicle.log.get(partition, ()):
                if message.sequence > self.lake.sequence:
                    # Forwarded or given up on since the last archiver came.
                    break
                batch = held.get(message.offset)
                if batch is None:
                    yield f"P9: {partition}:{message.offset} never came to the lake"
                    return
                at = message.offset - batch.base_offset
                if batch.content[batch.starts[at] : batch.starts[at + 1]] != message.field:
                    yield f"P9: {partition}:{message.offset} is another one in the lake"
                    return

    def check_hot(self) -> Iterator[str]:
        """What is archived and old is not hot any more, whatever cursors say."""
        for partition, bounds in self._world.store.partitions().items():
            topic = self._world.disk.on.get(partition)
            if topic is None or not topic.is_archived or partition in self.kept_out:
                continue
            record = self._archived.get(partition)
            if record is not None and bounds.start < record.end:
                yield f"P9: {bounds} of partition {partition} is archived, and still hot"


class ObservedTiers(LakeTiers):
    """The real tiers; what they let go of is compared with what they know just then."""

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        clock: MortalClock,
        store: TieredLog,
        lake: SimulatedLake,
    ) -> None:
        super().__init__(ledger, store, clock, hot_retention_s=world.temper.hot_retention_s)
        self._world = world
        self._lake = lake
        self._changes = -1

    async def look(self, now: float) -> None:
        self._changes = self._lake.changes
        await super().look(now)

    def let_go(
        self, partition: PartitionId, keep: Offset, start: Offset
    ) -> tuple[Sequence[Record], Trim | None]:
        decided = super().let_go(partition, keep, start)
        trim = decided[1]
        if trim is None or not trim.is_archived or trim.before <= keep:
            return decided
        # What comes now somebody may need.
        if self.alarm:
            self._world.broken.append(f"P9: {trim} is let go of in spite of an alarm: {self.alarm}")
        first = max(keep, self.hot_start(partition))
        if self._lake.changes == self._changes and self._is_missing(partition, first, trim.before):
            self._world.broken.append(
                f"P9: {trim} is let go of although {self._lake.shown} was there when the sweep "
                "looked"
            )
        return decided

    def _is_missing(self, partition: PartitionId, start: Offset, end: Offset) -> bool:
        try:
            view = self._lake.view()
        except LakeError:
            return True
        return self._lake.lacks(view, partition, start, end)
