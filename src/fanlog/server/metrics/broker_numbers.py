"""The metrics of a broker as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import get_args

from fanlog.broker.broker import Broker
from fanlog.log.api import Log
from fanlog.model import jobs
from fanlog.server.metric_families import column, distribution, sample
from fanlog.server.metrics.family import Reading


def broker_numbers(broker: Broker, store: Log) -> Iterator[Reading]:
    metrics, catalog = broker.metrics, broker.hard.catalog.stats()
    yield sample("fanlog_published", metrics.published)
    yield sample("fanlog_published_bytes", metrics.published_bytes)
    yield sample("fanlog_publish_requests", metrics.publish_requests)
    refusals = broker.ledger.refusals
    yield column("fanlog_publish_refusals", refusals.counts)
    yield sample("fanlog_degraded", int(bool(refusals.degraded())))
    yield sample("fanlog_deduplicated", metrics.deduplicated)
    yield sample("fanlog_gaps_given_up", metrics.gaps_given_up)
    yield sample("fanlog_held_messages", broker.gaps.held)
    yield sample("fanlog_commit_failures", metrics.commits_failed)
    yield sample("fanlog_default_retention_bytes", broker.spare.size_bytes)
    yield sample("fanlog_default_retention_trimmed_messages", metrics.default_trimmed)
    yield sample("fanlog_default_retention_trimmed_bytes", metrics.default_trimmed_bytes)
    yield sample("fanlog_damaged_batches", metrics.batches_damaged)
    yield distribution("fanlog_commit_seconds", metrics.commit_seconds)
    yield distribution("fanlog_commit_bytes", metrics.commit_bytes)
    yield distribution("fanlog_publish_seconds", metrics.publish_seconds)
    yield distribution("fanlog_delivery_seconds", metrics.delivery_seconds)
    yield distribution("fanlog_ack_seconds", metrics.ack_seconds)
    yield distribution("fanlog_push_seconds", metrics.push_seconds)
    yield sample("fanlog_pending_messages", broker.due_times.pending)
    yield sample("fanlog_streams", metrics.streams)
    yield sample("fanlog_topics", catalog.topics)
    yield sample("fanlog_subscriptions", catalog.subscriptions)
    yield sample("fanlog_snapshots", catalog.snapshots)
    yield sample("fanlog_schedules", len(broker.hard.schedules))
    yield sample("fanlog_schedule_ticks_published", metrics.ticks_published)
    yield sample("fanlog_schedule_ticks_missed", metrics.ticks_missed)
    yield sample("fanlog_schedule_tick_failures", metrics.ticks_failed)
    hard = broker.hard
    yield sample("fanlog_alerts", len(hard.alerts))
    yield sample("fanlog_alerts_holding", len(hard.alerts.holding()))
    yield sample("fanlog_alert_messages", metrics.alerts_told)
    yield sample("fanlog_alert_failures", metrics.alerts_failed)
    tables = (hard.catalog, hard.schedules, hard.alerts)
    quota_refusals = sum((table.usage.refusals for table in tables), Counter[str]())
    yield column("fanlog_quota_refusals", quota_refusals)
    states = Counter(job.state for job in hard.jobs.values())
    yield column("fanlog_jobs", {state.lower(): states[state] for state in get_args(jobs.State)})
    yield sample("fanlog_routed_segments", broker.filtering.segments)
    yield sample("fanlog_routed_cost", broker.filtering.cost)
    if broker.tiers.lake_uri:
        yield sample("fanlog_lake_alarm", int(bool(broker.tiers.alarm)))
        yield sample("fanlog_archived_sequence", broker.tiers.archived_sequence)
        yield sample("fanlog_committed_sequence", broker.ledger.committed_sequence)
    stats = store.stats()
    yield sample("fanlog_disk_bytes", stats.file_bytes)
    yield sample("fanlog_disk_free_page_bytes", stats.free_bytes)
    yield sample("fanlog_disk_room_bytes", stats.room_bytes)
    # While the machine's clock is behind it, publish times stand still.
    behind_ns = store.last_publish_time_ns - broker.clock.wall_ns()
    yield sample("fanlog_clock_behind_seconds", max(0, behind_ns) / 1e9)
