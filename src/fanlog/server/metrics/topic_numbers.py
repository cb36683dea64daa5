"""The metrics of topics, of those that have some of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fanlog.broker.broker import Broker
from fanlog.broker.metrics import PartitionMetrics
from fanlog.model.resources import Topic, TopicId
from fanlog.server.metric_families import FAMILIES
from fanlog.server.metrics.family import Labels, Reading
from fanlog.server.metrics.kept import Kept
from fanlog.server.metrics.pace import Pace

_NOTHING = PartitionMetrics()


class TopicNumbers:
    """Of one broker."""

    def __init__(self, broker: Broker, kept: Kept[TopicId]) -> None:
        self._broker = broker
        self._kept = kept

    async def read(self, pace: Pace) -> AsyncIterator[Reading]:
        labels: list[Labels] = []
        published: list[int] = []
        sizes: list[int] = []
        publishes: list[int] = []
        stored: list[int] = []
        ledger = self._broker.ledger
        topics = await self._choose(pace)
        for topic in topics:
            await pace.rest()
            counts = self._counts(topic)
            labels.append((topic.name,))
            published.append(sum([one.messages for one in counts]))
            sizes.append(sum([one.size_bytes for one in counts]))
            publishes.append(sum([one.publishes for one in counts]))
            spans = [ledger.end(one) - ledger.start_of(one) for one in topic.partitions]
            stored.append(sum(spans))
        for name, column in (
            ("fanlog_topic_published", published),
            ("fanlog_topic_published_bytes", sizes),
            ("fanlog_topic_publishes", publishes),
            ("fanlog_topic_stored_messages", stored),
        ):
            yield Reading(FAMILIES[name], labels, column)
        refused = {
            topic.name: count
            for topic in topics
            if (count := self._broker.publish_rates.refusals.get(topic.id))
        }
        family = FAMILIES["fanlog_publish_rate_refusals"]
        yield Reading(family, [(name,) for name in refused], list(refused.values()))
        yield self._pressure({topic.name for topic in topics})

    def _pressure(self, names: set[str]) -> Reading:
        broker, fullest = self._broker, dict[str, float]()
        for bound in broker.relief.bounds:
            gauge = broker.pressure.of_subscription(bound.subscription) or 0.0
            for partition in bound.partitions:
                name = broker.hard.catalog.topic_name_of(partition)
                if name in names:
                    fullest[name] = max(gauge, fullest.get(name, 0.0))
        family = FAMILIES["fanlog_topic_pressure"]
        return Reading(family, [(name,) for name in fullest], list(fullest.values()))

    def _counts(self, topic: Topic) -> list[PartitionMetrics]:
        found = self._broker.metrics.partitions
        return [found.get(partition, _NOTHING) for partition in topic.partitions]

    async def _choose(self, pace: Pace) -> list[Topic]:
        topics = {topic.id: topic for topic in self._broker.hard.catalog.topics()}
        now = self._broker.clock.now()
        if self._kept.is_bounded(len(topics)) and self._kept.is_due(now):
            active: dict[TopicId, int] = {}
            for topic_id, topic in topics.items():
                await pace.rest()
                active[topic_id] = sum([one.messages for one in self._counts(topic)])
            self._kept.choose(now, active, {})
        return [topics[one] for one in self._kept.members(topics)]
