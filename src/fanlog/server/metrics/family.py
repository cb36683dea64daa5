"""A metric as the table defines it, and a reading of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fanlog.broker.histogram import Histogram

Kind = Literal["counter", "gauge", "histogram"]

#: The unit that the end of a name says.
_UNITS = ("seconds", "bytes", "messages")


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: its name without the suffix that Prometheus adds, its kind and its meaning."""

    name: str
    kind: Kind
    text: str
    labels: tuple[str, ...] = ()
    #: The metric is there only under this condition; empty: it always is.
    when: str = ""

    @property
    def unit(self) -> str:
        """Seconds, bytes or messages; empty for a plain number."""
        return next((unit for unit in _UNITS if self.name.endswith("_" + unit)), "")

    @property
    def sample_names(self) -> tuple[str, ...]:
        """The names of its samples, as Prometheus has them."""
        if self.kind == "counter":
            return (f"{self.name}_total",)
        if self.kind == "gauge":
            return (self.name,)
        return (f"{self.name}_bucket", f"{self.name}_sum", f"{self.name}_count")


#: The values of the labels of a sample, in the order of the family's labels.
Labels = tuple[str, ...]
Value = float | Histogram


@dataclass(frozen=True, slots=True)
class Reading:
    """The samples of one metric: labels and values, in two columns of the same length."""

    family: Family
    labels: Sequence[Labels]
    values: Sequence[Value]
