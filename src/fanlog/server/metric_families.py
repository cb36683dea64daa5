"""The table of all metrics, from which `/metrics` and the reference page are made.

A new metric is one row here and one line where its value is read: `sample(name, value)` for one
without labels, `labelled(name)` and `add_metric` for the others. A name that is not in the table
raises KeyError. Names never change: dashboards and alarms have them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from fanlog.broker.metrics import Histogram
from fanlog.push.rules.outcome import CLASSES

SUBSCRIPTION = ("subscription",)


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: its name without the suffix that Prometheus adds, its kind and its meaning."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    text: str
    labels: tuple[str, ...] = ()
    #: The metric is on the page only under this condition; empty: it is always there.
    when: str = ""


BROKER = (
    Family("fanlog_published", "counter", "Messages published."),
    Family("fanlog_published_bytes", "counter", "Bytes of messages published."),
    Family("fanlog_publish_requests", "counter", "Publish requests accepted."),
    Family(
        "fanlog_publish_refusals",
        "counter",
        "Publishes refused because there was no room for them.",
        ("reason",),
    ),
    Family(
        "fanlog_publish_rate_refusals",
        "counter",
        "Publishes refused because the rate of the topic was used up.",
        ("topic",),
        when="of topics with a rate",
    ),
    Family("fanlog_degraded", "gauge", "1 while publishing is refused for want of room."),
    Family(
        "fanlog_deduplicated",
        "counter",
        "Messages not appended because they repeat one published lately.",
    ),
    Family(
        "fanlog_gaps_given_up",
        "counter",
        "Gaps in the numbers of publishers that were not filled in time.",
    ),
    Family(
        "fanlog_held_messages",
        "gauge",
        "Messages that are held back behind gaps in the numbers of their publishers.",
    ),
    Family("fanlog_commit_failures", "counter", "Commits that failed."),
    Family(
        "fanlog_default_retention_bytes",
        "gauge",
        "Bytes that only the server's default retention keeps, roughly, as the last sweep found.",
    ),
    Family(
        "fanlog_default_retention_trimmed_messages",
        "counter",
        "Messages let go of before the server's default retention was over: too many, or no room.",
    ),
    Family(
        "fanlog_default_retention_trimmed_bytes",
        "counter",
        "Bytes of such messages, roughly.",
    ),
    Family("fanlog_damaged_batches", "counter", "Batches met that fail their checksum."),
    Family("fanlog_commit_seconds", "histogram", "Time of a commit."),
    Family("fanlog_commit_bytes", "histogram", "Message bytes of a commit."),
    Family(
        "fanlog_pending_messages",
        "gauge",
        "Messages that wait for the time they are to be delivered at.",
    ),
    Family("fanlog_streams", "gauge", "Open streaming pulls."),
    Family("fanlog_topics", "gauge", "Topics."),
    Family("fanlog_subscriptions", "gauge", "Subscriptions."),
    Family("fanlog_snapshots", "gauge", "Snapshots."),
    Family("fanlog_schedules", "gauge", "Schedules."),
    Family("fanlog_schedule_ticks_published", "counter", "Ticks of schedules that were published."),
    Family("fanlog_schedule_ticks_missed", "counter", "Ticks of schedules that were given up."),
    Family(
        "fanlog_schedule_tick_failures",
        "counter",
        "Times that a tick of a schedule could not be published when it was tried.",
    ),
    Family(
        "fanlog_quota_refusals",
        "counter",
        "Resources refused because a quota left no room for them.",
        ("quota",),
    ),
    Family(
        "fanlog_routed_segments",
        "gauge",
        "Stretches of the log whose judgement by filters is kept.",
    ),
    Family("fanlog_routed_cost", "gauge", "Answers of filters that are kept, roughly."),
    Family("fanlog_disk_bytes", "gauge", "Size of the store."),
    Family("fanlog_disk_free_page_bytes", "gauge", "Bytes in the store free to be used again."),
    Family("fanlog_disk_room_bytes", "gauge", "Bytes that can still be written."),
)

LAKE = (
    Family(
        "fanlog_lake_alarm",
        "gauge",
        "1 while the lake is not as it should be and nothing is trimmed.",
        when="with a lake",
    ),
    Family(
        "fanlog_archived_sequence",
        "gauge",
        "Commits up to this one are in the lake.",
        when="with a lake",
    ),
    Family("fanlog_committed_sequence", "gauge", "The last commit.", when="with a lake"),
)

#: Counters of a subscription, by the attribute of `SubscriptionMetrics` that has the value.
SUBSCRIPTION_COUNTERS = {
    attribute: Family(name, "counter", text, SUBSCRIPTION)
    for attribute, name, text in (
        ("delivered", "fanlog_deliveries", "Messages delivered, redeliveries included."),
        (
            "redelivered",
            "fanlog_redeliveries",
            "Messages delivered again after a nack or an expiry.",
        ),
        ("acknowledged", "fanlog_acks", "Messages acknowledged."),
        ("nacked", "fanlog_nacks", "Messages nacked."),
        ("expired", "fanlog_expiries", "Leases that expired, in messages."),
        (
            "lapsed",
            "fanlog_lapsed_messages",
            "Messages not delivered, and acknowledged, for their time-to-live was over.",
        ),
        (
            "overdue",
            "fanlog_dependency_timeouts",
            "Messages that waited too long for those that they depend on.",
        ),
        (
            "slot_moves",
            "fanlog_key_slot_moves",
            "Key slots that went from one stream to another.",
        ),
        (
            "window_full",
            "fanlog_window_full",
            "Times a consumer got nothing because as much was outstanding as may be.",
        ),
        ("dead_lettered", "fanlog_dead_letters", "Messages forwarded to a dead letter topic."),
        (
            "dead_letter_failed",
            "fanlog_dead_letter_failures",
            "Messages kept at a try: their dead letter topic is gone, or may not be published to.",
        ),
        (
            "forward_stopped",
            "fanlog_forwards_stopped",
            "Messages not forwarded: too many forwards or copies lie behind them.",
        ),
        (
            "forward_failed",
            "fanlog_forward_failures",
            "Messages kept at a try: the topic is gone or full, or may not be published to.",
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
        ("purged", "fanlog_purged", "Messages that purges acknowledged."),
        (
            "backlog_high",
            "fanlog_backlog_high",
            "Times that the backlog went above its high mark.",
        ),
        ("backlog_low", "fanlog_backlog_low", "Times that it was down at its low mark again."),
        (
            "pushed_back",
            "fanlog_pushed_back",
            "Publishes refused because the subscription pushes back.",
        ),
        ("blocked", "fanlog_publishes_blocked", "Publishes that waited for it to come further."),
    )
}

PRESSURE = (
    Family(
        "fanlog_dropped",
        "counter",
        "Messages that a full backlog let go of, by reason: limit, age, sample, dead-letter.",
        ("subscription", "reason"),
    ),
    Family(
        "fanlog_pressure",
        "gauge",
        "How full the backlog of a subscription with limits is, 0 to 1.",
        SUBSCRIPTION,
    ),
    Family(
        "fanlog_topic_pressure",
        "gauge",
        "How full the fullest backlog of a topic is, 0 to 1; of those with limits.",
        ("topic",),
    ),
    Family(
        "fanlog_sample_rate",
        "gauge",
        "The part of its messages that a subscription with a sample gets.",
        SUBSCRIPTION,
    ),
)

SUBSCRIPTION_GAUGES = (
    Family("fanlog_backlog_messages", "gauge", "Unacknowledged messages.", SUBSCRIPTION),
    Family("fanlog_backlog_bytes", "gauge", "Bytes of these messages, roughly.", SUBSCRIPTION),
    Family(
        "fanlog_delayed_messages",
        "gauge",
        "Unacknowledged messages that wait for a back-off.",
        SUBSCRIPTION,
    ),
    Family(
        "fanlog_backlog_pending_messages",
        "gauge",
        "Unacknowledged messages that wait for the time they are to be delivered at.",
        SUBSCRIPTION,
    ),
    Family(
        "fanlog_depending_messages",
        "gauge",
        "Unacknowledged messages put aside until those that they depend on are acknowledged.",
        SUBSCRIPTION,
    ),
    Family(
        "fanlog_lag_messages",
        "gauge",
        "Messages from the oldest unacknowledged one to the newest, whoever they are for.",
        SUBSCRIPTION,
    ),
    Family(
        "fanlog_outstanding_messages", "gauge", "Leased and unacknowledged messages.", SUBSCRIPTION
    ),
    Family(
        "fanlog_oldest_unacked_age_seconds",
        "gauge",
        "Age of the oldest unacknowledged message; 0 when there is none.",
        SUBSCRIPTION,
    ),
    Family(
        "fanlog_key_slot_members",
        "gauge",
        "Streams that share the key slots of a subscription.",
        SUBSCRIPTION,
        when="of subscriptions with key slots",
    ),
)

PUSH = (
    Family("fanlog_push_attempts", "counter", "Push requests answered.", SUBSCRIPTION),
    Family(
        "fanlog_push_outcomes",
        "counter",
        f"Push requests by outcome: {', '.join(CLASSES)}.",
        (*SUBSCRIPTION, "outcome"),
    ),
    Family(
        "fanlog_push_breaker",
        "gauge",
        "0 closed, 1 half-open, 2 open, 3 push is off.",
        SUBSCRIPTION,
    ),
    Family(
        "fanlog_push_rate_waits",
        "counter",
        "Times that messages waited for the rate of their endpoint.",
        SUBSCRIPTION,
    ),
    Family("fanlog_push_window", "gauge", "Push requests that may be under way.", SUBSCRIPTION),
)

TRANSPORT = (
    Family("fanlog_connections", "gauge", "Open connections: grpc, http.", ("protocol",)),
    Family("fanlog_grpc_calls", "counter", "gRPC calls that came."),
    Family(
        "fanlog_connection_faults",
        "counter",
        "Connections ended because their peer broke a rule of HTTP/2, by error code.",
        ("code",),
    ),
    Family(
        "fanlog_stream_faults",
        "counter",
        "Streams reset because their peer broke a rule of HTTP/2, by error code.",
        ("code",),
    ),
    Family(
        "fanlog_grpc_streams_refused",
        "counter",
        "Streams refused because their connection had too many; clients try again.",
    ),
    Family(
        "fanlog_connections_turned_away",
        "counter",
        "Connections cut off for want of room.",
    ),
    Family(
        "fanlog_connections_sent_away",
        "counter",
        "Idle connections ended to make room for new ones.",
    ),
    Family(
        "fanlog_requests_given_up",
        "counter",
        "Requests given up: late (not whole in time), too_long, too_many (the oldest of too many"
        " unfinished bytes), unread (the answer was not read), silent (nobody there), unknown"
        " (neither HTTP/1.1 nor HTTP/2).",
        ("reason",),
    ),
)

ACCESS = (
    Family("fanlog_authentications", "counter", "Credentials that were verified and believed."),
    Family(
        "fanlog_authentication_failures",
        "counter",
        "Credentials that were not believed, by reason.",
        ("reason",),
    ),
    Family(
        "fanlog_rate_refusals",
        "counter",
        "Requests refused because a rate was used up.",
        ("rate",),
    ),
    Family("fanlog_rate_limit", "gauge", "The rates that are set.", ("rate",)),
    Family(
        "fanlog_rate_taken",
        "counter",
        "Requests, messages, bytes, connections and streams that were let in, where their rate is"
        " set.",
        ("rate",),
    ),
    Family("fanlog_audit_entries_lost", "counter", "Entries that the audit log does not have."),
)

#: The sections of the reference page.
SECTIONS = {
    "The broker": BROKER,
    "The lake": LAKE,
    "Subscriptions": (*SUBSCRIPTION_COUNTERS.values(), *SUBSCRIPTION_GAUGES),
    "Backlogs with limits": PRESSURE,
    "Push subscriptions": PUSH,
    "Connections": TRANSPORT,
    "Callers, with `--auth required`": ACCESS,
}

FAMILIES = {family.name: family for section in SECTIONS.values() for family in section}


def sample(name: str, value: float) -> Metric:
    """The metric `name`, which has no labels, with its value."""
    family = labelled(name)
    family.add_metric([], value)
    return family


def labelled(name: str) -> CounterMetricFamily | GaugeMetricFamily:
    """The metric `name` without values; the caller adds one for each set of labels."""
    family = FAMILIES[name]
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    return kind(family.name, family.text, labels=family.labels)


def histogram(name: str, observed: Histogram) -> HistogramMetricFamily:
    bounds = [repr(bound) for bound in observed.bounds]
    counts = accumulate(observed.counts)
    buckets = list(zip([*bounds, "+Inf"], counts, strict=True))
    return HistogramMetricFamily(
        name, FAMILIES[name].text, buckets=buckets, sum_value=observed.total
    )
