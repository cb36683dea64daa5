"""The batch reader: the topics as a table, from some offsets to others.

Spark calls `pushFilters` and `partitions` once each, in a process of the driver's, and `read` in a
task for each portion; the reader travels there as it was left by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from fanlog.spark.cold import ColdSpans, divide_files, list_files
from fanlog.spark.connection import Connection
from fanlog.spark.options import EARLIEST, LATEST, ReadOptions
from fanlog.spark.plan import Span, divide, resolve, spans_between, split_tiers
from fanlog.spark.push_down import Bounds, push_down
from fanlog.spark.selection import Standing, found_at, selection, standing
from fanlog.spark.task import Portion, Task, joined, report_lost


class _OfferedQuietly:
    """Lets a reader have `pushFilters` where Spark's setting for it is off, as it is by default.

    Spark then refuses any reader with a `pushFilters` of its own, rather than not to call it; so
    that ours says, when it is asked, that it is Spark's.
    """

    def __get__(self, reader: Any, kind: Any = None) -> Any:
        return self if reader is None else _Offered(reader.take_filters)


class _Offered:
    def __init__(self, call: Callable[[list[Filter]], Iterable[Filter]]) -> None:
        self._call = call
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self._call(filters)


class Reader(DataSourceReader):
    """Reads what the options say, once."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._bounds = Bounds()
        self._task = Task(
            endpoint=options.endpoint,
            with_sequence=options.include_sequence,
            fail_on_data_loss=options.fail_on_data_loss,
        )

    pushFilters = _OfferedQuietly()  # noqa: N815

    def take_filters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Called once with what `where` says, if the session's setting is on."""
        self._bounds, left = push_down(self._bounds, filters)
        return left

    def partitions(self) -> list[InputPartition]:
        options = self._options
        with Connection(options.endpoint) as connection:
            at = standing(connection, options)
            spans = wanted_spans(connection, options, at, self._bounds)
        hot, cold = split_tiers(spans, at.parts)
        filters = joined(options.filter, at.filter)
        tasks_min = options.min_partitions or 1
        portions: list[InputPartition] = []
        if cold:
            location = at.lake()
            assert location is not None, "what is cold is in a lake"
            wanted = ColdSpans(tuple(cold))
            for files in divide_files(list_files(location, wanted), tasks_min=tasks_min):
                mine = wanted.only(files)
                portions.append(Portion(files=files, cold=mine, filters=filters, location=location))
        return portions + [
            Portion(hot=spans, filters=filters, location=at.location)
            for spans in divide(hot, tasks_min=tasks_min)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, Portion):
            yield from self._task.read(partition)


def wanted_spans(
    connection: Connection, options: ReadOptions, at: Standing, bounds: Bounds | None = None
) -> list[Span]:
    """What is wanted and there, after what is lost was reported.

    Raises:
        DataLoss: Some of it is nowhere, and that was not said to be fine.
    """
    bounds = bounds or Bounds()
    starts = resolve(options.starting, at.parts, default=EARLIEST, option="startingOffsets")
    ends = resolve(options.ending, at.parts, default=LATEST, option="endingOffsets")
    if options.starting_us is not None:
        starts = found_at(connection, options, at, options.starting_us)
    if options.ending_us is not None:
        # The time itself is not in it, as in Kafka's connector.
        ends = found_at(connection, options, at, options.ending_us)
    spans, lost = spans_between(at.parts, starts, ends)
    if lost is not None:
        report_lost(lost, "it is not there, or not any more", fail=options.fail_on_data_loss)
    wanted = {part.partition for part in at.parts if bounds.wants(part)}
    spans = [bounds.clip(span) for span in spans if span.partition in wanted]
    return _timed(connection, options, bounds, [span for span in spans if span.count])


def _timed(
    connection: Connection, options: ReadOptions, bounds: Bounds, spans: list[Span]
) -> list[Span]:
    """Clip spans to the times of `bounds`: times rise with offsets."""
    by_start: dict[int, int] = {}
    by_end: dict[int, int] = {}
    if bounds.time_us.start is not None:
        by_start = connection.find(selection(options), max(0, bounds.time_us.start))
    if bounds.time_us.end is not None:
        by_end = connection.find(selection(options), max(0, bounds.time_us.end))
    clipped = [
        Span(
            span.topic,
            span.partition,
            max(span.start, by_start.get(span.partition, span.start)),
            min(span.end, by_end.get(span.partition, span.end)),
        )
        for span in spans
    ]
    return [span for span in clipped if span.count]
