"""Exports: the pipeline takes messages from a subscription, a batch at a time.

A batch is hard state: until it is advanced past, every request gets the same one, with the same
number and the same messages, for the same table or bucket. So a pipeline that dies halfway, or a
second one, writes the same batch once more, and the table or bucket can tell by the number. No
lease is taken: an export subscription has no other consumers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyroaring import BitMap64

from fanlog.broker.access import Access
from fanlog.broker.clock import Clock
from fanlog.broker.delivery.decisions import Decisions
from fanlog.broker.delivery.filtering import Filtering
from fanlog.broker.delivery.shares import Shares
from fanlog.broker.metrics import Metrics
from fanlog.broker.transaction import Ledger
from fanlog.core.exporting import GatheredBatch, open_ranges
from fanlog.core.records import ExportProgress, ExportRecord, Record
from fanlog.core.share import Share
from fanlog.errors import FailedPrecondition, LakeUnavailable
from fanlog.log.api import Damaged, Log
from fanlog.model import exports
from fanlog.model.resources import ExportState, PartitionId, Subscription, SubscriptionId

#: Partitions looked at before the loop may do something else.
STEP = 100


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why an export does not go on; with the state ACTIVE it does."""

    state: ExportState = "ACTIVE"
    reason: str = ""


_NO_TROUBLE = Trouble()


class Exports:
    """The verbs of exporting. Lives on the loop. The trouble of an export is soft state."""

    def __init__(
        self,
        ledger: Ledger,
        store: Log,
        clock: Clock,
        metrics: Metrics,
        access: Access,
        shares: Shares,
        filtering: Filtering,
        decisions: Decisions,
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._access = access
        self._filtering = filtering
        self._decisions = decisions
        self._troubles: dict[SubscriptionId, Trouble] = {}
        shares.on_remove.listen(self._forget)

    async def list_all(self) -> list[Subscription]:
        """The export subscriptions that are attached to their topics."""
        found = [
            subscription
            for subscription in self._ledger.hard.catalog.subscriptions()
            if subscription.mode == "export" and not subscription.detached
        ]
        await self._ledger.sync()
        return found

    async def batch(self, name: str) -> tuple[Subscription, ExportProgress]:
        """The batch that is to be exported; one without offsets when there is nothing yet.

        Raises:
            FailedPrecondition: The subscription is no export, or detached.
        """
        self._access.check_serving()
        subscription = self._export(name)
        if not self._progress(subscription).offsets:
            found = await self._gather_batch(subscription)
            # Others may have been here meanwhile.
            subscription = self._export(name)
            progress = self._progress(subscription)
            if found and not progress.offsets:
                progress = replace(
                    progress,
                    number=progress.number + 1,
                    created_s=self._clock.now(),
                    table=subscription.table,
                    files=subscription.files,
                    offsets=found,
                )
                await self._ledger.commit([ExportRecord(subscription.id, progress)])
                return subscription, progress
        await self._ledger.sync()
        return subscription, self._progress(subscription)

    async def advance(self, name: str, number: int) -> int:
        """Acknowledge the messages of a batch; durable when this returns. How many those were.

        Raises:
            FailedPrecondition: There is no such batch, or the subscription is no export.
        """
        subscription = self._export(name)
        progress = self._progress(subscription)
        if number <= progress.advanced:
            await self._ledger.sync()
            return 0
        if number != progress.number or not progress.offsets:
            raise FailedPrecondition(
                f"number: {name!r} has no batch {number} under way; the last one was "
                f"{progress.number}"
            )
        records: list[Record] = []
        count = 0
        for partition, offsets in progress.offsets.items():
            share = self._ledger.hard.share(subscription.id, partition)
            # A topic may be gone for good by now.
            if share is not None:
                decision = share.acknowledge_exported(offsets)
                count += decision.count
                records += decision.records
        records.append(
            ExportRecord(subscription.id, ExportProgress(number=number, advanced=number))
        )
        metrics = self._metrics.of(subscription.id)
        metrics.delivered += count
        metrics.acknowledged += count
        self._troubles.pop(subscription.id, None)
        await self._ledger.commit(records)
        return count

    def report(self, name: str, trouble: Trouble) -> None:
        """Take note of why an export does not go on, or that it does."""
        subscription = self._export(name)
        self._troubles.pop(subscription.id, None)
        if trouble.state != "ACTIVE":
            self._troubles[subscription.id] = trouble

    def trouble(self, subscription: Subscription) -> Trouble:
        if subscription.mode != "export":
            return _NO_TROUBLE
        return self._troubles.get(subscription.id, _NO_TROUBLE)

    # Private.

    def _forget(self, subscription: Subscription) -> None:
        """A subscription is deleted."""
        self._troubles.pop(subscription.id, None)

    def _export(self, name: str) -> Subscription:
        subscription = self._access.find(name)
        if subscription.mode != "export":
            raise FailedPrecondition(
                f"subscription {name!r} has neither {exports.TABLE_FIELD} nor "
                f"{exports.FILES_FIELD}; there is nothing to export"
            )
        self._access.use(subscription)
        return subscription

    def _progress(self, subscription: Subscription) -> ExportProgress:
        found = self._ledger.hard.exports.get(subscription.id)
        return found if found is not None else ExportProgress(number=0, advanced=0)

    async def _gather_batch(self, subscription: Subscription) -> dict[PartitionId, BitMap64]:
        """The messages of the next batch; none as long as there is no hurry."""
        gathered = GatheredBatch(subscription.files, self._clock.now())
        shares = self._ledger.hard.shares_of(subscription)
        for number, share in enumerate(self._in_turn(subscription, shares)):
            if gathered.is_full:
                break
            if number % STEP == STEP - 1:
                await asyncio.sleep(0)
            try:
                await self._gather(share, gathered)
            except LakeUnavailable as error:
                # Other topics, and other exports, go on.
                self._troubles[subscription.id] = Trouble("NOT_FOUND", error.message)
        return gathered.offsets()

    def _in_turn(self, subscription: Subscription, shares: Sequence[Share]) -> list[Share]:
        """Begin elsewhere each time: a busy topic keeps no other waiting."""
        first = self._progress(subscription).number % len(shares) if shares else 0
        return [*shares[first:], *shares[:first]]

    async def _gather(self, share: Share, gathered: GatheredBatch) -> None:
        end = self._ledger.end(share.partition)
        wanted = 0
        while share.routed_to < end and wanted < gathered.room:
            wanted += await self._filtering.judge(share, end)
            await asyncio.sleep(0)
        # Messages that the filter left out go into the cursor, which then has the wanted ones.
        passed = share.settle_passed()
        if passed.records:
            self._decisions.decide(share, passed, can_wait=True, wakes=False)
        first = next(open_ranges(share, end), None)
        if first is None:
            return
        size_bytes, published_s = 0.0, gathered.now
        for item in await self._store.read(share.partition, first[0], max_bytes=1):
            if not isinstance(item, Damaged):
                size_bytes = len(item.content) / item.count
                published_s = item.publish_time_ns / 1e9
        gathered.add(share, end, size_bytes, published_s)
