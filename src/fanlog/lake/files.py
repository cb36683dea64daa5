"""Parquet files of a table: written under an attempt's own folder, described for the table's log.

A file that no commit adds is no part of the table, so an attempt that fails leaves nothing but
bytes to be vacuumed. Row groups are small and carry statistics, so that a reader fetches a slice
in milliseconds; pages carry checksums, so that a flipped bit is found and not served.

Files of `messages` are sorted by topic, partition and offset, which is the writer's business. Which
offsets of which partitions stand in which rows is written in its footer, besides.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import date, datetime
from typing import Any, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.transaction import AddAction
from pyarrow import fs

from fanlog import times
from fanlog.lake.api import RowRun
from fanlog.lake.location import LakeError, Location
from fanlog.lake.tables import Table

ROW_GROUP_ROWS = 8_192
#: A row group of large messages has fewer of them: a reader holds it in memory whole.
ROW_GROUP_BYTES = 16 * 1024 * 1024
#: The footer's own key for the runs of offsets that are in the file.
RUNS_KEY = b"fanlog.runs"

#: Longer texts are left out of statistics: Delta wants them cut, and a cut one is of little use.
_STATS_TEXT_MAX = 256
#: Columns whose values differ from row to row: a dictionary would be given up again.
_PLAIN = frozenset({"offset", "message_id", "publish_time", "data", "sequence"})
_OFFSETS = {("partition", pa.int64()), ("offset", pa.int64())}
_RISING = frozenset({"offset", "publish_time", "sequence"})


class FileStats(TypedDict):
    """Delta's statistics of a file, as its log has them in JSON."""

    numRecords: int
    minValues: dict[str, float | str]
    maxValues: dict[str, float | str]
    nullCount: dict[str, int]


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The part of one partition in a file: `count` messages from `first` to `last`, both in it."""

    partition: int
    first: int
    last: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A written file, as the table's log will describe it. Travels as JSON."""

    #: Relative to the table's folder.
    path: str
    size_bytes: int
    partition_values: Mapping[str, str | None]
    #: Delta's own statistics, JSON.
    stats: str
    count: int
    modified_ms: int
    #: Only of tables with `partition` and `offset`.
    ranges: tuple[OffsetRange, ...] = ()
    #: Commit sequences in it, both ends included; 0 of tables without.
    sequence_first: int = 0
    sequence_last: int = 0

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> DataFile:
        fields = json.loads(text)
        fields["ranges"] = tuple(OffsetRange(**one) for one in fields["ranges"])
        return cls(**fields)

    def add_action(self, *, data_change: bool = True) -> AddAction:
        return AddAction(
            self.path,
            self.size_bytes,
            self.partition_values,
            self.modified_ms,
            data_change,
            self.stats,
        )


