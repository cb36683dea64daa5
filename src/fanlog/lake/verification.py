"""Files of `messages` read to their last byte, to verify their contents.

Unreadable files are named, and readable rows are counted: the check goes on after a damaged file,
and after a damaged row group. All of it blocks: not for the loop.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

from pyarrow import fs

from fanlog.lake.api import RowRun
from fanlog.lake.files import RUNS_KEY, runs_of
from fanlog.lake.index import FileDamaged, Footers, LakeFile, sort_read_errors
from fanlog.lake.tables import MESSAGES


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of the check of one file. Travels as JSON."""

    #: Relative to the table.
    path: str
    #: Of the rows that could be read, in their order.
    runs: list[RowRun] = field(default_factory=list)
    #: The damage, in a sentence that names the file; empty when there is none.
    damage: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Checked:
        said = json.loads(text)
        return cls(said["path"], [RowRun(*one) for one in said["runs"]], said["damage"])


def check_file(files: fs.FileSystem, file: LakeFile) -> Checked:
    """Read all of a file, with the checksums of its pages.

    Raises:
        LakeUnavailable: The lake cannot be reached.
        OSError: The same.
    """
    path = f"{MESSAGES.name}/{file.path}"
    if files.get_file_info(path).type != fs.FileType.File:
        return Checked(file.path, damage=f"file {path} is not there")
    footers = Footers(files)
    found: list[RowRun] = []
    damages: list[str] = []
    try:
        with sort_read_errors(files, file), footers.open(file) as opened:
            said = (opened.metadata.metadata or {}).get(RUNS_KEY)
            for group in range(opened.metadata.num_row_groups):
                try:
                    with sort_read_errors(files, file):
                        rows = opened.read_row_group(group, use_threads=False)
                except FileDamaged as error:
                    damages.append(str(error))
                    continue
                found += runs_of(rows["partition"], rows["offset"])
    except FileDamaged as error:
        return Checked(file.path, damage=str(error))
    if damages:
        return Checked(file.path, found, damages[0])
    count = sum(run.rows for run in found)
    if count != file.count:
        damage = f"file {path} has {count} rows, the table says {file.count}"
        return Checked(file.path, found, damage)
    if said is not None and _set(RowRun(*one) for one in json.loads(said)) != _set(found):
        return Checked(file.path, found, f"file {path}: its rows are not what its footer says")
    return Checked(file.path, found)


def spread(runs: Iterable[RowRun], start: int, end: int) -> tuple[int, int]:
    """How many rows runs of one partition have within offsets, and how many offsets those are."""
    rows = offsets = 0
    last = start
    for run in sorted(runs):
        low, high = max(run.first, start), min(run.end, end)
        if low >= high:
            continue
        rows += high - low
        offsets += max(0, high - max(low, last))
        last = max(last, high)
    return rows, offsets


def _set(runs: Iterable[RowRun]) -> list[RowRun]:
    """Runs joined where they follow each other: row groups cut them elsewhere."""
    joined: list[RowRun] = []
    for run in sorted(runs):
        last = joined[-1] if joined else None
        if last is not None and (last.partition, last.end) == (run.partition, run.first):
            joined[-1] = RowRun(last.partition, last.first, last.rows + run.rows)
        else:
            joined.append(run)
    return joined
