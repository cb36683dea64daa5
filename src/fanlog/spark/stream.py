"""The stream reader: the topics as a stream, a batch from one commit sequence to another.

An offset of the stream, as Spark writes it into the checkpoint:

| key        | meaning                                                                             |
|------------|-------------------------------------------------------------------------------------|
| `sequence` | everything up to and with this commit has been read                                 |
| `log`      | id of the log that counts so; another one counts differently                        |
| `offsets`  | by partition, the next offset that is expected; what is below is not read           |
| `filter`   | of the subscription that is read, when the batch was planned                        |

The sequence alone says what is read: it is one number for any number of topics, and what lies
between two of them never changes. `offsets` is there where a stream begins at offsets or at a time,
until all of them are passed; and, for up to `OFFSETS_MAX` partitions, always, so that a query that
starts again after a while can tell whether anything has been lost meanwhile.

Spark calls all but `read` in one process of the driver's that lives as long as the query. `commit`
may never come for the last batch, so nothing is done there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from fanlog.errors import FailedPrecondition, Unimplemented
from fanlog.spark.cold import ColdSpans, divide_files, list_files
from fanlog.spark.cold_counts import sequence_within
from fanlog.spark.connection import PATIENCE_S, Connection
from fanlog.spark.options import EARLIEST, ReadOptions
from fanlog.spark.plan import Lost, Part, Span, divide, resolve
from fanlog.spark.selection import Standing, found_at, selection, standing
from fanlog.spark.task import Portion, Task, joined, report_lost

#: Partitions up to which every offset of the stream names the offsets, too.
OFFSETS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    """A place in the stream."""

    sequence: int
    log: str
    offsets: Mapping[int, int] = field(default_factory=dict)
    filter: str = ""

    @classmethod
    def of(cls, written: Mapping[str, Any]) -> StreamOffset:
        return cls(
            sequence=written["sequence"],
            log=written["log"],
            offsets={int(key): offset for key, offset in written.get("offsets", {}).items()},
            filter=written.get("filter", ""),
        )

    def written(self) -> dict[str, Any]:
        said: dict[str, Any] = {"sequence": self.sequence, "log": self.log}
        if self.offsets:
            said["offsets"] = {str(key): offset for key, offset in sorted(self.offsets.items())}
        if self.filter:
            said["filter"] = self.filter
        return said


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what the options say, as it comes."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        #: Of an AvailableNow query: where it ends.
        self._target: StreamOffset | None = None
        #: Whether the broker was there before: from then on it is waited for.
        self._is_known = False
        self._task = Task(
            endpoint=options.endpoint,
            with_sequence=options.include_sequence,
            fail_on_data_loss=options.fail_on_data_loss,
        )

    # Called in the driver.

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Called once in the life of a checkpoint."""
        options = self._options
        with self._connected() as connection:
            at = standing(connection, options)
            if options.starting_us is not None:
                offsets = found_at(connection, options, at, options.starting_us)
            elif options.starting == "latest":
                return self._latest(at).written()
            else:
                offsets = resolve(
                    options.starting, at.parts, default=EARLIEST, option="startingOffsets"
                )
        return StreamOffset(sequence=0, log=at.log_id, offsets=offsets).written()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limit = self._options.max_messages
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with self._connected() as connection:
            self._target = self._latest(standing(connection, self._options))

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        with self._connected() as connection:
            return self._latest(standing(connection, self._options)).written()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next batch ends: called for each trigger."""
        begin = StreamOffset.of(start)
        with self._connected() as connection:
            at = standing(connection, self._options)
            _check_log(begin, at)
            latest = self._latest(at, begin) if self._target is None else self._target
            if latest.sequence <= begin.sequence:
                return start
            if isinstance(limit, ReadAllAvailable):
                return latest.written()
            return self._limited(connection, at, begin, latest, limit).written()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Plan a batch: called for each, and again with the same offsets after a failure."""
        options, begin, finish = self._options, StreamOffset.of(start), StreamOffset.of(end)
        with self._connected() as connection:
            # Where the log begins is asked after what it has: what was trimmed in between counts
            # as cold, and so is not missed.
            ranges = list(self._ranges(connection, begin.sequence, finish.sequence))
            at = standing(connection, options)
        _check_log(begin, at)
        self._check_lost(begin, finish, at)
        hot_starts = {part.partition: part.hot_start for part in at.parts}
        hot = [
            replace(
                span,
                start=max(
                    span.start,
                    hot_starts.get(span.partition, 0),
                    begin.offsets.get(span.partition, 0),
                ),
            )
            for span in ranges
        ]
        filters = joined(options.filter, finish.filter)
        tasks_min = options.min_partitions or 1
        portions: list[InputPartition] = [
            Portion(hot=spans, filters=filters, location=at.location)
            for spans in divide([span for span in hot if span.count], tasks_min=tasks_min)
        ]
        return [*self._cold(at, begin, finish, filters), *portions]

    # Called in tasks.

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, Portion):
            yield from self._task.read(partition)

    # Private.

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        patience_s = PATIENCE_S if self._is_known else 0.0
        with Connection(self._options.endpoint, patience_s=patience_s) as connection:
            yield connection
        self._is_known = True

    def _latest(self, at: Standing, begin: StreamOffset | None = None) -> StreamOffset:
        """Where everything there is has been read, for a stream that is at `begin`."""
        floors = {} if begin is None else begin.offsets
        offsets = {
            part.partition: max(part.end, floors.get(part.partition, 0)) for part in at.parts
        }
        if len(offsets) > OFFSETS_MAX:
            offsets = {
                part.partition: floors[part.partition]
                for part in at.parts
                if floors.get(part.partition, 0) > part.end
            }
        return StreamOffset(sequence=at.sequence, log=at.log_id, offsets=offsets, filter=at.filter)

    def _limited(
        self,
        connection: Connection,
        at: Standing,
        begin: StreamOffset,
        latest: StreamOffset,
        limit: ReadLimit,
    ) -> StreamOffset:
        """How far so many messages go: whole commits, and one at least."""
        match limit:
            case ReadMaxRows(rows):
                messages, size_bytes = rows, 0
            case ReadMaxBytes(size):
                messages, size_bytes = 0, size
            case _:
                raise Unimplemented(f"the read limit {type(limit).__name__} is not supported")
        to = latest.sequence
        offsets = dict(begin.offsets)
        if (cold := self._cold_spans(at, begin, latest)) and messages:
            location = at.lake()
            assert location is not None
            # One half each, since a commit may have messages on both sides of the seam.
            to, ends = sequence_within(location, cold, max(1, messages // 2))
            messages = max(1, messages - messages // 2)
            offsets |= ends
        at_sequence, taken = begin.sequence, 0
        while at_sequence < to and (not messages or taken < messages):
            answer = connection.ranges(
                selection(self._options),
                at_sequence,
                to,
                max_messages=messages - taken if messages else 0,
                max_bytes=size_bytes,
            )
            at_sequence = answer.sequence
            for each in answer.ranges:
                floor = begin.offsets.get(each.partition, 0)
                taken += max(0, each.end - max(each.start, floor))
                offsets[each.partition] = max(offsets.get(each.partition, 0), each.end)
            if size_bytes and taken:
                break
        if at_sequence == latest.sequence:
            return latest
        if len(at.parts) > OFFSETS_MAX:
            # Those that were passed say nothing any more.
            offsets = {key: floor for key, floor in begin.offsets.items() if offsets[key] <= floor}
        return replace(latest, sequence=at_sequence, offsets=offsets)

    def _ranges(self, connection: Connection, after: int, to: int) -> Iterator[Span]:
        """The offsets that some commits appended, as far as the log still has them."""
        while after < to:
            answer = connection.ranges(selection(self._options), after, to)
            for each in answer.ranges:
                yield Span(each.topic, each.partition, each.start, each.end)
            after = answer.sequence

    def _cold_spans(
        self, at: Standing, begin: StreamOffset, finish: StreamOffset
    ) -> ColdSpans | None:
        """What of some commits may be in the lake alone; None when nothing can be."""
        if not at.lake_uri or at.archived_sequence <= begin.sequence:
            return None
        spans = [
            Span(
                part.topic,
                part.partition,
                max(part.start, begin.offsets.get(part.partition, 0)),
                part.hot_start,
            )
            for part in at.parts
        ]
        spans = [span for span in spans if span.count]
        if not spans:
            return None
        return ColdSpans(tuple(spans), after_sequence=begin.sequence, to_sequence=finish.sequence)

    def _cold(
        self,
        at: Standing,
        begin: StreamOffset,
        finish: StreamOffset,
        filters: tuple[str, ...],
    ) -> list[InputPartition]:
        wanted = self._cold_spans(at, begin, finish)
        if wanted is None:
            return []
        location = at.lake()
        assert location is not None
        files = list_files(location, wanted)
        tasks_min = self._options.min_partitions or 1
        return [
            Portion(files=each, cold=wanted.only(each), filters=filters, location=location)
            for each in divide_files(files, tasks_min=tasks_min)
        ]

    def _check_lost(self, begin: StreamOffset, finish: StreamOffset, at: Standing) -> None:
        parts: dict[int, Part] = {part.partition: part for part in at.parts}
        lost: list[Span] = []
        for partition, expected in begin.offsets.items():
            end = finish.offsets.get(partition, expected)
            part = parts.get(partition)
            topic = "a topic that was deleted," if part is None else part.topic
            start = end if part is None else min(part.start, end)
            if expected < start:
                lost.append(Span(topic, partition, expected, start))
        if lost:
            report_lost(
                Lost(tuple(lost)),
                "it was let go of before this query has read it",
                fail=self._options.fail_on_data_loss,
            )


def _check_log(begin: StreamOffset, at: Standing) -> None:
    if begin.log != at.log_id:
        raise FailedPrecondition(
            f"the checkpoint is of the log {begin.log}, the broker has {at.log_id}: it is another"
            " broker, or it began anew; use another checkpoint"
        )
    if begin.sequence > at.sequence:
        raise FailedPrecondition(
            f"the checkpoint is at commit {begin.sequence}, the broker's log ends at {at.sequence}:"
            " it was restored from an older copy; use another checkpoint"
        )
