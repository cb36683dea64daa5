"""The lake's part of a read: which files hold it, listed by the driver, and their rows, in tasks.

The table's log says of each file which partitions, offsets and commits are in it at the outside;
its footer says the same of each row group, so that a task opens few files and reads little more
than the wanted rows. Rows are judged one by one only where a row group reaches beyond the span.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from fanlog.errors import DataLoss
from fanlog.lake.location import Location
from fanlog.lake.tables import MESSAGES, open_table
from fanlog.spark.plan import Span
from fanlog.spark.schemas import SEQUENCE

#: Rows of an Arrow batch, in whole row groups.
_ROWS: Final = 32_768
#: Columns that say whether a row is wanted.
_JUDGED: Final = ("partition", "offset", SEQUENCE)
#: More than any offset is.
_OFFSETS: Final = 2**40
#: Bytes of files that one task reads.
TASK_BYTES: Final = 64 * 2**20


@dataclass(frozen=True, slots=True)
class ColdFile:
    """A file of the table `messages`, or one of `slices` parts of it."""

    #: Relative to the lake.
    path: str
    rows: int
    size_bytes: int
    partition_first: int
    partition_last: int
    sequence_first: int
    sequence_last: int
    slice: int = 0
    slices: int = 1


@dataclass(frozen=True, slots=True)
class ColdSpans:
    """The rows that are wanted: spans of offsets, perhaps of some commits only."""

    spans: tuple[Span, ...]
    #: Commits after this one…
    after_sequence: int | None = None
    #: …up to and with this one.
    to_sequence: int | None = None

    def wants(self, file: ColdFile) -> bool:
        """Whether a file may have some of these rows."""
        if self.after_sequence is not None and file.sequence_last <= self.after_sequence:
            return False
        if self.to_sequence is not None and file.sequence_first > self.to_sequence:
            return False
        return any(
            file.partition_first <= span.partition <= file.partition_last for span in self.spans
        )

    def only(self, files: Iterable[ColdFile]) -> ColdSpans:
        """The spans of which some files may have rows."""
        bounds = [(file.partition_first, file.partition_last) for file in files]
        first, last = min(b[0] for b in bounds), max(b[1] for b in bounds)
        kept = tuple(span for span in self.spans if first <= span.partition <= last)
        return replace(self, spans=kept)


def list_files(location: Location, wanted: ColdSpans) -> list[ColdFile]:
    """Give the files of the table, as it is now, that may have some of the rows, oldest first.

    Raises:
        LakeError: The lake cannot be opened.
    """
    actions = pa.table(open_table(location, MESSAGES).get_add_actions(flatten=True))
    files = [
        ColdFile(f"{MESSAGES.name}/{row['path']}", *_numbers(row))
        for row in actions.to_pylist()
        if row["num_records"]
    ]
    return sorted(
        (file for file in files if wanted.wants(file)),
        key=lambda file: (file.sequence_first, file.path),
    )


def _numbers(row: dict[str, int | None]) -> tuple[int, ...]:
    """The numbers of a file in the table's log; bounds missing there are as wide as can be."""
    widest = 2**63 - 1
    otherwise = {
        "num_records": 0,
        "size_bytes": 0,
        "min.partition": 0,
        "max.partition": widest,
        "min.sequence": 0,
        "max.sequence": widest,
    }
    found = {name: row.get(name) for name in otherwise}
    return tuple(otherwise[name] if value is None else value for name, value in found.items())


