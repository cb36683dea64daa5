"""The tables of the lake, as people look at them: values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileLook:
    """A file of a table, as the table's log has it."""

    path: str
    size_bytes: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLook:
    """A table of the lake at one moment."""

    name: str
    version: int = 0
    rows: int = 0
    files: int = 0
    size_bytes: int = 0
    #: Files that `compact` would merge.
    small_files: int = 0
    #: Some of the files, the largest first; and some of the others, the smallest last.
    largest: tuple[FileLook, ...] = ()
    smallest: tuple[FileLook, ...] = ()
    #: Why the table could not be looked at; all else is unknown then.
    trouble: str = ""
