"""One batch of an export: what tasks write of it, and the commit that makes it part of the lake.

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
from fanlog.pipeline.export.files import FOLDER, FileBatch, bucket_location, write_files
from fanlog.pipeline.export.revisions import Revisions
from fanlog.pipeline.export.rows import export_rows, export_table, rejected_table


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """What a batch is and where it goes. Travels to tasks."""

    #: Full name.
    subscription: str
    #: Of the log and the subscription: what a table remembers the number under.
    app_id: str
    number: int
    #: When the batch was made, UTC.
    time: datetime
    export: TableExport | FileExport
    revisions: Revisions | None = None
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
        """The table of what does not fit; of files, by the name of the subscription."""
        if isinstance(self.export, TableExport):
            return rejected_table(self.export.table)
        _, project, _, name = self.subscription.split("/")
        return rejected_table(f"{project}.{name}")


@dataclass(frozen=True, slots=True)
class Piece:
    """Something that a task wrote. Travels back as JSON."""

    kind: Literal["rows", "rejected", "file"]
    #: Messages in it.
    count: int
    #: Where: a DataFile as JSON, or the path in the bucket.
    text: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Piece:
        return cls(**json.loads(text))


def table_columns(
    location: Location, export: TableExport, revisions: Revisions | None
) -> pa.Schema:
    """The columns of an export's table, which is made if it is not there.

    Raises:
        TableMismatch: The schema cannot be columns.
        LakeError: The table cannot be made or opened.
    """
    if export.use_topic_schema and revisions is None:
        # Nothing will fit; a table that is there is left alone.
        return pa.schema([])
    made = export_table(export, revisions)
    return pa.schema(ensure_table(location, made).schema().to_arrow())


def export_batch(
    plan: BatchPlan, messages: Iterable[pa.RecordBatch], location: Location
) -> list[Piece]:
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


def commit_batch(plan: BatchPlan, pieces: Sequence[Piece], location: Location) -> bool:
    """Make what tasks wrote part of the tables; whether this call did, or it was so already.

    It is on the disk when this returns: the messages may be acknowledged.

    Raises:
        CommitLost: Another pipeline is doing the same; nothing is wrong, come again.
        LakeError: A table cannot be written.
        OSError: What was written cannot be synced.
    """
    is_new = any(piece.kind == "file" for piece in pieces)
    for kind in ("rows", "rejected"):
        files = [DataFile.from_json(piece.text) for piece in pieces if piece.kind == kind]
        if files:
            table = plan.table if kind == "rows" else plan.rejected
            # First the files, then the log that names them: what a commit adds is there, also
            # when it was made by one that died before it could say so.
            sync_files(location, [f"{table.name}/{file.path}" for file in files])
            done = commits.add_files(
                location, table, files, app_id=plan.app_id, app_version=plan.number
            )
            sync_log(location, table.name)
            is_new = is_new or done.is_new
    return is_new


def _write_rows(
    plan: BatchPlan, export: TableExport, messages: Iterable[pa.RecordBatch], location: Location
) -> list[Piece]:
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
                revisions=plan.revisions,
            )
            if made.rows.num_rows:
                if writer is None:
                    writer = FileWriter(location, plan.table, attempt=attempt)
                writer.write(made.rows)
            if made.rejected.num_rows:
                rejected.append(made.rejected)
        pieces = [] if writer is None else [_piece("rows", writer.close())]
    except BaseException:
        if writer is not None:
            writer.discard()
        raise
    return pieces + _write_rejected(plan, rejected, attempt, location)


def _write_files(
    plan: BatchPlan, export: FileExport, messages: Iterable[pa.RecordBatch], location: Location
) -> list[Piece]:
    batch = FileBatch(
        export=export,
        subscription=plan.subscription,
        app_id=plan.app_id,
        number=plan.number,
        time=plan.time,
    )
    bucket = bucket_location(location, export.bucket)
    written = write_files(batch, messages, bucket, revisions=plan.revisions)
    if not bucket.is_s3:
        sync_files(location, [f"{FOLDER}/{export.bucket}/{path}" for path in written.files])
    pieces = [Piece("file", count, path) for path, count in written.files.items()]
    rejected = [written.rejected] if written.rejected.num_rows else []
    return pieces + _write_rejected(plan, rejected, secrets.token_hex(8), location)


def _write_rejected(
    plan: BatchPlan, rejected: Sequence[pa.Table], attempt: str, location: Location
) -> list[Piece]:
    if not rejected:
        return []
    files = write_rows(location, plan.rejected, pa.concat_tables(rejected), attempt=attempt)
    return [_piece("rejected", file) for file in files]


def _piece(kind: Literal["rows", "rejected"], file: DataFile) -> Piece:
    return Piece(kind, file.count, file.to_json())
