"""A look at the tables of a lake: how many files they have, how large, and which are. It blocks.

All of it stands in the tables' own logs; no file is opened.
"""

from __future__ import annotations

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from fanlog import limits
from fanlog.lake import upkeep
from fanlog.lake.location import Location
from fanlog.lake.rewrites import TARGET_BYTES
from fanlog.lake.tables import MESSAGES
from fanlog.model.lake_tables import FileLook, TableLook


def look(location: Location) -> list[TableLook]:
    """Look at `messages`, and at the other tables by name.

    Raises:
        LakeError: The lake cannot be looked at.
    """
    names = [MESSAGES.name, *sorted(upkeep.tables_of(location))]
    return [_look_at(location, name) for name in names]


def _look_at(location: Location, name: str) -> TableLook:
    try:
        opened = DeltaTable(location.table_uri(name), storage_options=location.storage_options)
        actions = pa.table(opened.get_add_actions(flatten=True))
    except (DeltaError, OSError) as error:
        return TableLook(name=name, trouble=str(error).partition("\n")[0])
    columns = (actions[column].to_pylist() for column in ("path", "size_bytes", "num_records"))
    files = [FileLook(path, size, rows or 0) for path, size, rows in zip(*columns, strict=True)]
    files.sort(key=lambda file: (-file.size_bytes, file.path))
    most = limits.LAKE_FILES_SHOWN_MAX
    return TableLook(
        name=name,
        version=int(opened.version()),
        rows=sum(file.rows for file in files),
        files=len(files),
        size_bytes=sum(file.size_bytes for file in files),
        small_files=sum(2 * file.size_bytes < TARGET_BYTES for file in files),
        largest=tuple(files[:most]),
        smallest=tuple(files[most:][-most:]),
    )
