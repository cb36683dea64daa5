"""One batch of an export: the writing by tasks, and the commit that makes it part of the lake.

Tasks write and the driver commits. Both may happen again: a table knows the last number of each
export, and files have names that are functions of the batch.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Literal

import pyarrow as pa

from fanlog.lake import commits
from fanlog.lake.durability import sync_files, sync_log
from fanlog.lake.files import DataFile, FileWriter, write_rows
from fanlog.lake.location import Location
from fanlog.lake.tables import EXPORTS, Table, ensure_table
from fanlog.model.resources import FileExport, TableExport
from fanlog.pipeline.export.bucket_files import FOLDER, FileBatch, bucket_location, write_files
from fanlog.pipeline.export.rules.table_rows import export_rows, export_table, rejected_table
from fanlog.pipeline.export.rules.topic_schema import TopicSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """A batch and its target. Travels to tasks."""

    #: Full name.
    subscription: str
    #: Of the log and the subscription: a table remembers the number under it.
    app_id: str
    number: int
    #: When the batch was made, UTC.
    time: datetime
    export: TableExport | FileExport
    topic_schema: TopicSchema | None = None
    #: Of the table as it is; None for files.
    columns: pa.Schema | None = None

    @property
    def table(self) -> Table:
        """The table that rows go to, with the columns it has."""
        assert isinstance(self.export, TableExport)
        assert self.columns is not None
        return Table(name=f"{EXPORTS}/{self.export.table}", schema=self.columns)

    @property
    def rejected(self) -> Table:
        """The table of rejected messages; of files, by the name of the subscription."""
        if isinstance(self.export, TableExport):
            return rejected_table(self.export.table)
        _, project, _, name = self.subscription.split("/")
        return rejected_table(f"{project}.{name}")


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """A file that a task wrote. Travels back as JSON."""

    kind: Literal["rows", "rejected", "file"]
    #: Messages in it.
    count: int
    #: Where: a DataFile as JSON, or the path in the bucket.
    text: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> TaskOutput:
        return cls(**json.loads(text))


def table_columns(
    location: Location, export: TableExport, topic_schema: TopicSchema | None
) -> pa.Schema:
    """The columns of an export's table, which is made if it is not there.

    Raises:
        TableMismatch: The schema cannot be columns.
        LakeError: The table cannot be made or opened.
    """
    if export.use_topic_schema and topic_schema is None:
        # Nothing will fit; a table that is there is left alone.
        return pa.schema([])
    made = export_table(export, topic_schema)
    return pa.schema(ensure_table(location, made).schema().to_arrow())


def export_batch(
    plan: BatchPlan, messages: Iterable[pa.RecordBatch], location: Location
) -> list[TaskOutput]:
    """Write the messages of a batch, or of a task's part of it; nothing is committed yet.

    Files of a bucket are complete, and on the disk, when this returns; the whole batch must come in
    one go then, in its order.

    Raises:
        TableMismatch: The table cannot take any row.
        OSError: The lake, or the bucket, cannot be written.
    """
    if isinstance(plan.export, FileExport):
        return _write_files(plan, plan.export, messages, location)
    return _write_rows(plan, plan.export, messages, location)


def commit_batch(plan: BatchPlan, outputs: Sequence[TaskOutput], location: Location) -> bool:
    """Make the outputs of tasks part of the tables; whether this call did, or they were already.

    It is on the disk when this returns: the messages may be acknowledged.

    Raises:
        CommitLost: Another pipeline is doing the same; nothing is wrong, come again.
        LakeError: A table cannot be written.
        OSError: A file cannot be synced.
    """
    is_new = any(one.kind == "file" for one in outputs)
    for kind in ("rows", "rejected"):
        files = [DataFile.from_json(one.text) for one in outputs if one.kind == kind]
        if files:
            table = plan.table if kind == "rows" else plan.rejected
            # First the files, then the log that names them: the files of a commit are there, also
            # when the process that made it died before it could say so.
            sync_files(location, [f"{table.name}/{file.path}" for file in files])
            done = commits.add_files(
                location, table, files, app_id=plan.app_id, app_version=plan.number
            )
            sync_log(location, table.name)
            is_new = is_new or done.is_new
    return is_new


def _write_rows(
    plan: BatchPlan, export: TableExport, messages: Iterable[pa.RecordBatch], location: Location
) -> list[TaskOutput]:
    attempt = secrets.token_hex(8)
    writer: FileWriter | None = None
    rejected: list[pa.Table] = []
    assert plan.columns is not None
    try:
        for some in messages:
            made = export_rows(
                pa.Table.from_batches([some]),
                plan.columns,
                export,
                subscription=plan.subscription,
                number=plan.number,
                topic_schema=plan.topic_schema,
            )
            if made.rows.num_rows:
                if writer is None:
                    writer = FileWriter(location, plan.table, attempt=attempt)
                writer.write(made.rows)
            if made.rejected.num_rows:
                rejected.append(made.rejected)
        outputs = [] if writer is None else [_output("rows", writer.close())]
    except BaseException:
        if writer is not None:
            writer.discard()
        raise
    return outputs + _write_rejected(plan, rejected, attempt, location)


def _write_files(
    plan: BatchPlan, export: FileExport, messages: Iterable[pa.RecordBatch], location: Location
) -> list[TaskOutput]:
    batch = FileBatch(
        export=export,
        subscription=plan.subscription,
        app_id=plan.app_id,
        number=plan.number,
        time=plan.time,
    )
    bucket = bucket_location(location, export.bucket)
    written = write_files(batch, messages, bucket, topic_schema=plan.topic_schema)
    if not bucket.is_s3:
        sync_files(location, [f"{FOLDER}/{export.bucket}/{path}" for path in written.files])
    outputs = [TaskOutput("file", count, path) for path, count in written.files.items()]
    rejected = [written.rejected] if written.rejected.num_rows else []
    return outputs + _write_rejected(plan, rejected, secrets.token_hex(8), location)


def _write_rejected(
    plan: BatchPlan, rejected: Sequence[pa.Table], attempt: str, location: Location
) -> list[TaskOutput]:
    if not rejected:
        return []
    files = write_rows(location, plan.rejected, pa.concat_tables(rejected), attempt=attempt)
    return [_output("rejected", file) for file in files]


def _output(kind: Literal["rows", "rejected"], file: DataFile) -> TaskOutput:
    return TaskOutput(kind, file.count, file.to_json())
