"""The counts of push subscriptions, for `/metrics`."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from fanlog.push.outcome import CLASSES
from fanlog.server.push.senders import Senders

#: What the gauge of the breaker shows.
BREAKER_VALUES = {"closed": 0, "half-open": 1, "open": 2}
OFF = 3


def push_families(senders: Senders) -> Iterable[Metric]:
    """Four families, with a sample for each push subscription."""
    label = ["subscription"]
    attempts = CounterMetricFamily("fanlog_push_attempts", "Push requests answered.", labels=label)
    outcomes = CounterMetricFamily(
        "fanlog_push_outcomes",
        f"Push requests by outcome: {', '.join(CLASSES)}.",
        labels=[*label, "outcome"],
    )
    breaker = GaugeMetricFamily(
        "fanlog_push_breaker",
        "0 closed, 1 half-open, 2 open, 3 push is off.",
        labels=label,
    )
    window = GaugeMetricFamily(
        "fanlog_push_window", "Push requests that may be under way.", labels=label
    )
    for sender in senders:
        name = [sender.name]
        attempts.add_metric(name, sender.attempts)
        for kind in CLASSES:
            if sender.outcomes[kind]:
                outcomes.add_metric([sender.name, kind], sender.outcomes[kind])
        breaker.add_metric(name, BREAKER_VALUES[senders.breaker_state(sender)])
        window.add_metric(name, sender.window.size)
    for off in senders.turned_off():
        breaker.add_metric([off], OFF)
    return attempts, outcomes, breaker, window
