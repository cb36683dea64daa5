"""The work of a task: it reads its portion of the table, the lake's part first, then the log's.

Batches come as they are stored and are decoded here, so that the broker does nothing for a single
message. Messages trimmed since the plan was made are in the lake by then, and taken from there. A
broker that is away is waited for: rows that were given once are not given again.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from fanlog import limits
from fanlog.client.connection import PAUSE_S
from fanlog.client.failures import CallFailed
from fanlog.client.log import LogClient
from fanlog.errors import DataLoss
from fanlog.lake.location import Location
from fanlog.log.batch import BatchDamaged, decode, decode_header
from fanlog.spark.broker import PATIENCE_S, connect
from fanlog.spark.cold import ColdFile, ColdSpans, list_files, read_file
from fanlog.spark.decode import RowBuilder
from fanlog.spark.plan import TASK_SPANS, Lost, Span
from fanlog.spark.schemas import arrow_schema
from fanlog.v1 import log_pb2

if TYPE_CHECKING:
    from fanlog.spark.matcher import Matcher

#: The status of Read when offsets are not in the hot log, or their topic is gone.
_GONE: Final = frozenset({"OUT_OF_RANGE", "NOT_FOUND"})

_log = logging.getLogger("fanlog.spark")


_NOTHING: Final = ColdSpans(())

#: A stored batch, or the range of one that is damaged.
_Item = bytes | log_pb2.Range


@dataclass(frozen=True)
class Portion(InputPartition):
    """One task's portion: spans of the log, and files of the lake. Travels to the task."""

    hot: tuple[Span, ...] = ()
    files: tuple[ColdFile, ...] = ()
    #: The rows of the files that are wanted.
    cold: ColdSpans = _NOTHING
    #: Texts of filters; a message has to pass all of them.
    filters: tuple[str, ...] = ()
    #: The lake, for messages that are there or will be by then; None for none.
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """Reads portions. Travels to the tasks, so there is no connection in it."""

    endpoint: str
    with_sequence: bool
    fail_on_data_loss: bool
    #: Whether files of the lake that are damaged are lost like everything else.
    skips_damaged: bool = True
    #: For the archive, which reads nothing but the log.
    with_seal: bool = False

    def read(self, portion: Portion) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a portion.

        Raises:
            DataLoss: Some offsets are lost, and the options do not say that this is fine.
            CallFailed: The broker refused, or stayed away.
        """
        matcher = _matcher(portion.filters) if portion.filters else None
        if portion.files:
            assert portion.location is not None, "files are in a lake"
            for batch in self._files(portion.location, portion.files, portion.cold):
                yield from _filter(matcher, batch)
        if portion.hot:
            with connect(self.endpoint) as connection:
                reading = _HotRead(self, LogClient(connection), matcher, portion.location)
                yield from reading.read(portion.hot)

    def lose(self, lost: Lost, why: str) -> None:
        """Fail, or say so and go on, as the query wants it."""
        report_lost(lost, why, fail=self.fail_on_data_loss)

    def cold(self, location: Location | None, spans: Sequence[Span]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of spans that turned out to be in the lake; the others are lost."""
        counts = dict.fromkeys((span.partition for span in spans), 0)
        if location is not None:
            wanted = ColdSpans(tuple(spans))
            for batch in self._files(location, list_files(location, wanted), wanted):
                for count in batch.column("partition").value_counts().to_pylist():
                    counts[count["values"]] += count["counts"]
                yield batch
        missing = [
            span
            for span in spans
            if counts[span.partition]
            < sum(each.count for each in spans if each.partition == span.partition)
        ]
        if missing:
            self.lose(Lost(tuple(missing)), "not all of it is in the log or in the lake")

    def _files(
        self, location: Location, files: Iterable[ColdFile], wanted: ColdSpans
    ) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema(with_sequence=self.with_sequence)
        for file in files:
            try:
                yield from read_file(location, file, wanted, schema)
            except FileNotFoundError as error:
                raise DataLoss(
                    f"{location.uri}/{file.path} is gone: if the lake was compacted and "
                    "cleaned since this query was planned, run it again"
                ) from error
            except DataLoss as error:
                if self.fail_on_data_loss or not self.skips_damaged:
                    raise
                _log.warning("%s; going on, since failOnDataLoss is false", error)


def join_filters(*filters: str) -> tuple[str, ...]:
    """Those of some filters that leave anything out; a message has to pass all of them."""
    return tuple(text for text in filters if text.strip())


def _matcher(filters: tuple[str, ...]) -> Matcher:
    # Only tasks that filter wait for its imports.
    from fanlog.spark.matcher import Matcher

    return Matcher(filters)


def report_lost(lost: Lost, why: str, *, fail: bool) -> None:
    """Fail because of lost offsets, or say in the log that they are."""
    if fail:
        raise DataLoss(
            f"lost: {lost}: {why}. Set the option failOnDataLoss to false to go on without"
        )
    _log.warning("lost: %s: %s; going on, since failOnDataLoss is false", lost, why)


