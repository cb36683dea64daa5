"""Series for the tests of rules: those of a real scrape, and how some of them go on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

JOB, INSTANCE = "fanlog", "fanlog:8085"
#: Minutes of every series, one sample each.
MINUTES = 120


@dataclass(frozen=True, slots=True)
class Sample:
    name: str
    labels: Mapping[str, str]
    value: float

    @property
    def series(self) -> str:
        pairs = {**self.labels, "job": JOB, "instance": INSTANCE}
        shown = ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(pairs.items()))
        return f"{self.name}{{{shown}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def samples(text: str) -> list[Sample]:
    """Every sample of a scrape."""
    return [
        Sample(one.name, one.labels, one.value)
        for family in text_string_to_metric_families(text)
        for one in family.samples
    ]


@dataclass(frozen=True, slots=True)
class Change:
    """How the samples of one name go on: each minute by so much, from a value on."""

    name: str
    step: float = 0.0
    start: float | None = None
    #: Of the series that have these labels; all when there are none.
    labels: Mapping[str, str] | None = None

    def takes(self, sample: Sample) -> bool:
        wanted = (self.labels or {}).items()
        return sample.name == self.name and wanted <= dict(sample.labels).items()


def series(found: Iterable[Sample], changes: Iterable[Change] = ()) -> Iterator[dict[str, str]]:
    """Input of promtool: every sample stays as it is, but for those that change."""
    changes = list(changes)
    for sample in found:
        change = next((one for one in changes if one.takes(sample)), Change(sample.name))
        start = sample.value if change.start is None else change.start
        # promtool has no numbers with an exponent that is positive and signed.
        yield {"series": sample.series, "values": f"{start:.6f}{change.step:+.6f}x{MINUTES}"}
    yield {"series": f'up{{instance="{INSTANCE}",job="{JOB}"}}', "values": f"1x{MINUTES}"}
