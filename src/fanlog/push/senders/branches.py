"""Branches: how many subscriptions forward the messages of a partition.

A copy's share of the copies there may be depends on it (`fanlog.log.seal`). Counting looks at every
subscription of the partition, so an answer is believed for a second.
"""

from __future__ import annotations

from fanlog.broker.broker import Broker
from fanlog.broker.clock import Clock
from fanlog.model import endpoints
from fanlog.model.resources import PartitionId, Subscription
from fanlog.push.senders.pushed import is_pushed

_BELIEVED_S = 1.0


class Branches:
    """Counts of one broker. Lives on its loop."""

    def __init__(self, broker: Broker, clock: Clock) -> None:
        self._broker = broker
        self._clock = clock
        self._counts: dict[PartitionId, int] = {}
        self._until_s = 0.0

    def of(self, partition: PartitionId) -> int:
        """How many forward the messages of a partition; whoever asks is one of them."""
        now = self._clock.now()
        if now >= self._until_s:
            self._counts.clear()
            self._until_s = now + _BELIEVED_S
        if partition not in self._counts:
            shares = self._broker.hard.shares_on(partition)
            self._counts[partition] = max(1, sum(_forwards(one.settings) for one in shares))
        return self._counts[partition]


def _forwards(subscription: Subscription) -> bool:
    push = subscription.push
    if push is None or not is_pushed(subscription):
        return False
    return push.endpoint.startswith(endpoints.TOPIC_SCHEME)
