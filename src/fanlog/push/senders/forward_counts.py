"""How many subscriptions forward the messages of each partition.

A copy's share of the copies there may be depends on it (`fanlog.log.seal`). Counting looks at every
subscription of the partition, so a count is kept for a second.
"""

from __future__ import annotations

from fanlog.broker.broker import Broker
from fanlog.broker.clock import Clock
from fanlog.model.resources import PartitionId, Subscription
from fanlog.push.rules.kinds import is_pushed, kind_of

_KEPT_S = 1.0


class ForwardCounts:
    """Counts of one broker. Lives on its loop."""

    def __init__(self, broker: Broker, clock: Clock) -> None:
        self._broker = broker
        self._clock = clock
        self._counts: dict[PartitionId, int] = {}
        self._until_s = 0.0

    def of(self, partition: PartitionId) -> int:
        """How many subscriptions forward the messages of a partition; at least the caller's."""
        now = self._clock.now()
        if now >= self._until_s:
            self._counts.clear()
            self._until_s = now + _KEPT_S
        if partition not in self._counts:
            shares = self._broker.hard.shares_on(partition)
            self._counts[partition] = max(1, sum(_forwards(one.settings) for one in shares))
        return self._counts[partition]


def _forwards(subscription: Subscription) -> bool:
    return is_pushed(subscription) and kind_of(subscription.push) == "topic"