class FileWriter:
    """Writes one file, batch by batch; `close` describes it. Not safe to share between threads.

    Args:
        attempt: Names the folder; no two attempts may share one.
        name: Of the file, without its ending; unique within the attempt and partition values.
        partition_values: Of the table's partition columns, as Delta writes them.
    """

    def __init__(
        self,
        location: Location,
        table: Table,
        *,
        attempt: str,
        name: str = "0",
        partition_values: Mapping[str, str | None] | None = None,
        files: fs.FileSystem | None = None,
    ) -> None:
        self._table = table
        self._schema = table.file_schema
        # Columns of exports are called as users like, and may be null.
        self._has_offsets = {
            (one.name, one.type) for one in self._schema if not one.nullable
        } >= _OFFSETS
        self._values = dict(partition_values or {})
        assert self._values.keys() == set(table.partition_by)
        folders = [f"{column}={value}" for column, value in self._values.items()]
        self._path = "/".join([*folders, attempt, f"{name}.parquet"])
        self._files = location.filesystem() if files is None else files
        self._whole = f"{table.name}/{self._path}"
        self._location = location
        with self._report_errors():
            if not location.is_s3:
                self._files.create_dir(self._whole.rpartition("/")[0], recursive=True)
            self._stream = self._files.open_output_stream(self._whole)
            self._writer = pq.ParquetWriter(self._stream, self._schema, **_encodings(self._schema))
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self._count = 0
        self._runs: list[RowRun] = []

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Add rows behind those written before.

        Raises:
            LakeError: The lake cannot be written; `discard` the file.
        """
        if isinstance(rows, pa.RecordBatch):
            rows = pa.Table.from_batches([rows])
        rows = rows.select(self._schema.names).cast(self._schema)
        if not rows.num_rows:
            return
        self._count += rows.num_rows
        if self._has_offsets:
            for run in runs_of(rows["partition"], rows["offset"]):
                _add_run(self._runs, run)
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        if self._waiting_rows >= ROW_GROUP_ROWS:
            self._flush(is_last=False)

    def close(self) -> DataFile:
        """Finish the file. It is no part of the table before a commit adds it.

        Raises:
            LakeError: The lake cannot be written; `discard` the file.
        """
        self._flush(is_last=True)
        with self._report_errors():
            if self._runs:
                self._writer.add_key_value_metadata({RUNS_KEY: json.dumps(self._runs).encode()})
            self._writer.close()
            self._stream.close()
        stats = footer_stats(self._writer.writer.metadata)
        return DataFile(
            path=self._path,
            size_bytes=self._files.get_file_info(self._whole).size,
            partition_values=self._values,
            stats=json.dumps(stats),
            count=self._count,
            modified_ms=time.time_ns() // 1_000_000,
            ranges=_ranges(self._runs),
            sequence_first=int(stats["minValues"].get("sequence", 0)),
            sequence_last=int(stats["maxValues"].get("sequence", 0)),
        )

    def discard(self) -> None:
        """Give the file up, after an error: nothing of it is left, as far as that can be had."""
        # Each of them may fail as the writing did, and only the first error matters.
        for give_up in (
            self._writer.close,
            self._stream.close,
            lambda: self._files.delete_file(self._whole),
        ):
            with suppress(OSError):
                give_up()

    @contextmanager
    def _report_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise LakeError(
                f"the lake at {self._location.uri} cannot be written: {self._whole}: {error}"
            ) from error

    def _flush(self, *, is_last: bool) -> None:
        if not self._waiting:
            return
        rows = pa.concat_tables(self._waiting)
        whole = rows.num_rows if is_last else rows.num_rows - rows.num_rows % ROW_GROUP_ROWS
        for group in _groups(rows.slice(0, whole)):
            with self._report_errors():
                self._writer.write_table(group, row_group_size=group.num_rows)
        rest = rows.slice(whole)
        self._waiting = [rest] if rest.num_rows else []
        self._waiting_rows = rest.num_rows


def write_rows(
    location: Location, table: Table, rows: pa.Table, *, attempt: str, name: str = "0"
) -> list[DataFile]:
    """Write sorted rows, one file for each value of the table's partition column.

    A table partitioned by `date` need not have it in `rows`: it is taken from `publish_time`, or
    from `minute`.
    """
    if not rows.num_rows:
        return []
    if not table.partition_by:
        return [_write_file(location, table, rows, attempt, name, {})]
    (column,) = table.partition_by
    if column not in rows.column_names:
        assert column == "date"
        rows = rows.append_column("date", dates_of(rows))
    written = []
    for value in pc.unique(rows[column]).sort():
        part = rows.filter(pc.equal(rows[column], value))
        text = None if value.as_py() is None else str(value.as_py())
        written.append(_write_file(location, table, part, attempt, name, {column: text}))
    return written


def dates_of(rows: pa.Table) -> pa.ChunkedArray:
    """The dates, in UTC, that rows belong to."""
    times = rows["publish_time" if "publish_time" in rows.column_names else "minute"]
    return times.cast(pa.date32())


def runs_of(partitions: pa.ChunkedArray, offsets: pa.ChunkedArray) -> list[RowRun]:
    """The runs of offsets in some rows, in the order of the rows."""
    numbers, places = partitions.to_numpy(), offsets.to_numpy()
    if not len(numbers):
        return []
    is_edge = (np.diff(numbers) != 0) | (np.diff(places) != 1)
    starts = np.concatenate(([0], np.flatnonzero(is_edge) + 1))
    counts = np.diff(np.concatenate((starts, [len(numbers)])))
    columns = (numbers[starts].tolist(), places[starts].tolist(), counts.tolist())
    return [RowRun(*one) for one in zip(*columns, strict=True)]


def footer_stats(metadata: pq.FileMetaData) -> FileStats:
    """Delta's statistics of a file, from its footer's statistics of each row group."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    without: set[str] = set()
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for index in range(group.num_columns):
            column = group.column(index)
            name, found = column.path_in_schema, column.statistics
            # Nested and binary columns have none in Delta; a missing bound voids the others.
            if "." in name or column.physical_type in ("FIXED_LEN_BYTE_ARRAY", "INT96"):
                continue
            if found is None or not found.has_null_count:
                without.add(name)
                continue
            nulls[name] = nulls.get(name, 0) + found.null_count
            if not found.has_min_max:
                if found.null_count < group.num_rows:
                    without.add(name)
            elif not _has_bounds(found.min) or not _has_bounds(found.max):
                without.add(name)
            else:
                low[name] = min(low.get(name, found.min), found.min)
                high[name] = max(high.get(name, found.max), found.max)
    return {
        "numRecords": metadata.num_rows,
        "minValues": {name: _bound(v) for name, v in low.items() if name not in without},
        "maxValues": {name: _bound(v) for name, v in high.items() if name not in without},
        "nullCount": nulls,
    }


