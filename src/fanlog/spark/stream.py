"""The stream reader: the topics as a stream, a batch from one commit sequence to another.

An offset of the stream, as Spark writes it into the checkpoint:

| key        | meaning                                                                             |
|------------|-------------------------------------------------------------------------------------|
| `sequence` | everything up to and with this commit has been read                                 |
| `log`      | id of the log that counts so; another one counts differently                        |
| `offsets`  | by partition, the next offset that is expected; lower ones are not read             |
| `filter`   | of the subscription that is read, when the batch was planned                        |

The sequence alone says which messages are read: it is one number for any number of topics, and the
messages between two sequences never change. `offsets` is there where a stream begins at offsets or
at a time, until all of them are passed; and, for up to `OFFSETS_MAX` partitions, always, so that a
query that starts again after a while can tell whether anything has been lost meanwhile.

Spark calls all but `read` in one process of the driver's that lives as long as the query. `commit`
may never come for the last batch, so nothing is done there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from fanlog.client.log import LogClient
from fanlog.errors import FailedPrecondition, Unimplemented
from fanlog.spark.broker import PATIENCE_S, connect
from fanlog.spark.cold import ColdSpans, divide_files, list_files
from fanlog.spark.cold_counts import sequence_within
from fanlog.spark.options import EARLIEST, ReadOptions
from fanlog.spark.plan import Lost, PartitionExtent, Span, divide, resolve
from fanlog.spark.schemas import OffsetJson
from fanlog.spark.selection import TopicStanding, ask_standing, find_offsets, selection_pb
from fanlog.spark.task import Portion, Task, join_filters, report_lost

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
    def from_json(cls, written: OffsetJson) -> StreamOffset:
        return cls(
            sequence=written["sequence"],
            log=written["log"],
            offsets={int(key): offset for key, offset in written.get("offsets", {}).items()},
            filter=written.get("filter", ""),
        )

    def to_json(self) -> OffsetJson:
        found: OffsetJson = {"sequence": self.sequence, "log": self.log}
        if self.offsets:
            found["offsets"] = {str(key): offset for key, offset in sorted(self.offsets.items())}
        if self.filter:
            found["filter"] = self.filter
        return found


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the topics of the options, as messages come."""

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

    def initialOffset(self) -> OffsetJson:  # noqa: N802
        """Called once in the life of a checkpoint."""
        options = self._options
        with self._connect() as log:
            at = ask_standing(log, options)
            if options.starting_us is not None:
                offsets = find_offsets(log, options, at, options.starting_us)
            elif options.starting == "latest":
                return self._latest(at).to_json()
            else:
                offsets = resolve(
                    options.starting, at.parts, default=EARLIEST, option="startingOffsets"
                )
        return StreamOffset(sequence=0, log=at.log_id, offsets=offsets).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limit = self._options.max_messages
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with self._connect() as log:
            self._target = self._latest(ask_standing(log, self._options))

    def reportLatestOffset(self) -> OffsetJson:  # noqa: N802
        with self._connect() as log:
            return self._latest(ask_standing(log, self._options)).to_json()

    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:  # noqa: N802
        """Where the next batch ends: called for each trigger."""
        begin = StreamOffset.from_json(start)
        with self._connect() as log:
            at = ask_standing(log, self._options)
            _check_log(begin, at)
            latest = self._latest(at, begin) if self._target is None else self._target
            if latest.sequence <= begin.sequence:
                return start
            if isinstance(limit, ReadAllAvailable):
                return latest.to_json()
            return self._limit(log, at, begin, latest, limit).to_json()

    def partitions(self, start: OffsetJson, end: OffsetJson) -> Sequence[InputPartition]:
        """Plan a batch: called for each, and again with the same offsets after a failure."""
        options = self._options
        begin, finish = StreamOffset.from_json(start), StreamOffset.from_json(end)
        with self._connect() as log:
            # First the ranges of the log, then its start: messages trimmed in between count as
            # cold, and so are not missed.
            ranges = list(self._ranges(log, begin.sequence, finish.sequence))
            at = ask_standing(log, options)
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
        filters = join_filters(options.filter, finish.filter)
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
    def _connect(self) -> Iterator[LogClient]:
        patience_s = PATIENCE_S if self._is_known else 0.0
        with connect(self._options.endpoint, patience_s=patience_s) as connection:
            yield LogClient(connection)
        self._is_known = True

    def _latest(self, at: TopicStanding, begin: StreamOffset | None = None) -> StreamOffset:
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

    def _limit(
        self,
        log: LogClient,
        at: TopicStanding,
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
            answer = log.get_ranges(
                selection_pb(self._options),
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

    def _ranges(self, log: LogClient, after: int, to: int) -> Iterator[Span]:
        """The offsets that some commits appended, as far as the log still has them."""
        while after < to:
            answer = log.get_ranges(selection_pb(self._options), after, to)
            for each in answer.ranges:
                yield Span(each.topic, each.partition, each.start, each.end)
            after = answer.sequence

    def _cold_spans(
        self, at: TopicStanding, begin: StreamOffset, finish: StreamOffset
    ) -> ColdSpans | None:
        """The messages of some commits that may be in the lake alone; None when none can be."""
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
        at: TopicStanding,
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

    def _check_lost(self, begin: StreamOffset, finish: StreamOffset, at: TopicStanding) -> None:
        parts: dict[int, PartitionExtent] = {part.partition: part for part in at.parts}
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


def _check_log(begin: StreamOffset, at: TopicStanding) -> None:
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
