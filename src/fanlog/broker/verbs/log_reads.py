"""The verbs that read the log itself: no lease is taken, no cursor moves.

A reader of ten thousand topics asks here where they stand, which offsets some commits appended, and
then for the stored batches, which are decoded elsewhere. All of it is done a small step at a time,
and other tasks run in between: a reader of a terabyte is one of many on this loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass

from fanlog import limits
from fanlog.broker.access import Access
from fanlog.broker.pacing import STEP, paced
from fanlog.broker.tiering.tiers import Tiers
from fanlog.broker.transaction import Ledger
from fanlog.errors import (
    InvalidArgument,
    NotFound,
    OutOfRange,
    ResourceExhausted,
    TopicNotFound,
)
from fanlog.log.api import Damaged, Log, StoredBatch
from fanlog.model import names
from fanlog.model.resources import Offset, PartitionId, Subscription
from fanlog.routing.pattern import Pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSelection:
    """Some topics: by name, by pattern or those a subscription reads; all of them if none is said.

    Names are valid.
    """

    topics: Sequence[str] = ()
    pattern: str = ""
    subscription: str = ""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Where the tiers of a partition begin and end; see `fanlog.v1.PartitionOffsets`."""

    topic: str
    partition: PartitionId
    start: Offset
    hot_start: Offset
    archived: Offset
    end: Offset
    is_archived: bool


@dataclass(frozen=True, slots=True)
class Offsets:
    sequence: int
    partitions: Sequence[PartitionState]
    filter: str


@dataclass(frozen=True, slots=True)
class LogRange:
    """Offsets from `start` to before `end` of one partition."""

    topic: str
    partition: PartitionId
    start: Offset
    end: Offset
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Ranges:
    sequence: int
    ranges: Sequence[LogRange]
    messages: int
    hot_after_sequence: int


