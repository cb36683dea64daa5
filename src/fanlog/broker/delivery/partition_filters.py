"""The filters on one partition, and the stretches of it that they judged lately. Soft state.

A stretch of the log is judged once, by all filters on it together, and the answers are kept in
*segments*: for each filter the offsets it wants. A subscription that comes by takes its own.
Filters are known by their text, so that equal ones are judged once, and a filter that was changed
is simply another one.

A filter that is newer than a segment judges it alone, when its subscription asks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

from pyroaring import BitMap64

from fanlog.broker.ports import Candidates
from fanlog.log.api import Damaged
from fanlog.log.batch import Batch
from fanlog.model.resources import Offset, Subscription, SubscriptionId
from fanlog.routing import filter_parse
from fanlog.routing.filter_index import FilterIndex

#: Messages of one segment, about; and how many are judged before others may use the loop.
SEGMENT_OFFSETS = 4_096
STEP_OFFSETS = 512

#: Reads batches from an offset on; empty at the end of the log.
Read = Callable[[Offset], Awaitable[Sequence[Batch | Damaged]]]


@dataclass(slots=True)
class Segment:
    """One stretch of the log, as the filters on it have judged it."""

    start: Offset
    end: Offset
    #: Filters added later were not asked.
    version: int
    #: Offsets each filter wants, in order.
    wanted: dict[str, list[Offset]] = field(default_factory=dict)
    #: Filters judged on this segment alone, and up to where: it may have grown since.
    alone: dict[str, Offset] = field(default_factory=dict)
    #: Offsets that cannot be read: every subscription has to come across them.
    unreadable: list[Offset] = field(default_factory=list)
    #: The commit of the messages from an offset on, where it changes.
    sequences: list[tuple[Offset, int]] = field(default_factory=list)
    #: A rough measure of its memory.
    cost: int = 1

    def first_since(self, sequence: int) -> Offset:
        """First offset of the segment published by that commit or a later one."""
        index = bisect_left(self.sequences, sequence, key=lambda mark: mark[1])
        return self.sequences[index][0] if index < len(self.sequences) else self.end


class PartitionFilters:
    """The filters on one partition. Lives on the loop."""

    def __init__(self, topic: str, candidates: Candidates, read: Read) -> None:
        #: The topic's id, which filters may ask for.
        self.topic = topic
        self._candidates = candidates
        self._read = read
        self._index: FilterIndex[str] = FilterIndex()
        self._users: dict[str, set[SubscriptionId]] = {}
        self._texts_of: dict[SubscriptionId, frozenset[str]] = {}
        #: When each filter was added.
        self._added: dict[str, int] = {}
        self._version = 0
        self.segments: dict[Offset, Segment] = {}
        self._starts: list[Offset] = []

    @property
    def version(self) -> int:
        """Grows with each filter that is added."""
        return self._version

    def subscribe(self, subscription: Subscription) -> None:
        """A subscription is new, or has another filter."""
        wanted = frozenset(texts_of(subscription))
        before = self._texts_of.get(subscription.id, frozenset())
        if wanted == before:
            return
        for text in wanted - before:
            self._add(text, subscription.id)
        for text in before - wanted:
            self._remove(text, subscription.id)
        if wanted:
            self._texts_of[subscription.id] = wanted
        else:
            self._texts_of.pop(subscription.id, None)

    def unsubscribe(self, subscription_id: SubscriptionId) -> None:
        for text in self._texts_of.pop(subscription_id, ()):
            self._remove(text, subscription_id)

    @property
    def is_idle(self) -> bool:
        return not self._texts_of

    def forget(self, start: Offset) -> None:
        """Let a segment go; it can be judged again."""
        del self.segments[start]
        del self._starts[bisect_left(self._starts, start)]

    async def segment_at(self, offset: Offset, end: Offset) -> Segment | None:
        """The segment that holds `offset`, judged anew if need be; None if there is no such one.

        A stretch that is judged anew ends before `end`, which is committed.
        """
        segment = self._find(offset)
        if segment is not None and segment.end > offset:
            return segment
        grows = segment is not None and segment.end == offset and self._may_grow(segment)
        room = end
        later = bisect_right(self._starts, offset)
        if later < len(self._starts):
            room = min(room, self._starts[later])
        room = min(room, offset + STEP_OFFSETS)
        read = await self._read(offset)
        # Another task may have judged it meanwhile.
        again = self._find(offset)
        if again is not None and again.end > offset:
            return again
        if segment is None or not grows or again is not segment or not self._may_grow(segment):
            segment = Segment(offset, offset, self._version)
        self._judge(segment, read, room)
        if segment.end <= offset:
            return None
        if segment.start not in self.segments:
            self.segments[segment.start] = segment
            insort(self._starts, segment.start)
        return segment

    async def offsets_wanted(
        self, segment: Segment, subscription: Subscription, start: Offset, end: Offset
    ) -> BitMap64:
        """The offsets of a segment's `[start, end)` that a subscription wants, by its filters."""
        found = BitMap64(_between(segment.unreadable, start, end))
        for change in subscription.filter_changes:
            stop = min(end, segment.first_since(change.before_sequence))
            if stop > start:
                found |= await self._of(segment, change.filter, start, stop)
                start = stop
        if start < end:
            found |= await self._of(segment, subscription.filter, start, end)
        return found

    def texts_wanting(self, segment: Segment, start: Offset) -> Iterable[str]:
        """Filters that want something of a segment from `start` on."""
        return [text for text, offsets in segment.wanted.items() if offsets[-1] >= start]

    # Private.

    def _add(self, text: str, subscription_id: SubscriptionId) -> None:
        users = self._users.setdefault(text, set())
        users.add(subscription_id)
        if len(users) == 1 and text:
            tree = filter_parse.parse(text)
            assert tree is not None
            self._version += 1
            self._added[text] = self._version
            self._index.add(text, tree)

    def _remove(self, text: str, subscription_id: SubscriptionId) -> None:
        users = self._users[text]
        users.discard(subscription_id)
        if not users:
            del self._users[text]
            if text:
                del self._added[text]
                self._index.remove(text)

    def _find(self, offset: Offset) -> Segment | None:
        """The segment that holds `offset`, or ends there."""
        index = bisect_right(self._starts, offset) - 1
        segment = self.segments[self._starts[index]] if index >= 0 else None
        return segment if segment is not None and segment.end >= offset else None

    def _may_grow(self, segment: Segment) -> bool:
        is_small = segment.end - segment.start < SEGMENT_OFFSETS
        return is_small and segment.version == self._version

    def _judge(self, segment: Segment, read: Sequence[Batch | Damaged], room: Offset) -> None:
        """Let the index judge the batches read, up to `room`, into the segment."""
        index, wanted = self._index, segment.wanted
        match = index.match
        for item in read:
            if item.base_offset >= room:
                # The messages before it were trimmed meanwhile.
                segment.end = room
                return
            start = max(segment.end, item.base_offset)
            end = min(room, item.base_offset + item.count)
            if isinstance(item, Damaged):
                segment.unreadable += range(start, end)
                segment.cost += end - start
            else:
                if not segment.sequences or segment.sequences[-1][1] != item.sequence:
                    segment.sequences.append((start, item.sequence))
                first = start - item.base_offset
                judged = self._candidates(item, first, end - item.base_offset, self.topic, index)
                for offset, candidate in enumerate(judged, start):
                    for text in match(candidate):
                        if text in wanted:
                            wanted[text].append(offset)
                        else:
                            wanted[text] = [offset]
                        segment.cost += 1
            segment.end = end

    async def _of(self, segment: Segment, text: str, start: Offset, end: Offset) -> BitMap64:
        if not text:
            return BitMap64(range(start, end))
        is_new = self._added.get(text, self._version + 1) > segment.version
        if is_new and segment.alone.get(text, start) < end:
            await self._judge_alone(segment, text)
        return BitMap64(_between(segment.wanted.get(text, ()), start, end))

    async def _judge_alone(self, segment: Segment, text: str) -> None:
        tree = filter_parse.parse(text)
        assert tree is not None
        alone: FilterIndex[str] = FilterIndex()
        alone.add(text, tree)
        found: list[Offset] = []
        position, stop = segment.start, segment.end
        while position < stop:
            read = await self._read(position)
            if not read:
                break
            for item in read:
                start = max(position, item.base_offset)
                end = min(stop, item.base_offset + item.count)
                if start < end and isinstance(item, Batch):
                    first, last = start - item.base_offset, end - item.base_offset
                    judged = self._candidates(item, first, last, self.topic, alone)
                    found += [
                        offset for offset, one in enumerate(judged, start) if alone.match(one)
                    ]
                position = max(position, item.base_offset + item.count)
        segment.alone[text] = stop
        segment.cost += len(found) + 1
        if found:
            segment.wanted[text] = found


def texts_of(subscription: Subscription) -> list[str]:
    """The filters that messages of a subscription may have to be judged by."""
    if not subscription.is_filtered:
        return []
    return [subscription.filter, *(change.filter for change in subscription.filter_changes)]


def _between(offsets: Sequence[Offset], start: Offset, end: Offset) -> Sequence[Offset]:
    if not offsets or (offsets[0] >= start and offsets[-1] < end):
        return offsets
    return offsets[bisect_left(offsets, start) : bisect_left(offsets, end)]
