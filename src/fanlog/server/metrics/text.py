"""Metrics in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterator
from itertools import accumulate, islice
from typing import Final

from fanlog.broker.histogram import Histogram
from fanlog.server.metrics.family import Family, Labels, Reading
from fanlog.server.metrics.pace import Pace

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

#: Samples that are written before others may have the loop: some 200 microseconds.
_ROWS: Final = 500


async def write_text(readings: AsyncIterable[Reading]) -> AsyncIterator[bytes]:
    """The text of readings, a piece at a time; ten thousand subscriptions make megabytes."""
    pace = Pace()
    async for reading in readings:
        yield _head(reading.family).encode()
        lines = _lines(reading)
        while piece := "".join(islice(lines, _ROWS)):
            yield piece.encode()
            await pace.rest()


def _head(family: Family) -> str:
    name = f"{family.name}_total" if family.kind == "counter" else family.name
    text = family.text.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {name} {text}\n# TYPE {name} {family.kind}\n"


def _lines(reading: Reading) -> Iterator[str]:
    family = reading.family
    name = f"{family.name}_total" if family.kind == "counter" else family.name
    if len(family.labels) == 1:
        # Nearly all samples of a large page have one label.
        start = f'{name}{{{family.labels[0]}="'
        for [label], value in zip(reading.labels, reading.values, strict=True):
            if isinstance(value, Histogram):
                yield from _histogram(family, (label,), value)
            else:
                yield f'{start}{_escaped(label)}"}} {float(value)}\n'
        return
    for labels, value in zip(reading.labels, reading.values, strict=True):
        if isinstance(value, Histogram):
            yield from _histogram(family, labels, value)
        else:
            yield f"{name}{_braces(family.labels, labels)} {float(value)}\n"


def _histogram(family: Family, labels: Labels, value: Histogram) -> Iterator[str]:
    names = (*family.labels, "le")
    counts = list(accumulate(value.counts))
    for bound, count in zip([*map(repr, value.bounds), "+Inf"], counts, strict=True):
        yield f"{family.name}_bucket{_braces(names, (*labels, bound))} {float(count)}\n"
    shown = _braces(family.labels, labels)
    yield f"{family.name}_sum{shown} {value.total}\n"
    yield f"{family.name}_count{shown} {float(counts[-1])}\n"


def _braces(names: tuple[str, ...], values: Labels) -> str:
    if not names:
        return ""
    # By name, so that the same sample is always the same text.
    pairs = sorted(zip(names, values, strict=True))
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs) + "}"


def _escaped(value: str) -> str:
    if '"' in value or "\\" in value or "\n" in value:
        return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return value
