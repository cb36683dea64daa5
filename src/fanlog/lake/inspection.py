"""The content of the lake, looked up in the lake itself. All of it blocks: not for the loop.

Before the broker trims archived messages it looks here: at the lake's id, at the transaction of its
own log in the table, and at the offsets that stand in the files, read from their columns. Files
that it is going to rely on are synced to the disk first, where the lake is a folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow.compute as pc

from fanlog.lake import durability
from fanlog.lake.api import Content, LakeStanding, RowRun
from fanlog.lake.files import runs_of
from fanlog.lake.index import FileDamaged, FileIndex, Footers, LakeFile, sort_read_errors
from fanlog.lake.location import IDENTITY_FILE, Location
from fanlog.lake.tables import MESSAGES, lake_id, open_table


def standing(location: Location, log_id: str) -> LakeStanding:
    """How a lake stands.

    Raises:
        LakeError: There is none, or it cannot be opened.
    """
    found = lake_id(location)
    opened = open_table(location, MESSAGES)
    sequence = opened.transaction_version(log_id)
    return LakeStanding(found, int(opened.version()), int(sequence or 0))


def content_after(
    footers: Footers, index: FileIndex, *, after_sequence: int, to_sequence: int
) -> Content:
    """The offsets that the commits after one up to and with another added, from the rows.

    Raises:
        LakeUnavailable: The lake cannot be reached.
    """
    found: dict[int, list[RowRun]] = {}
    content = Content()
    for file in index.after(after_sequence):
        try:
            runs = _rows_between(footers, file, after_sequence, to_sequence)
        except FileDamaged as error:
            content.damaged.append(str(error))
            continue
        for run in runs:
            found.setdefault(run.partition, []).append(run)
    content.gather(found)
    return content


def whole_content(footers: Footers, index: FileIndex) -> Content:
    """The offsets in all files, by their footers.

    Raises:
        LakeUnavailable: The lake cannot be reached.
    """
    found: dict[int, list[RowRun]] = {}
    content = Content()
    for file in index.files:
        try:
            runs = footers.get(file).runs
        except FileDamaged as error:
            content.damaged.append(str(error))
            continue
        for run in runs:
            found.setdefault(run.partition, []).append(run)
    content.gather(found)
    return content


def sync(location: Location, files: Iterable[LakeFile], *, from_version: int) -> None:
    """Make files, and the table's log from a version on, survive a loss of power."""
    paths = [f"{MESSAGES.name}/{file.path}" for file in files]
    durability.sync_files(location, [*paths, IDENTITY_FILE])
    durability.sync_log(location, MESSAGES.name, from_version=from_version)


def _rows_between(footers: Footers, file: LakeFile, after: int, to: int) -> Sequence[RowRun]:
    with sort_read_errors(footers.files, file), footers.open(file) as opened:
        rows = opened.read(["partition", "offset", "sequence"], use_threads=False)
    if file.sequence_first <= after or file.sequence_last > to:
        is_wanted = pc.and_(
            pc.greater(rows["sequence"], after), pc.less_equal(rows["sequence"], to)
        )
        rows = rows.filter(is_wanted)
    return runs_of(rows["partition"], rows["offset"])
