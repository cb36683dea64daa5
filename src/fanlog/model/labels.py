"""Labels: Google's rules for them, and those that say something to the service."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Literal

from fanlog import limits, times
from fanlog.errors import InvalidArgument
from fanlog.model import names, push_settings
from fanlog.model.attributes import (
    LABEL_ARCHIVE,
    LABEL_ASSIGNMENT,
    LABEL_DEAD_LETTER,
    LABEL_DEDUP_WINDOW,
    LABEL_DELIVERY,
    LABEL_DEPENDENCY_POLICY,
    LABEL_DEPENDENCY_TIMEOUT,
    LABEL_EXPIRED,
    LABEL_FAIRNESS,
    LABEL_GAP_TIMEOUT,
    LABEL_KEY_SLOTS,
    LABEL_MAX_OUTSTANDING_BYTES,
    LABEL_MAX_OUTSTANDING_MESSAGES,
    LABEL_ORDERING,
    LABEL_PUBLISH_BURST,
    LABEL_PUBLISH_BYTES_BURST,
    LABEL_PUBLISH_BYTES_RATE,
    LABEL_PUBLISH_RATE,
    LABEL_PUBLISHER_LIFE,
    LABEL_PUSH_BODY,
    LABEL_PUSH_TIMEOUT,
    LABEL_RETRY,
    LABEL_SCHEMA_REVISION,
    LABEL_START,
    LABEL_TTL,
    PREFIX,
    meant,
)
from fanlog.model.backlog_policy import BACKLOG_LABELS
from fanlog.model.label_values import check_whole
from fanlog.model.push_settings import check_push_settings
from fanlog.model.resources import (
    DEFAULT_ORDERING,
    DELIVERIES,
    DEPENDENCY_POLICIES,
    EXPIRED_WAYS,
    FIRST_IMMEDIATE,
    PUSH_BODIES,
    TOPIC_ORDERINGS,
)

#: Where a new subscription begins: at the next message, at the oldest there is, or at a time in
#: seconds since the epoch.
Start = Literal["now", "earliest"] | float

#: Settings of topics, as `SETTING_LABELS` of subscriptions.
TOPIC_SETTING_LABELS = frozenset(
    {
        *(LABEL_PUBLISH_RATE, LABEL_PUBLISH_BURST),
        *(LABEL_PUBLISH_BYTES_RATE, LABEL_PUBLISH_BYTES_BURST),
    }
)
TOPIC_LABELS = TOPIC_SETTING_LABELS | {
    *(LABEL_DEDUP_WINDOW, LABEL_ARCHIVE, LABEL_ORDERING),
    *(LABEL_GAP_TIMEOUT, LABEL_PUBLISHER_LIFE),
}
#: Read once, when a subscription is made.
FIXED_LABELS = frozenset(
    {
        *(LABEL_START, LABEL_ORDERING, LABEL_DEAD_LETTER, LABEL_ASSIGNMENT, LABEL_KEY_SLOTS),
        LABEL_FAIRNESS,
    }
)
#: Settings that have a field of their own in the short form and an option in the command line: an
#: update mask may name one of them alone, as `labels.NAME`.
SETTING_LABELS = frozenset(
    {
        *(LABEL_DELIVERY, LABEL_RETRY, LABEL_PUSH_BODY, LABEL_PUSH_TIMEOUT, LABEL_TTL),
        *(LABEL_EXPIRED, LABEL_DEPENDENCY_TIMEOUT, LABEL_DEPENDENCY_POLICY),
        *(LABEL_MAX_OUTSTANDING_MESSAGES, LABEL_MAX_OUTSTANDING_BYTES),
        *push_settings.LABELS,
        *BACKLOG_LABELS,
    }
)
SUBSCRIPTION_LABELS = FIXED_LABELS | SETTING_LABELS | {LABEL_SCHEMA_REVISION}
SNAPSHOT_LABELS: frozenset[str] = frozenset()

_KEY_RULE = (
    f"a key has 1 to {limits.LABEL_LENGTH_MAX} lower-case letters, digits, '-' and '_', "
    "a letter first"
)
_VALUE_RULE = f"a value has up to {limits.LABEL_LENGTH_MAX} lower-case letters, digits, '-' and '_'"


def check_count(count: int) -> None:
    """Raises InvalidArgument: There are more labels than are allowed."""
    if count > limits.LABELS_MAX:
        raise InvalidArgument(f"labels: {count} labels; at most {limits.LABELS_MAX} are allowed")


def labels_of(found: Mapping[str, str]) -> dict[str, str]:
    """Labels from outside as a dictionary; counted first, for there may be a hundred thousand.

    Raises:
        InvalidArgument: There are more than are allowed.
    """
    check_count(len(found))
    return dict(found)


def check_labels(labels: Mapping[str, str], known: frozenset[str], what: str) -> None:
    """Check labels by Google's rules; `fanlog-` labels by name, their values being ours to read.

    Raises:
        InvalidArgument: Names the label and the rule.
    """
    check_count(len(labels))
    for key, value in labels.items():
        if key.startswith(PREFIX) and key not in known:
            near = meant(key, known)
            did_you = f"; did you mean {near!r}?" if near else ""
            others = f"; it knows {', '.join(sorted(known))}" if known else ""
            raise InvalidArgument(
                f"labels: {names.shown(key)} is not a label this service knows on {what}"
                f"{did_you}{others}"
            )
        if not _is_label(key) or not key or unicodedata.category(key[0]) not in ("Ll", "Lo"):
            raise InvalidArgument(f"labels: the key {names.shown(key)} is not allowed; {_KEY_RULE}")
        if len(value) > limits.LABEL_LENGTH_MAX or not (key.startswith(PREFIX) or _is_label(value)):
            raise InvalidArgument(
                f"labels: the value {names.shown(value)} of {names.shown(key)} is not allowed; "
                f"{_VALUE_RULE}"
            )


def check_fixed_labels(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Refuse a change of labels that are read once, when a subscription is made.

    Removing one is fine where nothing depends on it any more; `fanlog-ordering: strict` and the
    labels of key slots go on meaning something, so they stay.
    """
    for key in sorted(FIXED_LABELS):
        stays = (
            key in (LABEL_ASSIGNMENT, LABEL_KEY_SLOTS, LABEL_FAIRNESS)
            or before.get(key) == "strict"
        )
        is_removed = key not in after and not stays
        if not is_removed and before.get(key) != after.get(key):
            raise InvalidArgument(
                f"labels: {key} is read when a subscription is made and cannot be changed later "
                f"(it is {names.shown(before[key]) if key in before else 'not set'})"
            )