def divide_files(
    files: Sequence[ColdFile], *, tasks_min: int = 1, task_bytes: int = TASK_BYTES
) -> list[tuple[ColdFile, ...]]:
    """Divide files between tasks: small ones together, large ones in slices of row groups."""
    total = sum(file.size_bytes for file in files)
    if not total:
        return []
    count = max(tasks_min, -(-total // task_bytes))
    tasks: list[list[ColdFile]] = [[] for _ in range(count)]
    before = 0.0
    for file in files:
        slices = max(1, round(file.size_bytes * count / total))
        for number in range(slices):
            # Where the middle of it lies, so that none has much more than another.
            middle = before + file.size_bytes * (number + 0.5) / slices
            mine = tasks[min(count - 1, int(middle * count / total))]
            mine.append(replace(file, slice=number, slices=slices))
        before += file.size_bytes
    return [tuple(mine) for mine in tasks if mine]


def read_file(
    location: Location, file: ColdFile, wanted: ColdSpans, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file that are wanted, in the file's order, which is that of offsets.

    Raises:
        DataLoss: The file is damaged; the sentence names it.
        FileNotFoundError: It is gone.
    """
    try:
        with location.filesystem().open_input_file(file.path) as stream:
            opened = pq.ParquetFile(stream, page_checksum_verification=True)
            yield from _Rows(opened, wanted, schema).of(file)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise DataLoss(f"{location.uri}/{file.path} cannot be read: {error}") from error


class _Rows:
    """Reads the rows that are wanted from one open file."""

    def __init__(self, opened: pq.ParquetFile, wanted: ColdSpans, schema: pa.Schema) -> None:
        self._opened = opened
        self._schema = schema
        self._wanted = wanted
        ordered = sorted(wanted.spans, key=lambda span: (span.partition, span.start))
        self._partitions = np.array([span.partition for span in ordered], np.int64)
        self._starts = np.array([span.start for span in ordered], np.int64)
        self._ends = np.array([span.end for span in ordered], np.int64)
        self._known = np.unique(self._partitions)
        self._keys = np.searchsorted(self._known, self._partitions) * _OFFSETS + self._starts
        metadata = opened.metadata
        self._places = {
            metadata.row_group(0).column(index).path_in_schema: index
            for index in range(metadata.row_group(0).num_columns)
        }

    def of(self, file: ColdFile) -> Iterator[pa.RecordBatch]:
        count = self._opened.metadata.num_row_groups
        mine = range(count * file.slice // file.slices, count * (file.slice + 1) // file.slices)
        gathered: list[int] = []
        rows = 0
        is_whole = True
        for number in mine:
            judged = self._judge(number)
            if judged is None:
                continue
            group_rows = self._opened.metadata.row_group(number).num_rows
            if gathered and (rows + group_rows > _ROWS or judged != is_whole):
                yield from self._read(gathered, is_whole)
                gathered, rows = [], 0
            gathered.append(number)
            rows += group_rows
            is_whole = judged
        if gathered:
            yield from self._read(gathered, is_whole)

    def _judge(self, number: int) -> bool | None:
        """Whether all rows of a row group are wanted; None when none is."""
        group = self._opened.metadata.row_group(number)
        partitions = self._bounds(group, "partition")
        offsets = self._bounds(group, "offset")
        sequences = self._bounds(group, SEQUENCE)
        after, to = self._wanted.after_sequence, self._wanted.to_sequence
        if after is not None and sequences[1] <= after:
            return None
        if to is not None and sequences[0] > to:
            return None
        first = int(np.searchsorted(self._partitions, partitions[0]))
        last = int(np.searchsorted(self._partitions, partitions[1], "right"))
        if first == last:
            return None
        if partitions[0] != partitions[1]:
            return False
        overlaps = (self._starts[first:last] <= offsets[1]) & (offsets[0] < self._ends[first:last])
        if not overlaps.any():
            return None
        is_inside = (self._starts[first:last] <= offsets[0]) & (offsets[1] < self._ends[first:last])
        is_committed = (after is None or sequences[0] > after) and (
            to is None or sequences[1] <= to
        )
        return bool(is_inside.any()) and is_committed

    def _bounds(self, group: pq.RowGroupMetaData, column: str) -> tuple[int, int]:
        statistics = group.column(self._places[column]).statistics
        if statistics is None or not statistics.has_min_max:
            return 0, 2**63 - 1
        return statistics.min, statistics.max

    def _read(self, groups: list[int], is_whole: bool) -> Iterator[pa.RecordBatch]:
        names = list(self._schema.names)
        if not is_whole:
            names += [each for each in _JUDGED if each not in names]
        table = self._opened.read_row_groups(groups, columns=names, use_threads=False)
        if not is_whole:
            table = table.filter(pa.array(self._mask(table)))
        if not table.num_rows:
            return
        table = table.select(self._schema.names).cast(self._schema)
        yield from table.combine_chunks().to_batches()

    def _mask(self, table: pa.Table) -> npt.NDArray[np.bool_]:
        partitions = table["partition"].to_numpy()
        offsets = table["offset"].to_numpy()
        sequences = table[SEQUENCE].to_numpy()
        # The last span that begins at or before each row, by partition and then by offset.
        ranks = np.searchsorted(self._known, partitions)
        found = np.searchsorted(self._keys, ranks * _OFFSETS + offsets, "right") - 1
        mask: npt.NDArray[np.bool_] = (
            (found >= 0) & (self._partitions[found] == partitions) & (offsets < self._ends[found])
        )
        if self._wanted.after_sequence is not None:
            mask &= sequences > self._wanted.after_sequence
        if self._wanted.to_sequence is not None:
            mask &= sequences <= self._wanted.to_sequence
        return mask
