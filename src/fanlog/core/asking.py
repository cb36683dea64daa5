"""Whether what messages ask for can be done: checks that need the time, and the topic's readers.

What a value may look like is checked where it is read (`fanlog.model.term_attributes`).
"""

from __future__ import annotations

from collections.abc import Iterable

from fanlog import limits, times
from fanlog.core.share import Share
from fanlog.errors import InvalidArgument, ResourceExhausted
from fanlog.model.attributes import DELAY, DELIVER_AT
from fanlog.model.resources import Topic
from fanlog.model.terms import TIMED, TermKind, Terms


def check(terms: Terms, topic: Topic, shares: Iterable[Share], now_ms: int) -> None:
    """Check when messages that are published now are to be delivered.

    `shares` are those that read the topic. A message is not to wait longer than some subscription
    keeps it: it would be gone there before it was delivered.

    Raises:
        InvalidArgument: A time is past, or too far ahead; names the message, the value and the
            limit.
    """
    kept_s: float | None = None
    for kind in TIMED:
        column = terms.column(kind)
        base = now_ms if kind is TermKind.DELAY else 0
        for index, value in zip(column.indexes, column.values, strict=True):
            wait_s = (base + value - now_ms) / 1_000
            if wait_s < -limits.DELIVER_AT_PAST_S_MAX:
                raise InvalidArgument(
                    f"{_said(kind, index, value)} is past; a time at most "
                    f"{limits.DELIVER_AT_PAST_S_MAX:.0f} s ago is taken for now"
                )
            # No retention is shorter than this: most delays need no look at the readers.
            if wait_s > limits.RETENTION_S_MIN:
                kept_s = kept_s if kept_s is not None else _kept_s(topic, shares)
                if wait_s > kept_s:
                    raise InvalidArgument(
                        f"{_said(kind, index, value)} is {wait_s:.0f} s ahead; this topic's "
                        f"messages are kept for {kept_s:.0f} s (the shortest retention of its "
                        "subscriptions), and it would be gone before"
                    )


def check_room(terms: Terms, waiting: int) -> None:
    """Check that there is room for messages that are to be delivered later.

    Raises:
        ResourceExhausted: As many wait already as may.
    """
    added = sum(len(terms.column(kind).indexes) for kind in TIMED)
    if added and waiting + added > limits.PENDING_MAX:
        raise ResourceExhausted(
            f"{waiting} messages wait for the time they are to be delivered at; at most "
            f"{limits.PENDING_MAX} may; publish these later, or without {DELAY} and {DELIVER_AT}"
        )


def _kept_s(topic: Topic, shares: Iterable[Share]) -> float:
    own_s = topic.message_retention_s or 0.0
    kept_s = [max(own_s, share.settings.message_retention_s) for share in shares]
    return min([limits.DELAY_S_MAX, *kept_s])


def _said(kind: TermKind, index: int, value: int) -> str:
    where = f"messages[{index}].attributes:"
    if kind is TermKind.DELAY:
        return f"{where} {DELAY} is {value / 1_000:.15g} s, which"
    return f"{where} {DELIVER_AT} is {times.of_ns(value * 1_000_000)}, which"
