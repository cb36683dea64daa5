"""The backlog policy of a subscription: limits of its backlog, and what happens when it is full.

It is said by labels. How full a backlog is, its *fill*, is the largest part that it has of one of
its limits: 1 is full. Two marks divide it. Above the *high mark* a backlog is told to be high, and
it is so until it is down at the *low mark*: what lies between does not change what was said.

Only a subscription that is *critical* pushes back on publishers. One that is to push back and is
not critical has a fallback instead.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.model.attributes import (
    LABEL_BACKLOG_AGE,
    LABEL_BACKLOG_BLOCK,
    LABEL_BACKLOG_BYTES,
    LABEL_BACKLOG_CRITICAL,
    LABEL_BACKLOG_FALLBACK,
    LABEL_BACKLOG_GROUP,
    LABEL_BACKLOG_HIGH,
    LABEL_BACKLOG_LOW,
    LABEL_BACKLOG_MESSAGES,
    LABEL_BACKLOG_POLICY,
    LABEL_BACKLOG_SUMMARIES,
)

#: What happens to messages that a full backlog has no room for, or to those who publish them.
Way = Literal[
    "keep",
    "drop-oldest",
    "drop-newest",
    "drop-random",
    "drop-by-priority",
    "dead-letter",
    "sample",
    "push-back",
]
WAYS: tuple[Way, ...] = get_args(Way)
#: Ways that make room for messages, by taking others out or by not keeping them.
RELIEVING: tuple[Way, ...] = WAYS[1:-1]

_LIMITS = {
    LABEL_BACKLOG_MESSAGES: limits.BACKLOG_LIMIT_MESSAGES_MAX,
    LABEL_BACKLOG_BYTES: limits.BACKLOG_LIMIT_BYTES_MAX,
    LABEL_BACKLOG_AGE: int(limits.RETENTION_S_MAX),
}
#: Without any of these there is no policy.
_LIMITING = frozenset({LABEL_BACKLOG_POLICY, *_LIMITS})
_PUSH_BACK_ONLY = (LABEL_BACKLOG_CRITICAL, LABEL_BACKLOG_FALLBACK, LABEL_BACKLOG_BLOCK)
_MARKS = (LABEL_BACKLOG_HIGH, LABEL_BACKLOG_LOW)
BACKLOG_LABELS = frozenset(
    {
        *(LABEL_BACKLOG_POLICY, *_LIMITS, *_MARKS, *_PUSH_BACK_ONLY),
        *(LABEL_BACKLOG_GROUP, LABEL_BACKLOG_SUMMARIES),
    }
)
_PART = re.compile(r"0(\.[0-9]{1,6})?|1(\.0{1,6})?")
_GROUP = re.compile(r"[a-z0-9_-]{1,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogPolicy:
    """Limits, marks and what happens; a limit of 0 is none."""

    #: What the subscription does; for one that would push back and is not critical, its fallback.
    way: Way = "keep"
    messages: int = 0
    size_bytes: int = 0
    age_s: float = 0.0
    high: float = limits.BACKLOG_HIGH_DEFAULT
    low: float = limits.BACKLOG_LOW_DEFAULT
    #: How long a publish waits for room before it is refused.
    block_s: float = 0.0
    #: Subscriptions of one project with the same name here share their limits; empty for none.
    group: str = ""
    #: How often what was sampled out is told in a message; 0 for never.
    summaries_s: float = 0.0

    @property
    def pushes_back(self) -> bool:
        return self.way == "push-back"

    @property
    def relieves(self) -> bool:
        """Whether messages leave a full backlog."""
        return self.way in RELIEVING

    def fill(self, messages: float, size_bytes: float, age_s: float) -> float:
        """How full a backlog is: 1 is at a limit, and more is over it."""
        return max(
            messages / self.messages if self.messages else 0.0,
            size_bytes / self.size_bytes if self.size_bytes else 0.0,
            age_s / self.age_s if self.age_s else 0.0,
        )

    def excess(self, messages: int, size_bytes: float) -> int:
        """How many messages are too many, if all are as large as they are on the average."""
        over = max(0, messages - self.messages) if self.messages else 0
        if self.size_bytes and messages and size_bytes > self.size_bytes:
            average = size_bytes / messages
            over = max(over, math.ceil((size_bytes - self.size_bytes) / average))
        return min(over, messages)


def backlog_policy_of(labels: Mapping[str, str]) -> BacklogPolicy | None:
    """The policy that labels say; None where they say none. They are checked already."""
    if _LIMITING.isdisjoint(labels):
        return None
    return _read(tuple(sorted((k, v) for k, v in labels.items() if k in BACKLOG_LABELS)))


@lru_cache(maxsize=1024)
def _read(pairs: tuple[tuple[str, str], ...]) -> BacklogPolicy:
    labels = dict(pairs)
    way = labels.get(LABEL_BACKLOG_POLICY, "keep")
    if way == "push-back" and labels.get(LABEL_BACKLOG_CRITICAL) != "true":
        way = labels[LABEL_BACKLOG_FALLBACK]
    return BacklogPolicy(
        way=way,  # type: ignore[arg-type]
        messages=int(labels.get(LABEL_BACKLOG_MESSAGES, 0)),
        size_bytes=int(labels.get(LABEL_BACKLOG_BYTES, 0)),
        age_s=float(labels.get(LABEL_BACKLOG_AGE, 0)),
        high=float(labels.get(LABEL_BACKLOG_HIGH, limits.BACKLOG_HIGH_DEFAULT)),
        low=float(labels.get(LABEL_BACKLOG_LOW, limits.BACKLOG_LOW_DEFAULT)),
        block_s=float(labels.get(LABEL_BACKLOG_BLOCK, 0)),
        group=labels.get(LABEL_BACKLOG_GROUP, ""),
        summaries_s=float(labels.get(LABEL_BACKLOG_SUMMARIES, 0)),
    )


def check_backlog(labels: Mapping[str, str], *, has_dead_letters: bool, export_field: str) -> None:
    """Check the labels of a backlog policy, each by itself and all together.

    Args:
        labels: All labels of the subscription.
        has_dead_letters: Whether it has a dead letter policy.
        export_field: The field of its export; empty for none.

    Raises:
        InvalidArgument: Names the label and the rule.
    """
    if BACKLOG_LABELS.isdisjoint(labels):
        return
    _check_values(labels)
    way, fallback = labels.get(LABEL_BACKLOG_POLICY, "keep"), labels.get(LABEL_BACKLOG_FALLBACK)
    if not any(one in labels for one in _LIMITS):
        [label, *_] = sorted(BACKLOG_LABELS.intersection(labels))
        raise InvalidArgument(
            f"label {label}: says nothing without a limit of the backlog; set one of "
            f"{', '.join(_LIMITS)}"
        )
    if way == "push-back":
        _check_push_back(labels)
    for label in _PUSH_BACK_ONLY:
        if label in labels and way != "push-back":
            raise InvalidArgument(
                f"label {label}: means nothing without the label {LABEL_BACKLOG_POLICY}: "
                "'push-back'; leave it out"
            )
    if LABEL_BACKLOG_SUMMARIES in labels and "sample" not in (way, fallback):
        raise InvalidArgument(
            f"label {LABEL_BACKLOG_SUMMARIES}: means nothing without the label "
            f"{LABEL_BACKLOG_POLICY}: 'sample'; leave it out"
        )
    for label in (LABEL_BACKLOG_POLICY, LABEL_BACKLOG_FALLBACK):
        if labels.get(label) == "dead-letter" and not has_dead_letters:
            raise InvalidArgument(
                f"label {label}: 'dead-letter' needs a dead_letter_policy, to say where to"
            )
        if export_field and labels.get(label) in RELIEVING:
            raise InvalidArgument(
                f"label {label}: {names.shown(labels[label])} means nothing with {export_field}: "
                "an export writes every message; it can keep them, or push back"
            )


def _check_push_back(labels: Mapping[str, str]) -> None:
    is_critical = labels.get(LABEL_BACKLOG_CRITICAL) == "true"
    if not is_critical and LABEL_BACKLOG_FALLBACK not in labels:
        raise InvalidArgument(
            f"label {LABEL_BACKLOG_POLICY}: 'push-back' is for subscriptions with the label "
            f"{LABEL_BACKLOG_CRITICAL}: 'true'; others need {LABEL_BACKLOG_FALLBACK}, which says "
            "what happens instead"
        )
    if is_critical and LABEL_BACKLOG_FALLBACK in labels:
        raise InvalidArgument(
            f"label {LABEL_BACKLOG_FALLBACK}: means nothing with {LABEL_BACKLOG_CRITICAL}: 'true', "
            "which pushes back; leave one of them out"
        )
    if not is_critical and LABEL_BACKLOG_BLOCK in labels:
        raise InvalidArgument(
            f"label {LABEL_BACKLOG_BLOCK}: means nothing without {LABEL_BACKLOG_CRITICAL}: 'true': "
            "others push back on nobody; leave it out"
        )


def _check_values(labels: Mapping[str, str]) -> None:
    _check_choice(labels, LABEL_BACKLOG_POLICY, WAYS)
    _check_choice(labels, LABEL_BACKLOG_FALLBACK, WAYS[:-1])
    _check_choice(labels, LABEL_BACKLOG_CRITICAL, ("true", "false"))
    for label, most in _LIMITS.items():
        _check_number(labels, label, 1, most)
    _check_number(labels, LABEL_BACKLOG_BLOCK, 1, limits.BACKLOG_BLOCK_S_MAX)
    _check_number(labels, LABEL_BACKLOG_SUMMARIES, 1, limits.BACKLOG_SUMMARIES_S_MAX)
    for label in _MARKS:
        text = labels.get(label, "1")
        if not _PART.fullmatch(text) or float(text) <= 0:
            raise InvalidArgument(
                f"label {label}: {names.shown(text)} is not a part of the limit, such as '0.8': "
                "more than 0, at most 1, with up to six decimals"
            )
    high = labels.get(LABEL_BACKLOG_HIGH, str(limits.BACKLOG_HIGH_DEFAULT))
    low = labels.get(LABEL_BACKLOG_LOW, str(limits.BACKLOG_LOW_DEFAULT))
    if float(low) >= float(high):
        raise InvalidArgument(
            f"label {LABEL_BACKLOG_LOW}: the low mark ({low}) is not below the high mark ({high}, "
            f"label {LABEL_BACKLOG_HIGH})"
        )
    group = labels.get(LABEL_BACKLOG_GROUP, "x")
    if not _GROUP.fullmatch(group):
        raise InvalidArgument(
            f"label {LABEL_BACKLOG_GROUP}: {names.shown(group)} is not a name of 1 to 63 "
            "lower-case letters, digits, '-' and '_'"
        )


def _check_choice(labels: Mapping[str, str], label: str, choices: tuple[str, ...]) -> None:
    chosen = labels.get(label, choices[0])
    if chosen not in choices:
        raise InvalidArgument(
            f"label {label}: {names.shown(chosen)} is not one of {', '.join(map(repr, choices))}"
        )


def _check_number(labels: Mapping[str, str], label: str, least: int, most: int) -> None:
    text = labels.get(label, str(least))
    # No more digits than the most has: a longer number need not be read.
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(most))
    if not (is_number and least <= int(text) <= most):
        raise InvalidArgument(
            f"label {label}: {names.shown(text)} is not a whole number from {least} to {most}"
        )
