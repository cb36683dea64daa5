"""Make a lake durable: sync files, logs of tables, and the folders that name them to the disk.

Object storage is durable by itself; a folder is when it is synced. Messages that are in the lake
are synced there before they are trimmed elsewhere. All of it blocks: not for the loop.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from fanlog.lake.location import Location

_LOG = "_delta_log"
_LAST_CHECKPOINT = "_last_checkpoint"


def sync_files(location: Location, paths: Iterable[str]) -> None:
    """Make files survive a loss of power; their paths are relative to the lake."""
    if not location.is_s3:
        _sync_all(location, {Path(location.uri) / path for path in paths})


def sync_log(location: Location, table: str, *, from_version: int | None = None) -> None:
    """Make the log of a table survive a loss of power, from a version on.

    Without a version it is from the last checkpoint on: readers need nothing before that.
    """
    if location.is_s3:
        return
    folder = Path(location.uri) / table / _LOG
    if from_version is None:
        from_version = _find_checkpoint(folder)
    paths = set()
    for path in folder.iterdir():
        version = path.name.partition(".")[0]
        if path.is_file() and (not version.isdigit() or int(version) >= from_version):
            paths.add(path)
    _sync_all(location, paths)


def _find_checkpoint(folder: Path) -> int:
    """The version of a log's last checkpoint; 0 for none."""
    try:
        return int(json.loads((folder / _LAST_CHECKPOINT).read_bytes())["version"])
    except (OSError, ValueError, KeyError, TypeError):
        # No checkpoint yet, or one that cannot be read: then all of the log is needed.
        return 0


def _sync_all(location: Location, paths: Iterable[Path]) -> None:
    root = Path(location.uri)
    found = set(paths)
    for path in found:
        _sync(path)
    folders = {folder for path in found for folder in path.parents if folder.is_relative_to(root)}
    for folder in folders | {root.parent}:
        _sync(folder)


def _sync(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
