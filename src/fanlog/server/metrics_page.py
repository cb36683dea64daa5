"""`/metrics`: the broker's counts in Prometheus' text format."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from fanlog.broker.broker import Broker
from fanlog.broker.metrics import Histogram, SubscriptionMetrics
from fanlog.errors import LakeUnavailable
from fanlog.log.api import Log
from fanlog.server.push.metrics import push_families
from fanlog.server.push.senders import Senders

#: Subscriptions looked at before the loop may do something else.
STEP = 200

_COUNTERS = (
    ("delivered", "fanlog_deliveries", "Messages delivered, redeliveries included."),
    ("redelivered", "fanlog_redeliveries", "Messages delivered again after a nack or an expiry."),
    ("acknowledged", "fanlog_acks", "Messages acknowledged."),
    ("nacked", "fanlog_nacks", "Messages nacked."),
    ("expired", "fanlog_expiries", "Leases that expired, in messages."),
    ("dead_lettered", "fanlog_dead_letters", "Messages forwarded to a dead letter topic."),
    (
        "dead_letter_failed",
        "fanlog_dead_letter_failures",
        "Messages kept because their dead letter topic does not exist.",
    ),
    ("passed_over", "fanlog_passed_over", "Messages that the filter left out."),
    (
        "transformed",
        "fanlog_schema_transformed",
        "Messages delivered in another revision of their schema than they were written in.",
    ),
    (
        "untransformed",
        "fanlog_schema_untransformed",
        "Messages that could not be given in the revision their subscription asks for.",
    ),
    ("refused", "fanlog_ack_ids_refused", "Ack ids refused under exactly-once."),
    ("reopened", "fanlog_reopened", "Messages that were acknowledged and then reopened."),
)


async def metrics_page(broker: Broker, store: Log, senders: Senders) -> bytes:
    """All metrics, as they are now."""
    registry = CollectorRegistry(auto_describe=False)
    families = [
        *_broker_families(broker, store),
        *await _subscription_families(broker),
        *push_families(senders),
    ]
    registry.register(_Families(families))
    # Ten thousand subscriptions make megabytes of text: not on the loop.
    return await asyncio.to_thread(generate_latest, registry)


class _Families(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _broker_families(broker: Broker, store: Log) -> Iterable[Metric]:
    metrics, catalog, stats = broker.metrics, broker.hard.catalog.stats(), store.stats()
    yield CounterMetricFamily("fanlog_published", "Messages published.", metrics.published)
    yield CounterMetricFamily(
        "fanlog_published_bytes", "Bytes of messages published.", metrics.published_bytes
    )
    yield CounterMetricFamily(
        "fanlog_publish_requests", "Publish requests accepted.", metrics.publish_requests
    )
    yield CounterMetricFamily(
        "fanlog_deduplicated",
        "Messages not appended because they repeat one published lately.",
        metrics.deduplicated,
    )
    yield CounterMetricFamily(
        "fanlog_commit_failures", "Commits that failed.", metrics.commits_failed
    )
    yield CounterMetricFamily(
        "fanlog_damaged_batches", "Batches met that fail their checksum.", metrics.batches_damaged
    )
    yield _histogram("fanlog_commit_seconds", "Time of a commit.", metrics.commit_seconds)
    yield _histogram("fanlog_commit_bytes", "Message bytes of a commit.", metrics.commit_bytes)
    yield GaugeMetricFamily("fanlog_streams", "Open streaming pulls.", metrics.streams)
    yield GaugeMetricFamily("fanlog_topics", "Topics.", catalog.topics)
    yield GaugeMetricFamily("fanlog_subscriptions", "Subscriptions.", catalog.subscriptions)
    yield GaugeMetricFamily("fanlog_snapshots", "Snapshots.", catalog.snapshots)
    yield GaugeMetricFamily(
        "fanlog_routed_segments",
        "Stretches of the log whose judgement by filters is kept.",
        broker.router.segments,
    )
    yield GaugeMetricFamily(
        "fanlog_routed_cost", "Answers of filters that are kept, roughly.", broker.router.cost
    )
    if broker.tiers.lake_uri:
        yield GaugeMetricFamily(
            "fanlog_lake_alarm",
            "1 while the lake is not as it should be and nothing is trimmed.",
            int(bool(broker.tiers.alarm)),
        )
        yield GaugeMetricFamily(
            "fanlog_archived_sequence",
            "Commits up to this one are in the lake.",
            broker.tiers.archived_sequence,
        )
        yield GaugeMetricFamily(
            "fanlog_committed_sequence", "The last commit.", broker.writer.committed_sequence
        )
    yield GaugeMetricFamily("fanlog_disk_bytes", "Size of the store.", stats.file_bytes)
    yield GaugeMetricFamily(
        "fanlog_disk_free_page_bytes", "Bytes in the store free to be used again.", stats.free_bytes
    )
    yield GaugeMetricFamily(
        "fanlog_disk_room_bytes", "Bytes that can still be written.", stats.room_bytes
    )


async def _subscription_families(broker: Broker) -> list[Metric]:
    label = ["subscription"]
    counters = {
        field: CounterMetricFamily(name, text, labels=label) for field, name, text in _COUNTERS
    }
    backlog = GaugeMetricFamily("fanlog_backlog_messages", "Unacknowledged messages.", labels=label)
    outstanding = GaugeMetricFamily(
        "fanlog_outstanding_messages", "Leased and unacknowledged messages.", labels=label
    )
    oldest = GaugeMetricFamily(
        "fanlog_oldest_unacked_age_seconds",
        "Age of the oldest unacknowledged message; 0 when there is none.",
        labels=label,
    )
    nothing = SubscriptionMetrics()
    for number, subscription in enumerate(list(broker.hard.catalog.subscriptions())):
        if number % STEP == STEP - 1:
            await asyncio.sleep(0)
        if broker.hard.catalog.subscription_by_id(subscription.id) is None:
            continue
        counts = broker.metrics.subscriptions.get(subscription.id, nothing)
        for field, family in counters.items():
            family.add_metric([subscription.name], getattr(counts, field))
        try:
            state = await broker.admin.backlog(subscription)
        except LakeUnavailable:
            # How old the oldest is stands in the lake; the metric of its alarm says the rest.
            continue
        backlog.add_metric([subscription.name], state.messages)
        outstanding.add_metric([subscription.name], state.outstanding)
        oldest.add_metric([subscription.name], state.oldest_age_s)
    return [*counters.values(), backlog, outstanding, oldest]


def _histogram(name: str, text: str, histogram: Histogram) -> HistogramMetricFamily:
    bounds = [repr(bound) for bound in histogram.bounds]
    counts = accumulate(histogram.counts)
    buckets = list(zip([*bounds, "+Inf"], counts, strict=True))
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=histogram.total)