@dataclass(frozen=True, slots=True)
class PartitionPlaces:
    """Messages that do not stand at their offsets; see `fanlog.v1.PartitionPlaces`."""

    topic: str
    partition: PartitionId
    end: Offset
    offsets: Sequence[Offset]
    anchors: Sequence[Offset]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some stored batches of a range, in order; a damaged one is named in its place."""

    items: Sequence[StoredBatch | Damaged]
    #: Which of the ranges asked for.
    range: int


@dataclass(eq=False)
class LogReads:
    """Reading verbs of one broker."""

    _ledger: Ledger
    _store: Log
    _access: Access
    _tiers: Tiers

    @property
    def log_id(self) -> str:
        return self._store.identity.hex()

    async def offsets(self, selection: TopicSelection) -> Offsets:
        """Where the partitions of some topics begin and end, all as of one commit.

        Raises:
            NotFound: A topic, or the subscription, does not exist.
        """
        tiers = self._tiers
        # Of one moment, before other tasks run: the last commit, the ends it made, and the topics
        # there are. A topic that is not committed yet has no messages.
        sequence, ends = self._ledger.committed_sequence, self._ledger.ends()
        chosen = self._subscription(selection)
        found: list[PartitionState] = []
        async for topic, partition in self._select(selection):
            end = ends.get(partition, 0)
            holder = self._ledger.hard.catalog.topic_of(partition)
            # A trim may have come since.
            start = min(tiers.start(partition), end)
            found.append(
                PartitionState(
                    topic=topic,
                    partition=partition,
                    start=start,
                    hot_start=max(start, min(tiers.hot_start(partition), end)),
                    archived=max(start, min(tiers.archived(partition), end)),
                    end=end,
                    is_archived=holder is not None and holder.is_archived,
                )
            )
        await self._ledger.sync()
        return Offsets(sequence, found, "" if chosen is None else chosen.filter)

    async def ranges(
        self,
        selection: TopicSelection,
        *,
        after_sequence: int,
        to_sequence: int,
        max_messages: int = 0,
        max_bytes: int = 0,
    ) -> Ranges:
        """Which offsets the commits after one up to and with another appended.

        Goes as far as a limit allows, and no further than a bounded amount of work; whole commits
        only. The same commits give the same ranges whenever they are asked for, until trimmed.

        Raises:
            NotFound: A topic, or the subscription, does not exist.
            OutOfRange: `to_sequence` is not committed yet.
        """
        if not 0 <= after_sequence <= to_sequence:
            raise InvalidArgument(
                f"after_sequence: {after_sequence} to to_sequence: {to_sequence} is not a range of "
                "commits"
            )
        committed = self._ledger.committed_sequence
        if to_sequence > committed:
            raise OutOfRange(
                f"to_sequence: {to_sequence} is not committed; the last commit is {committed}"
            )
        topics = {partition: topic async for topic, partition in self._select(selection)}
        gathered = _Gathered(topics, max_messages, max_bytes)
        at = after_sequence
        while at < to_sequence and not gathered.is_full():
            positions = self._store.positions(at, limit=STEP)
            positions = [p for p in positions if p.sequence <= to_sequence]
            if not positions:
                at = to_sequence
                break
            for position in positions:
                if position.sequence != at and gathered.is_full():
                    break
                at = position.sequence
                hot = self._tiers.hot_start(position.partition)
                gathered.add(
                    position.partition,
                    max(position.base_offset, hot),
                    position.end_offset,
                    position.size_bytes,
                )
            await asyncio.sleep(0)
        hot_after = await self._hot_after(topics, committed)
        return Ranges(at, gathered.ranges(), gathered.messages, hot_after)

    async def find(self, selection: TopicSelection, time_ns: int) -> list[LogRange]:
        """The first offset published at or after a time, per partition; its end if none is.

        Raises:
            NotFound: A topic, or the subscription, does not exist.
        """
        found: list[LogRange] = []
        async for topic, partition in self._select(selection):
            offset = await self._store.offset_for_time(partition, max(0, time_ns))
            end = self._ledger.end(partition)
            found.append(LogRange(topic, partition, min(offset, end), end))
        await self._ledger.sync()
        return found

    async def places(self, selection: TopicSelection) -> list[PartitionPlaces]:
        """Where messages stand that came behind gaps, in partitions that have numbered messages.

        Each partition is as of one moment; those of a request may be of several.

        Raises:
            NotFound: A topic, or the subscription, does not exist.
            ResourceExhausted: They are too many for one answer.
        """
        found: list[PartitionPlaces] = []
        count = 0
        async for topic, partition in self._select(selection):
            places = self._places_of(topic, partition)
            if places is None:
                continue
            found.append(places)
            count += len(places.offsets)
            if count > limits.PLACES_MAX:
                raise ResourceExhausted(
                    f"selection: more than {limits.PLACES_MAX} messages of these topics stand "
                    "behind others; select fewer topics"
                )
            await asyncio.sleep(0)
        await self._ledger.sync()
        return found

    def _places_of(self, topic: str, partition: PartitionId) -> PartitionPlaces | None:
        hard = self._ledger.hard
        publishers, agenda = hard.publishers.on(partition), hard.agendas.find(partition)
        moved = [] if agenda is None else list(agenda.places.in_order())
        if publishers.is_empty and not moved:
            return None
        end = self._ledger.assigned_end(partition)
        moved += ((offset, end) for offset in publishers.held)
        offsets, anchors = zip(*moved, strict=True) if moved else ((), ())
        return PartitionPlaces(topic, partition, end, offsets, anchors)

    async def read(self, ranges: Sequence[LogRange]) -> AsyncIterator[Chunk]:
        """The stored batches that hold the offsets asked for, a chunk at a time.

        The first and the last batch of a range may reach beyond it. Nothing is read ahead: the next
        chunk is when the last one was taken.

        Raises:
            NotFound: There is no such partition, or it is not of that topic.
            OutOfRange: Offsets are not in the hot log: trimmed, maybe meanwhile, or not committed.
            Unavailable: The broker is stopping.
        """
        async for one in paced(ranges):
            self._check(one)
        pace = _Pace(self._ledger)
        for index, one in enumerate(ranges):
            position = one.start
            while position < one.end:
                self._access.check_serving()
                items = await self._store.read_stored(
                    one.partition, position, end=one.end, max_bytes=limits.LOG_READ_BYTES_MAX
                )
                self._check_gapless(one, position, items)
                position = items[-1].end_offset
                yield Chunk(items, index)
                await pace.wait()

    # Private.

    def _subscription(self, selection: TopicSelection) -> Subscription | None:
        if not selection.subscription:
            return None
        return self._ledger.hard.catalog.subscription(selection.subscription)

    async def _select(self, selection: TopicSelection) -> AsyncIterator[tuple[str, PartitionId]]:
        """Topic and partition of all that is selected: as named, or else in order of names."""
        hard = self._ledger.hard
        catalog = hard.catalog
        subscription = self._subscription(selection)
        if subscription is not None:
            pairs = [
                (catalog.topic_name_of(share.partition) or subscription.topic, share.partition)
                async for share in paced(hard.shares_of(subscription))
            ]
            async for pair in paced(sorted(pairs)):
                yield pair
            return
        chosen, prefix, pattern = list(dict.fromkeys(selection.topics)), "", None
        if selection.pattern:
            name = names.parse_topic_or_pattern(selection.pattern, field="pattern")
            prefix, pattern = names.topic_name(name.project, ""), Pattern(name.id)
        async for one in paced(chosen or list(catalog.topic_names(prefix, ""))):
            if pattern is not None and not pattern.matches(one[len(prefix) :]):
                continue
            # A topic that was not named, and was deleted since, is passed over.
            topic = catalog.topic(one) if chosen else catalog.find_topic(one)
            if topic is not None:
                for partition in topic.partitions:
                    yield topic.name, partition

    async def _hot_after(self, partitions: Iterable[PartitionId], committed: int) -> int:
        """The last commit of which some partition has let go of a message; 0 for none."""
        last, trimmed = 0, self._ledger.hard.trimmed
        async for partition in paced(list(partitions)):
            if partition in trimmed:
                last = max(last, trimmed[partition])
            elif (start := self._tiers.hot_start(partition)) > 0:
                # Trimmed before that was written down.
                first = self._store.sequence_of(partition, start)
                last = max(last, committed if first is None else first - 1)
        return last

    def _check(self, one: LogRange) -> None:
        catalog = self._ledger.hard.catalog
        known = catalog.topic_name_of(one.partition)
        # A topic that is gone is read as long as a subscription has a backlog of it, also when
        # there is another of that name.
        if one.topic not in (known, *self._former_names(one.partition)):
            if catalog.find_topic(one.topic) is None:
                raise TopicNotFound(f"topic {one.topic!r} does not exist")
            raise NotFound(f"topic {one.topic!r} has no partition {one.partition}")
        hot = self._tiers.hot_start(one.partition)
        end = self._ledger.end(one.partition)
        if one.start < one.end and (one.start < hot or one.end > end):
            raise _out_of_range(one, one.start, hot, end)

    def _former_names(self, partition: PartitionId) -> set[str]:
        return {share.settings.topic for share in self._ledger.hard.shares_on(partition)}

    def _check_gapless(
        self, one: LogRange, position: Offset, items: Sequence[StoredBatch | Damaged]
    ) -> None:
        """See that nothing was trimmed between two chunks: no gap goes unseen."""
        if not items or items[0].base_offset > position:
            hot = self._tiers.hot_start(one.partition)
            raise _out_of_range(one, position, hot, self._store.bounds(one.partition).end)


class _Pace:
    """Lets publishers and subscribers go first: a reader in bulk pauses while there are commits."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._loop = asyncio.get_running_loop()
        self._committed = ledger.committed_sequence
        self._quiet_at_s = self._loop.time()

    async def wait(self) -> None:
        """Called between two chunks."""
        now_s, committed = self._loop.time(), self._ledger.committed_sequence
        if committed != self._committed:
            self._committed = committed
            self._quiet_at_s = now_s + limits.LOG_READ_LIVE_S
        await asyncio.sleep(limits.LOG_READ_PAUSE_S if now_s < self._quiet_at_s else 0)


