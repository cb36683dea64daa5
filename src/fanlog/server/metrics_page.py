"""`/metrics`: the broker's counts in Prometheus' text format."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from fanlog.broker.broker import Broker
from fanlog.broker.metrics import SubscriptionMetrics
from fanlog.errors import LakeUnavailable
from fanlog.log.api import Log
from fanlog.push.service import PushService
from fanlog.server.access_control import AccessControl
from fanlog.server.metric_families import SUBSCRIPTION_COUNTERS, histogram, labelled, sample
from fanlog.server.push_metrics import push_families
from fanlog.transport.counts import GIVEN_UP, TransportCounts

#: Subscriptions looked at before the loop may do something else.
STEP = 200


async def metrics_page(
    broker: Broker,
    store: Log,
    senders: PushService,
    counts: TransportCounts,
    access: AccessControl | None = None,
) -> bytes:
    """All metrics, as they are now."""
    registry = CollectorRegistry(auto_describe=False)
    families = [
        *_broker_families(broker, store),
        *await _subscription_families(broker),
        *_pressure_families(broker),
        *push_families(senders),
        *_transport_families(counts),
        *_access_families(access),
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
    yield sample("fanlog_published", metrics.published)
    yield sample("fanlog_published_bytes", metrics.published_bytes)
    yield sample("fanlog_publish_requests", metrics.publish_requests)
    refusals = broker.ledger.refusals
    refused = labelled("fanlog_publish_refusals")
    for reason, count in refusals.counts.items():
        refused.add_metric([reason], count)
    yield refused
    rated = labelled("fanlog_publish_rate_refusals")
    for topic_id, count in broker.publish_rates.refusals.items():
        topic = broker.hard.catalog.topic_by_id(topic_id)
        if topic is not None:
            rated.add_metric([topic.name], count)
    yield rated
    yield sample("fanlog_degraded", int(bool(refusals.degraded())))
    yield sample("fanlog_deduplicated", metrics.deduplicated)
    yield sample("fanlog_gaps_given_up", metrics.gaps_given_up)
    yield sample("fanlog_held_messages", broker.gaps.held)
    yield sample("fanlog_commit_failures", metrics.commits_failed)
    yield sample("fanlog_default_retention_bytes", broker.spare.size_bytes)
    yield sample("fanlog_default_retention_trimmed_messages", metrics.default_trimmed)
    yield sample("fanlog_default_retention_trimmed_bytes", metrics.default_trimmed_bytes)
    yield sample("fanlog_damaged_batches", metrics.batches_damaged)
    yield histogram("fanlog_commit_seconds", metrics.commit_seconds)
    yield histogram("fanlog_commit_bytes", metrics.commit_bytes)
    yield sample("fanlog_pending_messages", broker.due_times.pending)
    yield sample("fanlog_streams", metrics.streams)
    yield sample("fanlog_topics", catalog.topics)
    yield sample("fanlog_subscriptions", catalog.subscriptions)
    yield sample("fanlog_snapshots", catalog.snapshots)
    yield sample("fanlog_schedules", len(broker.hard.schedules))
    yield sample("fanlog_schedule_ticks_published", metrics.ticks_published)
    yield sample("fanlog_schedule_ticks_missed", metrics.ticks_missed)
    yield sample("fanlog_schedule_tick_failures", metrics.ticks_failed)
    refused = labelled("fanlog_quota_refusals")
    hard = broker.hard
    for quota, count in sorted(
        (hard.catalog.usage.refusals + hard.schedules.usage.refusals).items()
    ):
        refused.add_metric([quota], count)
    yield refused
    yield sample("fanlog_routed_segments", broker.filtering.segments)
    yield sample("fanlog_routed_cost", broker.filtering.cost)
    if broker.tiers.lake_uri:
        yield sample("fanlog_lake_alarm", int(bool(broker.tiers.alarm)))
        yield sample("fanlog_archived_sequence", broker.tiers.archived_sequence)
        yield sample("fanlog_committed_sequence", broker.ledger.committed_sequence)
    yield sample("fanlog_disk_bytes", stats.file_bytes)
    yield sample("fanlog_disk_free_page_bytes", stats.free_bytes)
    yield sample("fanlog_disk_room_bytes", stats.room_bytes)


def _pressure_families(broker: Broker) -> Iterable[Metric]:
    dropped, rates = labelled("fanlog_dropped"), labelled("fanlog_sample_rate")
    gauges, topics = labelled("fanlog_pressure"), labelled("fanlog_topic_pressure")
    catalog, by_topic = broker.hard.catalog, dict[str, float]()
    for bound in broker.relief.bounds:
        gauge = broker.pressure.of_subscription(bound.subscription) or 0.0
        gauges.add_metric([bound.name], gauge)
        if bound.policy.way == "sample":
            rates.add_metric([bound.name], 2.0**-bound.level)
        for partition in bound.partitions:
            name = catalog.topic_name_of(partition)
            by_topic[name] = max(gauge, by_topic.get(name, 0.0))
    for name, gauge in by_topic.items():
        topics.add_metric([name], gauge)
    for subscription_id, counts in broker.metrics.subscriptions.items():
        if counts.dropped:
            subscription = catalog.subscription_by_id(subscription_id)
            if subscription is not None:
                for reason, count in sorted(counts.dropped.items()):
                    dropped.add_metric([subscription.name, reason], count)
    yield from (dropped, gauges, topics, rates)


def _transport_families(counts: TransportCounts) -> Iterable[Metric]:
    yield sample("fanlog_grpc_calls", counts.calls)
    yield sample("fanlog_grpc_streams_refused", counts.streams_refused)
    yield sample("fanlog_connections_turned_away", counts.turned_away)
    yield sample("fanlog_connections_sent_away", counts.sent_away)
    for name, values, known in (
        ("fanlog_connections", counts.connections, ("grpc", "http")),
        ("fanlog_connection_faults", counts.faults, ()),
        ("fanlog_stream_faults", counts.stream_faults, ()),
        ("fanlog_requests_given_up", counts.given_up, GIVEN_UP),
    ):
        family = labelled(name)
        for label in (*known, *sorted(values.keys() - set(known))):
            family.add_metric([label], values[label])
        yield family


def _access_families(access: AccessControl | None) -> Iterable[Metric]:
    """Of a server that does not authenticate, nothing happened."""
    failures = labelled("fanlog_authentication_failures")
    refusals = labelled("fanlog_rate_refusals")
    rates, taken = labelled("fanlog_rate_limit"), labelled("fanlog_rate_taken")
    successes = lost = 0
    if access is not None:
        successes = access.authenticator.successes
        for reason, count in sorted(access.authenticator.failures.items()):
            failures.add_metric([reason], count)
        if access.allowance is not None:
            for rate, limit in sorted(access.allowance.limits.items()):
                rates.add_metric([rate], limit)
                taken.add_metric([rate], access.allowance.taken[rate])
                refusals.add_metric([rate], access.allowance.refusals[rate])
        lost = access.audit.lost
    yield sample("fanlog_authentications", successes)
    yield failures
    yield from (refusals, rates, taken)
    yield sample("fanlog_audit_entries_lost", lost)


async def _subscription_families(broker: Broker) -> list[Metric]:
    counters = {
        attribute: labelled(family.name) for attribute, family in SUBSCRIPTION_COUNTERS.items()
    }
    backlog = labelled("fanlog_backlog_messages")
    outstanding = labelled("fanlog_outstanding_messages")
    size = labelled("fanlog_backlog_bytes")
    delayed = labelled("fanlog_delayed_messages")
    pending = labelled("fanlog_backlog_pending_messages")
    depending = labelled("fanlog_depending_messages")
    lag = labelled("fanlog_lag_messages")
    oldest = labelled("fanlog_oldest_unacked_age_seconds")
    members = labelled("fanlog_key_slot_members")
    nothing = SubscriptionMetrics()
    for number, subscription in enumerate(list(broker.hard.catalog.subscriptions())):
        if number % STEP == STEP - 1:
            await asyncio.sleep(0)
        if broker.hard.catalog.subscription_by_id(subscription.id) is None:
            continue
        counts = broker.metrics.subscriptions.get(subscription.id, nothing)
        for attribute, family in counters.items():
            family.add_metric([subscription.name], getattr(counts, attribute))
        if subscription.key_slots:
            found = broker.feeds.members_of(subscription)
            members.add_metric([subscription.name], 0 if found is None else len(found))
        try:
            state = await broker.backlogs.measure(subscription)
        except LakeUnavailable:
            # How old the oldest is stands in the lake; the metric of its alarm says the rest.
            continue
        backlog.add_metric([subscription.name], state.messages)
        outstanding.add_metric([subscription.name], state.outstanding)
        size.add_metric([subscription.name], state.size_bytes)
        delayed.add_metric([subscription.name], state.delayed)
        pending.add_metric([subscription.name], state.pending)
        depending.add_metric([subscription.name], state.depending)
        lag.add_metric([subscription.name], state.lag_messages)
        oldest.add_metric([subscription.name], state.oldest_age_s)
    waiting = (delayed, pending, depending)
    return [*counters.values(), backlog, size, outstanding, *waiting, lag, oldest, members]
