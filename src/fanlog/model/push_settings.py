"""How hard a push endpoint is tried: labels of the subscription, as values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model.attributes import (
    LABEL_PUSH_BREAKER_FAILURES,
    LABEL_PUSH_BREAKER_MAX_WAIT,
    LABEL_PUSH_BREAKER_WAIT,
    LABEL_PUSH_RATE,
)
from fanlog.model.label_values import check_whole

#: The labels that mean something for requests to an endpoint alone.
LABELS = (
    *(LABEL_PUSH_RATE, LABEL_PUSH_BREAKER_FAILURES),
    *(LABEL_PUSH_BREAKER_WAIT, LABEL_PUSH_BREAKER_MAX_WAIT),
)


class BreakerRules(NamedTuple):
    """When the circuit breaker of an endpoint opens, and for how long."""

    #: Failures without a success between them.
    failures: int
    #: At first; each probe that fails doubles it, up to the most.
    open_s_min: float
    open_s_max: float


def breaker_rules(labels: Mapping[str, str]) -> BreakerRules:
    return BreakerRules(
        int(labels.get(LABEL_PUSH_BREAKER_FAILURES, limits.PUSH_BREAKER_FAILURES)),
        float(labels.get(LABEL_PUSH_BREAKER_WAIT, limits.PUSH_BREAKER_OPEN_S_MIN)),
        float(labels.get(LABEL_PUSH_BREAKER_MAX_WAIT, limits.PUSH_BREAKER_OPEN_S_MAX)),
    )


def check_push_settings(labels: Mapping[str, str]) -> None:
    """Raises InvalidArgument: Names the label, its value, and what is allowed."""
    seconds = "number of seconds"
    for label, most, what in (
        (LABEL_PUSH_RATE, limits.PUSH_RATE_MAX, "number of messages a second"),
        (LABEL_PUSH_BREAKER_FAILURES, limits.PUSH_BREAKER_FAILURES_MAX, "number of failures"),
        (LABEL_PUSH_BREAKER_WAIT, limits.PUSH_BREAKER_WAIT_S_MAX, seconds),
        (LABEL_PUSH_BREAKER_MAX_WAIT, limits.PUSH_BREAKER_WAIT_S_MAX, seconds),
    ):
        check_whole(labels, label, 1, most, what)
    rules = breaker_rules(labels)
    is_given = LABEL_PUSH_BREAKER_WAIT in labels or LABEL_PUSH_BREAKER_MAX_WAIT in labels
    if is_given and rules.open_s_min > rules.open_s_max:
        raise InvalidArgument(
            f"label {LABEL_PUSH_BREAKER_WAIT}: {rules.open_s_min:.0f} s is longer than the longest "
            f"wait, {rules.open_s_max:.0f} s (label {LABEL_PUSH_BREAKER_MAX_WAIT})"
        )