class _Gathered:
    """Ranges in the making: commits come in order, so each partition's offsets do too."""

    def __init__(self, topics: dict[PartitionId, str], max_messages: int, max_bytes: int) -> None:
        self._topics = topics
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        #: Start, end and size of each run of offsets, in order.
        self._runs: dict[PartitionId, list[tuple[Offset, Offset, int]]] = {}
        self._scanned = 0
        self.messages = 0
        self.size_bytes = 0

    def is_full(self) -> bool:
        """Whether the commit that was added last is the last to be added."""
        return (
            self._scanned >= limits.LOG_RANGES_BATCHES_MAX
            or 0 < self._max_messages <= self.messages
            or 0 < self._max_bytes <= self.size_bytes
        )

    def add(self, partition: PartitionId, start: Offset, end: Offset, size_bytes: int) -> None:
        self._scanned += 1
        if partition not in self._topics or start >= end:
            return
        self.messages += end - start
        self.size_bytes += size_bytes
        runs = self._runs.setdefault(partition, [])
        if runs and runs[-1][1] == start:
            first, _, size_before = runs[-1]
            runs[-1] = (first, end, size_before + size_bytes)
        else:
            runs.append((start, end, size_bytes))

    def ranges(self) -> list[LogRange]:
        """By topic, then by offset."""
        return [
            LogRange(topic, partition, *run)
            for partition, topic in self._topics.items()
            for run in self._runs.get(partition, ())
        ]


def _out_of_range(one: LogRange, position: Offset, start: Offset, end: Offset) -> OutOfRange:
    return OutOfRange(
        f"partition {one.partition} of {one.topic}: offsets {position} to "
        f"{one.end} (exclusive) were asked for; the hot log has {start} to {end}"
    )
