"""A node's access to the partition: the story, the cache that goes with it, and the partition.

It carries out the operations of `steps.py`, and has no opinion on who owns. When the cache fails,
or the partition does not have what the story expects, the story is forgotten, and the next `open`
begins again from what the cache has.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from fanlog.errors import FanlogError
from fanlog.log.replicated import steps
from fanlog.log.replicated.api import Member, ReplicaClock
from fanlog.log.replicated.cache import ReplicaCache
from fanlog.log.replicated.doubts import doubt
from fanlog.log.replicated.partition import (
    Fetched,
    OffsetGone,
    Partition,
    PartitionUnavailable,
)
from fanlog.log.replicated.state_feed import StateFeed, StateListener
from fanlog.log.replicated.steps import Steps
from fanlog.log.replicated.story import Story, StoryBroken, ToldEntry, new_facts

log = logging.getLogger("fanlog.replica")

Result = TypeVar("Result")

#: Asked for at a time; a record may have more.
FETCH_BYTES = 8 * 1024 * 1024
#: Longest single wait for an answer of the partition.
WAIT_S = 1.0
#: A reader that catches up asks so often where the end is: three questions, each a round trip.
END_AGE_S = 0.5
#: Between two attempts to reach it.
PAUSE_S = 0.05


class Replica:
    """Used by one thread at a time, but for `give_up` and `distrust`.

    Args:
        patience_s: How long an operation is tried again while the partition cannot be asked.
        listener: Hears the hard state that is followed, once the feed is turned on.
    """

    def __init__(
        self,
        cache: ReplicaCache,
        open_partition: Callable[[], Partition],
        clock: ReplicaClock,
        *,
        patience_s: float,
        listener: StateListener | None = None,
    ) -> None:
        self.cache = cache
        self.feed = StateFeed(listener)
        self._open_partition = open_partition
        self._clock = clock
        self._patience_s = patience_s
        self._given_up = threading.Event()
        self._distrusted = ""
        self._partition: Partition | None = None
        self._story: Story | None = None
        #: As of the story, for other threads to read.
        self.is_whole = False
        self.members: tuple[Member, ...] = ()
        #: The partition's end, as far as it is known.
        self.end_offset = 0
        self._end_read_s = float("-inf")
        #: The moment before the last successful fetch was begun, and whether it found nothing.
        self.fetched_s = float("-inf")
        self.is_at_end = False
        #: The moment before the last record was produced.
        self.sent_s = float("-inf")
        #: How often the cache was discarded.
        self.started_over = 0
        #: Records that were applied and are no entries of the cluster, and the last of them.
        self.stray_records = 0
        self.stray_sentence = ""

    @property
    def story(self) -> Story:
        assert self._story is not None, "opened"
        return self._story

    @property
    def partition(self) -> Partition:
        assert self._partition is not None, "opened"
        return self._partition

    def open(self) -> None:
        """Have the partition open, and a story that goes with the cache.

        Raises:
            PartitionUnavailable: It cannot be asked.
            StoryBroken: The partition is not that of the cache, or cannot be read.
            ConfigError: The cache is that of another cluster.
        """
        if self._story is not None and not self._distrusted:
            return
        if self._partition is None:
            self._partition = self._open_partition()
        self.cache.require(self._partition.cluster)
        bounds = self._partition.bounds(wait_s=WAIT_S)
        if self.cache.facts is not None:
            reason = doubt(self._partition, self.cache.facts, bounds) or self._distrusted
            if reason:
                self.cache.discard(reason)
                self.started_over += 1
                self.feed.begin()
        self._distrusted = ""
        facts = self.cache.facts or new_facts(bounds.start)
        story = self._story = Story(self._partition.cluster, facts, self.cache.marks)
        self.is_whole, self.members = story.is_whole, story.members
        self.end_offset = bounds.end
        self.is_at_end = False

    def distrust(self, reason: str) -> None:
        """Discard the cache when the story is next begun. May be called on any thread."""
        self._distrusted = reason

    def forget(self) -> None:
        """Begin again from what the cache has, and look first whether it can be believed."""
        self._story = None

    def follow(self, *, wait_s: float) -> list[ToldEntry]:
        """Read and apply some entries, all of them in one transaction; [] when none came.

        Raises:
            PartitionUnavailable, OffsetGone: Try again.
            StoryBroken: What was read before it is applied.
            DiskFull, CommitFailed, DataLoss: The cache failed.
        """
        story, begun_s = self.story, self._clock.boottime_s()
        try:
            records = self.partition.fetch(
                story.facts.next_offset, max_bytes=FETCH_BYTES, wait_s=wait_s
            )
        except OffsetGone:
            self.forget()
            raise
        self.fetched_s = begun_s
        self.is_at_end = not records
        told, broken = _read(story, records)
        self._apply(told)
        if broken is not None:
            raise broken
        is_behind = sum(len(record.value) for record in records) >= FETCH_BYTES // 2
        if is_behind and begun_s - self._end_read_s >= END_AGE_S:
            self._end_read_s = begun_s
            self.end_offset = self.partition.bounds(wait_s=WAIT_S).end
        return told

    def tell_state(self) -> None:
        """Tell the feed some of the state that the cache has, once it has all of it.

        Raises:
            DataLoss: The cache is damaged.
        """
        if self.cache.log is not None and self.is_whole:
            self.feed.read_on(self.cache.log, self.story.facts.sequence)

    def drive(self, running: Steps[Result]) -> Result:
        """Carry out steps.

        Raises:
            PartitionUnavailable, OffsetGone, RecordTooLarge: The steps do not know what to do.
            StoryBroken: The partition cannot be read on.
            DiskFull, CommitFailed, DataLoss: The cache failed.
        """
        try:
            operation = next(running)
            while True:
                try:
                    answer = self._carry_out(operation)
                except Exception as error:
                    operation = running.throw(error)
                else:
                    operation = running.send(answer)
        except StopIteration as end:
            result: Result = end.value
            return result
        except (OffsetGone, StoryBroken):
            self.forget()
            raise

    def give_up(self) -> None:
        """Wait for nothing from here on. May be called on any thread."""
        self._given_up.set()

    def close(self) -> None:
        if self._partition is not None:
            self._partition.close()
        self.cache.close()

    def _carry_out(self, operation: steps.Operation) -> Any:
        match operation:
            case steps.Produce():
                self.sent_s = self._clock.boottime_s()
                return self.partition.produce(operation.value)
            case steps.ResetProducer():
                return self.partition.reset_producer()
            case steps.ReadEnd():
                bounds = self._patiently(lambda: self.partition.bounds(wait_s=WAIT_S))
                self.end_offset = bounds.end
                return bounds.end
            case steps.Fetch():
                return self._patiently(lambda: self._fetch(operation.offset))
            case steps.Apply():
                return self._apply(operation.told)

    def _fetch(self, offset: int) -> list[Fetched]:
        records = self.partition.fetch(offset, max_bytes=FETCH_BYTES, wait_s=WAIT_S)
        if not records:
            raise PartitionUnavailable(f"the record at offset {offset} does not come")
        return records

    def _patiently(self, ask: Callable[[], Result]) -> Result:
        deadline_s = self._clock.boottime_s() + self._patience_s
        while True:
            try:
                return ask()
            except PartitionUnavailable:
                if self._clock.boottime_s() >= deadline_s or self._given_up.wait(PAUSE_S):
                    raise

    def _apply(self, told: Sequence[ToldEntry]) -> None:
        if not told:
            return
        story = self.story
        try:
            self.cache.apply(told, story)
        except FanlogError:
            # The story is ahead of the cache now.
            self.forget()
            raise
        self.is_whole, self.members = story.is_whole, story.members
        self.end_offset = max(self.end_offset, story.facts.next_offset)
        if any(one.entry is None for one in told):
            self._note_strays([one for one in told if one.entry is None])
        self.feed.apply((one.body for one in told), story.facts.sequence)

    def _note_strays(self, found: Sequence[ToldEntry]) -> None:
        self.stray_records += len(found)
        self.stray_sentence = f"offset {found[-1].offset}: {found[-1].void}"
        log.warning(
            "action=stray_records count=%d last=%r; somebody else writes to the topic",
            len(found),
            self.stray_sentence,
        )


def _read(story: Story, records: Sequence[Fetched]) -> tuple[list[ToldEntry], StoryBroken | None]:
    told: list[ToldEntry] = []
    for record in records:
        try:
            told.append(story.read(record))
        except StoryBroken as error:
            return told, error
    return told, None
