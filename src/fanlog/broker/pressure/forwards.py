"""Forwards through which pressure travels: they say nothing of their own backlogs. Soft state.

A forward moves messages on as fast as its target takes them. While that pushes back, the forward
does so too on the topics that it reads, or its backlog would grow in the place of the target's. One
with a backlog policy of its own does what that says instead.
"""

from __future__ import annotations

from collections.abc import Iterable

from fanlog.broker.transaction import Ledger
from fanlog.model import endpoints
from fanlog.model.attributes import LABEL_BACKLOG_POLICY
from fanlog.model.resources import PartitionId, Subscription, SubscriptionId


def target_of(subscription: Subscription) -> str | None:
    """The name of the topic that a subscription forwards to; None for another kind."""
    if subscription.push is None or subscription.detached:
        return None
    return endpoints.forward_topic(subscription.push.endpoint, subscription.name)


class Forwards:
    """All such forwards of one broker, by the partitions they read. Lives on the loop."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._partitions: dict[SubscriptionId, set[PartitionId]] = {}
        self._on: dict[PartitionId, dict[SubscriptionId, str]] = {}

    def on(self, partition: PartitionId) -> Iterable[str]:
        """The targets of the forwards that read a partition."""
        found = self._on.get(partition)
        return () if found is None else found.values()

    def put(self, subscription: Subscription) -> None:
        """A subscription is new or was changed."""
        self.remove(subscription)
        if LABEL_BACKLOG_POLICY in subscription.labels or target_of(subscription) is None:
            return
        self._partitions[subscription.id] = set()
        for share in self._ledger.hard.shares_of(subscription):
            self.join(subscription, share.partition)

    def join(self, subscription: Subscription, partition: PartitionId) -> None:
        """A topic joined a pattern."""
        partitions, target = self._partitions.get(subscription.id), target_of(subscription)
        if partitions is not None and target is not None:
            partitions.add(partition)
            self._on.setdefault(partition, {})[subscription.id] = target

    def remove(self, subscription: Subscription) -> None:
        for partition in self._partitions.pop(subscription.id, ()):
            targets = self._on[partition]
            del targets[subscription.id]
            if not targets:
                del self._on[partition]

    def load(self) -> None:
        """Hard state was loaded."""
        self._partitions.clear()
        self._on.clear()
        for subscription in self._ledger.hard.catalog.subscriptions():
            if subscription.push is not None:
                self.put(subscription)
