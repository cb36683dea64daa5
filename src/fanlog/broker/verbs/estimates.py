"""Estimates: what an act would do to messages, in numbers. Nothing is done.

Cursors say it: no message is read for it, but by filters that have not judged all yet.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from pyroaring import BitMap64

from fanlog import limits
from fanlog.broker.access import Access
from fanlog.broker.clock import Clock
from fanlog.broker.delivery.shares import Shares
from fanlog.broker.retention.retention import Retention
from fanlog.broker.transaction import Ledger
from fanlog.core import snapshots
from fanlog.core.share import Share
from fanlog.errors import FailedPrecondition, InvalidArgument
from fanlog.model.resources import Offset, PartitionId, Subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Counts of messages, and of resources."""

    #: Unacknowledged again; acknowledged; let go of unacknowledged; outstanding now, of those two.
    reopened: int = 0
    acknowledged: int = 0
    lost: int = 0
    outstanding: int = 0
    #: Messages that a snapshot keeps, or would; or a topic.
    kept: int = 0
    #: Messages of a topic that its subscriptions have not acknowledged, in all.
    waiting: int = 0
    #: What is on it, and goes on without it.
    subscriptions: int = 0
    snapshots: int = 0
    topics: int = 0
    #: Filters have not judged all of them.
    is_estimated: bool = False


