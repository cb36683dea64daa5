"""Purges: everything unacknowledged of a subscription is acknowledged, up to now or to a place.

A seek moves a subscription and may reopen what it had acknowledged; a purge only closes. Leases of
the messages that go are over: under exactly-once their acknowledgements are refused from then on,
at least once they change nothing. All other messages, their leases and attempts stay as they are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fanlog.broker.access import Access
from fanlog.broker.clock import Clock
from fanlog.broker.delivery.decisions import Decisions
from fanlog.broker.delivery.shares import Shares
from fanlog.broker.metrics import Metrics
from fanlog.broker.transaction import Ledger
from fanlog.core.recent_events import RecentEvents
from fanlog.core.share import Decision
from fanlog.errors import InvalidArgument
from fanlog.model.ids import message_id
from fanlog.model.resources import Offset, PartitionId


@dataclass(frozen=True, slots=True)
class PurgeAnswer:
    """The messages that a purge acknowledged, or would."""

    purged: int
    #: Of them, those that were leased.
    outstanding: int


@dataclass(eq=False)
class Purges:
    """The verb that purges. Lives on the loop."""

    _ledger: Ledger
    _metrics: Metrics
    _access: Access
    _shares: Shares
    _decisions: Decisions
    _clock: Clock
    _recent: RecentEvents

    async def to_now(self, name: str, *, dry_run: bool = False) -> PurgeAnswer:
        """Acknowledge all that is published; durable when this returns.

        Raises:
            SubscriptionNotFound: There is no such subscription.
            FailedPrecondition: It is detached.
        """

        async def end(partition: PartitionId) -> Offset:
            return self._ledger.end(partition)

        return await self._purge(name, end, dry_run)

    async def to_time(self, name: str, time_ns: int, *, dry_run: bool = False) -> PurgeAnswer:
        """As `to_now`, of what was published before a time."""
        return await self._purge(
            name, lambda partition: self._ledger.offset_for_time(partition, time_ns), dry_run
        )

    async def to_message(
        self, name: str, partition: PartitionId, offset: Offset, *, dry_run: bool = False
    ) -> PurgeAnswer:
        """As `to_now`, of the messages of one topic before one of them.

        Raises:
            InvalidArgument: The message is of no topic that the subscription reads, or not
                published yet.
        """
        subscription = self._access.find(name)
        if self._ledger.hard.share(subscription.id, partition) is None:
            raise InvalidArgument(
                f"message_id: {message_id(partition, offset)!r} is of no topic that {name!r} reads"
            )
        if offset > self._ledger.end(partition):
            raise InvalidArgument(
                f"message_id: {message_id(partition, offset)!r} is not published yet"
            )

        async def end(other: PartitionId) -> Offset:
            return offset if other == partition else 0

        return await self._purge(name, end, dry_run)

    async def _purge(
        self, name: str, end_of: Callable[[PartitionId], Awaitable[Offset]], dry_run: bool
    ) -> PurgeAnswer:
        self._access.check_serving()
        subscription = self._access.enter(name)
        ends = {
            share.partition: await end_of(share.partition)
            for share in self._ledger.hard.shares_of(subscription)
        }
        # What the filter leaves out is none of the subscription's, and not counted.
        await self._shares.judge_all(name)
        shares = self._ledger.hard.shares_of(self._access.enter(name))
        # A topic that joined a pattern meanwhile is left as it is.
        targets = [
            (share, min(ends[share.partition], self._ledger.end(share.partition)))
            for share in shares
            if share.partition in ends
        ]
        outstanding = sum(share.leased.range_cardinality(0, end) for share, end in targets if end)
        if dry_run:
            counts = sum(share.open_count(end) for share, end in targets)
            await self._ledger.sync()
            return PurgeAnswer(counts, outstanding)
        firsts = [share.first_open for share, _ in targets]
        transaction = self._ledger.begin()
        decided: list[Decision] = []
        for share, end in targets:
            decision = share.purge(end)
            transaction.apply(decision.records)
            decided.append(decision)
        committed = None if transaction.is_empty else transaction.commit()
        purged, now = sum(decision.count for decision in decided), self._clock.now()
        self._metrics.of(subscription.id).purged += purged
        for (share, end), first, decision in zip(targets, firsts, decided, strict=True):
            self._decisions.follow(share, decision)
            if decision.count:
                span = first, end
                self._recent.note_purged(now, subscription.id, share.partition, span)
        if committed is None:
            await self._ledger.sync()
        else:
            await committed
        return PurgeAnswer(purged, outstanding)
