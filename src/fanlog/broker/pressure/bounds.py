"""Bounds: the subscriptions whose backlogs have limits, and how full these are. Soft state.

Counting a backlog is cheap, and still not done for each publish: an upper bound of it, the count of
the last time and what was published since, says that there is room most of the time. Only what
takes messages back (a seek, a reopening) can make it longer than that; it is found by the next look
(`fanlog.broker.pressure.relief`).

Subscriptions of one group share their limits: each compares the sum over all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from fanlog.broker.transaction import Ledger, Transaction
from fanlog.core.watermark import Watermark
from fanlog.model import names
from fanlog.model.backlog_policy import BacklogPolicy
from fanlog.model.resources import Offset, PartitionId, Subscription, SubscriptionId


@dataclass(eq=False, slots=True)
class Bound:
    """One subscription with a backlog policy."""

    subscription: Subscription
    policy: BacklogPolicy
    partitions: set[PartitionId] = field(default_factory=set)
    mark: Watermark = field(default_factory=Watermark)
    #: How full the backlog was when it was last counted.
    fill: float = 0.0
    #: No more messages than this are in the backlog, as far as publishes say.
    ceiling: int = 0
    #: Bytes and messages that were measured, or published since.
    size_bytes: float = 0.0
    sized: int = 0
    age_s: float = 0.0
    #: Of a sample, the level; and when it last changed.
    level: int = 0
    level_s: float = 0.0
    #: Where in each partition the sample goes on to become smaller.
    thinned: dict[PartitionId, Offset] = field(default_factory=dict)
    #: First offset of each partition that was not sampled yet.
    unsampled: dict[PartitionId, Offset] = field(default_factory=dict)
    #: Messages delivered by the sample, and left out of it, since the last summary.
    summary_s: float = 0.0
    left_out: int = 0

    @property
    def id(self) -> SubscriptionId:
        return self.subscription.id

    @property
    def name(self) -> str:
        return self.subscription.name

    @property
    def group(self) -> tuple[str, str] | None:
        """The project and the name of its group."""
        if not self.policy.group:
            return None
        return names.project_of(self.name), self.policy.group

    def bytes_of(self, messages: int) -> float:
        """About how many bytes so many of its messages have."""
        return messages * self.size_bytes / self.sized if self.sized else 0.0


class BoundTable:
    """All bounds of one broker, by subscription, partition and group. Lives on the loop."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._by_id: dict[SubscriptionId, Bound] = {}
        self._on: dict[PartitionId, dict[Bound, None]] = {}
        self._groups: dict[tuple[str, str], dict[Bound, None]] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Bound]:
        return iter(list(self._by_id.values()))

    def find(self, subscription: SubscriptionId) -> Bound | None:
        return self._by_id.get(subscription)

    def on(self, partition: PartitionId) -> Iterable[Bound]:
        """The bounds of subscriptions that read a partition."""
        return self._on.get(partition, ())

    def members_of(self, bound: Bound) -> Iterable[Bound]:
        """The bounds that share limits with one, itself included."""
        group = bound.group
        return (bound,) if group is None else self._groups[group]

    def put(self, subscription: Subscription) -> Bound | None:
        """A subscription is new or was changed; its bound, if it has one now."""
        before = self.remove(subscription.id)
        policy = None if subscription.detached else subscription.backlog_policy
        if policy is None:
            return None
        bound = Bound(subscription, policy)
        if before is not None and before.policy == policy:
            bound = before
            bound.subscription = subscription
        elif before is not None:
            bound.mark, bound.level = before.mark, before.level
        self._by_id[subscription.id] = bound
        bound.partitions = set()
        for share in self._ledger.hard.shares_of(subscription):
            self.join(subscription.id, share.partition)
        if bound.group is not None:
            self._groups.setdefault(bound.group, {})[bound] = None
        # What is there already was never counted.
        bound.ceiling = self.count(bound)
        return bound

    def join(self, subscription: SubscriptionId, partition: PartitionId) -> None:
        """A topic joined a pattern."""
        bound = self._by_id.get(subscription)
        if bound is not None:
            bound.partitions.add(partition)
            self._on.setdefault(partition, {})[bound] = None

    def remove(self, subscription: SubscriptionId) -> Bound | None:
        bound = self._by_id.pop(subscription, None)
        if bound is None:
            return None
        for partition in bound.partitions:
            readers = self._on.get(partition)
            if readers is not None:
                readers.pop(bound, None)
                if not readers:
                    del self._on[partition]
        if bound.group is not None:
            members = self._groups[bound.group]
            members.pop(bound, None)
            if not members:
                del self._groups[bound.group]
        return bound

    def clear(self) -> None:
        self._by_id.clear()
        self._on.clear()
        self._groups.clear()

    # Counting.

    def count(self, bound: Bound, transaction: Transaction | None = None) -> int:
        """The messages in the backlog of one, with those that a transaction appends."""
        ledger, total = self._ledger, 0
        for share in ledger.hard.shares_of(bound.subscription):
            partition = share.partition
            end = ledger.assigned_end(partition)
            if transaction is not None:
                end = max(end, transaction.end(partition))
            total += share.backlog_count(end)
        return total

    def measure(self, bound: Bound, transaction: Transaction | None = None) -> tuple[int, float]:
        """Messages and about how many bytes of one and its group; notes how full that is."""
        messages, size_bytes, age_s = 0, 0.0, 0.0
        for one in self.members_of(bound):
            one.ceiling = self.count(one, transaction)
            messages += one.ceiling
            size_bytes += one.bytes_of(one.ceiling)
            age_s = max(age_s, one.age_s if one.ceiling else 0.0)
        bound.fill = bound.policy.fill(messages, size_bytes, age_s)
        return messages, size_bytes

    def may_be_full(self, bound: Bound) -> bool:
        """Whether the backlog may be above its low mark; false when it cannot."""
        messages = sum(one.ceiling for one in self.members_of(bound))
        size_bytes = sum(one.bytes_of(one.ceiling) for one in self.members_of(bound))
        return bound.policy.fill(messages, size_bytes, bound.age_s) > bound.policy.low