def _write_file(
    location: Location,
    table: Table,
    rows: pa.Table,
    attempt: str,
    name: str,
    values: Mapping[str, str | None],
) -> DataFile:
    writer = FileWriter(location, table, attempt=attempt, name=name, partition_values=values)
    try:
        writer.write(rows)
        return writer.close()
    except BaseException:
        writer.discard()
        raise


def _groups(rows: pa.Table) -> Iterator[pa.Table]:
    for start in range(0, rows.num_rows, ROW_GROUP_ROWS):
        yield from _small(rows.slice(start, ROW_GROUP_ROWS))


def _small(rows: pa.Table) -> Iterator[pa.Table]:
    if rows.nbytes <= ROW_GROUP_BYTES or rows.num_rows == 1:
        yield rows
        return
    half = rows.num_rows // 2
    yield from _small(rows.slice(0, half))
    yield from _small(rows.slice(half))


def _encodings(schema: pa.Schema) -> dict[str, object]:
    """How to write: small, quick to skip through, and with checksums."""
    leaves = [
        leaf
        for column in schema
        for leaf in (
            [f"{column.name}.key_value.key", f"{column.name}.key_value.value"]
            if pa.types.is_map(column.type)
            else [column.name]
        )
    ]
    return {
        "compression": "zstd",
        "use_dictionary": [leaf for leaf in leaves if leaf not in _PLAIN],
        "column_encoding": {
            name: "DELTA_BINARY_PACKED"
            for name in schema.names
            if name in _RISING
            and (
                pa.types.is_integer(schema.field(name).type)
                or pa.types.is_timestamp(schema.field(name).type)
            )
        },
        "write_statistics": True,
        "write_page_checksum": True,
    }


def _add_run(runs: list[RowRun], run: RowRun) -> None:
    last = runs[-1] if runs else None
    if last is not None and (last.partition, last.end) == (run.partition, run.first):
        runs[-1] = RowRun(last.partition, last.first, last.rows + run.rows)
    else:
        runs.append(run)


def _ranges(runs: list[RowRun]) -> tuple[OffsetRange, ...]:
    found: dict[int, OffsetRange] = {}
    for run in runs:
        before = found.get(run.partition)
        first, last, count = run.first, run.end - 1, run.rows
        if before is not None:
            first, last = min(first, before.first), max(last, before.last)
            count += before.count
        found[run.partition] = OffsetRange(run.partition, first, last, count)
    return tuple(found[partition] for partition in sorted(found))


def _has_bounds(value: object) -> bool:
    if isinstance(value, bytes):
        return False
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, str) or len(value) <= _STATS_TEXT_MAX


def _bound(value: object) -> float | str:
    if isinstance(value, datetime):
        return times.of_datetime(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bool | int | float | str):
        return value
    return str(value)
