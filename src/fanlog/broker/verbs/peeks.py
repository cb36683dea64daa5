"""Peeks: unacknowledged messages of a subscription are shown, and nothing is leased.

A peek reads what the log has, hot or cold, and asks the share where each message stands. Where the
filter has not judged yet it is asked without the share being told, so that a peek changes nothing:
no cursor, no lease, no attempt, not even how far the filter is.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from pyroaring import BitMap64

from fanlog import limits
from fanlog.broker.access import Access
from fanlog.broker.clock import Clock
from fanlog.broker.delivery.filtering import Filtering
from fanlog.broker.transaction import Ledger
from fanlog.broker.verbs.pending_keys import PendingKeys
from fanlog.core.prospects import Prospects, prospects
from fanlog.core.publishers import Gap
from fanlog.core.share import Look, Share, State
from fanlog.errors import InvalidArgument
from fanlog.log.api import Log
from fanlog.log.batch import Batch
from fanlog.model import names
from fanlog.model.ids import message_id
from fanlog.model.resources import Offset, PartitionId, Subscription

#: Offsets looked at in one go.
STEP_OFFSETS = 4_096


@dataclass(frozen=True, slots=True)
class Peeked:
    """One message, and where it stands."""

    batch: Batch
    offset: Offset
    look: Look
    #: The earlier message of its ordering key that it waits for.
    behind: Offset | None
    prospects: Prospects
    has_lapsed: bool
    #: What it waits for while it is held back.
    gap: Gap | None = None

    @property
    def index(self) -> int:
        return self.offset - self.batch.base_offset

    @property
    def size_bytes(self) -> int:
        return self.batch.starts[self.index + 1] - self.batch.starts[self.index]


@dataclass(frozen=True, slots=True)
class PeekPlace:
    """Where a peek goes on."""

    partition: PartitionId
    offset: Offset
    #: No other partition is shown.
    is_alone: bool = False

    def __str__(self) -> str:
        return f"{self.partition}.{self.offset}.{int(self.is_alone)}"

    @classmethod
    def parse(cls, text: str) -> PeekPlace:
        """Raises InvalidArgument."""
        parts = text.split(".")
        if len(parts) != 3 or not all(p.isascii() and p.isdigit() and len(p) < 20 for p in parts):
            raise InvalidArgument(f"page_token: {names.shown(text)} is not a place")
        partition, offset, alone = map(int, parts)
        return cls(PartitionId(partition), min(offset, limits.OFFSET_MAX), bool(alone))


@dataclass(eq=False)
class Peeks:
    """The verb that peeks. Lives on the loop."""

    _ledger: Ledger
    _store: Log
    _access: Access
    _filtering: Filtering
    _clock: Clock

    async def peek(
        self, name: str, place: PeekPlace | None, start_ns: int | None, most: int
    ) -> tuple[Subscription, list[Peeked], PeekPlace | None]:
        """Up to `most` messages from a place on, or from a time on; and where to go on.

        There may be fewer, or none, although there are more.

        Raises:
            SubscriptionNotFound: There is no such subscription.
            FailedPrecondition: It is detached.
            InvalidArgument: The place is in a topic that it does not read.
            LakeUnavailable: The messages are in the lake, and that cannot be read now.
        """
        self._access.check_serving()
        subscription = self._access.find(name)
        partitions = sorted(s.partition for s in self._ledger.hard.shares_of(subscription))
        if place is not None:
            if place.is_alone and place.partition not in partitions:
                raise InvalidArgument(
                    f"message_id: it is of no topic that {subscription.name!r} reads"
                )
            if place.is_alone and place.offset > self._ledger.end(place.partition):
                raise InvalidArgument(
                    f"message_id: {message_id(place.partition, place.offset)!r} is not published "
                    "yet"
                )
            partitions = [
                p
                for p in partitions
                if p == place.partition or (p > place.partition and not place.is_alone)
            ]
        page = _Page(most)
        for partition in partitions:
            offset = place.offset if place is not None and partition == place.partition else 0
            if start_ns is not None and offset == 0:
                offset = await self._ledger.offset_for_time(partition, start_ns)
            reached = await self._show(subscription, partition, offset, page)
            if reached is not None:
                is_alone = place is not None and place.is_alone
                return subscription, page.found, PeekPlace(partition, reached, is_alone)
            await asyncio.sleep(0)
        return subscription, page.found, None

    async def _show(
        self, subscription: Subscription, partition: PartitionId, offset: Offset, page: _Page
    ) -> Offset | None:
        """Take messages of one partition; where to go on, or None at its end."""
        held: PendingKeys | None = None
        while True:
            share = self._ledger.hard.share(subscription.id, partition)
            end = self._ledger.end(partition)
            if share is None or offset >= end:
                return None
            if held is None:
                held = PendingKeys(self._store, self._filtering, share)
            stop, wanted = await self._stretch(share, offset, end, page)
            while wanted:
                first = wanted.min()
                if page.is_full:
                    return first
                items = await self._store.read(partition, first, max_bytes=1)
                if not items:
                    return None
                item = items[0]
                after = max(first + 1, item.base_offset + item.count)
                if isinstance(item, Batch) and item.base_offset <= first:
                    await held.look_before(after)
                    reached = self._take(subscription, item, wanted, page, held)
                    if reached is not None:
                        return reached
                # Unreadable messages are left out, as they are of a delivery.
                wanted.remove_range(0, after)
            offset = stop
            if page.is_exhausted:
                return offset if offset < end else None
            await asyncio.sleep(0)

    async def _stretch(
        self, share: Share, offset: Offset, end: Offset, page: _Page
    ) -> tuple[Offset, BitMap64]:
        """The open offsets of the next stretch, and where it ends."""
        if offset < share.routed_to:
            judged = min(end, share.routed_to)
            first, _ = next(share.open_ranges(offset, judged), (judged, judged))
            stop = min(judged, first + STEP_OFFSETS)
            found = BitMap64()
            for low, high in share.open_ranges(first, stop):
                found.add_range(low, high)
            return stop, found
        stop, matching = await self._filtering.preview(share, offset, end)
        page.judged += stop - offset
        return stop, share.ahead(offset, stop, matching)

    def _take(
        self,
        subscription: Subscription,
        batch: Batch,
        wanted: BitMap64,
        page: _Page,
        held: PendingKeys,
    ) -> Offset | None:
        """Take the wanted messages of a batch; the first that there is no room for, if any."""
        if batch.seal is not None and batch.seal.addressee not in (0, subscription.id):
            return None
        # The share may be another one by now, or have moved on: what counts is how it stands now.
        share = self._ledger.hard.share(subscription.id, batch.partition)
        if share is None:
            return None
        offsets = wanted & BitMap64(range(batch.base_offset, batch.end_offset))
        shown = BitMap64(offsets[: page.room])
        looks = share.look(shown)
        for offset, look in sorted(looks.items()):
            if not share.is_open(offset):
                continue
            number = 0 if batch.key_hashes is None else batch.key_hashes[offset - batch.base_offset]
            behind = share.behind(offset, number)
            if behind is None:
                behind = held.behind(offset, number)
            expected = prospects(batch, offset, share.settings.message_ttl_s)
            if share.never_lapses(offset):
                expected = replace(expected, expires_ns=None)
            has_lapsed = expected.has_lapsed(self._clock.wall_ns())
            gap = None
            if look.state is State.PENDING:
                gap = self._ledger.hard.gap_before(batch.partition, offset)
            if not page.add(Peeked(batch, offset, look, behind, expected, has_lapsed, gap)):
                return offset
        rest = offsets - shown
        return rest.min() if rest else None


class _Page:
    """The messages of one answer, and how much of it is left."""

    def __init__(self, most: int) -> None:
        self.found: list[Peeked] = []
        #: Messages that the filter judged for it.
        self.judged = 0
        self._most = most
        self._left_bytes = limits.ANSWER_BYTES_MAX

    @property
    def room(self) -> int:
        return self._most - len(self.found)

    @property
    def is_full(self) -> bool:
        return not self.room

    @property
    def is_exhausted(self) -> bool:
        return self.judged >= limits.PEEK_JUDGED_MAX

    def add(self, one: Peeked) -> bool:
        """Take a message, unless there is no room for it; the first always fits."""
        # An answer says more about a message than the log does.
        size_bytes = one.size_bytes + 256
        if self.found and size_bytes > self._left_bytes:
            return False
        self._left_bytes -= size_bytes
        self.found.append(one)
        return True
