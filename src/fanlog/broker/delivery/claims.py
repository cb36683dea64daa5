"""Claims: at most once, messages are acknowledged in a commit before they are sent.

A consumer leases as any other does, and claims what it leased when the transport is about to have
it. A lease that never comes so far is given back or runs out, and its messages are free again; a
crash after the claim loses them. A message whose lease has ended meanwhile is not to be sent: it is
another consumer's by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from fanlog.broker.clock import Clock
from fanlog.broker.delivery.decisions import Decisions
from fanlog.broker.delivery.delivery import Delivery
from fanlog.broker.delivery.leaving import Leaving
from fanlog.broker.metrics import Metrics
from fanlog.broker.transaction import Ledger
from fanlog.core.share import ByGeneration
from fanlog.model.resources import Offset, PartitionId, Subscription

#: Messages by the lease that they are in.
Leased = Mapping[PartitionId, ByGeneration]


class Claims:
    """The claims on all subscriptions of one broker that deliver at most once."""

    def __init__(
        self, ledger: Ledger, clock: Clock, metrics: Metrics, decisions: Decisions
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._metrics = metrics
        self._decisions = decisions

    async def claim(self, subscription: Subscription, leased: Leased) -> set[tuple[int, Offset]]:
        """Acknowledge messages that are about to be sent, durably when this returns.

        Returns those that must not be sent, by partition and offset.
        """
        now = self._clock.now()
        lost: set[tuple[int, Offset]] = set()
        committed: asyncio.Future[None] | None = None
        for partition, by_generation in leased.items():
            share = self._ledger.hard.share(subscription.id, partition)
            if share is None:
                # Deleted meanwhile, or a topic that a pattern has left.
                lost |= {(partition, o) for some in by_generation.values() for o in some}
                continue
            decision = share.claim(now, by_generation)
            self._metrics.count_acks(subscription.id, decision, now)
            committed = self._decisions.decide(share, decision) or committed
            lost |= {(partition, o) for _, o in (*decision.invalid, *decision.early)}
        if committed is not None:
            await committed
        return lost

    async def claim_deliveries(
        self, subscription: Subscription, deliveries: Sequence[Delivery]
    ) -> list[Delivery]:
        """As `claim`; the deliveries as they may be sent. With other settings, all of them."""
        if not subscription.is_at_most_once:
            return list(deliveries)
        leaving = [Leaving(delivery, list(delivery.runs)) for delivery in deliveries]
        lost = await self.claim(
            subscription,
            {
                one.delivery.partition: {one.delivery.generation: list(one.offsets())}
                for one in leaving
            },
        )
        return [_without(one, lost) for one in leaving if _is_left(one, lost)]


def _is_left(leaving: Leaving, lost: set[tuple[int, Offset]]) -> bool:
    partition = leaving.delivery.partition
    return any((partition, offset) not in lost for offset in leaving.offsets())


def _without(leaving: Leaving, lost: Iterable[tuple[int, Offset]]) -> Delivery:
    gone = {offset for partition, offset in lost if partition == leaving.delivery.partition}
    if not gone:
        return leaving.delivery
    leaving.without(gone)
    return leaving.as_delivery()