def check_topic_ordering(labels: Mapping[str, str]) -> None:
    """Raises InvalidArgument: The label of a topic has no known order as its value."""
    ordering = labels.get(LABEL_ORDERING, DEFAULT_ORDERING)
    if ordering not in TOPIC_ORDERINGS:
        raise InvalidArgument(
            f"label {LABEL_ORDERING}: {names.shown(ordering)} is not one of "
            f"{', '.join(map(repr, TOPIC_ORDERINGS))}"
        )


def check_publishers(labels: Mapping[str, str]) -> None:
    """Check the labels of a topic that are about numbered messages.

    Raises:
        InvalidArgument: Names the label, its value and the values that are allowed.
    """
    for name, least, most in (
        (LABEL_GAP_TIMEOUT, 0, limits.GAP_TIMEOUT_S_MAX),
        (LABEL_PUBLISHER_LIFE, limits.PUBLISHER_LIFE_S_MIN, limits.PUBLISHER_LIFE_S_MAX),
    ):
        text = labels.get(name)
        if text is None:
            continue
        if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
            raise InvalidArgument(
                f"label {name}: {names.shown(text)} is not a whole number of seconds from {least} "
                f"to {most}"
            )


def check_fixed_ordering(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Raises InvalidArgument: A topic would be ordered in another way than it was made with."""
    was, becomes = (one.get(LABEL_ORDERING, DEFAULT_ORDERING) for one in (before, after))
    if was != becomes:
        raise InvalidArgument(
            f"labels: {LABEL_ORDERING} is read when a topic is made and cannot be changed later "
            f"(the topic is ordered by {names.shown(was)}); messages that it has already would "
            "not be in the new order"
        )


def check_settings(labels: Mapping[str, str]) -> None:
    """Check the values of the labels that are settings.

    Raises:
        InvalidArgument: Names the label, its value and the values that are allowed.
    """
    delivery = labels.get(LABEL_DELIVERY, DELIVERIES[0])
    if delivery not in DELIVERIES:
        raise InvalidArgument(
            f"label {LABEL_DELIVERY}: {names.shown(delivery)} is not one of "
            f"{', '.join(map(repr, DELIVERIES))}; exactly once is enable_exactly_once_delivery"
        )
    retry = labels.get(LABEL_RETRY, FIRST_IMMEDIATE)
    if retry != FIRST_IMMEDIATE:
        raise InvalidArgument(
            f"label {LABEL_RETRY}: {names.shown(retry)} is not {FIRST_IMMEDIATE!r}; other waits "
            "are a retry_policy"
        )
    body = labels.get(LABEL_PUSH_BODY, PUSH_BODIES[0])
    if body not in PUSH_BODIES:
        raise InvalidArgument(
            f"label {LABEL_PUSH_BODY}: {names.shown(body)} is not one of "
            f"{', '.join(map(repr, PUSH_BODIES))}"
        )
    timeout = labels.get(LABEL_PUSH_TIMEOUT, "1")
    least, most = limits.PUSH_TIMEOUT_S_MIN, limits.PUSH_TIMEOUT_S_MAX
    if not (timeout.isascii() and timeout.isdigit() and least <= int(timeout) <= most):
        raise InvalidArgument(
            f"label {LABEL_PUSH_TIMEOUT}: {names.shown(timeout)} is not a whole number of seconds "
            f"from {least} to {most}"
        )
    check_push_settings(labels)
    _check_lapses(labels)
    for label, unit in (
        (LABEL_MAX_OUTSTANDING_MESSAGES, "number of messages"),
        (LABEL_MAX_OUTSTANDING_BYTES, "number of bytes"),
    ):
        check_whole(labels, label, 0, limits.MAX_OUTSTANDING_MAX, unit)


def _check_lapses(labels: Mapping[str, str]) -> None:
    _check_seconds(labels, LABEL_TTL, int(limits.MESSAGE_TTL_S_MAX))
    _check_choice(labels, LABEL_EXPIRED, EXPIRED_WAYS)
    _check_seconds(labels, LABEL_DEPENDENCY_TIMEOUT, limits.DEPENDENCY_TIMEOUT_S_MAX)
    _check_choice(labels, LABEL_DEPENDENCY_POLICY, DEPENDENCY_POLICIES)


def _check_seconds(labels: Mapping[str, str], label: str, most: int) -> None:
    text = labels.get(label, "1")
    # No more digits than the most has: a longer number need not be read.
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(most))
    if not (is_number and 1 <= int(text) <= most):
        raise InvalidArgument(
            f"label {label}: {names.shown(text)} is not a whole number of seconds from 1 to {most}"
        )


def _check_choice(labels: Mapping[str, str], label: str, choices: Sequence[str]) -> None:
    chosen = labels.get(label, choices[0])
    if chosen not in choices:
        raise InvalidArgument(
            f"label {label}: {names.shown(chosen)} is not one of {', '.join(map(repr, choices))}"
        )


def parse_start(text: str) -> Start:
    """Read the value of the label `fanlog-start`.

    Raises:
        InvalidArgument: Neither a word it knows nor an RFC 3339 time.
    """
    if text == "now":
        return "now"
    if text == "earliest":
        return "earliest"
    try:
        return times.parse_strict(text).timestamp()
    except (ValueError, OverflowError) as error:
        raise InvalidArgument(
            f"label {LABEL_START}: {names.shown(text)} is not 'now', 'earliest' or an RFC 3339 "
            "time such as '2026-01-31T12:00:00Z'"
        ) from error


def _is_label(text: str) -> bool:
    # International letters are welcome as long as they have no upper case (Google's rule).
    return len(text) <= limits.LABEL_LENGTH_MAX and all(
        character in "-_" or unicodedata.category(character) in ("Ll", "Lo", "Nd", "Nl", "No")
        for character in text
    )
