"""Rewriting files of `messages`: small ones merged, rows that were let go of left out.

The plan is a list of *rewrites*: some files of one date, in, and at most one file, out. Tasks do
them, each for itself; the driver then replaces files in commits of the table, so that a reader sees
all of a rewrite or nothing of it. Old files stay until they are vacuumed: readers of an older
version of the table find them.
"""

from __future__ import annotations

import json
import secrets
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import fs

from fanlog.lake.commit_order import CommitLost
from fanlog.lake.files import DataFile, FileWriter
from fanlog.lake.location import LakeError, Location
from fanlog.lake.tables import MESSAGES, open_table

#: The size that a merged file should have, about.
TARGET_BYTES = 128 * 2**20
#: A file of at least this part of the target is left as it is.
SMALL = 0.5
#: How long files that no version of today lists are kept, for readers of older ones.
KEPT_HOURS = 24

_ORDER = [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]


class FileUnreadable(Exception):
    """A file of the table is damaged, or gone."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = f"{MESSAGES.name}/{path} cannot be read: {reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OldFile:
    """A file of the table, as its log describes it."""

    path: str
    size_bytes: int
    date: str
    sequence: int
    #: First offset there may be.
    offset_min: int = 0
    #: Rows in it.
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """Files that become one. Travels as JSON."""

    date: str
    paths: tuple[str, ...]
    size_bytes: int
    #: Rows below these offsets are left out, by partition.
    starts: Mapping[int, int] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Rewrite:
        fields = json.loads(text)
        fields["paths"] = tuple(fields["paths"])
        fields["starts"] = {int(key): start for key, start in fields["starts"].items()}
        return cls(**fields)


def files_of(location: Location) -> tuple[int, list[OldFile]]:
    """The version of the table, and its files."""
    opened = open_table(location, MESSAGES)
    actions = pa.table(opened.get_add_actions(flatten=True)).to_pylist()
    return int(opened.version()), [
        OldFile(
            path=one["path"],
            size_bytes=one["size_bytes"],
            date=str(one["partition.date"]),
            sequence=one.get("min.sequence") or 0,
            offset_min=one.get("min.offset") or 0,
            count=one["num_records"] or 0,
        )
        for one in actions
    ]


def plan_merges(files: Sequence[OldFile], *, target_bytes: int = TARGET_BYTES) -> list[Rewrite]:
    """Which small files to merge: neighbours in the order they were archived."""
    by_date: defaultdict[str, list[OldFile]] = defaultdict(list)
    for file in files:
        if file.size_bytes < target_bytes * SMALL:
            by_date[file.date].append(file)
    planned: list[Rewrite] = []
    for day, small in sorted(by_date.items()):
        group: list[OldFile] = []
        for file in sorted(small, key=lambda one: (one.sequence, one.path)):
            if group and _size(group) + file.size_bytes > target_bytes:
                planned += _merge(day, group)
                group = []
            group.append(file)
        planned += _merge(day, group)
    return planned


def _merge(day: str, group: Sequence[OldFile]) -> list[Rewrite]:
    if len(group) < 2:
        return []
    paths = tuple(file.path for file in group)
    return [Rewrite(date=day, paths=paths, size_bytes=_size(group))]


def _size(group: Sequence[OldFile]) -> int:
    return sum(file.size_bytes for file in group)


def plan_expiry(files: Sequence[OldFile], starts: Mapping[int, int]) -> list[Rewrite]:
    """Which files may have rows below the offsets that partitions start at."""
    most = max(starts.values(), default=0)
    return [
        Rewrite(date=file.date, paths=(file.path,), size_bytes=file.size_bytes, starts=starts)
        for file in files
        if file.offset_min < most
    ]


def rewrite(location: Location, what: Rewrite) -> tuple[DataFile | None, int]:
    """Write the file that replaces some; None when nothing of them is left, and how many rows went.

    A rewrite that would leave a single file as it is writes nothing, and gives -1.

    Raises:
        FileUnreadable: One of them is damaged, or gone.
    """
    files = location.filesystem()
    rows = pa.concat_tables(_rows(files, path) for path in what.paths)
    before = rows.num_rows
    for partition, start in what.starts.items():
        is_gone = pc.and_(pc.equal(rows["partition"], partition), pc.less(rows["offset"], start))
        rows = rows.filter(pc.invert(is_gone))
    gone = before - rows.num_rows
    if what.starts and not gone:
        return None, -1
    if not rows.num_rows:
        return None, gone
    return _write_file(location, files, what, rows), gone


def mend(location: Location, what: Rewrite) -> DataFile | None:
    """Write the readable rows of a damaged file to a new one; None when there are none."""
    files = location.filesystem()
    [path] = what.paths
    found: list[pa.Table] = []
    with suppress(OSError, pa.ArrowException):
        # Without a footer there is nothing to go by.
        opened = pq.ParquetFile(
            files.open_input_file(f"{MESSAGES.name}/{path}"), page_checksum_verification=True
        )
        for group in range(opened.num_row_groups):
            with suppress(OSError, pa.ArrowException):
                found.append(opened.read_row_group(group))
    if not found:
        return None
    return _write_file(location, files, what, MESSAGES.complete(pa.concat_tables(found)))


def _rows(files: fs.FileSystem, path: str) -> pa.Table:
    try:
        found = pq.read_table(
            f"{MESSAGES.name}/{path}", filesystem=files, page_checksum_verification=True
        )
    except (OSError, pa.ArrowException) as error:
        what = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FileUnreadable(path, what) from error
    return MESSAGES.complete(found)


def _write_file(
    location: Location, files: fs.FileSystem, what: Rewrite, rows: pa.Table
) -> DataFile:
    writer = FileWriter(
        location,
        MESSAGES,
        attempt=secrets.token_hex(8),
        partition_values={"date": what.date},
        files=files,
    )
    try:
        writer.write(rows.sort_by(_ORDER))
        return writer.close()
    except BaseException:
        writer.discard()
        raise


def replace_files(
    location: Location, what: Rewrite, made: DataFile | None, *, is_change: bool
) -> None:
    """Replace files of the table by the one that was made of them, in one commit.

    Raises:
        CommitLost: One of them was replaced meanwhile; nothing changed.
        LakeError: The table cannot be written.
    """
    opened = open_table(location, MESSAGES)
    known = {
        one["path"]: one
        for one in pa.table(opened.get_add_actions(flatten=True))
        .select(["path", "size_bytes"])
        .to_pylist()
    }
    missing = [path for path in what.paths if path not in known]
    if missing:
        raise CommitLost(f"{MESSAGES.name}: {missing[0]} was replaced meanwhile")
    now_ms = time.time_ns() // 1_000_000
    actions: list[AddAction | RemoveAction] = [
        RemoveAction(path, is_change, now_ms, known[path]["size_bytes"], {"date": what.date})
        for path in what.paths
    ]
    if made is not None:
        actions.append(made.add_action(data_change=is_change))
    try:
        opened.create_write_transaction(
            actions,
            "append",
            opened.schema(),
            partition_by=list(MESSAGES.partition_by),
            commit_properties=CommitProperties(custom_metadata={"fanlogRewrite": what.date}),
        )
    except CommitFailedError as error:
        raise CommitLost(f"{MESSAGES.name}: another rewrite came first") from error
    except (DeltaError, OSError) as error:
        raise LakeError(f"table {MESSAGES.name!r} cannot be written: {error}") from error


def vacuum(location: Location, *, hours: int = KEPT_HOURS) -> int:
    """Delete files that no version of the last hours lists; how many."""
    opened = open_table(location, MESSAGES)
    return len(
        opened.vacuum(
            retention_hours=hours, dry_run=False, enforce_retention_duration=False, full=True
        )
    )
