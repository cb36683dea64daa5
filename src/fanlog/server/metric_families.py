"""The table of all metrics: `/metrics`, OTLP, the reference page, the dashboard and the alert rules
are made from it.

A new metric is one row here and one line where its value is read, in `fanlog.server.metrics`:
`sample(name, value)` for one without labels, `column(name, values)` for one with a label. A name
that is not in the table raises KeyError. Names never change: dashboards and alarms have them.
"""

from __future__ import annotations

from collections.abc import Mapping

from fanlog.broker.histogram import Histogram
from fanlog.push.rules.outcome import CLASSES
from fanlog.server.metrics.cluster_families import CLUSTER
from fanlog.server.metrics.family import Family, Reading
from fanlog.server.metrics.server_families import ACCESS, PROCESS, TRANSPORT

SUBSCRIPTION = ("subscription",)
TOPIC = ("topic",)

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
        "fanlog_publish_seconds",
        "histogram",
        "Time of a publish, from its admission until it is durable; refused ones do not count.",
    ),
    Family(
        "fanlog_delivery_seconds",
        "histogram",
        "Time from publish to the first delivery, counted in messages. Those of one answer count"
        " with the middle of their publish times; answers with redelivered messages do not count.",
    ),
    Family(
        "fanlog_ack_seconds",
        "histogram",
        "Time from publish to acknowledgement, counted in messages, with the same middle.",
    ),
    Family(
        "fanlog_push_seconds",
        "histogram",
        "Time of a push request or call, until its answer or failure is there.",
    ),
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
    Family("fanlog_alerts", "gauge", "Alerts."),
    Family("fanlog_alerts_holding", "gauge", "Alerts that hold: they began, and did not end."),
    Family("fanlog_alert_messages", "counter", "Messages of alerts that were published."),
    Family(
        "fanlog_alert_failures",
        "counter",
        "Times that a message of an alert could not be published when it was tried.",
    ),
    Family(
        "fanlog_quota_refusals",
        "counter",
        "Resources refused because a quota left no room for them.",
        ("quota",),
    ),
    Family("fanlog_jobs", "gauge", "Jobs that are known, by their state.", ("state",)),
    Family(
        "fanlog_routed_segments",
        "gauge",
        "Stretches of the log whose judgement by filters is kept.",
    ),
    Family("fanlog_routed_cost", "gauge", "Answers of filters that are kept, roughly."),
    Family("fanlog_disk_bytes", "gauge", "Size of the store."),
    Family("fanlog_disk_free_page_bytes", "gauge", "Bytes in the store free to be used again."),
    Family("fanlog_disk_room_bytes", "gauge", "Bytes that can still be written."),
    Family(
        "fanlog_clock_behind_seconds",
        "gauge",
        "How far the machine's clock is behind the last publish time; 0 when it is not.",
    ),
    Family(
        "fanlog_metrics_cut",
        "gauge",
        "Topics and subscriptions without metrics of their own: there are more than"
        " `metrics_resources_max`.",
        ("kind",),
    ),
)

TOPICS = (
    Family("fanlog_topic_published", "counter", "Messages published.", TOPIC),
    Family("fanlog_topic_published_bytes", "counter", "Bytes of these messages.", TOPIC),
    Family(
        "fanlog_topic_publishes",
        "counter",
        "Publishes that were committed, once for each partition that they went to.",
        TOPIC,
    ),
    Family(
        "fanlog_topic_stored_messages",
        "gauge",
        "Messages in the log, from the oldest one kept to the newest.",
        TOPIC,
    ),
    Family(
        "fanlog_publish_rate_refusals",
        "counter",
        "Publishes refused because the rate of the topic was used up.",
        TOPIC,
        when="of topics with a rate",
    ),
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
        ("delivered_bytes", "fanlog_delivered_bytes", "Bytes of these messages."),
        (
            "redelivered",
            "fanlog_redeliveries",
            "Messages delivered again after a nack or an expiry.",
        ),
        ("acknowledged", "fanlog_acks", "Messages acknowledged."),
        (
            "ack_wait_s",
            "fanlog_ack_wait_seconds",
            "Time from publish to acknowledgement, of all acknowledged messages together.",
        ),
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

#: The gauge of each number of a `BacklogState`.
BACKLOG_GAUGES = {
    "messages": "fanlog_backlog_messages",
    "size_bytes": "fanlog_backlog_bytes",
    "delayed": "fanlog_delayed_messages",
    "pending": "fanlog_backlog_pending_messages",
    "depending": "fanlog_depending_messages",
    "lag_messages": "fanlog_lag_messages",
    "outstanding": "fanlog_outstanding_messages",
    "oldest_age_s": "fanlog_oldest_unacked_age_seconds",
}

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
        "fanlog_consumers",
        "gauge",
        "Streams, waiting pulls and push senders of a subscription.",
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

#: The sections of the reference page.
SECTIONS = {
    "The broker": BROKER,
    "Topics": TOPICS,
    "The lake": LAKE,
    "Subscriptions": (*SUBSCRIPTION_COUNTERS.values(), *SUBSCRIPTION_GAUGES),
    "Backlogs with limits": PRESSURE,
    "Push subscriptions": PUSH,
    "Connections": TRANSPORT,
    "Callers, with `--auth required`": ACCESS,
    "The process": PROCESS,
    "Nodes of a cluster": CLUSTER,
}

FAMILIES = {family.name: family for section in SECTIONS.values() for family in section}


def sample(name: str, value: float) -> Reading:
    """The metric `name`, which has no labels, with its value."""
    return Reading(FAMILIES[name], [()], [value])


def column(name: str, values: Mapping[str, float]) -> Reading:
    """The metric `name`, which has one label, with a value for each value of that."""
    return Reading(FAMILIES[name], [(label,) for label in values], list(values.values()))


def distribution(name: str, observed: Histogram) -> Reading:
    """The histogram `name`, which has no labels, as it is now."""
    return Reading(FAMILIES[name], [()], [observed.copy()])
