"""Commits to a table: files added or replaced, once, under an application transaction.

An application (an archive, an export) has an id, and numbers its commits: the table remembers the
last number of each id. A commit whose number is not above it has happened already and changes
nothing. Of two committers of one id that race, one wins; the other is told, by `CommitLost`.
Committers of different ids do not disturb each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction

from fanlog.lake import commit_order
from fanlog.lake.commit_order import CommitLost
from fanlog.lake.files import DataFile
from fanlog.lake.location import LakeError, Location
from fanlog.lake.tables import Table, ensure_table, open_table
from fanlog.model.json_value import Json


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit that is in the table."""

    #: Of the table, with the commit in it; not older than that.
    table_version: int
    #: Whether this call made it; False when it had happened already.
    is_new: bool


def last_version(location: Location, table: Table, app_id: str) -> int | None:
    """The number of the last commit of an application; None when it never made one.

    Raises:
        LakeError: There is no such table.
    """
    return _last(open_table(location, table), app_id)


def add_files(
    location: Location,
    table: Table,
    files: Sequence[DataFile],
    *,
    app_id: str,
    app_version: int,
    after: int | None = None,
    note: Mapping[str, Json] | None = None,
) -> Committed:
    """Add files to a table in one commit; a table that is not there is made.

    Args:
        after: The number of the commit that this one was planned on; with it, a table that has
            another by now refuses this one. 0 for none yet.
        note: Said in the table's history.

    Raises:
        CommitLost: Another committer of this application came first; nothing changed.
        LakeError: The table cannot be written.
    """
    opened = ensure_table(location, table)
    last = _last(opened, app_id)
    if commit_order.has_happened(f"{table.name}: {app_id}", last, app_version, after=after):
        return Committed(opened.version(), is_new=False)
    _commit(opened, table, [one.add_action() for one in files], app_id, app_version, note)
    return Committed(_version_with(location, table, app_id, app_version), is_new=True)


def _last(opened: DeltaTable, app_id: str) -> int | None:
    found = opened.transaction_version(app_id)
    return None if found is None else int(found)


def _commit(
    opened: DeltaTable,
    table: Table,
    actions: Sequence[AddAction],
    app_id: str,
    app_version: int,
    note: Mapping[str, Json] | None,
) -> None:
    properties = CommitProperties(
        app_transactions=[Transaction(app_id, app_version)],
        custom_metadata=dict(note) if note else None,
    )
    try:
        opened.create_write_transaction(
            list(actions),
            "append",
            opened.schema(),
            partition_by=list(table.partition_by) or None,
            commit_properties=properties,
        )
    except CommitFailedError as error:
        raise CommitLost(f"{table.name}: another committer of {app_id} came first") from error
    except (DeltaError, OSError) as error:
        raise LakeError(f"table {table.name!r} cannot be written: {error}") from error


def _version_with(location: Location, table: Table, app_id: str, app_version: int) -> int:
    opened = open_table(location, table)
    found = _last(opened, app_id)
    assert found is not None
    assert found >= app_version
    return int(opened.version())
