"""How much may be published to a topic: labels of the topic, as values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model.attributes import (
    LABEL_PUBLISH_BURST,
    LABEL_PUBLISH_BYTES_BURST,
    LABEL_PUBLISH_BYTES_RATE,
    LABEL_PUBLISH_RATE,
)
from fanlog.model.label_values import check_whole


class PublishRate(NamedTuple):
    """The rate of one unit, `messages` or `bytes`; and how many of it are taken at once."""

    unit: str
    rate: int
    burst: int
    #: The labels that say so.
    rate_label: str
    burst_label: str


#: By unit: the label of its rate, and of its burst.
_LABELS: Final = {
    "messages": (LABEL_PUBLISH_RATE, LABEL_PUBLISH_BURST),
    "bytes": (LABEL_PUBLISH_BYTES_RATE, LABEL_PUBLISH_BYTES_BURST),
}


def publish_rates(labels: Mapping[str, str]) -> tuple[PublishRate, ...]:
    """The rates that the labels of a topic set; mostly none."""
    found: list[PublishRate] = []
    for unit, (rate_label, burst_label) in _LABELS.items():
        text = labels.get(rate_label)
        if text is not None:
            rate = int(text)
            burst = int(labels.get(burst_label, rate * limits.PUBLISH_BURST_S_DEFAULT))
            found.append(PublishRate(unit, rate, burst, rate_label, burst_label))
    return tuple(found)


def check_publish_rates(labels: Mapping[str, str]) -> None:
    """Raises InvalidArgument: A rate or burst of a topic is no number, or a burst has no rate."""
    for unit, (rate_label, burst_label) in _LABELS.items():
        for label in (rate_label, burst_label):
            what = f"number of {unit}" + (" a second" if label == rate_label else "")
            check_whole(labels, label, 1, limits.PUBLISH_RATE_MAX, what)
        if burst_label in labels and rate_label not in labels:
            raise InvalidArgument(
                f"label {burst_label}: needs the label {rate_label}, which is not set: without a "
                "rate there is no limit"
            )