@dataclass(eq=False)
class Estimates:
    """The estimates of one broker, those of seeks by the names that `Seeks` has."""

    _ledger: Ledger
    _clock: Clock
    _access: Access
    _shares: Shares
    _retention: Retention

    # Seeks.

    async def to_time(self, name: str, time_ns: int) -> Estimate:
        """See `Seeks.to_time`."""
        return await self._seek(
            name, lambda partition: self._ledger.offset_for_time(partition, time_ns)
        )

    async def to_end(self, name: str) -> Estimate:
        """See `Seeks.to_end`."""

        async def target(partition: PartitionId) -> Offset:
            return limits.OFFSET_MAX

        return await self._seek(name, target)

    async def to_position(self, name: str, position: Mapping[PartitionId, Offset]) -> Estimate:
        """See `Seeks.to_position`.

        Raises:
            InvalidArgument: It names a message that is none of this subscription's topics', or that
                was not published yet.
        """
        read = {s.partition for s in self._ledger.hard.shares_of(self._access.find(name))}
        for partition, offset in position.items():
            if partition not in read or offset > self._ledger.end(partition):
                raise InvalidArgument(
                    f"position: {name!r} has no message {offset} of partition {partition}"
                )

        async def target(partition: PartitionId) -> Offset | None:
            return position.get(partition)

        return await self._seek(name, target)

    async def to_snapshot(self, name: str, snapshot_name: str) -> Estimate:
        """See `Seeks.to_snapshot`.

        Raises:
            FailedPrecondition: The snapshot is of another topic.
        """
        await self._shares.judge_all(name)
        hard = self._ledger.hard
        subscription = self._access.find(name)
        snapshot = hard.catalog.snapshot(snapshot_name)
        if not snapshots.is_of(snapshot, subscription):
            raise FailedPrecondition(
                f"snapshot {snapshot_name!r} is of topic {snapshot.topic_shown!r}, not of "
                f"{subscription.topic_shown!r}, which {name!r} reads"
            )
        moves = _Moves()
        for share in hard.shares_of(subscription):
            end = self._ledger.end(share.partition)
            after = BitMap64()
            if share.partition in snapshot.partitions:
                after = hard.cursor_of(snapshot, share.partition).open_offsets(end)
                after.remove_range(0, self._ledger.start_of(share.partition))
            moves.add(share, _open(share, end), after)
        return moves.estimate()

    async def _seek(
        self, name: str, target_in: Callable[[PartitionId], Awaitable[Offset | None]]
    ) -> Estimate:
        self._access.check_serving()
        await self._shares.judge_all(name)
        moves = _Moves()
        for share in self._ledger.hard.shares_of(self._access.find(name)):
            wanted = await target_in(share.partition)
            if wanted is None:
                continue
            retained = await self._retention.retained_from(share, self._clock.now())
            end = self._ledger.end(share.partition)
            start = self._ledger.start_of(share.partition)
            first = min(max(wanted, start), end)
            before = _open(share, end)
            after = before.copy()
            after.remove_range(0, first)
            kept = max(first, retained, start)
            if kept < end:
                after.add_range(kept, end)
            moves.add(share, before, after)
        return moves.estimate()

    # Other acts.

    async def of_leaving(self, name: str) -> Estimate:
        """A subscription is deleted, or detached: its messages are let go of."""
        subscription = self._ledger.hard.catalog.subscription(name)
        messages, is_estimated = self._unacked(subscription)
        shares = self._ledger.hard.shares_of(subscription)
        outstanding = sum(len(share.leased) for share in shares)
        await self._ledger.sync()
        return Estimate(lost=messages, outstanding=outstanding, is_estimated=is_estimated)

    async def of_snapshot(self, name: str) -> Estimate:
        """A snapshot of a subscription is made."""
        messages, is_estimated = self._unacked(self._access.find(name))
        await self._ledger.sync()
        return Estimate(kept=messages, is_estimated=is_estimated)

    async def of_topic(self, name: str) -> Estimate:
        """A topic is deleted. Its subscriptions keep what waits, and get nothing more."""
        hard = self._ledger.hard
        topic = hard.catalog.topic(name)
        shares = [one for p in topic.partitions for one in hard.shares_on(p)]
        attached = {one.settings.id for one in shares if not one.settings.detached}
        ends = {p: self._ledger.end(p) for p in topic.partitions}
        kept = sum(max(0, ends[p] - self._ledger.start_of(p)) for p in topic.partitions)
        waiting = sum(one.stats(ends[one.partition]).backlog for one in shares)
        on_it = [
            one
            for one in hard.catalog.snapshots()
            if not set(topic.partitions).isdisjoint(one.partitions)
        ]
        await self._ledger.sync()
        return Estimate(
            kept=kept,
            waiting=waiting,
            subscriptions=len(attached),
            snapshots=len(on_it),
            is_estimated=any(one.routed_to < ends[one.partition] for one in shares),
        )

    async def of_snapshot_deletion(self, name: str) -> Estimate:
        """A snapshot is deleted: the messages that it keeps may go."""
        hard = self._ledger.hard
        snapshot = hard.catalog.snapshot(name)
        kept = sum(
            hard.cursor_of(snapshot, p).open_before(self._ledger.end(p))
            for p in snapshot.partitions
        )
        await self._ledger.sync()
        return Estimate(kept=kept)

    async def of_schema(self, name: str) -> Estimate:
        """A schema is deleted: topics that have it take no messages any more."""
        catalog = self._ledger.hard.catalog
        topics = catalog.topics_with(catalog.schemas.schema(name))
        await self._ledger.sync()
        return Estimate(topics=len(topics))

    def _unacked(self, subscription: Subscription) -> tuple[int, bool]:
        if subscription.detached:
            return 0, False
        messages, is_estimated = 0, False
        for share in self._ledger.hard.shares_of(subscription):
            end = self._ledger.end(share.partition)
            messages += share.stats(end).backlog
            is_estimated = is_estimated or share.routed_to < end
        return messages, is_estimated


class _Moves:
    """The messages that a seek would move, share by share."""

    def __init__(self) -> None:
        self._reopened = self._acknowledged = self._outstanding = 0

    def add(self, share: Share, before: BitMap64, after: BitMap64) -> None:
        closed = before - after
        self._reopened += len(after - before)
        self._acknowledged += len(closed)
        self._outstanding += len(share.leased & closed)

    def estimate(self) -> Estimate:
        return Estimate(
            reopened=self._reopened,
            acknowledged=self._acknowledged,
            outstanding=self._outstanding,
        )


def _open(share: Share, end: Offset) -> BitMap64:
    found = BitMap64()
    for low, high in share.open_ranges(0, end):
        found.add_range(low, high)
    return found
