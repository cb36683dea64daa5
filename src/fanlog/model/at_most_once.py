"""Settings that mean nothing where messages are delivered at most once, and why."""

from __future__ import annotations

from collections.abc import Mapping

from fanlog.errors import InvalidArgument
from fanlog.model.attributes import (
    LABEL_ASSIGNMENT,
    LABEL_DEAD_LETTER,
    LABEL_DELIVERY,
    LABEL_MAX_OUTSTANDING_BYTES,
    LABEL_MAX_OUTSTANDING_MESSAGES,
    LABEL_RETRY,
)
from fanlog.model.resources import AT_MOST_ONCE

_WHY_NOT_RETRIED = "a message that was sent is not delivered again"


def check_at_most_once(
    labels: Mapping[str, str],
    *,
    is_exactly_once: bool,
    has_dead_letters: bool,
    has_retry: bool,
    forwards: bool,
    export_field: str,
) -> None:
    """Check the other settings of a subscription with the label.

    Args:
        labels: All labels of the subscription.
        is_exactly_once, has_dead_letters, has_retry: Whether it has these settings.
        forwards: Whether it pushes to a topic.
        export_field: The field of its export; empty for none.

    Raises:
        InvalidArgument: Names the setting that cannot stand beside the label.
    """
    if labels.get(LABEL_DELIVERY) != AT_MOST_ONCE:
        return
    contradictions = {
        "enable_exactly_once_delivery": (
            is_exactly_once,
            "messages are acknowledged when they are sent, and not when they were processed",
        ),
        "dead_letter_policy": (
            has_dead_letters or labels.get(LABEL_DEAD_LETTER) == "auto",
            f"{_WHY_NOT_RETRIED}, so that none fails too often",
        ),
        "retry_policy": (has_retry, _WHY_NOT_RETRIED),
        f"label {LABEL_RETRY}": (LABEL_RETRY in labels, _WHY_NOT_RETRIED),
        f"label {LABEL_ASSIGNMENT}": (
            LABEL_ASSIGNMENT in labels,
            "a slot stays with its stream while messages of it are outstanding, and none ever is",
        ),
        **{
            f"label {label}": (
                labels.get(label, "0") != "0",
                "messages are acknowledged when they are sent, so that none is outstanding",
            )
            for label in (LABEL_MAX_OUTSTANDING_MESSAGES, LABEL_MAX_OUTSTANDING_BYTES)
        },
        "push_config.push_endpoint": (
            forwards,
            "a forward copies and acknowledges in one commit, which is once and never twice",
        ),
        export_field: (bool(export_field), "an export writes every message, and each once"),
    }
    for name, (is_set, why) in contradictions.items():
        if is_set:
            raise InvalidArgument(
                f"{name}: means nothing with the label {LABEL_DELIVERY}: {AT_MOST_ONCE}: {why}; "
                "leave one of them out"
            )
