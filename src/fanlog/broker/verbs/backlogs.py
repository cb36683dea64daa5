"""Backlogs: how far subscriptions are behind.

Counts come from cursors and leases, sizes from the stretches that retention keeps
(`fanlog.broker.retention.spare`): ten million messages are not read for it. A small backlog is
weighed message by message where that is asked for. One measure serves the API, the metrics and the
position of a subscription.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from fanlog import limits
from fanlog.broker.clock import Clock
from fanlog.broker.retention.spare import Spare
from fanlog.broker.transaction import Ledger
from fanlog.core.share import Share
from fanlog.log.api import Damaged, Log
from fanlog.log.batch import Batch
from fanlog.model.resources import Offset, PartitionId, Subscription

#: Shares measured before the loop may do something else.
STEP = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareBacklog:
    """How far behind one share is; counts are of messages."""

    partition: PartitionId
    messages: int
    #: The filter has not judged all of them: it may be fewer.
    is_estimated: bool
    #: As far as it is known from stretches.
    size_bytes: int
    outstanding: int
    delayed: int
    forwarding: int
    pending: int
    depending: int
    #: Publish time of the oldest; None when there is none that can be read.
    oldest_s: float | None
    #: From the oldest to the newest of the partition, whoever they are for.
    lag_messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogState:
    """How far behind a subscription is: the sums over its shares."""

    shares: tuple[ShareBacklog, ...]
    now: float
    #: Bytes that were counted message by message; None when they are computed of stretches.
    weighed_bytes: int | None = None
    #: Publish time of the newest message of each partition with a backlog, where it was asked for.
    newest_s: tuple[float, ...] = ()

    @property
    def messages(self) -> int:
        return sum(one.messages for one in self.shares)

    @property
    def is_estimated(self) -> bool:
        return any(one.is_estimated for one in self.shares)

    @property
    def size_bytes(self) -> int:
        if self.weighed_bytes is not None:
            return self.weighed_bytes
        return sum(one.size_bytes for one in self.shares)

    @property
    def outstanding(self) -> int:
        return sum(one.outstanding for one in self.shares)

    @property
    def delayed(self) -> int:
        return sum(one.delayed for one in self.shares)

    @property
    def forwarding(self) -> int:
        return sum(one.forwarding for one in self.shares)

    @property
    def pending(self) -> int:
        return sum(one.pending for one in self.shares)

    @property
    def depending(self) -> int:
        return sum(one.depending for one in self.shares)

    @property
    def lag_messages(self) -> int:
        return sum(one.lag_messages for one in self.shares)

    @property
    def oldest_age_s(self) -> float:
        return max((self.age_s(one) for one in self.shares), default=0.0)

    @property
    def lag_s(self) -> float:
        """The largest lag of a topic."""
        lags = (self.share_lag_s(number) for number in range(len(self.newest_s)))
        return max(lags, default=0.0)

    def age_s(self, share: ShareBacklog) -> float:
        """Since the oldest message of a share was published."""
        return 0.0 if share.oldest_s is None else max(0.0, self.now - share.oldest_s)

    def share_lag_s(self, number: int) -> float:
        """Between the oldest unacknowledged message of a share and the newest of its partition."""
        oldest_s = self.shares[number].oldest_s
        return 0.0 if oldest_s is None else max(0.0, self.newest_s[number] - oldest_s)


@dataclass(eq=False)
class Backlogs:
    """Measures the backlogs of one broker's subscriptions."""

    _ledger: Ledger
    _store: Log
    _clock: Clock
    _spare: Spare
    _hot_start: Callable[[PartitionId], Offset]

    async def measure(self, subscription: Subscription) -> BacklogState:
        """The backlog of a subscription; one that is detached has none.

        Of each partition one batch is read at most.

        Raises:
            LakeUnavailable: The oldest message is in the lake, and that cannot be read now.
        """
        found: list[ShareBacklog] = []
        if not subscription.detached:
            for number, share in enumerate(self._ledger.hard.shares_of(subscription)):
                if number % STEP == STEP - 1:
                    await asyncio.sleep(0)
                found.append(await self._measure(share))
        return BacklogState(shares=tuple(found), now=self._clock.now())

    async def weigh(self, subscription: Subscription) -> BacklogState:
        """As `measure`, with the bytes of a small backlog counted."""
        state = await self.measure(subscription)
        is_small = 0 < state.messages <= limits.BACKLOG_WEIGHED_MAX
        if not is_small or state.is_estimated:
            return state
        return replace(state, weighed_bytes=await self._weigh(subscription))

    async def describe(
        self, name: str, *, weighs: bool = True
    ) -> tuple[Subscription, BacklogState]:
        """As `measure`, with the lag in time, and with the bytes of a small backlog counted.

        Without `weighs` no more than two batches of each partition are read for it.

        Raises:
            SubscriptionNotFound: There is no such subscription.
        """
        subscription = self._ledger.hard.catalog.subscription(name)
        state = await self.measure(subscription)
        behind = tuple(one for one in state.shares if one.messages)
        newest_s = tuple([await self._newest_s(one) for one in behind])
        weighed = 0 if not behind else None
        is_small = 0 < state.messages <= limits.BACKLOG_WEIGHED_MAX
        if weighs and is_small and not state.is_estimated:
            weighed = await self._weigh(subscription)
        return subscription, BacklogState(
            shares=behind, now=state.now, weighed_bytes=weighed, newest_s=newest_s
        )

    async def oldest_unacked_s(self, share: Share) -> float:
        """Publish time of a share's oldest unacknowledged message; now if it has none."""
        batch = await self._batch_at(share.partition, share.first_open)
        return self._clock.now() if batch is None else self._publish_s(batch)

    # Private.

    async def _measure(self, share: Share) -> ShareBacklog:
        partition, end = share.partition, self._ledger.end(share.partition)
        stats, first = share.stats(end), share.first_open
        batch = await self._batch_at(partition, first) if stats.backlog else None
        size_bytes = 0.0
        if batch is not None:
            hot_start = self._hot_start(partition)
            hot_first = min(max(first, hot_start), end)
            size_bytes = await self._spare.size_between(partition, hot_first, end, hot_start)
            # The lake does not say how large its messages are: they are taken to be like the first.
            size_bytes += (hot_first - first) * len(batch.content) / batch.count
            size_bytes *= stats.backlog / max(1, end - first)
        return ShareBacklog(
            partition=partition,
            messages=stats.backlog,
            is_estimated=share.routed_to < end,
            size_bytes=round(size_bytes),
            outstanding=stats.outstanding,
            delayed=stats.delayed,
            forwarding=stats.forwarding,
            pending=stats.pending,
            depending=stats.depending,
            oldest_s=None if batch is None else self._publish_s(batch),
            lag_messages=end - first if stats.backlog else 0,
        )

    async def _newest_s(self, backlog: ShareBacklog) -> float:
        batch = await self._batch_at(backlog.partition, self._ledger.end(backlog.partition) - 1)
        return self._clock.now() if batch is None else self._publish_s(batch)

    async def _weigh(self, subscription: Subscription) -> int | None:
        """Bytes of all open messages, one by one; None if that would be too much to read."""
        total, left = 0, limits.BACKLOG_WEIGHED_BYTES_MAX
        for share in self._ledger.hard.shares_of(subscription):
            offset, end = share.first_open, self._ledger.end(share.partition)
            while True:
                first, _ = next(share.open_ranges(offset, end), (end, end))
                found = await self._store.read(share.partition, first, max_bytes=1)
                if first >= end or not found:
                    break
                item, offset = found[0], found[0].base_offset + found[0].count
                if isinstance(item, Damaged):
                    continue
                left -= len(item.content)
                if left < 0:
                    return None
                for low, high in share.open_ranges(first, min(end, item.end_offset)):
                    base = item.base_offset
                    total += item.starts[high - base] - item.starts[max(low, base) - base]
        return total

    async def _batch_at(self, partition: PartitionId, offset: Offset) -> Batch | None:
        """The batch that holds an offset, or the first readable one after it."""
        if offset < self._ledger.end(partition):
            for item in await self._store.read(partition, offset, max_bytes=1):
                if not isinstance(item, Damaged):
                    return item
        return None

    def _publish_s(self, batch: Batch) -> float:
        return min(batch.publish_time_ns / 1e9, self._clock.now())