def _filter(matcher: Matcher | None, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if matcher is not None:
        batch = matcher.rows(batch)
    if batch.num_rows:
        yield batch


class _HotRead:
    """One task's read of the log. Knows how far it has come, so that it can begin again."""

    def __init__(
        self,
        task: Task,
        log: LogClient,
        matcher: Matcher | None,
        location: Location | None,
    ) -> None:
        self._task = task
        self._location = location
        self._log = log
        self._matcher = matcher
        self._rows = RowBuilder(
            arrow_schema(with_sequence=task.with_sequence, with_seal=task.with_seal)
        )
        #: Spans that are not read yet; the first one is being read.
        self._left: deque[Span] = deque()
        #: When a broker that is away was waited for long enough.
        self._late_s = 0.0

    def read(self, spans: Sequence[Span]) -> Iterator[pa.RecordBatch]:
        for first in range(0, len(spans), TASK_SPANS):
            self._left = deque(spans[first : first + TASK_SPANS])
            self._late_s = time.monotonic() + PATIENCE_S
            while self._left:
                try:
                    yield from self._ask()
                except CallFailed as failure:
                    if failure.status in _GONE:
                        yield from self._follow()
                    elif failure.status == "UNAVAILABLE" and time.monotonic() < self._late_s:
                        time.sleep(PAUSE_S)
                    else:
                        raise
        yield from self._flush()

    def _ask(self) -> Iterator[pa.RecordBatch]:
        """Ask for all that is left, once, in as many requests as that takes."""
        self._left = deque(span for span in self._left if span.count)
        for ranges in _requests(list(self._left)):
            left = len(self._left)
            for answer in self._log.read(ranges):
                self._late_s = time.monotonic() + PATIENCE_S
                self._end(left - answer.range)
                for item in _in_order(answer):
                    yield from self._take(item)
            self._end(left - len(ranges))

    def _end(self, count: int) -> None:
        """See that all spans but the last `count` were read to their ends, and forget them."""
        while len(self._left) > count:
            span = self._left.popleft()
            if span.count:
                raise DataLoss(f"the broker left out {span}")

    def _take(self, item: _Item) -> Iterator[pa.RecordBatch]:
        """Take the messages of one stored batch that are in the first span left."""
        span = self._left[0]
        if isinstance(item, log_pb2.Range):
            yield from self._replace_damaged(max(span.start, item.start), min(span.end, item.end))
            return
        try:
            batch = decode(item)
        except BatchDamaged:
            header = decode_header(item)
            yield from self._replace_damaged(
                max(span.start, header.base_offset), min(span.end, header.end_offset)
            )
            return
        first = max(0, span.start - batch.base_offset)
        end = min(batch.count, span.end - batch.base_offset)
        if first >= end:
            return
        if batch.base_offset > span.start:
            raise DataLoss(f"the broker left out {replace(span, end=batch.base_offset)}")
        if self._matcher is None:
            self._rows.add(batch, first, end, span.topic)
        elif found := self._matcher.stored(batch, first, end, span.topic):
            self._rows.add_some(batch, found, span.topic)
        self._left[0] = replace(span, start=batch.base_offset + end)
        if self._rows.is_full:
            yield self._rows.finish()

    def _replace_damaged(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """The log's bytes are damaged: the lake may have them."""
        span = self._left[0]
        if start < end:
            yield from self._from_lake([replace(span, start=start, end=end)])
            self._left[0] = replace(span, start=end)

    def _follow(self) -> Iterator[pa.RecordBatch]:
        """Some of the spans left are not in the log any more: take those from the lake."""
        parts: dict[int, log_pb2.PartitionOffsets] = {}
        for topic in dict.fromkeys(span.topic for span in self._left):
            try:
                answer = self._log.get_offsets(log_pb2.TopicSelection(topics=[topic]))
            except CallFailed as failure:
                if failure.status not in _GONE:
                    raise
                continue
            parts |= {part.partition: part for part in answer.partitions}
        hot: list[Span] = []
        cold: list[Span] = []
        lost: list[Span] = []
        for span in self._left:
            part = parts.get(span.partition)
            if part is None:
                lost.append(span)
                continue
            pieces = (
                (lost, span.start, min(span.end, part.start)),
                (cold, max(span.start, part.start), min(span.end, part.hot_start)),
                (hot, max(span.start, part.hot_start), min(span.end, part.end)),
                (lost, max(span.start, part.end), span.end),
            )
            for kind, start, end in pieces:
                if start < end:
                    kind.append(replace(span, start=start, end=end))
        if lost:
            self._task.lose(Lost(tuple(lost)), "the broker does not have it any more")
        if cold:
            yield from self._from_lake(cold)
        self._left = deque(hot)

    def _from_lake(self, spans: Sequence[Span]) -> Iterator[pa.RecordBatch]:
        # Rows that were gathered come first: those of a partition stay in order.
        yield from self._flush()
        for batch in self._task.cold(self._location, spans):
            yield from _filter(self._matcher, batch)

    def _flush(self) -> Iterator[pa.RecordBatch]:
        if self._rows.count:
            yield self._rows.finish()


def _in_order(answer: log_pb2.ReadResponse) -> list[_Item]:
    """The stored batches and damaged ranges of an answer, by offset."""
    if not answer.damaged:
        return list(answer.batches)
    found: list[tuple[int, _Item]] = [(each.start, each) for each in answer.damaged]
    found += [(decode_header(value).base_offset, value) for value in answer.batches]
    return [item for _, item in sorted(found, key=lambda pair: pair[0])]


def _requests(spans: Sequence[Span]) -> Iterator[list[log_pb2.Range]]:
    """Spans as ranges, in portions that the broker takes as one request."""
    ranges: list[log_pb2.Range] = []
    size_bytes = 0
    for span in spans:
        one = log_pb2.Range(
            topic=span.topic, partition=span.partition, start=span.start, end=span.end
        )
        # Room for a tag and a length besides.
        size_bytes += one.ByteSize() + 6
        if ranges and (
            len(ranges) == limits.LOG_READ_RANGES_MAX or size_bytes > limits.REQUEST_BYTES_MAX
        ):
            yield ranges
            ranges, size_bytes = [], one.ByteSize() + 6
        ranges.append(one)
    if ranges:
        yield ranges
