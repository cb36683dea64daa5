"""Copies of a data folder: back it up while the broker runs, restore it, and make it smaller.

All of them write under another name first and rename when the copy is whole and synced, so that a
folder that looks like a backup is one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

import lmdb

from fanlog.errors import ConfigError
from fanlog.log import folder
from fanlog.log.doctor import examine
from fanlog.log.envelope import EnvelopeDamaged
from fanlog.log.page_slack import zero_slack
from fanlog.log.replicated.facts import parse_facts
from fanlog.log.replicated.marks import parse_marks
from fanlog.log.replicated.story import is_whole
from fanlog.log.report import FolderReport
from fanlog.log.side_files import SideFiles, copy_files

_PARTIAL_NAME = "partial"
#: How often the files that state names are looked for: a broker may remove them between the two.
_TRIES = 10


class Sizes(NamedTuple):
    """Bytes of the data file before and after it was compacted."""

    before_bytes: int
    after_bytes: int


def backup(data_dir: Path, out_dir: Path, *, beside: SideFiles | None = None) -> FolderReport:
    """Copy the log as it is at one commit, free pages left out; the broker may run meanwhile.

    Bytes that hold nothing are zeroes: nothing that was deleted or replaced is in the copy. With it
    go the files that its state relies on at that commit. The copy is durable on return, and has
    been read back: the report counts its contents. As long as it takes, pages that the broker frees
    are not used again.

    Of the folder of a node of a cluster the copy is a data folder as any other, with the log as far
    as the node has it: what says where in the partition that is, is not in it.

    Raises:
        ConfigError: There is no data folder, or a node's that has not all of the log yet; or
            `out_dir` is not empty.
        DiskFull: No room for the copy; nothing is left of it.
        CommitFailed: It could not be written for another reason; nothing is left of it.
    """
    folder.require(folder.log_place(data_dir))
    folder.require_empty(out_dir)
    partial = out_dir / _PARTIAL_NAME
    partial.mkdir()
    try:
        missing = _copy_compact(data_dir, partial / folder.DATA_NAME, beside)
        if folder.is_cache(data_dir):
            _make_own(partial, data_dir)
        report = examine(partial)
        if beside is not None and (partial / beside.folder).exists():
            (partial / beside.folder).rename(out_dir / beside.folder)
        # Last: a folder that has it is a backup.
        (partial / folder.DATA_NAME).rename(out_dir / folder.DATA_NAME)
    finally:
        shutil.rmtree(partial)
    folder.sync_folder(out_dir)
    report.data_dir = out_dir
    if beside is not None:
        beside.report_missing(missing, report)
    return report


def restore(backup_dir: Path, data_dir: Path, *, beside: SideFiles | None = None) -> None:
    """Put a backup where a broker will find it. The backup is not changed. Durable on return.

    Raises:
        ConfigError: There is no backup, or `data_dir` is not empty.
        DataFolderInUse: A broker is using `data_dir`.
        DataLoss: The backup is damaged.
        DiskFull: No room; nothing is left of the copy.
    """
    folder.refuse_cache(backup_dir)
    folder.require(backup_dir)
    folder.make(data_dir)
    with folder.hold(data_dir):
        folder.require_empty(data_dir)
        partial = data_dir / _PARTIAL_NAME
        partial.mkdir()
        try:
            with _report_write_errors(data_dir):
                shutil.copyfile(backup_dir / folder.DATA_NAME, partial / folder.DATA_NAME)
                _sync_file(partial / folder.DATA_NAME)
                if beside is not None:
                    _restore_beside(backup_dir / beside.folder, data_dir / beside.folder)
            _check_opens(partial, backup_dir)
            (partial / folder.DATA_NAME).rename(data_dir / folder.DATA_NAME)
        finally:
            shutil.rmtree(partial)
        folder.sync_folder(data_dir)


def compact(data_dir: Path) -> Sizes:
    """Give the free pages of a stopped broker's data file back to the disk.

    Nothing that was deleted or replaced is in the new file. Needs room for a copy of the pages in
    use. The file is replaced in one step when the copy is whole.

    Raises:
        ConfigError: There is no data folder.
        DataFolderInUse: A broker is using it.
        DiskFull: No room for the copy; nothing changed.
    """
    folder.refuse_cache(data_dir)
    folder.require(data_dir)
    path = data_dir / folder.DATA_NAME
    with folder.hold(data_dir):
        before_bytes = path.stat().st_size
        partial = data_dir / _PARTIAL_NAME
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        try:
            copy = partial / folder.DATA_NAME
            _copy_compact(data_dir, copy, None)
            _check_opens(partial, data_dir)
            after_bytes = copy.stat().st_size
            # The table of readers speaks of the old file's transactions; LMDB makes a new one.
            (data_dir / folder.READERS_NAME).unlink(missing_ok=True)
            copy.rename(path)
        finally:
            shutil.rmtree(partial)
        folder.sync_folder(data_dir)
    return Sizes(before_bytes, after_bytes)


def _copy_compact(data_dir: Path, path: Path, beside: SideFiles | None) -> list[str]:
    """Copy the data file and the side files; returns the names of side files that are missing."""
    store = folder.open_store(folder.log_place(data_dir), readonly=True)
    try:
        for left in reversed(range(_TRIES)):
            with store.env.begin(buffers=True) as txn, ExitStack() as stack:
                names = [] if beside is None else beside.names(store, txn)
                found: dict[str, BinaryIO] = {}
                missing: list[str] = []
                for name in names:
                    assert beside is not None
                    # Open, they stay when the broker is through with them and removes them.
                    try:
                        opened = (data_dir / beside.folder / name).open("rb")
                    except FileNotFoundError:
                        missing.append(name)
                    else:
                        found[name] = stack.enter_context(opened)
                if missing and left:
                    # The broker is further by now.
                    continue
                with _report_write_errors(path.parent), path.open("x+b") as file:
                    store.env.copyfd(file.fileno(), compact=True, txn=txn)
                    zero_slack(file)
                    os.fsync(file.fileno())
                    if beside is not None:
                        copy_files(found, path.parent / beside.folder)
                return missing
        raise AssertionError("the last try returns")
    finally:
        store.close()


def _make_own(copy_dir: Path, cache_dir: Path) -> None:
    """Take what is of the cache alone out of the copy of one."""
    store = folder.open_store(copy_dir)
    try:
        with _report_write_errors(copy_dir), store.env.begin(write=True, buffers=True) as txn:
            facts = folder.get_meta(store, txn, folder.META_REPLICA)
            marks = folder.get_meta(store, txn, folder.META_MARKS)
            if facts is None or marks is None:
                raise folder.data_loss(cache_dir, "the cache does not say how far it is")
            if not is_whole(parse_facts(facts), parse_marks(marks)):
                raise ConfigError(
                    f"the node of {cache_dir} has not read all of the log yet: wait until "
                    "`fanlog cluster describe` says that it follows, or back up another node"
                )
            txn.delete(folder.META_REPLICA, db=store.meta)
            txn.delete(folder.META_MARKS, db=store.meta)
    except (EnvelopeDamaged, ValueError) as error:
        raise folder.data_loss(cache_dir, str(error)) from error
    finally:
        store.close()
    (copy_dir / folder.READERS_NAME).unlink(missing_ok=True)


def _restore_beside(source: Path, place: Path) -> None:
    if not source.is_dir():
        return
    with ExitStack() as stack:
        paths = [path for path in sorted(source.iterdir()) if path.is_file()]
        copy_files({path.name: stack.enter_context(path.open("rb")) for path in paths}, place)


def _check_opens(copy_dir: Path, source_dir: Path) -> None:
    if problems := folder.page_problems(copy_dir):
        raise folder.data_loss(source_dir, problems[0])
    store = folder.open_store(copy_dir, readonly=True)
    try:
        with store.env.begin(buffers=True) as txn:
            if folder.read_facts(store, txn) is None:
                raise ConfigError(f"there is no log in {source_dir}")
    except EnvelopeDamaged as error:
        raise folder.data_loss(source_dir, str(error)) from error
    finally:
        store.close()


@contextmanager
def _report_write_errors(place: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, lmdb.Error) as error:
        raise folder.write_error(error, f"the copy in {place}", place) from error


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
