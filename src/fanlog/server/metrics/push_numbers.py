"""The metrics of push subscriptions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from fanlog.push.rules.outcome import CLASSES
from fanlog.push.service import PushService
from fanlog.server.metrics.family import Reading
from fanlog.server.metrics.pace import Pace
from fanlog.server.metrics.subscription_numbers import SampleColumns

#: Values of the breaker's gauge.
BREAKER_VALUES = {"closed": 0, "half-open": 1, "open": 2}
OFF = 3


async def push_numbers(
    push: PushService, has: Callable[[str], bool], pace: Pace
) -> AsyncIterator[Reading]:
    """A sample for each push subscription that `has` its own metrics."""
    attempts, outcomes = (
        SampleColumns("fanlog_push_attempts"),
        SampleColumns("fanlog_push_outcomes"),
    )
    breaker, window = SampleColumns("fanlog_push_breaker"), SampleColumns("fanlog_push_window")
    waits = SampleColumns("fanlog_push_rate_waits")
    for sender in list(push):
        await pace.rest()
        if not has(sender.name):
            continue
        name = (sender.name,)
        attempts.add(name, sender.attempts)
        for kind in CLASSES:
            # Also those of which there were none: the first one is then seen as an increase.
            outcomes.add((sender.name, kind), sender.outcomes[kind])
        breaker.add(name, BREAKER_VALUES[push.breaker_state(sender)])
        window.add(name, sender.window.size)
        waits.add(name, sender.rate_waits)
    for off in push.list_turned_off():
        if has(off):
            breaker.add((off,), OFF)
    for one in (attempts, outcomes, breaker, window, waits):
        yield one.reading()
