"""Reopening: messages of a subscription become unacknowledged again, by offsets or by a window.

The rules are in `fanlog.core.share`; here offsets are found, and those that the log no longer has
are left out. Ten million offsets are a bitmap of two kilobytes, and are never looked at one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyroaring import BitMap64

from fanlog import limits
from fanlog.broker.access import Access
from fanlog.broker.clock import Clock
from fanlog.broker.delivery.decisions import Decisions
from fanlog.broker.generations import Generations
from fanlog.broker.metrics import Metrics
from fanlog.broker.transaction import Ledger
from fanlog.core.records import RememberedAnswer
from fanlog.core.share import Decision, Share
from fanlog.errors import InvalidArgument
from fanlog.limits import OFFSET_MAX
from fanlog.log.api import Bounds
from fanlog.model.resources import Offset, PartitionId, Subscription

#: Partitions looked up before the loop may do something else.
STEP = 100


#: Why messages are skipped, to be read behind how many there are.
UNACKED = "still unacknowledged, so that they are delivered anyway"
GONE = "gone: nothing keeps them any more"
AHEAD = "not published yet"
#: Of a request that was done by a build that kept one number.
UNTOLD = "skipped for a reason that was not kept"


@dataclass(slots=True)
class Wanted:
    """The offsets that a request names, as far as the log has them; the others are counted.

    A range of a few bytes may name a million million offsets: only its part within the bounds of
    the partition becomes a set.
    """

    sets: dict[PartitionId, BitMap64] = field(default_factory=dict)
    #: Ranges below the start of their partition, and from its end on.
    _outside: dict[PartitionId, list[tuple[Offset, Offset]]] = field(default_factory=dict)

    def add(self, partition: PartitionId, offsets: BitMap64) -> None:
        found = self.sets.setdefault(partition, BitMap64())
        found |= offsets

    def add_range(self, partition: PartitionId, start: Offset, end: Offset, bounds: Bounds) -> None:
        """Add the offsets from `start` to before `end`; `bounds` are those of the partition."""
        low, high = max(start, bounds.start), min(end, bounds.end)
        self.add(partition, BitMap64(range(low, max(low, high))))
        outside = self._outside.setdefault(partition, [])
        outside += [(start, min(end, bounds.start)), (max(start, bounds.end), end)]

    def outside(self, partition: PartitionId, start: Offset, end: Offset) -> int:
        """How many offsets of ranges that were left out lie within [start, end), each once."""
        count, reached = 0, start
        for low, high in sorted(self._outside.get(partition, ())):
            low, high = max(low, reached), min(high, end)
            if low < high:
                count, reached = count + high - low, high
        return count


@dataclass(frozen=True, slots=True)
class ReopenAnswer:
    """The answer to a request to reopen."""

    #: Messages that were acknowledged and are not any more.
    reopened: int
    #: How many were asked for and are not, by reason; no reason has none.
    skipped: Mapping[str, int]
    #: Of those reopened, how many a backlog policy had dropped, at most; 0 when it is repeated.
    dropped: int = 0


@dataclass(eq=False)
class Reopening:
    """The verb that reopens. Lives on the loop."""

    _ledger: Ledger
    _clock: Clock
    _metrics: Metrics
    _access: Access
    _decisions: Decisions
    _generations: Generations

    def bounds(self, partition: PartitionId) -> Bounds:
        """The offsets of a partition that can be reopened at all, as of now."""
        return Bounds(self._ledger.start_of(partition), self._ledger.end(partition))

    async def reopen(self, name: str, wanted: Wanted, request_id: str = "") -> ReopenAnswer:
        """Reopen offsets of a subscription; durable when this returns.

        Raises:
            FailedPrecondition: The subscription is detached.
            InvalidArgument: There are offsets of a topic that it does not read.
        """
        self._access.check_serving()
        return await self._reopen(self._access.enter(name), wanted, request_id)

    async def reopen_window(
        self, name: str, start_ns: int, end_ns: int | None, request_id: str = ""
    ) -> ReopenAnswer:
        """Reopen all that was published from one time on and, if there is another, before that.

        Durable when this returns; raises as `reopen` does.
        """
        self._access.check_serving()
        subscription = self._access.enter(name)
        done = self._done(subscription, request_id)
        window: dict[PartitionId, BitMap64] = {}
        for number, share in enumerate(self._ledger.hard.shares_of(subscription)):
            if done is not None:
                break
            if number % STEP == STEP - 1:
                await asyncio.sleep(0)
            window[share.partition] = await self._window(share.partition, start_ns, end_ns)
        # A topic that joins a pattern meanwhile has nothing acknowledged yet.
        return await self._reopen(self._access.enter(name), Wanted(window), request_id)

    async def _window(self, partition: PartitionId, start_ns: int, end_ns: int | None) -> BitMap64:
        ledger = self._ledger
        start = max(await ledger.offset_for_time(partition, start_ns), ledger.start_of(partition))
        end = ledger.end(partition)
        if end_ns is not None:
            end = min(end, await ledger.offset_for_time(partition, end_ns))
        return BitMap64(range(start, max(start, end)))

    async def _reopen(
        self, subscription: Subscription, wanted: Wanted, request_id: str
    ) -> ReopenAnswer:
        done = self._done(subscription, request_id)
        if done is not None:
            # Perhaps by a commit that is still under way.
            await self._ledger.sync()
            return ReopenAnswer(done.reopened, _reasons(done))
        committed, reopening = self._begin(subscription, wanted, request_id)
        await committed
        return reopening

    def _done(self, subscription: Subscription, request_id: str) -> RememberedAnswer | None:
        return self._ledger.hard.requests.find(subscription.id, request_id, self._clock.now())

    def _begin(
        self, subscription: Subscription, wanted: Wanted, request_id: str
    ) -> tuple[asyncio.Future[None], ReopenAnswer]:
        """Decide, apply and commit, in one turn of the loop."""
        transaction, now, offsets = self._ledger.begin(), self._clock.now(), wanted.sets
        shares = self._shares(subscription, offsets)
        there = {p: self._there(p, offsets[p]) for p in shares}
        drops, dropped = self._ledger.hard.drops, 0
        for partition, share in shares.items():
            known = drops.get((subscription.id, partition)) if drops else None
            if known is not None:
                dropped += known.among(share.cursor.acknowledged(there[partition]))
        decisions: list[tuple[Share, Decision]] = []
        for partition, share in shares.items():
            transaction.apply(share.settle_passed().records)
            generation = self._generations.next()
            decision = share.reopen(now, there[partition], generation=generation)
            transaction.apply(decision.records)
            decisions.append((share, decision))
        reopened = sum(decision.count for _, decision in decisions)
        asked = sum(len(offsets[p]) + wanted.outside(p, 0, OFFSET_MAX) for p in offsets)
        answer = RememberedAnswer(
            reopened=reopened,
            skipped=asked - reopened,
            unacked=sum(map(len, there.values())) - reopened,
            ahead=sum(self._ahead(p, wanted) for p in shares),
        )
        remembered = self._ledger.hard.requests.remember(
            subscription.id,
            request_id,
            answer,
            expires_s=now + limits.REQUEST_ID_S,
            most=limits.REQUEST_IDS_MAX,
        )
        transaction.apply(remembered)
        committed = transaction.commit()
        self._metrics.of(subscription.id).reopened += reopened
        for share, decision in decisions:
            self._decisions.follow(share, decision)
        return committed, ReopenAnswer(reopened, _reasons(answer), dropped)

    def _shares(
        self, subscription: Subscription, offsets: Mapping[PartitionId, BitMap64]
    ) -> dict[PartitionId, Share]:
        hard = self._ledger.hard
        found: dict[PartitionId, Share] = {}
        for partition in offsets:
            share = hard.share(subscription.id, partition)
            if share is not None:
                found[partition] = share
            elif hard.catalog.topic_name_of(partition) or not subscription.is_pattern:
                raise InvalidArgument(
                    f"offsets: partition {partition} is of no topic "
                    f"that {subscription.name!r} reads"
                )
            # Otherwise a deleted topic that the pattern has read to its end.
        return found

    def _ahead(self, partition: PartitionId, wanted: Wanted) -> int:
        """How many of the offsets nothing was published at yet."""
        end, offsets = self._ledger.end(partition), wanted.sets[partition]
        published = offsets.range_cardinality(0, end)
        return len(offsets) - published + wanted.outside(partition, end, OFFSET_MAX)

    def _there(self, partition: PartitionId, offsets: BitMap64) -> BitMap64:
        """Those of `offsets` that the log has."""
        start, end = self._ledger.start_of(partition), self._ledger.end(partition)
        there = offsets.copy()
        there.remove_range(0, start)
        if there and there.max() >= end:
            there.remove_range(end, there.max() + 1)
        return there


def _reasons(answer: RememberedAnswer) -> dict[str, int]:
    if answer.unacked is None or answer.ahead is None:
        counts = {UNTOLD: answer.skipped}
    else:
        gone = answer.skipped - answer.unacked - answer.ahead
        counts = {UNACKED: answer.unacked, GONE: gone, AHEAD: answer.ahead}
    return {reason: count for reason, count in counts.items() if count}
