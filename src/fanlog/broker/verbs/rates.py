"""Rates of topics and subscriptions for tables: of about the last ten seconds.

Where all of them stand is written down whenever somebody asks, and no more often than every ten
seconds; a rate is the difference to then. Nobody who asks, nothing that is written. Soft state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fanlog import limits
from fanlog.broker.clock import Clock
from fanlog.broker.metrics import Metrics, SubscriptionMetrics
from fanlog.broker.transaction import Ledger
from fanlog.model.resources import Offset, PartitionId, Subscription, SubscriptionId, Topic

#: A rate of less time than this would jump.
_LEAST_S = 0.9

#: Messages delivered, acknowledged, and failed.
_Counts = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class _Stand:
    at_s: float
    ends: Mapping[PartitionId, Offset]
    counts: Mapping[SubscriptionId, _Counts]


@dataclass(frozen=True, slots=True)
class SubscriptionRates:
    """Messages of a subscription a second."""

    delivered: float
    acknowledged: float
    failed: float


@dataclass(eq=False)
class RecentRates:
    """The rates of one broker. Lives on the loop."""

    _ledger: Ledger
    _clock: Clock
    _metrics: Metrics
    #: The latest stand, and the one before it.
    _stands: list[_Stand] = field(default_factory=list)

    def look(self) -> None:
        """Write down where all stand, unless that was done lately."""
        now = self._clock.now()
        if self._stands and now - self._stands[-1].at_s > limits.RATES_KEPT_S:
            self._stands.clear()
        if self._stands and now - self._stands[-1].at_s < limits.RATE_WINDOW_S:
            return
        counts = {one: _counts(each) for one, each in self._metrics.subscriptions.items()}
        self._stands = [*self._stands[-1:], _Stand(now, self._ledger.ends(), counts)]

    def of_topic(self, topic: Topic) -> float | None:
        """Messages published a second; None when that is not known."""
        stand = self._stand()
        if stand is None:
            return None
        grown = sum(self._ledger.end(one) - stand.ends.get(one, 0) for one in topic.partitions)
        return max(0, grown) / (self._clock.now() - stand.at_s)

    def of_subscription(self, subscription: Subscription) -> SubscriptionRates | None:
        """None when they are not known."""
        stand = self._stand()
        if stand is None:
            return None
        metrics = self._metrics.subscriptions.get(subscription.id)
        now = _NONE if metrics is None else _counts(metrics)
        before = stand.counts.get(subscription.id, _NONE)
        elapsed_s = self._clock.now() - stand.at_s
        return SubscriptionRates(
            *(max(0, new - old) / elapsed_s for new, old in zip(now, before, strict=True))
        )

    def _stand(self) -> _Stand | None:
        """The stand that a rate counts from: ten seconds old, if there is one."""
        now = self._clock.now()
        for stand in self._stands:
            if _LEAST_S <= now - stand.at_s <= limits.RATES_KEPT_S:
                return stand
        return None


_NONE: _Counts = (0, 0, 0)


def _counts(metrics: SubscriptionMetrics) -> _Counts:
    return metrics.delivered, metrics.acknowledged, metrics.nacked + metrics.expired
