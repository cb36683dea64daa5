"""The archive's source: its tasks write the messages that they read, and its rows are the files.

A batch is planned from where the *table* ends, not from where the checkpoint thinks it does: a lost
checkpoint, or another archive, adds nothing twice. Each task reads its portion of the log, writes
it as Parquet beside the table, in a folder of its own, and gives one row a file. The driver then
adds those files in one commit (`fanlog.pipeline.flows.archive`); files of a failed attempt are in
no commit. So messages do not pass through the JVM at all.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from fanlog.client.log import LogClient
from fanlog.errors import FailedPrecondition
from fanlog.lake.archive import archived_sequence
from fanlog.lake.files import DataFile, FileWriter
from fanlog.lake.location import Location
from fanlog.lake.tables import MESSAGES, ensure_lake
from fanlog.spark.broker import connect
from fanlog.spark.plan import Span, divide
from fanlog.spark.schemas import OffsetJson
from fanlog.spark.task import Portion, Task
from fanlog.v1 import log_pb2

FORMAT: Final = "fanlog_archive"
#: The selection of all topics.
ALL: Final = log_pb2.TopicSelection()
SCHEMA: Final = "after bigint, sequence bigint, file string"

#: Stored bytes of one batch; the files of a task hold a part of them.
BATCH_BYTES: Final = 512 * 2**20
_ROWS: Final = pa.schema([("after", pa.int64()), ("sequence", pa.int64()), ("file", pa.string())])


class ArchiveSource(DataSource):
    """Options: `endpoint` of the broker, `lake` with its address, `tasks` as many as there are
    cores.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: StructType | None) -> DataSourceStreamReader:  # noqa: N802
        return ArchiveReader(
            endpoint=self.options["endpoint"],
            location=Location.parse(self.options["lake"]),
            tasks=int(self.options.get("tasks", "1")),
            batch_bytes=int(self.options.get("batchbytes", str(BATCH_BYTES))),
        )


@dataclass(frozen=True)
class ArchivePortion(InputPartition):
    """One task's portion of the commits after `after` up to and with `sequence`."""

    after: int
    sequence: int
    spans: tuple[Span, ...]


class ArchiveReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are commit sequences."""

    def __init__(self, *, endpoint: str, location: Location, tasks: int, batch_bytes: int) -> None:
        self._endpoint = endpoint
        self._location = location
        self._tasks = tasks
        self._batch_bytes = batch_bytes
        self._target: int | None = None

    # Called in the driver.

    def initialOffset(self) -> OffsetJson:  # noqa: N802
        ensure_lake(self._location)
        with connect(self._endpoint) as connection:
            standing = LogClient(connection).get_offsets(ALL)
        return _offset_json(archived_sequence(self._location, standing.log_id), standing.log_id)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with connect(self._endpoint) as connection:
            self._target = LogClient(connection).get_offsets(ALL).sequence

    def reportLatestOffset(self) -> OffsetJson:  # noqa: N802
        with connect(self._endpoint) as connection:
            standing = LogClient(connection).get_offsets(ALL)
        return _offset_json(standing.sequence, standing.log_id)

    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:  # noqa: N802
        with connect(self._endpoint) as connection:
            log = LogClient(connection)
            standing = log.get_offsets(ALL)
            _check_log(start, standing.log_id)
            after = self._after(start, standing)
            to = standing.sequence if self._target is None else self._target
            if to <= after:
                return _offset_json(after, standing.log_id)
            found = log.get_ranges(
                _archived_topics(standing), after, to, max_bytes=self._batch_bytes
            )
            if found.sequence >= to and not found.messages:
                # Nothing to archive; and a report would be a commit, to be archived in its turn.
                return start
            # The broker stops where a limit of its own is reached, too.
            end = _offset_json(max(after + 1, found.sequence), standing.log_id)
            if after < int(start["sequence"]):
                # Archived again, to a lake that was replaced: Spark must not take it for done.
                end["again_after"] = after
            return end

    def partitions(self, start: OffsetJson, end: OffsetJson) -> Sequence[InputPartition]:
        to = int(end["sequence"])
        with connect(self._endpoint) as connection:
            log = LogClient(connection)
            standing = log.get_offsets(ALL)
            _check_log(end, standing.log_id)
            after = self._after(start, standing)
            if to <= after:
                return []
            spans = _spans(log, _archived_topics(standing), after, to)
        portions = [
            ArchivePortion(after, to, portion) for portion in divide(spans, tasks_min=self._tasks)
        ]
        # Commits without messages are archived, too, by saying so.
        return portions or [ArchivePortion(after, to, ())]

    # Called in tasks.

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ArchivePortion)
        task = Task(
            endpoint=self._endpoint, with_sequence=True, fail_on_data_loss=False, with_seal=True
        )
        files: list[str | None] = [None]
        if partition.spans:
            written = _write(self._location, task.read(Portion(hot=partition.spans)))
            files = [file.to_json() for file in written] or files
        yield pa.RecordBatch.from_pydict(
            {
                "after": [partition.after] * len(files),
                "sequence": [partition.sequence] * len(files),
                "file": files,
            },
            schema=_ROWS,
        )

    # Private.

    def _after(self, start: OffsetJson, standing: log_pb2.GetOffsetsResponse) -> int:
        """Where the table ends; the checkpoint's sequence may be long past."""
        archived = archived_sequence(self._location, standing.log_id)
        # Messages still in the log can be archived again; those that it let go of would be left
        # out in silence. The sequence that the broker relies on counts, until a loss is accepted;
        # a checkpoint may be as old as the lake, or lost.
        is_cold = any(part.hot_start > part.start for part in standing.partitions)
        is_missed = is_cold or archived < int(start["sequence"])
        if is_missed and archived < standing.archived_sequence:
            raise FailedPrecondition(
                f"the lake at {self._location.uri} has commits up to {archived}, and "
                f"{standing.archived_sequence} were archived: it was replaced by an older copy, or "
                "an empty one. Bring the lake back, or accept the loss (fanlog lake accept); "
                "nothing is archived, or trimmed, meanwhile"
            )
        return archived


def _archived_topics(standing: log_pb2.GetOffsetsResponse) -> log_pb2.TopicSelection:
    """The topics that are archived; never empty, which would mean all."""
    topics = [part.topic for part in standing.partitions if part.is_archived]
    if len(topics) == len(standing.partitions):
        return log_pb2.TopicSelection()
    return log_pb2.TopicSelection(topics=dict.fromkeys(topics))


def _spans(log: LogClient, selection: log_pb2.TopicSelection, after: int, to: int) -> list[Span]:
    spans: list[Span] = []
    while after < to:
        found = log.get_ranges(selection, after, to)
        spans += [Span(one.topic, one.partition, one.start, one.end) for one in found.ranges]
        after = found.sequence
    return sorted(spans, key=lambda span: (span.topic, span.partition, span.start))


def _write(location: Location, batches: Iterator[pa.RecordBatch]) -> list[DataFile]:
    """Write rows as they come, one file a date."""
    attempt = secrets.token_hex(8)
    writers: dict[date, FileWriter] = {}
    try:
        for batch in batches:
            dates = batch.column("publish_time").cast(pa.date32())
            days = pc.unique(dates).to_pylist()
            for day in days:
                if day not in writers:
                    writers[day] = FileWriter(
                        location,
                        MESSAGES,
                        attempt=attempt,
                        partition_values={"date": day.isoformat()},
                    )
                # Around midnight a batch has rows of two days.
                mine = batch if len(days) == 1 else batch.filter(pc.equal(dates, pa.scalar(day)))
                writers[day].write(mine)
        return [writer.close() for writer in writers.values()]
    except BaseException:
        for writer in writers.values():
            writer.discard()
        raise


def _offset_json(sequence: int, log_id: str) -> OffsetJson:
    return {"sequence": sequence, "log": log_id}


def _check_log(offset: OffsetJson, log_id: str) -> None:
    if offset["log"] != log_id:
        raise FailedPrecondition(
            f"this archive is of the log {offset['log']}, and the broker has {log_id}: another "
            "data folder needs another lake, and another folder of checkpoints"
        )
