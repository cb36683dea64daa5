"""Upkeep of the lake's tables other than `messages`: exports, rejected rows, statistics.

They are plain Delta tables, and no reader relies on an order of their rows, so that `deltalake`
merges their files itself, in commits that append-only writers do not notice. Rows are deleted only
by `delete_before`. All of it blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from pyarrow import fs

from fanlog import times
from fanlog.errors import InvalidArgument
from fanlog.lake.commit_order import CommitLost
from fanlog.lake.location import LakeError, Location
from fanlog.lake.rewrites import KEPT_HOURS, TARGET_BYTES
from fanlog.lake.tables import DEAD_LETTERS, DELIVERY_STATS, EXPORTS, MESSAGES, TOPIC_STATS

#: Columns that say when a row is of, in the order they are looked for.
TIMES = ("publish_time", "minute")
#: How often a commit is tried that conflicts with another writer's.
TRIES = 5

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class UpkeepResult:
    """The result of the upkeep of one table."""

    table: str
    files_before: int
    #: Files that were merged, and those they became.
    merged: int
    into: int
    #: Old files that were deleted.
    deleted: int


def tables_of(location: Location) -> list[str]:
    """The tables that are there, but for `messages`; paths below the lake.

    Raises:
        LakeError: The lake cannot be looked at.
    """
    wanted = [table.name for table in (DEAD_LETTERS, TOPIC_STATS, DELIVERY_STATS)]
    try:
        found = location.filesystem().get_file_info(fs.FileSelector(EXPORTS, allow_not_found=True))
    except OSError as error:
        raise LakeError(f"the lake at {location.uri} cannot be read: {error}") from error
    wanted += sorted(one.path for one in found if one.type == fs.FileType.Directory)
    return [name for name in wanted if _is_table(location, name)]


def find_table(location: Location, name: str) -> str:
    """The path of a table that a caller named, with or without the folder of exports.

    Raises:
        InvalidArgument: There is none.
    """
    there = tables_of(location)
    for path in (name, f"{EXPORTS}/{name}"):
        if path in there:
            return path
    known = ", ".join([MESSAGES.name, *there])
    raise InvalidArgument(f"arguments.table: {name!r} is no table of the lake; there are: {known}")


def compact(location: Location, name: str, *, target_bytes: int = TARGET_BYTES) -> UpkeepResult:
    """Merge the small files of a table, and delete files that no version of the last day lists.

    Raises:
        LakeError: It cannot be read or written; a file that is damaged is named.
        CommitLost: Another writer changed the same files meanwhile; nothing is wrong.
    """
    before = len(_open(location, name).file_uris())
    merged = _try_commit(
        name, lambda: _open(location, name).optimize.compact(target_size=target_bytes)
    )
    deleted = _try_commit(
        name,
        lambda: _open(location, name).vacuum(
            retention_hours=KEPT_HOURS, dry_run=False, enforce_retention_duration=False, full=True
        ),
    )
    return UpkeepResult(
        table=name,
        files_before=before,
        merged=int(merged["numFilesRemoved"]),
        into=int(merged["numFilesAdded"]),
        deleted=len(deleted),
    )


def delete_before(location: Location, name: str, before: datetime) -> int:
    """Take rows out of a table that are older than a time; how many.

    Raises:
        InvalidArgument: The table does not say how old its rows are.
        LakeError: It cannot be written.
        CommitLost: Other writers' commits came first at every try.
    """
    columns = {field.name for field in _open(location, name).schema().fields}
    column = next((one for one in TIMES if one in columns), None)
    if column is None:
        raise InvalidArgument(
            f"arguments.table: {name!r} does not say how old its rows are; it has none of the "
            f"columns {' and '.join(TIMES)} (an export has, with write_metadata)"
        )
    text = times.of_datetime(before)
    # A literal of the column's own type: any other is taken for nanoseconds.
    where = f"{column} < arrow_cast('{text}', 'Timestamp(Microsecond, Some(\"UTC\"))')"
    done = _try_commit(name, lambda: _open(location, name).delete(where))
    return int(done["num_deleted_rows"] or 0)


def _is_table(location: Location, name: str) -> bool:
    uri = location.table_uri(name)
    return bool(DeltaTable.is_deltatable(uri, storage_options=location.storage_options))


def _open(location: Location, name: str) -> DeltaTable:
    """Opened as it is: columns of exports are their users'."""
    uri = location.table_uri(name)
    try:
        return DeltaTable(uri, storage_options=location.storage_options)
    except (DeltaError, OSError) as error:
        raise LakeError(f"table {uri} cannot be opened: {error}") from error


def _try_commit(name: str, act: Callable[[], T]) -> T:
    for left in reversed(range(TRIES)):
        try:
            return act()
        except CommitFailedError as error:
            if not left:
                raise CommitLost(f"{name}: others change the same files: {error}") from error
        except (DeltaError, OSError) as error:
            what = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise LakeError(f"table {name!r} cannot be rewritten: {what}") from error
    raise AssertionError("the last try ends it")
