"""The verbs that move subscriptions in time: to a time, to a position, to a snapshot."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from fanlog import limits
from fanlog.broker.clock import Clock
from fanlog.broker.verbs.seek_answers import Move, Moved, Target
from fanlog.core import snapshots
from fanlog.core.records import Record
from fanlog.core.share import Share
from fanlog.errors import FailedPrecondition, InvalidArgument
from fanlog.log.api import Log
from fanlog.model.resources import Offset, PartitionId, Snapshot, Subscription

if TYPE_CHECKING:
    from fanlog.broker.broker import Broker
    from fanlog.broker.verbs.admin import Admin


class Seeks:
    """Seeks of one broker. All of them answer when what they saw and did is durable.

    The answer says what was reopened and acknowledged, and why nothing was if so.
    """

    def __init__(self, broker: Broker, admin: Admin, store: Log, clock: Clock) -> None:
        self._broker = broker
        self._admin = admin
        self._store = store
        self._clock = clock

    async def to_time(self, name: str, time_ns: int) -> Moved:
        """Acknowledge all published before, and reopen what is retained of all after."""
        return await self._seek(
            name, lambda partition: self._admin.offset_for_time(partition, time_ns)
        )

    async def to_end(self, name: str) -> Moved:
        """Acknowledge all there is."""

        async def target(partition: PartitionId) -> Offset:
            return limits.OFFSET_MAX

        return await self._seek(name, target)

    async def to_position(self, name: str, position: Mapping[PartitionId, Offset]) -> Moved:
        """Acknowledge all before these offsets, and reopen what is retained from them on.

        A topic of a pattern of which the position says nothing stays as it is.

        Raises:
            InvalidArgument: It names a message that is none of this subscription's topics', or that
                was not published yet.
        """
        read = {s.partition for s in self._broker.hard.shares_of(self._admin.attached(name))}
        for partition, offset in position.items():
            if partition not in read or offset > self._broker.writer.end(partition):
                raise InvalidArgument(
                    f"position: {name!r} has no message {offset} of partition {partition}"
                )

        async def target(partition: PartitionId) -> Offset | None:
            return position.get(partition)

        return await self._seek(name, target)

    async def to_snapshot(self, name: str, snapshot_name: str) -> Moved:
        """Take a subscription back to what a snapshot remembers.

        Raises:
            FailedPrecondition: The snapshot is of another topic.
        """
        hard = self._broker.hard
        subscription = self._admin.attached(name)
        snapshot = hard.catalog.snapshot(snapshot_name)
        if not snapshots.is_of(snapshot, subscription):
            raise FailedPrecondition(
                f"snapshot {snapshot_name!r} is of topic {snapshot.topic_shown!r}, not of "
                f"{subscription.topic_shown!r}, which {name!r} reads"
            )
        records = self._settled(hard.shares_of(subscription))
        move = self._move(subscription)
        records += self._rejoined(subscription, snapshot)
        for share in hard.shares_of(subscription):
            generation = self._broker.next_generation()
            if share.partition in snapshot.partitions:
                cursor = hard.cursor_of(snapshot, share.partition)
                start = self._broker.writer.start(share.partition)
                records += share.restore(cursor, start, generation=generation).records
            else:
                # The source of the snapshot had been through with that topic.
                end = self._broker.writer.assigned_end(share.partition)
                records += share.seek(end, end, generation=generation).records
        committed = self._moved(subscription, records)
        move.counted()
        await committed
        return await move.answer(self._store, self._clock.now(), None)

    def position(self, subscription: Subscription) -> dict[PartitionId, Offset]:
        """Where a subscription stands: its first unacknowledged offset of each partition."""
        shares = self._broker.hard.shares_of(subscription)
        return {share.partition: share.first_open for share in shares}

    async def _seek(
        self, name: str, target_in: Callable[[PartitionId], Awaitable[Offset | None]]
    ) -> Moved:
        subscription = self._admin.attached(name)
        await self._admin.route_all(name)
        found: dict[PartitionId, tuple[Offset, Offset]] = {}
        for share in self._broker.hard.shares_of(subscription):
            wanted = await target_in(share.partition)
            retained = await self._broker.retention.retained_from(share, self._clock.now())
            if wanted is not None:
                found[share.partition] = wanted, retained
        # What came while this waited counts as what the filter says of it.
        await self._admin.route_all(name)
        subscription = self._admin.attached(name)
        # Of a topic that was not asked about, or joined while this waited, all is to come.
        shares = [s for s in self._broker.hard.shares_of(subscription) if s.partition in found]
        records = self._settled(shares)
        move = self._move(subscription)
        targets: dict[PartitionId, Target] = {}
        for share in shares:
            wanted, retained = found[share.partition]
            start = self._broker.writer.start(share.partition)
            wanted = min(wanted, self._broker.writer.assigned_end(share.partition))
            target = Target(wanted=wanted, kept=max(retained, start), start=start)
            decision = share.seek(
                max(wanted, start), target.kept, generation=self._broker.next_generation()
            )
            records += decision.records
            targets[share.partition] = target
        committed = self._moved(subscription, records)
        move.counted()
        await committed
        return await move.answer(self._store, self._clock.now(), targets)

    def _settled(self, shares: Iterable[Share]) -> list[Record]:
        """Take what filters left out into the cursors, so that it counts as acknowledged."""
        records: list[Record] = []
        for share in shares:
            passed = share.settle_passed().records
            self._broker.hard.apply_all(passed)
            records += passed
        return records

    def _move(self, subscription: Subscription) -> Move:
        hard = self._broker.hard
        return Move(lambda: hard.shares_of(subscription), self._broker.writer.assigned_end)

    def _moved(self, subscription: Subscription, records: list[Record]) -> asyncio.Future[None]:
        """Commit a jump; from now on the present filter judges, also what was before it."""
        present = self._broker.present(subscription)
        return self._admin.put(replace(present, filter_changes=()), records)

    def _rejoined(self, subscription: Subscription, snapshot: Snapshot) -> list[Record]:
        """Read topics again that a pattern was through with, and that a snapshot kept."""
        records: list[Record] = []
        if subscription.is_pattern:
            kept = self._store.partitions()
            for partition in snapshot.partitions:
                if self._broker.hard.share(subscription.id, partition) is None:
                    floor = self._broker.hard.cursor_of(snapshot, partition).floor
                    if partition in kept:
                        records += self._broker.add_share(subscription, partition, floor)
        return records
