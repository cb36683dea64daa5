"""The verbs that move subscriptions in time: to a time, to a position, to a snapshot."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from fanlog import limits
from fanlog.broker.access import Access
from fanlog.broker.clock import Clock
from fanlog.broker.delivery.shares import Shares
from fanlog.broker.generations import Generations
from fanlog.broker.retention.retention import Retention
from fanlog.broker.transaction import Ledger, Transaction
from fanlog.broker.verbs.seek_answers import Move, SeekAnswer, Target
from fanlog.core import snapshots
from fanlog.core.records import Record
from fanlog.core.share import Share
from fanlog.errors import FailedPrecondition, InvalidArgument
from fanlog.log.api import Log
from fanlog.model.resources import Offset, PartitionId, Snapshot, Subscription


@dataclass(eq=False)
class Seeks:
    """Seeks of one broker. All of them answer when the new position is durable.

    The answer counts the messages reopened and acknowledged, and says why none was reopened if so.
    """

    _ledger: Ledger
    _store: Log
    _clock: Clock
    _access: Access
    _shares: Shares
    _generations: Generations
    _retention: Retention

    async def to_time(self, name: str, time_ns: int) -> SeekAnswer:
        """Acknowledge all messages published before, and reopen those after that are retained."""
        return await self._seek(
            name, lambda partition: self._ledger.offset_for_time(partition, time_ns)
        )

    async def to_end(self, name: str) -> SeekAnswer:
        """Acknowledge all there is."""

        async def target(partition: PartitionId) -> Offset:
            return limits.OFFSET_MAX

        return await self._seek(name, target)

    async def to_position(self, name: str, position: Mapping[PartitionId, Offset]) -> SeekAnswer:
        """Acknowledge all before these offsets, and reopen messages from them on, if retained.

        A topic of a pattern that the position does not name stays as it is.

        Raises:
            InvalidArgument: It names a message that is none of this subscription's topics', or that
                was not published yet.
        """
        read = {s.partition for s in self._ledger.hard.shares_of(self._access.enter(name))}
        for partition, offset in position.items():
            if partition not in read or offset > self._ledger.end(partition):
                raise InvalidArgument(
                    f"position: {name!r} has no message {offset} of partition {partition}"
                )

        async def target(partition: PartitionId) -> Offset | None:
            return position.get(partition)

        return await self._seek(name, target)

    async def to_snapshot(self, name: str, snapshot_name: str) -> SeekAnswer:
        """Take a subscription back to the unacknowledged messages of a snapshot.

        Raises:
            FailedPrecondition: The snapshot is of another topic.
        """
        hard = self._ledger.hard
        subscription = self._access.enter(name)
        snapshot = hard.catalog.snapshot(snapshot_name)
        if not snapshots.is_of(snapshot, subscription):
            raise FailedPrecondition(
                f"snapshot {snapshot_name!r} is of topic {snapshot.topic_shown!r}, not of "
                f"{subscription.topic_shown!r}, which {name!r} reads"
            )
        transaction = self._ledger.begin()
        _settle_passed(transaction, hard.shares_of(subscription))
        move = self._move(subscription)
        self._rejoin(transaction, subscription, snapshot)
        records: list[Record] = []
        for share in hard.shares_of(subscription):
            generation = self._generations.next()
            if share.partition in snapshot.partitions:
                cursor = hard.cursor_of(snapshot, share.partition)
                start = self._ledger.start_of(share.partition)
                records += share.restore(cursor, start, generation=generation).records
            else:
                # The source of the snapshot had read that deleted topic to its end.
                end = self._ledger.assigned_end(share.partition)
                records += share.seek(end, end, generation=generation).records
        committed = self._jump(transaction, subscription, records)
        move.count()
        await committed
        return await move.answer(self._store, self._clock.now(), None)

    def position(self, subscription: Subscription) -> dict[PartitionId, Offset]:
        """Where a subscription stands: its first unacknowledged offset of each partition."""
        shares = self._ledger.hard.shares_of(subscription)
        return {share.partition: share.first_open for share in shares}

    async def _seek(
        self, name: str, target_in: Callable[[PartitionId], Awaitable[Offset | None]]
    ) -> SeekAnswer:
        subscription = self._access.enter(name)
        await self._shares.judge_all(name)
        found: dict[PartitionId, tuple[Offset, Offset]] = {}
        for share in self._ledger.hard.shares_of(subscription):
            wanted = await target_in(share.partition)
            retained = await self._retention.retained_from(share, self._clock.now())
            if wanted is not None:
                found[share.partition] = wanted, retained
        # Messages that came while this waited are judged by the filter, too.
        await self._shares.judge_all(name)
        subscription = self._access.enter(name)
        # Of a topic that was not asked about, or joined while this waited, all is to come.
        shares = [s for s in self._ledger.hard.shares_of(subscription) if s.partition in found]
        transaction = self._ledger.begin()
        _settle_passed(transaction, shares)
        move = self._move(subscription)
        targets: dict[PartitionId, Target] = {}
        records: list[Record] = []
        for share in shares:
            wanted, retained = found[share.partition]
            start = self._ledger.start_of(share.partition)
            wanted = min(wanted, self._ledger.assigned_end(share.partition))
            target = Target(wanted=wanted, kept=max(retained, start), start=start)
            decision = share.seek(
                max(wanted, start), target.kept, generation=self._generations.next()
            )
            records += decision.records
            targets[share.partition] = target
        committed = self._jump(transaction, subscription, records)
        move.count()
        await committed
        return await move.answer(self._store, self._clock.now(), targets)

    def _move(self, subscription: Subscription) -> Move:
        hard = self._ledger.hard
        return Move(
            lambda: hard.shares_of(subscription),
            self._ledger.assigned_end,
            lambda share: hard.drops.get((subscription.id, share.partition)),
        )

    def _jump(
        self, transaction: Transaction, subscription: Subscription, records: list[Record]
    ) -> asyncio.Future[None]:
        """Commit a jump; from now on the present filter judges messages before it, too."""
        present = self._access.present(subscription)
        return self._shares.change(transaction, replace(present, filter_changes=()), records)

    def _rejoin(
        self, transaction: Transaction, subscription: Subscription, snapshot: Snapshot
    ) -> None:
        """Read topics again that a pattern had read to their end, and that the snapshot kept."""
        if subscription.is_pattern:
            kept = self._store.partitions()
            for partition in snapshot.partitions:
                if self._ledger.hard.share(subscription.id, partition) is None:
                    floor = self._ledger.hard.cursor_of(snapshot, partition).floor
                    if partition in kept:
                        self._shares.add(transaction, subscription, partition, floor)


def _settle_passed(transaction: Transaction, shares: Iterable[Share]) -> None:
    """Take messages that filters left out into the cursors: they count as acknowledged."""
    for share in shares:
        transaction.apply(share.settle_passed().records)
