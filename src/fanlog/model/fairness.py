"""Settings that cannot stand beside turns of tenants, and why."""

from __future__ import annotations

from collections.abc import Mapping

from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.model.attributes import LABEL_ASSIGNMENT, LABEL_FAIRNESS


def check_fairness(
    labels: Mapping[str, str], *, is_ordered: bool, filter_: str, export_field: str
) -> None:
    """Check the other settings of a subscription with the label.

    Raises:
        InvalidArgument: Names the setting that cannot stand beside it.
    """
    value = labels.get(LABEL_FAIRNESS)
    if value is None:
        return
    if value != "tenant":
        raise InvalidArgument(f"label {LABEL_FAIRNESS}: {names.shown(value)} is not 'tenant'")
    contradictions = {
        "enable_message_ordering": (
            is_ordered,
            "messages of a key come in their order, whoever's they are",
        ),
        f"label {LABEL_ASSIGNMENT}": (
            LABEL_ASSIGNMENT in labels,
            "each stream has the messages of its keys, whoever's they are",
        ),
        "filter": (
            bool(filter_),
            "a filter judges messages in their order, so that one far behind others has no turn",
        ),
        export_field: (bool(export_field), "an export writes messages in their order"),
    }
    for name, (is_set, why) in contradictions.items():
        if is_set:
            raise InvalidArgument(
                f"{name}: cannot be combined with the label {LABEL_FAIRNESS}: {why}; leave one of "
                "them out"
            )
