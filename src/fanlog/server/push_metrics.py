"""The counts of push subscriptions, for `/metrics`."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import Metric

from fanlog.push.rules.outcome import CLASSES
from fanlog.push.service import PushService
from fanlog.server.metric_families import labelled

#: Values of the breaker's gauge.
BREAKER_VALUES = {"closed": 0, "half-open": 1, "open": 2}
OFF = 3


def push_families(push: PushService) -> Iterable[Metric]:
    """Five families, with a sample for each push subscription."""
    attempts = labelled("fanlog_push_attempts")
    outcomes = labelled("fanlog_push_outcomes")
    breaker = labelled("fanlog_push_breaker")
    window = labelled("fanlog_push_window")
    waits = labelled("fanlog_push_rate_waits")
    for sender in push:
        name = [sender.name]
        attempts.add_metric(name, sender.attempts)
        for kind in CLASSES:
            if sender.outcomes[kind]:
                outcomes.add_metric([sender.name, kind], sender.outcomes[kind])
        breaker.add_metric(name, BREAKER_VALUES[push.breaker_state(sender)])
        window.add_metric(name, sender.window.size)
        waits.add_metric(name, sender.rate_waits)
    for off in push.list_turned_off():
        breaker.add_metric([off], OFF)
    return attempts, outcomes, breaker, window, waits
