"""Predicates that Spark hands to the source, as bounds on the offsets that are read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from fanlog.spark.plan import PartitionExtent, Span

#: Columns that never are null.
_ALWAYS: Final = frozenset(
    {"topic", "partition", "offset", "message_id", "publish_time", "ordering_key", "data"}
    | {"attributes", "sequence"}
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Interval:
    """Whole numbers from `start` to before `end`; None is open."""

    start: int | None = None
    end: int | None = None

    def within(self, start: int | None, end: int | None) -> Interval:
        """The numbers in both."""
        starts = [each for each in (self.start, start) if each is not None]
        ends = [each for each in (self.end, end) if each is not None]
        return Interval(max(starts, default=None), min(ends, default=None))


@dataclass(frozen=True, slots=True)
class RowBounds:
    """Conditions on rows, besides those of the options."""

    #: Full names; None for any.
    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    offset: Interval = Interval()
    #: Microseconds since the epoch.
    time_us: Interval = Interval()

    def wants(self, part: PartitionExtent) -> bool:
        return (self.topics is None or part.topic in self.topics) and (
            self.partitions is None or part.partition in self.partitions
        )

    def clip(self, span: Span) -> Span:
        both = self.offset.within(span.start, span.end)
        assert both.start is not None
        assert both.end is not None
        return replace(span, start=both.start, end=max(both.start, both.end))


def push_down(bounds: RowBounds, filters: Iterable[Filter]) -> tuple[RowBounds, list[Filter]]:
    """Take the predicates that bounds can say, whole; give the bounds and the other predicates."""
    left: list[Filter] = []
    for each in filters:
        taken = _take(bounds, each)
        if taken is None:
            left.append(each)
        else:
            bounds = taken
    return bounds, left


def _take(bounds: RowBounds, predicate: Filter) -> RowBounds | None:
    match predicate:
        case IsNotNull((name,)) if name in _ALWAYS:
            return bounds
        case EqualTo((name,), value) | EqualNullSafe((name,), value) if value is not None:
            return _one_of(bounds, name, (value,))
        case In((name,), values) if None not in values:
            return _one_of(bounds, name, values)
        case GreaterThanOrEqual((name,), value):
            return _between(bounds, name, _number(name, value), None)
        case GreaterThan((name,), value):
            return _between(bounds, name, _after(_number(name, value)), None)
        case LessThan((name,), value):
            return _between(bounds, name, None, _number(name, value))
        case LessThanOrEqual((name,), value):
            return _between(bounds, name, None, _after(_number(name, value)))
        case _:
            return None


def _one_of(bounds: RowBounds, name: str, values: tuple[Any, ...]) -> RowBounds | None:
    if name == "topic" and all(isinstance(value, str) for value in values):
        topics = frozenset(values)
        return replace(bounds, topics=topics if bounds.topics is None else bounds.topics & topics)
    if name == "partition" and all(isinstance(value, int) for value in values):
        wanted = frozenset(values)
        had = bounds.partitions
        return replace(bounds, partitions=wanted if had is None else had & wanted)
    if len(values) == 1:
        number = _number(name, values[0])
        return _between(bounds, name, number, _after(number))
    return None


def _between(bounds: RowBounds, name: str, start: int | None, end: int | None) -> RowBounds | None:
    if start is None and end is None:
        return None
    if name == "offset":
        return replace(bounds, offset=bounds.offset.within(start, end))
    if name == "publish_time":
        return replace(bounds, time_us=bounds.time_us.within(start, end))
    return None


def _number(name: str, value: object) -> int | None:
    if name == "offset" and isinstance(value, int):
        return value
    if name == "publish_time" and isinstance(value, datetime):
        # Spark gives times without a zone as those of the session, turned to local time.
        return (value.astimezone(UTC) - _EPOCH) // _MICROSECOND
    return None


def _after(number: int | None) -> int | None:
    return None if number is None else number + 1
