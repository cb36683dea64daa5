"""Which file of `messages` has which offsets: the table's log, and footers as they are needed.

The bounds of a file's columns, from the table's log, are kept for all files; the offsets of its
rows, which only its footer has, are kept for files looked at lately. Of one partition, later
commits have higher offsets, so files in the order of their commits are searched by halving; where
that does not lead anywhere (files of one commit, a partition that is in few files), all files that
may have an offset are looked at.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyarrow import fs

from fanlog.errors import LakeUnavailable
from fanlog.lake.api import RowRun
from fanlog.lake.files import RUNS_KEY, runs_of
from fanlog.lake.tables import MESSAGES

#: Runs and row groups of footers that are kept in memory, all together.
FOOTERS_MAX = 200_000

_LOW, _HIGH = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_BOUNDED = ("partition", "offset", "sequence", "publish_time")


class FileDamaged(Exception):
    """A file is there and cannot be read; the sentence names it."""


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A file of the table."""

    path: str
    size_bytes: int
    count: int
    sequence_first: int
    sequence_last: int


class Footer:
    """A file's footer: where its row groups begin, and which offsets its rows are."""

    __slots__ = ("_of", "metadata", "row_starts", "runs")

    def __init__(self, metadata: pq.FileMetaData, runs: Sequence[RowRun]) -> None:
        self.metadata = metadata
        self.runs = runs
        self.row_starts = [0]
        for number in range(metadata.num_row_groups):
            self.row_starts.append(self.row_starts[-1] + metadata.row_group(number).num_rows)
        #: Runs of a partition, each with the row it begins at.
        self._of: dict[int, list[tuple[RowRun, int]]] = {}
        row = 0
        for run in runs:
            self._of.setdefault(run.partition, []).append((run, row))
            row += run.rows

    @property
    def cost(self) -> int:
        return len(self.runs) + len(self.row_starts) * int(self.metadata.num_columns)

    def runs_in(self, partition: int) -> list[tuple[RowRun, int]]:
        return self._of.get(partition, [])

    def row_of(self, partition: int, offset: int) -> int | None:
        """The row an offset stands in."""
        for run, row in self.runs_in(partition):
            if run.first <= offset < run.end:
                return row + offset - run.first
        return None

    def group_of(self, row: int) -> int:
        return bisect_right(self.row_starts, row) - 1

    def end_in_group(self, partition: int, offset: int) -> int:
        """The offset behind the last one that follows `offset` in its row group."""
        for run, row in self.runs_in(partition):
            if run.first <= offset < run.end:
                group_end = self.row_starts[self.group_of(row + offset - run.first) + 1]
                return min(run.end, run.first + group_end - row)
        raise AssertionError("the offset is not in this file")


class Footers:
    """Reads footers, and keeps those used lately. Safe to share between threads."""

    def __init__(self, files: fs.FileSystem) -> None:
        self.files = files
        self._lock = Lock()
        self._kept: OrderedDict[str, Footer] = OrderedDict()
        self._cost = 0

    def get(self, file: LakeFile) -> Footer:
        """The footer of a file. Blocks.

        Raises:
            FileDamaged: It cannot be read.
            LakeUnavailable: The lake cannot be reached, or the file is not in it any more.
        """
        with self._lock:
            found = self._kept.get(file.path)
            if found is not None:
                self._kept.move_to_end(file.path)
                return found
        with sort_read_errors(self.files, file), self.open(file) as opened:
            packed = (opened.metadata.metadata or {}).get(RUNS_KEY)
            if packed is not None:
                runs = [RowRun(*one) for one in json.loads(packed)]
            else:
                # Written by another program: a compaction by another tool.
                rows = opened.read(["partition", "offset"], use_threads=False)
                runs = runs_of(rows["partition"], rows["offset"])
            if sum(run.rows for run in runs) != opened.metadata.num_rows:
                raise FileDamaged(f"{file.path}: its footer contradicts itself")
            footer = Footer(opened.metadata, runs)
        with self._lock:
            if file.path not in self._kept:
                self._kept[file.path] = footer
                self._cost += footer.cost
            while self._cost > FOOTERS_MAX and len(self._kept) > 1:
                _, dropped = self._kept.popitem(last=False)
                self._cost -= dropped.cost
        return footer

    def open(self, file: LakeFile, metadata: pq.FileMetaData | None = None) -> pq.ParquetFile:
        return pq.ParquetFile(
            self.files.open_input_file(f"{MESSAGES.name}/{file.path}"),
            metadata=metadata,
            page_checksum_verification=True,
            pre_buffer=True,
        )


