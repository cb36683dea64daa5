"""The metrics of subscriptions, of those that have some of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from operator import attrgetter

from fanlog.broker.broker import Broker
from fanlog.broker.metrics import SubscriptionMetrics
from fanlog.errors import LakeUnavailable
from fanlog.model.resources import Subscription, SubscriptionId
from fanlog.server.metric_families import BACKLOG_GAUGES, FAMILIES, SUBSCRIPTION_COUNTERS
from fanlog.server.metrics.family import Labels, Reading, Value
from fanlog.server.metrics.kept import Kept
from fanlog.server.metrics.pace import Pace

_NOTHING = SubscriptionMetrics()
_COUNTS = attrgetter(*SUBSCRIPTION_COUNTERS)


class SampleColumns:
    """The samples of one metric as they are found."""

    __slots__ = ("_name", "labels", "values")

    def __init__(self, name: str) -> None:
        self._name = name
        self.labels: list[Labels] = []
        self.values: list[Value] = []

    def add(self, labels: Labels, value: float) -> None:
        self.labels.append(labels)
        self.values.append(value)

    def reading(self) -> Reading:
        return Reading(FAMILIES[self._name], self.labels, self.values)


class SubscriptionNumbers:
    """Of one broker."""

    def __init__(self, broker: Broker, kept: Kept[SubscriptionId]) -> None:
        self._broker = broker
        self._kept = kept
        #: The names of subscriptions that are kept, as of the last reading; None for all.
        self.names: frozenset[str] | None = None

    async def read(self, pace: Pace) -> AsyncIterator[Reading]:
        broker = self._broker
        labels: list[Labels] = []
        counted: list[list[Value]] = [[] for _ in SUBSCRIPTION_COUNTERS]
        gauges = [SampleColumns(name) for name in BACKLOG_GAUGES.values()]
        members, consumers = (
            SampleColumns("fanlog_key_slot_members"),
            SampleColumns("fanlog_consumers"),
        )
        dropped = SampleColumns("fanlog_dropped")
        for subscription in await self._choose(pace):
            await pace.rest()
            if broker.hard.catalog.subscription_by_id(subscription.id) is None:
                continue
            name = (subscription.name,)
            counts = broker.metrics.subscriptions.get(subscription.id, _NOTHING)
            labels.append(name)
            for into, value in zip(counted, _COUNTS(counts), strict=True):
                into.append(value)
            for reason, count in sorted(counts.dropped.items()):
                dropped.add((subscription.name, reason), count)
            consumers.add(name, broker.feeds.consumers_of(subscription))
            if subscription.key_slots:
                found = broker.feeds.members_of(subscription)
                members.add(name, 0 if found is None else len(found))
            try:
                state = await broker.backlogs.measure(subscription)
            except LakeUnavailable:
                # How old the oldest is stands in the lake; the metric of its alarm says the rest.
                continue
            for attribute, gauge in zip(BACKLOG_GAUGES, gauges, strict=True):
                gauge.add(name, getattr(state, attribute))
        for family, values in zip(SUBSCRIPTION_COUNTERS.values(), counted, strict=True):
            yield Reading(family, labels, values)
        for one in (*gauges, members, consumers, dropped):
            yield one.reading()
        for reading in self._pressure():
            yield reading

    def _pressure(self) -> tuple[Reading, Reading]:
        broker = self._broker
        gauges, rates = SampleColumns("fanlog_pressure"), SampleColumns("fanlog_sample_rate")
        for bound in broker.relief.bounds:
            if not self.has(bound.name):
                continue
            gauges.add((bound.name,), broker.pressure.of_subscription(bound.subscription) or 0.0)
            if bound.policy.way == "sample":
                rates.add((bound.name,), 2.0**-bound.level)
        return gauges.reading(), rates.reading()

    def has(self, name: str) -> bool:
        """Whether a subscription had metrics of its own in the last reading."""
        return self.names is None or name in self.names

    async def _choose(self, pace: Pace) -> list[Subscription]:
        broker = self._broker
        found = {one.id: one for one in broker.hard.catalog.subscriptions()}
        now = broker.clock.now()
        if not self._kept.is_bounded(len(found)):
            self.names = None
            return list(found.values())
        if self._kept.is_due(now):
            active: dict[SubscriptionId, int] = {}
            sizes: dict[SubscriptionId, int] = {}
            for subscription_id, subscription in found.items():
                await pace.rest()
                counts = broker.metrics.subscriptions.get(subscription_id, _NOTHING)
                active[subscription_id] = counts.delivered + counts.acknowledged
                sizes[subscription_id] = self._lag(subscription)
            self._kept.choose(now, active, sizes)
        chosen = [found[one] for one in self._kept.members(found)]
        self.names = frozenset(one.name for one in chosen)
        return chosen

    def _lag(self, subscription: Subscription) -> int:
        """Messages behind the oldest unacknowledged one: as many as wait, or more."""
        if subscription.detached:
            return 0
        ledger = self._broker.ledger
        shares = ledger.hard.shares_of(subscription)
        return sum([max(0, ledger.end(one.partition) - one.first_open) for one in shares])
