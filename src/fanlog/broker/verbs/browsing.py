"""Browsing: messages as the log has them, hot and cold alike, forwards or back; nothing is leased.

A page looks at so many messages, or so many bytes, at most, whatever it looks for: one that found
nothing by then says how far it has come and goes on with its token. Batches are read one at a time
and other tasks run in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fanlog import limits
from fanlog.broker.access import Access
from fanlog.broker.ports import Candidates
from fanlog.broker.tiering.tiers import Tiers
from fanlog.broker.transaction import Ledger
from fanlog.broker.verbs.letter_search import EVERYTHING
from fanlog.errors import InvalidArgument, LakeUnavailable
from fanlog.log.api import Damaged, Log
from fanlog.log.batch import Batch
from fanlog.model import names
from fanlog.model.ids import message_id
from fanlog.model.resources import Offset, PartitionId, Subscription
from fanlog.routing.candidate import Candidate

#: Messages of one batch that are parsed before other tasks may run.
STEP = 256

Matches = Callable[[Candidate], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedMessages:
    """Which messages a page shows: those with all of these."""

    ordering_key: str = ""
    #: Of the key, as batches have it; 0 for none.
    key_hash: int = 0
    attributes: Mapping[str, str] = field(default_factory=dict)
    matches: Matches | None = None

    def has(self, one: Candidate) -> bool:
        if self.key_hash and one.ordering_key != self.ordering_key:
            return False
        for name, value in self.attributes.items():
            if one.attributes.get(name) != value:
                return False
        return self.matches is None or self.matches(one)


EVERY_MESSAGE = WantedMessages()


@dataclass(frozen=True, slots=True)
class Browsed:
    """One message, and the batch that it stands in."""

    batch: Batch
    offset: Offset
    message: Candidate
    tier: str

    @property
    def size_bytes(self) -> int:
        index = self.offset - self.batch.base_offset
        return self.batch.starts[index + 1] - self.batch.starts[index]


@dataclass(frozen=True, slots=True)
class BrowsePlace:
    """Where a page goes on: at an offset, or going back, before it."""

    partition: PartitionId
    offset: Offset
    #: No other partition is shown.
    is_alone: bool = False

    def __str__(self) -> str:
        return f"{self.partition}.{self.offset}.{int(self.is_alone)}"

    @classmethod
    def parse(cls, text: str) -> BrowsePlace:
        """Raises InvalidArgument."""
        parts = text.split(".")
        if len(parts) != 3 or not all(p.isascii() and p.isdigit() and len(p) < 20 for p in parts):
            raise InvalidArgument(f"page_token: {names.shown(text)} is not a place")
        partition, offset, alone = map(int, parts)
        return cls(PartitionId(partition), min(offset, limits.OFFSET_MAX), bool(alone))


@dataclass(slots=True, kw_only=True)
class Looked:
    """How far something has looked, and how far it may."""

    messages_max: int
    bytes_max: int
    messages: int = 0
    size_bytes: int = 0
    damaged: int = 0
    #: Publish time of the last message that was looked at.
    until_ns: int | None = None

    @property
    def is_enough(self) -> bool:
        return self.messages >= self.messages_max or self.size_bytes >= self.bytes_max

    def note(self, batch: Batch, messages: int, size_bytes: int) -> None:
        self.messages += messages
        self.size_bytes += size_bytes
        self.until_ns = batch.publish_time_ns


@dataclass(slots=True, kw_only=True)
class BrowsePage:
    """Some messages, and how far the page looked for them."""

    looked: Looked
    found: list[Browsed] = field(default_factory=list)
    after: BrowsePlace | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Browse:
    """A question for a page."""

    partitions: Sequence[PartitionId]
    #: Of a subscription: messages that are for another one alone are left out.
    reader: Subscription | None = None
    wanted: WantedMessages = EVERY_MESSAGE
    newest_first: bool = False
    place: BrowsePlace | None = None
    time_ns: int | None = None
    #: Messages of the page, and bytes of them; a message counts as it is shown.
    most: int
    data_bytes_max: int


@dataclass(eq=False)
class Browsing:
    """The verbs that browse. Lives on the loop."""

    _ledger: Ledger
    _store: Log
    _access: Access
    _tiers: Tiers
    _candidates: Candidates

    def partitions_of(
        self, topic_name: str, subscription_name: str
    ) -> tuple[Sequence[PartitionId], Subscription | None]:
        """The partitions of a topic, of a subscription, or of both; and the subscription.

        Raises:
            NotFound: There is no such topic, or subscription.
            FailedPrecondition: The subscription is detached.
            InvalidArgument: The subscription does not read the topic.
        """
        self._access.check_serving()
        hard = self._ledger.hard
        topic = hard.catalog.topic(topic_name) if topic_name else None
        if not subscription_name:
            return () if topic is None else topic.partitions, None
        reader = self._access.find(subscription_name)
        read = sorted(share.partition for share in hard.shares_of(reader))
        if topic is not None:
            read = [one for one in read if one in topic.partitions]
            if not read:
                raise InvalidArgument(
                    f"topic: {topic_name!r} is none that {subscription_name!r} reads"
                )
        return read, reader

    async def page(self, asked: Browse) -> BrowsePage:
        """A page of messages. There may be none on it, although there are more.

        Raises:
            InvalidArgument: The place is of none of the partitions, or not published yet.
            LakeUnavailable: The first messages are in the lake, and that cannot be read now.
        """
        self._access.check_serving()
        place = asked.place
        if place is not None and place.is_alone:
            self._check_place(asked, place)
        looked = Looked(
            messages_max=limits.BROWSE_LOOKED_MAX, bytes_max=limits.BROWSE_LOOKED_BYTES_MAX
        )
        page = BrowsePage(looked=looked)
        filling = _Filling(page, asked)
        for partition in asked.partitions:
            if place is not None and partition < place.partition:
                continue
            is_here = place is not None and place.partition == partition
            if place is not None and place.is_alone and not is_here:
                continue
            offset = place.offset if place is not None and is_here else None
            if offset is None and asked.time_ns is not None:
                offset = await self._ledger.offset_for_time(partition, asked.time_ns)
            try:
                reached = await self._walk(asked, partition, offset, filling)
            except LakeUnavailable:
                if not page.found:
                    raise
                # The messages before it; the next page raises.
                reached = filling.reached
            if reached is not None:
                page.after = BrowsePlace(partition, reached, place is not None and place.is_alone)
                return page
            await asyncio.sleep(0)
        return page

    def _check_place(self, asked: Browse, place: BrowsePlace) -> None:
        if place.partition not in asked.partitions:
            raise InvalidArgument("message_id: it is of no topic that is browsed")
        if place.offset > self._ledger.end(place.partition):
            raise InvalidArgument(
                f"{message_id(place.partition, place.offset)!r} is not published yet: the topic "
                f"has {self._ledger.end(place.partition)} messages"
            )

    async def _walk(
        self, asked: Browse, partition: PartitionId, offset: Offset | None, filling: _Filling
    ) -> Offset | None:
        """Take messages of one partition; where to go on, or None at its end."""
        if asked.newest_first:
            return await self._walk_back(asked, partition, offset, filling)
        end = self._ledger.end(partition)
        offset = max(offset or 0, self._ledger.start_of(partition))
        while offset < end:
            filling.reached = offset
            if filling.is_over:
                return offset
            items = await self._store.read(partition, offset, max_bytes=1)
            if not items:
                return None
            item = items[0]
            first, stop = max(offset, item.base_offset), min(end, item.base_offset + item.count)
            if isinstance(item, Damaged):
                filling.page.looked.damaged += stop - first
            else:
                for low in range(first, stop, STEP):
                    high = min(stop, low + STEP)
                    left = self._take(asked, item, range(low, high), filling)
                    if left is not None:
                        return left
                    await asyncio.sleep(0)
            offset = max(stop, offset + 1)
        return None

    async def _walk_back(
        self, asked: Browse, partition: PartitionId, offset: Offset | None, filling: _Filling
    ) -> Offset | None:
        """As `_walk`, to the start; an offset is the first that is not looked at."""
        end, start = self._ledger.end(partition), self._ledger.start_of(partition)
        before = end if offset is None else min(offset, end)
        while before > start:
            filling.reached = before
            if filling.is_over:
                return before
            items = await self._store.read(partition, before - 1, max_bytes=1)
            if not items or items[0].base_offset >= before:
                # Trimmed meanwhile, up to there.
                return None
            item = items[0]
            stop = min(before, item.base_offset + item.count)
            first = max(start, item.base_offset)
            if isinstance(item, Damaged):
                filling.page.looked.damaged += stop - first
            else:
                for high in range(stop, first, -STEP):
                    low = max(first, high - STEP)
                    left = self._take(asked, item, range(high - 1, low - 1, -1), filling)
                    if left is not None:
                        return left + 1
                    await asyncio.sleep(0)
            before = first
        return None

    def _take(
        self, asked: Browse, batch: Batch, offsets: range, filling: _Filling
    ) -> Offset | None:
        """Take the wanted messages of a batch; the first that was not looked at, if any."""
        addressee = 0 if batch.seal is None else batch.seal.addressee
        if asked.reader is not None and addressee not in (0, asked.reader.id):
            filling.page.looked.note(batch, len(offsets), 0)
            return None
        topic = self._ledger.hard.catalog.topic_name_of(batch.partition).rpartition("/")[2]
        tier = "hot" if batch.base_offset >= self._tiers.hot_start(batch.partition) else "lake"
        for offset, message in self._shown(batch, offsets, topic, asked.wanted):
            is_wanted = message is not None and asked.wanted.has(message)
            if message is not None and is_wanted:
                if not filling.has_room_for(one := Browsed(batch, offset, message, tier)):
                    return offset
                filling.add(one)
            filling.page.looked.note(batch, 1, _size(batch, offset))
        return None

    def _shown(
        self, batch: Batch, offsets: range, topic: str, wanted: WantedMessages
    ) -> Iterator[tuple[Offset, Candidate | None]]:
        """Messages as filters see them; None for one that has another key."""
        base, hashes = batch.base_offset, batch.key_hashes
        if wanted.key_hash:
            for offset in offsets:
                if hashes is None or hashes[offset - base] != wanted.key_hash:
                    yield offset, None
                else:
                    index = offset - base
                    [message] = self._candidates(batch, index, index + 1, topic, EVERYTHING)
                    yield offset, message
            return
        low, high = min(offsets) - base, max(offsets) + 1 - base
        messages: Iterable[Candidate] = self._candidates(batch, low, high, topic, EVERYTHING)
        if offsets.step < 0:
            messages = reversed(list(messages))
        yield from zip(offsets, messages, strict=True)

    # Trying.

    async def latest(
        self,
        partitions: Sequence[PartitionId],
        last: int,
        note: Callable[[Browsed], None],
        looked: Looked,
    ) -> bool:
        """Show the latest messages of partitions, the newest first; False if it was cut short.

        Raises:
            LakeUnavailable: They are in the lake, and that cannot be read now.
        """
        self._access.check_serving()
        for partition in partitions:
            end = self._ledger.end(partition)
            asked = Browse(partitions=(partition,), newest_first=True, most=last, data_bytes_max=0)
            sink = _Noting(note, looked, most=last)
            reached = await self._walk_back(asked, partition, end, sink)
            if reached is not None and not sink.has_all:
                return False
            await asyncio.sleep(0)
        return True


class _Filling:
    """A page that is being filled."""

    def __init__(self, page: BrowsePage, asked: Browse) -> None:
        self.page = page
        self._most = asked.most
        self._data_bytes_max = asked.data_bytes_max
        self._left_bytes = limits.ANSWER_BYTES_MAX
        #: Where the page goes on if it ends here.
        self.reached: Offset = 0

    @property
    def is_over(self) -> bool:
        return len(self.page.found) >= self._most or self.page.looked.is_enough

    def has_room_for(self, one: Browsed) -> bool:
        """Whether a message can be taken; the first always can."""
        if len(self.page.found) >= self._most:
            return False
        return not self.page.found or self._size(one) <= self._left_bytes

    def add(self, one: Browsed) -> None:
        self._left_bytes -= self._size(one)
        self.page.found.append(one)

    def _size(self, one: Browsed) -> int:
        data_bytes = len(one.message.data)
        # Beside its data: attributes, and what an answer says about a message.
        return min(data_bytes, self._data_bytes_max) + one.size_bytes - data_bytes + 512


class _Noting(_Filling):
    """Messages that are looked at once, and not kept."""

    def __init__(self, note: Callable[[Browsed], None], looked: Looked, *, most: int) -> None:
        asked = Browse(partitions=(), most=most, data_bytes_max=0)
        super().__init__(BrowsePage(looked=looked), asked)
        self._note = note
        self._left = most

    @property
    def has_all(self) -> bool:
        return not self._left

    @property
    def is_over(self) -> bool:
        return self.has_all or self.page.looked.is_enough

    def has_room_for(self, _: Browsed) -> bool:
        return not self.is_over

    def add(self, one: Browsed) -> None:
        self._left -= 1
        self._note(one)


def _size(batch: Batch, offset: Offset) -> int:
    index = offset - batch.base_offset
    return batch.starts[index + 1] - batch.starts[index]
