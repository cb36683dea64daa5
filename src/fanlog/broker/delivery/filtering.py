"""Filtering: filters judge the log, and feeds whose filter wants new messages are woken.

A subscription with a filter is not woken by a commit. All filters on the partition judge the new
messages together (`fanlog.broker.delivery.partition_filters`), and only the feeds of those that
want some are woken; so the cost of a message grows with its readers, not with all subscriptions. A
subscription that is behind asks for more as it goes. Soft state only.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence

from pyroaring import BitMap64

from fanlog import limits
from fanlog.broker.delivery.feed import Feed
from fanlog.broker.delivery.partition_filters import PartitionFilters
from fanlog.broker.delivery.ports import Decide
from fanlog.broker.metrics import Metrics
from fanlog.broker.ports import Candidates
from fanlog.broker.transaction import Ledger
from fanlog.core.hard_state import HardState
from fanlog.core.share import Share
from fanlog.errors import FanlogError
from fanlog.log.api import Damaged, Log
from fanlog.log.batch import Batch
from fanlog.model.resources import Offset, PartitionId, Subscription

log = logging.getLogger("fanlog.router")


#: Stretches judged before others may use the loop.
YIELD_STEPS = 10


class Filtering:
    """The filters on all partitions. Lives on the loop."""

    def __init__(
        self, ledger: Ledger, store: Log, metrics: Metrics, candidates: Candidates
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._candidates = candidates
        self._metrics = metrics
        self._filters: dict[PartitionId, PartitionFilters] = {}
        # Segments of all partitions, least recently used first.
        self._used: OrderedDict[tuple[PartitionId, Offset], int] = OrderedDict()
        self._cost = 0
        #: Feeds to wake, by partition and filter; and by which filter each of them is.
        self._feeds: defaultdict[PartitionId, dict[str, dict[Feed, None]]] = defaultdict(dict)
        self._texts: dict[tuple[PartitionId, Feed], str] = {}
        #: Up to where new messages were judged for feeds that wait.
        self._woken_to: dict[PartitionId, Offset] = {}
        self._tasks: dict[PartitionId, asyncio.Task[None]] = {}
        #: Whether the last sweep left some for the next one.
        self.is_behind = False
        ledger.on_load.listen(self._load)

    # Subscriptions and their consumers.

    def change(self, subscription: Subscription) -> None:
        """A subscription is new or has another filter."""
        for share in self._ledger.hard.shares_of(subscription):
            filters = self._filters.get(share.partition)
            if filters is not None:
                filters.subscribe(subscription)

    def join(self, share: Share) -> None:
        """A topic joined a pattern."""
        filters = self._filters.get(share.partition)
        if filters is not None:
            filters.subscribe(share.settings)

    def leave(self, share: Share) -> None:
        """A share is gone, with its subscription or without."""
        filters = self._filters.get(share.partition)
        if filters is not None:
            filters.unsubscribe(share.settings.id)
            if filters.is_idle:
                self._forget(share.partition)

    def watch(self, feed: Feed, share: Share) -> None:
        """Wake a feed for messages of a partition that its filter wants."""
        feeds = self._feeds[share.partition]
        if not feeds:
            self._woken_to[share.partition] = self._ledger.end(share.partition)
        feeds.setdefault(share.settings.filter, {})[feed] = None
        self._texts[share.partition, feed] = share.settings.filter

    def unwatch(self, feed: Feed, partition: PartitionId) -> None:
        text = self._texts.pop((partition, feed), None)
        if text is None:
            return
        feeds = self._feeds[partition]
        del feeds[text][feed]
        if not feeds[text]:
            del feeds[text]
        if not feeds:
            del self._feeds[partition]
            del self._woken_to[partition]

    def _load(self, _: HardState) -> None:
        """Forget everything: the shares are others now."""
        self._stop_tasks()
        self._filters.clear()
        self._used.clear()
        self._cost = 0
        self._feeds.clear()
        self._texts.clear()
        self._woken_to.clear()

    async def stop(self) -> None:
        tasks = list(self._tasks.values())
        self._stop_tasks()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def segments(self) -> int:
        """How many stretches of the log are kept as judged."""
        return len(self._used)

    @property
    def cost(self) -> int:
        """How much of `limits.ROUTES_COST_MAX` they take."""
        return self._cost

    # Judging.

    def wake_on(self, partition: PartitionId) -> None:
        """Messages were committed to a partition: judge them for feeds that wait."""
        if partition in self._feeds and partition not in self._tasks:
            task = asyncio.get_running_loop().create_task(self._wake_matching(partition))
            self._tasks[partition] = task

    async def judge(self, share: Share, end: Offset) -> int:
        """Have the filter of a share judge some more, up to `end`, which is committed.

        Returns how many messages of that it wants.
        """
        offset, settings = share.routed_to, share.settings
        stop, wanted = await self.preview(share, offset, end)
        # Both may have changed while the log was read; then the caller asks again.
        if share.routed_to != offset or share.settings is not settings:
            return 0
        share.route(stop, wanted)
        self._metrics.of(settings.id).passed_over += stop - offset - len(wanted)
        return len(wanted)

    async def preview(self, share: Share, offset: Offset, end: Offset) -> tuple[Offset, BitMap64]:
        """The judgement of a share's filter from an offset on, up to `end` at most.

        Returns how far it was judged, and the offsets that are wanted. The share learns nothing.
        """
        filters, settings = self._filters_on(share.partition), share.settings
        segment = await filters.segment_at(offset, end)
        if segment is None:
            # There is no message to judge: the partition was dropped while this waited.
            return end, BitMap64()
        self._use(share.partition, segment.start, segment.cost)
        stop = min(segment.end, end)
        return stop, await filters.offsets_wanted(segment, settings, offset, stop)

    async def judge_all(self, share: Share, end: Offset) -> None:
        """Have the filter of a share judge everything before `end`."""
        while share.routed_to < end:
            await self.judge(share, end)
            await asyncio.sleep(0)

    async def catch_up(self, shares: Iterable[Share], *, steps: int) -> int:
        """Have the filters of one partition judge messages that no consumer has asked for yet.

        Those furthest behind come first, so that all of them use a segment while it is kept.
        Returns the rest of `steps`.
        """
        behind = [(share.routed_to, number, share) for number, share in enumerate(shares)]
        heapq.heapify(behind)
        while behind and steps > 0:
            _, number, share = behind[0]
            end = self._ledger.end(share.partition)
            if share.routed_to >= end:
                heapq.heappop(behind)
                continue
            await self.judge(share, end)
            heapq.heapreplace(behind, (share.routed_to, number, share))
            steps -= 1
            if steps % YIELD_STEPS == 0:
                await asyncio.sleep(0)
        return steps

    async def sweep(self, decide: Decide) -> None:
        """Pass over unwanted messages also where no consumer reads, so that they can be trimmed."""
        behind: defaultdict[PartitionId, list[Share]] = defaultdict(list)
        for share in self._ledger.hard.shares():
            if share.has_passed or share.routed_to < self._ledger.end(share.partition):
                behind[share.partition].append(share)
        steps = limits.SWEEP_ROUTED_MAX
        # The shortest first, so that one that is never done does not hold up the others.
        for shares in sorted(behind.values(), key=self._distance):
            steps = await self.catch_up(shares, steps=steps)
            for share in shares:
                passed = share.settle_passed()
                is_present = self._ledger.hard.share(share.settings.id, share.partition) is share
                if passed.records and is_present:
                    decide(share, passed, can_wait=True, wakes=True)
            await asyncio.sleep(0)
        self.is_behind = steps <= 0

    # Private.

    def _distance(self, shares: Sequence[Share]) -> int:
        """How much of a partition is to be judged for the one furthest behind."""
        return self._ledger.end(shares[0].partition) - min(share.routed_to for share in shares)

    def _filters_on(self, partition: PartitionId) -> PartitionFilters:
        filters = self._filters.get(partition)
        if filters is None:
            hard = self._ledger.hard
            topic = hard.catalog.topic_name_of(partition)
            if not topic:
                # Of a deleted topic that no pattern reads, its subscriptions know the name.
                topic = next((s.settings.topic for s in hard.shares_on(partition)), "")

            async def read(offset: Offset) -> Sequence[Batch | Damaged]:
                return await self._store.read(
                    partition, offset, max_bytes=limits.ROUTE_READ_BYTES_MAX
                )

            filters = self._filters[partition] = PartitionFilters(
                topic.rpartition("/")[2], self._candidates, read
            )
            for share in hard.shares_on(partition):
                filters.subscribe(share.settings)
        return filters

    def _use(self, partition: PartitionId, start: Offset, cost: int) -> None:
        """Note that a segment was of use, and let go of those that were not for long."""
        if partition not in self._filters:
            return
        self._cost += cost - self._used.pop((partition, start), 0)
        self._used[partition, start] = cost
        while self._cost > limits.ROUTES_COST_MAX and len(self._used) > 1:
            (old_partition, old_start), old_cost = self._used.popitem(last=False)
            self._cost -= old_cost
            self._filters[old_partition].forget(old_start)

    def _forget(self, partition: PartitionId) -> None:
        for start in self._filters.pop(partition).segments:
            self._cost -= self._used.pop((partition, start), 0)

    async def _wake_matching(self, partition: PartitionId) -> None:
        try:
            while partition in self._feeds:
                start, end = self._woken_to[partition], self._ledger.end(partition)
                if start >= end:
                    return
                await self._wake_some(partition, start, end)
                await asyncio.sleep(0)
        except FanlogError as error:
            log.error("action=routing_failed partition=%d error=%s", partition, error)
            self._wake_all(partition)
        finally:
            if self._tasks.get(partition) is asyncio.current_task():
                del self._tasks[partition]

    async def _wake_some(self, partition: PartitionId, start: Offset, end: Offset) -> None:
        filters = self._filters_on(partition)
        segment = await filters.segment_at(start, end)
        feeds = self._feeds.get(partition)
        if feeds is None:
            return
        if segment is None:
            self._woken_to[partition] = end
            return
        self._use(partition, segment.start, segment.cost)
        self._woken_to[partition] = segment.end
        if segment.unreadable or segment.version < filters.version:
            # Filters that came later were not asked, and unreadable messages concern all.
            self._wake_all(partition)
            return
        for text in ["", *filters.texts_wanting(segment, start)]:
            for feed in feeds.get(text, ()):
                feed.wake(partition)

    def _wake_all(self, partition: PartitionId) -> None:
        for feeds in self._feeds.get(partition, {}).values():
            for feed in feeds:
                feed.wake(partition)

    def _stop_tasks(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()
