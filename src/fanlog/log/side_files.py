"""Files beside the data file that records of state rely on: which they are, and copies of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO, NamedTuple

import lmdb

from fanlog.log import folder
from fanlog.log.envelope import EnvelopeDamaged, Kind
from fanlog.log.folder import Store
from fanlog.log.report import FolderReport


class SideFiles(NamedTuple):
    """The files that go with the state; the log does not read their contents."""

    #: The folder that they are in, in the data folder.
    folder: str
    #: The keys of the records that rely on some begin with it.
    prefix: bytes
    #: The names of the files that one of them relies on, from its key and value.
    names_in: Callable[[bytes, bytes], Iterable[str]]

    def names(self, store: Store, txn: lmdb.Transaction[memoryview]) -> list[str]:
        """The files that the state relies on."""
        names: list[str] = []
        with txn.cursor(store.state) as at:
            if not at.set_range(self.prefix):
                return names
            for key, value in at:
                if not bytes(key).startswith(self.prefix):
                    break
                try:
                    opened = folder.open_envelope(Kind.STATE, key, value)
                except EnvelopeDamaged:
                    # The report will say so.
                    continue
                names += self.names_in(bytes(key), opened)
        return names

    def report_missing(self, names: Iterable[str], report: FolderReport) -> None:
        """Say that some could not be had."""
        for name in names:
            path = f"{self.folder}/{name}"
            report.add("warning", f"{path} is named by the state, and is not there to be copied")


def copy_files(files: dict[str, BinaryIO], place: Path) -> None:
    """Copy open files to a folder, under the names given. Durable on return."""
    if not files:
        return
    place.mkdir(folder.FOLDER_MODE, exist_ok=True)
    for name, file in files.items():
        with (place / name).open("xb") as copy:
            shutil.copyfileobj(file, copy)
            copy.flush()
            os.fsync(copy.fileno())
    folder.sync_folder(place)
