"""The verbs that move subscriptions in time: to a time, to a position, to a snapshot."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from fanlog.broker import snapshots
from fanlog.broker.clock import Clock
from fanlog.core.records import Record
from fanlog.errors import FailedPrecondition, InvalidArgument
from fanlog.log.api import Log
from fanlog.model import Offset, PartitionId, Snapshot, Subscription

if TYPE_CHECKING:
    from fanlog.broker.admin import Admin
    from fanlog.broker.broker import Broker


class Seeks:
    """Seeks of one broker. All of them answer when what they saw and did is durable."""

    def __init__(self, broker: Broker, admin: Admin, store: Log, clock: Clock) -> None:
        self._broker = broker
        self._admin = admin
        self._store = store
        self._clock = clock

    async def to_time(self, name: str, time_ns: int) -> None:
        """Acknowledge all published before, and reopen what is retained of all after."""
        await self._seek(name, lambda partition: self._admin.offset_for_time(partition, time_ns))

    async def to_position(self, name: str, position: Mapping[PartitionId, Offset]) -> None:
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

        await self._seek(name, target)

    async def to_snapshot(self, name: str, snapshot_name: str) -> None:
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
        records = self._rejoined(subscription, snapshot)
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
        await self._moved(subscription, records)

    def position(self, subscription: Subscription) -> dict[PartitionId, Offset]:
        """Where a subscription stands: its first unacknowledged offset of each partition."""
        shares = self._broker.hard.shares_of(subscription)
        return {share.partition: share.first_open for share in shares}

    async def _seek(
        self, name: str, target_in: Callable[[PartitionId], Awaitable[Offset | None]]
    ) -> None:
        subscription = self._admin.attached(name)
        await self._admin.route_all(name)
        targets: dict[PartitionId, tuple[Offset, Offset]] = {}
        for share in self._broker.hard.shares_of(subscription):
            target = await target_in(share.partition)
            retained = await self._broker.retention.retained_from(share, self._clock.now())
            if target is not None:
                targets[share.partition] = target, retained
        # What came while this waited counts as what the filter says of it.
        await self._admin.route_all(name)
        subscription = self._admin.attached(name)
        records: list[Record] = []
        for share in self._broker.hard.shares_of(subscription):
            if share.partition not in targets:
                # Not asked about, or a topic that joined while this waited: all of it is to come.
                continue
            target, retained = targets[share.partition]
            passed = share.settle_passed().records
            self._broker.hard.apply_all(passed)
            start = self._broker.writer.start(share.partition)
            decision = share.seek(
                max(target, start), max(retained, start), generation=self._broker.next_generation()
            )
            records += [*passed, *decision.records]
        await self._moved(subscription, records)

    async def _moved(self, subscription: Subscription, records: list[Record]) -> None:
        """Commit a jump; from now on the present filter judges, also what was before it."""
        present = self._broker.present(subscription)
        await self._admin.put(replace(present, filter_changes=()), records)

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
