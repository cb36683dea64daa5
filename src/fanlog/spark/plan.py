"""The plan of a read, as values: spans of offsets, and how they are divided between tasks.

No I/O here. Spans are half-open, as everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fanlog.errors import InvalidArgument
from fanlog.model.names import shown
from fanlog.spark.options import EARLIEST, LATEST, Position

#: Rows that are worth a task of their own.
TASK_ROWS: Final = 250_000
#: Ranges that one request to read may have; see `fanlog.limits`.
TASK_SPANS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets from `start` to before `end` of one partition."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def count(self) -> int:
        return max(0, self.end - self.start)

    def __str__(self) -> str:
        return f"{self.topic} partition {self.partition} offsets {self.start} to {self.end - 1}"


@dataclass(frozen=True, slots=True)
class PartitionExtent:
    """Where one partition begins and ends; `fanlog.v1.PartitionOffsets` as a plain value."""

    topic: str
    partition: int
    start: int
    hot_start: int
    end: int


@dataclass(frozen=True, slots=True)
class Lost:
    """Offsets that were asked for and are not there any more."""

    spans: tuple[Span, ...]

    def __str__(self) -> str:
        named = "; ".join(str(span) for span in self.spans[:5])
        more = f"; and {len(self.spans) - 5} more" if len(self.spans) > 5 else ""
        return named + more


def resolve(
    position: Position, parts: Sequence[PartitionExtent], *, default: int, option: str
) -> dict[int, int]:
    """Give the offset that a position means for each partition, as far as it says.

    Args:
        default: EARLIEST or LATEST, for topics that the position does not name.

    Raises:
        InvalidArgument: It names a topic or a partition that is not read.
    """
    if position == "earliest":
        return {part.partition: part.start for part in parts}
    if position == "latest":
        return {part.partition: part.end for part in parts}
    by_topic: dict[str, list[PartitionExtent]] = {}
    for part in sorted(parts, key=lambda part: part.partition):
        by_topic.setdefault(part.topic, []).append(part)
    if strange := position.keys() - by_topic.keys():
        raise InvalidArgument(
            f"option {option}: {shown(min(strange))} is not one of the topics read"
        )
    offsets = {part.partition: _offset(default, part) for part in parts}
    for topic, by_partition in position.items():
        for key, offset in by_partition.items():
            for part in _find_named(key, by_topic[topic], option):
                offsets[part.partition] = _offset(offset, part)
    return offsets


def _find_named(
    key: int | None, parts: Sequence[PartitionExtent], option: str
) -> Sequence[PartitionExtent]:
    """The partitions of a topic that a key means: the broker's number for it, or its index."""
    if key is None:
        return parts
    for part in parts:
        if part.partition == key:
            return [part]
    if key < len(parts):
        return [parts[key]]
    known = ", ".join(str(part.partition) for part in parts)
    raise InvalidArgument(
        f"option {option}: {parts[0].topic} has no partition {key}; it has {known}"
    )


def _offset(offset: int, part: PartitionExtent) -> int:
    if offset == EARLIEST:
        return part.start
    if offset == LATEST:
        return part.end
    return offset


def spans_between(
    parts: Iterable[PartitionExtent], starts: Mapping[int, int], ends: Mapping[int, int]
) -> tuple[list[Span], Lost | None]:
    """Give the spans from some offsets to others, as far as they exist, and the lost offsets.

    Offsets beyond the end never existed. They count as lost all the same, as in Kafka's connector:
    a program that names them believes that it has read them.
    """
    spans: list[Span] = []
    lost: list[Span] = []
    for part in parts:
        start, end = starts[part.partition], ends[part.partition]
        span = Span(part.topic, part.partition, max(start, part.start), min(end, part.end))
        if start < end:
            if start < part.start:
                lost.append(replace(span, start=start, end=min(end, part.start)))
            if end > part.end:
                lost.append(replace(span, start=max(start, part.end), end=end))
        if span.count:
            spans.append(span)
    return spans, Lost(tuple(lost)) if lost else None


def split_tiers(
    spans: Iterable[Span], parts: Iterable[PartitionExtent]
) -> tuple[list[Span], list[Span]]:
    """Divide spans at the hot start: those in the broker's log, and those in the lake alone."""
    hot_starts = {part.partition: part.hot_start for part in parts}
    hot: list[Span] = []
    cold: list[Span] = []
    for span in spans:
        seam = min(max(hot_starts[span.partition], span.start), span.end)
        if seam < span.end:
            hot.append(replace(span, start=seam))
        if span.start < seam:
            cold.append(replace(span, end=seam))
    return hot, cold


def divide(
    spans: Sequence[Span], *, tasks_min: int = 1, task_rows: int = TASK_ROWS
) -> list[tuple[Span, ...]]:
    """Divide spans between tasks: many small ones together, and large ones cut."""
    total = sum(span.count for span in spans)
    if not total:
        return []
    count = max(tasks_min, -(-total // task_rows))
    rows_max = max(1, -(-total // count))
    tasks: list[tuple[Span, ...]] = []
    mine: list[Span] = []
    room = rows_max
    for span in spans:
        start = span.start
        while start < span.end:
            end = min(span.end, start + room)
            mine.append(replace(span, start=start, end=end))
            room -= end - start
            start = end
            if not room or len(mine) == TASK_SPANS:
                tasks.append(tuple(mine))
                mine, room = [], rows_max
    if mine:
        tasks.append(tuple(mine))
    return tasks
