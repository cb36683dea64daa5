"""The batch reader: the topics as a table, from some offsets to others.

Spark calls `pushFilters` and `partitions` once each, in a process of the driver's, and `read` in a
task for each portion; the reader travels there as it was left by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from fanlog.client.log import LogClient
from fanlog.spark.broker import connect
from fanlog.spark.cold import ColdSpans, divide_files, list_files
from fanlog.spark.options import EARLIEST, LATEST, ReadOptions
from fanlog.spark.plan import Span, divide, resolve, spans_between, split_tiers
from fanlog.spark.push_down import RowBounds, push_down
from fanlog.spark.selection import TopicStanding, ask_standing, find_offsets, selection_pb
from fanlog.spark.task import Portion, Task, join_filters, report_lost


class _OfferedQuietly:
    """Lets a reader have `pushFilters` where Spark's setting for it is off, as it is by default.

    Spark then refuses any reader with a `pushFilters` of its own, rather than not to call it; so
    that ours says, when it is asked, that it is Spark's.
    """

    def __get__(self, reader: BatchReader | None, kind: object = None) -> Any:
        return self if reader is None else _Offered(reader.take_filters)


class _Offered:
    def __init__(self, call: Callable[[list[Filter]], Iterable[Filter]]) -> None:
        self._call = call
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self._call(filters)


class BatchReader(DataSourceReader):
    """Reads the topics and offsets of the options, once."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._bounds = RowBounds()
        self._task = Task(
            endpoint=options.endpoint,
            with_sequence=options.include_sequence,
            fail_on_data_loss=options.fail_on_data_loss,
        )

    pushFilters = _OfferedQuietly()  # noqa: N815

    def take_filters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Called once with the predicates of `where`, if the session's setting is on."""
        self._bounds, left = push_down(self._bounds, filters)
        return left

    def partitions(self) -> list[InputPartition]:
        options = self._options
        with connect(options.endpoint) as connection:
            log = LogClient(connection)
            at = ask_standing(log, options)
            spans = find_spans(log, options, at, self._bounds)
        hot, cold = split_tiers(spans, at.parts)
        filters = join_filters(options.filter, at.filter)
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


def find_spans(
    log: LogClient, options: ReadOptions, at: TopicStanding, bounds: RowBounds | None = None
) -> list[Span]:
    """The spans that are wanted and exist, after lost offsets were reported.

    Raises:
        DataLoss: Some offsets are lost, and the options do not say that this is fine.
    """
    bounds = bounds or RowBounds()
    starts = resolve(options.starting, at.parts, default=EARLIEST, option="startingOffsets")
    ends = resolve(options.ending, at.parts, default=LATEST, option="endingOffsets")
    if options.starting_us is not None:
        starts = find_offsets(log, options, at, options.starting_us)
    if options.ending_us is not None:
        # The time itself is not in it, as in Kafka's connector.
        ends = find_offsets(log, options, at, options.ending_us)
    spans, lost = spans_between(at.parts, starts, ends)
    if lost is not None:
        report_lost(lost, "it is not there, or not any more", fail=options.fail_on_data_loss)
    wanted = {part.partition for part in at.parts if bounds.wants(part)}
    spans = [bounds.clip(span) for span in spans if span.partition in wanted]
    return _clip_to_times(log, options, bounds, [span for span in spans if span.count])


def _clip_to_times(
    log: LogClient, options: ReadOptions, bounds: RowBounds, spans: list[Span]
) -> list[Span]:
    """Clip spans to the times of `bounds`: times rise with offsets."""
    by_start: dict[int, int] = {}
    by_end: dict[int, int] = {}
    if bounds.time_us.start is not None:
        by_start = log.find_offsets(selection_pb(options), max(0, bounds.time_us.start))
    if bounds.time_us.end is not None:
        by_end = log.find_offsets(selection_pb(options), max(0, bounds.time_us.end))
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
