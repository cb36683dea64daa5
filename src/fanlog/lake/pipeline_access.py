"""Reach: the files and buckets outside the lake that a pipeline may touch for a caller.

A caller names paths and buckets in jobs and export subscriptions, and the pipeline opens them with
its own rights. So an operator says which: folders that `import` may read below (*import roots*),
and buckets that imports and exports may use. Nothing is allowed unless it is named.

Paths are resolved before they are compared, every file of a folder on its own: a symbolic link that
leads out of the root is refused, not followed.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from fanlog.errors import InvalidArgument, PermissionDenied
from fanlog.model.names import shown

_S3 = ("s3://", "s3a://")
_FILE = "file:"
#: Characters that Hadoop's own globs take; a file name that has some would be expanded again.
_GLOB = re.compile(r"[*?\[\]{}\\]")


@dataclass(frozen=True, slots=True)
class ImportFiles:
    """The files of one import, as Spark is to be given them."""

    paths: Sequence[str]
    #: The folder whose `name=value` subfolders are columns; None for single files.
    folder: str | None = None


@dataclass(frozen=True, slots=True)
class PipelineAccess:
    """The files and buckets of one pipeline. A plain value: it travels to tasks."""

    import_roots: tuple[str, ...] = ()
    buckets: tuple[str, ...] = ()

    def check_bucket(self, address: str, *, field: str) -> None:
        """Refuse an s3:// address whose bucket is not allowed.

        Raises:
            PermissionDenied: Names the bucket and the setting.
        """
        bucket = urlsplit(address).netloc
        if bucket not in self.buckets:
            raise PermissionDenied(
                f"{field}: the pipeline may not use the bucket {shown(bucket)}; "
                f"{_list_allowed('buckets', self.buckets)} (fanlog pipeline --s3-bucket)"
            )

    def find_imports(self, path: str, *, field: str) -> ImportFiles:
        """Find the files that an import names: a file, a folder, a glob, or an s3:// address.

        Raises:
            PermissionDenied: A file lies outside every import root, a folder holds a link to
                another, or the bucket is not allowed.
            InvalidArgument: There is no such file, or the address is of an unknown kind.
        """
        if path.startswith(_S3):
            self.check_bucket(path, field=field)
            return ImportFiles([path])
        local = _local_path(path, field)
        if not self.import_roots:
            raise PermissionDenied(
                f"{field}: the pipeline may not read files; name the folder they are in by "
                "`fanlog pipeline --import-root DIR`"
            )
        root = self._root_of(local, path, field)
        named = [local] if os.path.lexists(local) else sorted(glob.glob(local, recursive=True))
        found = [file for one in named for file in _files_below(one, field)]
        if not found:
            raise InvalidArgument(f"{field}: there is no file {shown(path)} below {root}")
        for file in found:
            self._root_of(file, path, field)
            if _GLOB.search(file):
                raise InvalidArgument(
                    f"{field}: the file name {shown(file)} has a character of globs; rename it"
                )
        is_folder = len(named) == 1 and os.path.isdir(named[0])
        folder = os.path.realpath(named[0]) if is_folder else None
        return ImportFiles([f"file://{os.path.realpath(file)}" for file in found], folder)

    def _root_of(self, local: str, path: str, field: str) -> str:
        """The import root that holds a path once its links are followed."""
        resolved = os.path.realpath(local)
        for root in self.import_roots:
            if Path(resolved).is_relative_to(os.path.realpath(root)):
                return root
        # The resolved path is not told: it would say where links of the machine lead to.
        raise PermissionDenied(
            f"{field}: {shown(path)} is not below an import root, or a link leads out of it; "
            f"{_list_allowed('roots', self.import_roots)} (fanlog pipeline --import-root)"
        )


#: The reach of a pipeline that was told of no folder and no bucket.
NOTHING: Final = PipelineAccess()


def _local_path(path: str, field: str) -> str:
    if path.startswith(_FILE):
        parts = urlsplit(path)
        if parts.netloc not in ("", "localhost"):
            raise InvalidArgument(f"{field}: {shown(path)} names another machine")
        path = unquote(parts.path)
    elif re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", path):
        raise InvalidArgument(
            f"{field}: {shown(path)}: files are a path, a file:// address or an s3:// address"
        )
    if "\0" in path or not os.path.isabs(path):
        raise InvalidArgument(
            f"{field}: {shown(path)} is not an absolute path on the pipeline's machine"
        )
    return path


def _files_below(path: str, field: str) -> list[str]:
    """A file itself; of a folder, the files that Spark reads of it: none that are hidden."""
    if not os.path.isdir(path):
        return [path]
    found: list[str] = []
    for folder, folders, files in os.walk(path, followlinks=False):
        folders[:] = sorted(filter(_is_read, folders))
        for name in folders:
            if os.path.islink(os.path.join(folder, name)):
                # Spark would follow it to files that were not checked here.
                raise PermissionDenied(
                    f"{field}: {shown(os.path.join(folder, name))} is a link to a folder; name the "
                    "folder itself"
                )
        found += [os.path.join(folder, name) for name in sorted(filter(_is_read, files))]
    return found


def _is_read(name: str) -> bool:
    """Spark leaves out names that begin with a dot, or with `_` unless they are `_name=value`."""
    return not name.startswith(".") and (not name.startswith("_") or "=" in name)


def _list_allowed(what: str, names: Sequence[str]) -> str:
    return f"allowed {what} are {', '.join(names)}" if names else f"no {what} are allowed"