@contextmanager
def sort_read_errors(files: fs.FileSystem, file: LakeFile) -> Iterator[None]:
    """Tell a file that is damaged from a lake that is out of reach, when reading one fails.

    Raises:
        FileDamaged: The file is there.
        LakeUnavailable: It is not, or that cannot be found out.
    """
    try:
        yield
    except (OSError, pa.ArrowException, ValueError, KeyError) as error:
        path = f"{MESSAGES.name}/{file.path}"
        try:
            found = files.get_file_info(path)
        except (OSError, pa.ArrowException) as other:
            raise LakeUnavailable(f"the lake cannot be read: {other}") from error
        if found.type != fs.FileType.File:
            raise LakeUnavailable(f"the lake cannot be read: {path} is not there") from error
        if isinstance(error, OSError) and error.errno is not None:
            raise LakeUnavailable(f"the lake cannot be read: {error}") from error
        what = str(error).splitlines()[0] if str(error) else type(error).__name__
        if found.size != file.size_bytes:
            what = f"it has {found.size} bytes, the table says {file.size_bytes}"
        raise FileDamaged(f"file {path} is damaged: {what}") from error


class FileIndex:
    """The files of one version of the table. Never changed: a later version has another."""

    def __init__(self, opened: DeltaTable) -> None:
        self.lake_id = str(opened.metadata().id)
        self.version = int(opened.version())
        actions = pa.table(opened.get_add_actions(flatten=True))
        columns = {name: actions[name] for name in actions.column_names}
        count = actions.num_rows
        low = {name: _bound(columns, f"min.{name}", count, _LOW) for name in _BOUNDED}
        high = {name: _bound(columns, f"max.{name}", count, _HIGH) for name in _BOUNDED}
        order = np.lexsort((low["offset"], low["sequence"]))
        self._low = {name: values[order] for name, values in low.items()}
        self._high = {name: values[order] for name, values in high.items()}
        paths, sizes = columns["path"].to_pylist(), columns["size_bytes"].to_pylist()
        counts = columns["num_records"].to_pylist()
        self.files = [
            LakeFile(paths[at], sizes[at], counts[at] or 0, int(first), int(last))
            for at, first, last in zip(
                order.tolist(), self._low["sequence"], self._high["sequence"], strict=True
            )
        ]

    def after(self, sequence: int) -> list[LakeFile]:
        """Files that have something of a later commit."""
        return self._files(self._high["sequence"] > sequence)

    def with_partition(self, partition: int, *, from_us: int | None = None) -> list[LakeFile]:
        """Files that may have some of a partition, published at a time or later; by commit."""
        mask = self._of(partition)
        if from_us is not None:
            mask &= self._high["publish_time"] >= from_us
        return self._files(mask)

    def candidates(self, partition: int, offset: int) -> list[LakeFile]:
        """Files that may have an offset, by commit."""
        mask = self._of(partition)
        mask &= (self._low["offset"] <= offset) & (offset <= self._high["offset"])
        return self._files(mask)

    def find(
        self, partition: int, offset: int, footer_of: Callable[[LakeFile], Footer]
    ) -> LakeFile | None:
        """The file that has an offset; None when there is none. `footer_of` may block."""
        candidates = self.candidates(partition, offset)
        looked_at: set[str] = set()
        for file in (*self._halve(candidates, partition, offset, footer_of), *candidates):
            if file.path in looked_at:
                continue
            looked_at.add(file.path)
            try:
                if footer_of(file).row_of(partition, offset) is not None:
                    return file
            except FileDamaged:
                # Another one may have it; if none has, that will be said.
                continue
        return None

    def _halve(
        self,
        candidates: Sequence[LakeFile],
        partition: int,
        offset: int,
        footer_of: Callable[[LakeFile], Footer],
    ) -> Iterator[LakeFile]:
        low, high = 0, len(candidates)
        while low < high:
            middle = (low + high) // 2
            yield candidates[middle]
            try:
                runs = footer_of(candidates[middle]).runs_in(partition)
            except FileDamaged:
                return
            if not runs:
                return
            if offset < runs[0][0].first:
                high = middle
            else:
                low = middle + 1

    def _of(self, partition: int) -> Any:
        return (self._low["partition"] <= partition) & (partition <= self._high["partition"])

    def _files(self, mask: Any) -> list[LakeFile]:
        return [self.files[at] for at in np.flatnonzero(mask).tolist()]


def _bound(columns: dict[str, Any], name: str, count: int, missing: int) -> Any:
    found = columns.get(name)
    if found is None:
        return np.full(count, missing, dtype=np.int64)
    return found.cast(pa.int64()).fill_null(missing).to_numpy()
