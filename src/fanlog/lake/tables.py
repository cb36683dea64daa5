"""The tables of a lake: their columns, how they are made, opened and brought up to date.

A table's schema version is a property of the table itself, so that it changes in the commit that
changes the columns. An older table is migrated when it is opened for writing; a newer one is
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.schema import PrimitiveType

from fanlog.lake import location as identity
from fanlog.lake.location import LakeError, Location, NoLake

#: The table property that holds a table's schema version.
VERSION_PROPERTY = "fanlog.schemaVersion"

#: Others may migrate a table at the same time; one that cannot be is given up.
MIGRATION_FAILURES_MAX = 5

#: Where the tables of exports are, below the lake's address.
EXPORTS = "exports"

TIME = pa.timestamp("us", tz="UTC")
ATTRIBUTES = pa.map_(pa.string(), pa.field("value", pa.string(), nullable=True))

#: Brings the columns of an open table from one version to the next; done again, it does no harm.
Migration = Callable[[DeltaTable], None]


def _columns(**types: pa.DataType) -> list[pa.Field]:
    return [pa.field(name, kind, nullable=False) for name, kind in types.items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The name, the columns and the version of a table."""

    name: str
    #: All columns, those it is partitioned by last.
    schema: pa.Schema
    partition_by: tuple[str, ...] = ()
    version: int = 1
    #: From the version that is the key to the next one.
    migrations: Mapping[int, Migration] = field(default_factory=dict)

    @property
    def file_schema(self) -> pa.Schema:
        """The columns that stand in files: the others are said by the table's log."""
        return pa.schema([one for one in self.schema if one.name not in self.partition_by])

    def complete(self, rows: pa.Table) -> pa.Table:
        """Rows of a file of any version, with the columns that files have now."""
        schema = self.file_schema
        for column in schema:
            if column.nullable and column.name not in rows.column_names:
                rows = rows.append_column(column, pa.nulls(rows.num_rows, column.type))
        return rows.select(schema.names).cast(schema)


#: The columns every reader of messages knows, in their order.
_MESSAGE = _columns(
    topic=pa.string(),
    # The broker's number for it: never used twice, so that (partition, offset) is unique for ever.
    partition=pa.int64(),
    offset=pa.int64(),
    message_id=pa.string(),
    publish_time=TIME,
    ordering_key=pa.string(),
    attributes=ATTRIBUTES,
    data=pa.binary(),
)

#: The seal of a message (`fanlog.log.seal`); null when it is from before there were seals, and then
#: its attributes are believed.
SEAL = pa.field("seal", pa.string())


def _add_seal(opened: DeltaTable) -> None:
    if SEAL.name not in {one.name for one in opened.schema().fields}:
        opened.alter.add_columns([Field(SEAL.name, PrimitiveType("string"), nullable=True)])


MESSAGES = Table(
    name="messages",
    schema=pa.schema(
        [*_MESSAGE, *_columns(sequence=pa.int64()), SEAL, *_columns(date=pa.date32())]
    ),
    partition_by=("date",),
    version=2,
    migrations={1: _add_seal},
)

#: Dead letters flattened: the copy, its original, and why it is here; empty where that is unknown.
DEAD_LETTERS = Table(
    name="dead_letters",
    schema=pa.schema(
        [
            *_MESSAGE,
            *_columns(
                subscription=pa.string(),
                original_topic=pa.string(),
                original_message_id=pa.string(),
            ),
            pa.field("original_publish_time", TIME),
            *_columns(
                delivery_attempts=pa.int64(),
                reason=pa.string(),
                sequence=pa.int64(),
                date=pa.date32(),
            ),
        ]
    ),
    partition_by=("date",),
)

TOPIC_STATS = Table(
    name="topic_stats",
    schema=pa.schema(
        _columns(
            minute=TIME,
            topic=pa.string(),
            messages=pa.int64(),
            bytes=pa.int64(),
            date=pa.date32(),
        )
    ),
    partition_by=("date",),
)

DELIVERY_STATS = Table(
    name="delivery_stats",
    schema=pa.schema(
        [
            *_columns(
                minute=TIME,
                subscription=pa.string(),
                delivered=pa.int64(),
                acknowledged=pa.int64(),
                redelivered=pa.int64(),
                nacked=pa.int64(),
                expired=pa.int64(),
                dead_lettered=pa.int64(),
                backlog=pa.int64(),
            ),
            # Null in a minute in which nothing was acknowledged.
            pa.field("ack_latency_p50_ms", pa.float64()),
            pa.field("ack_latency_p99_ms", pa.float64()),
            *_columns(date=pa.date32()),
        ]
    ),
    partition_by=("date",),
)


def open_table(location: Location, table: Table, *, version: int | None = None) -> DeltaTable:
    """Open a table for reading, as of `version` or as it is now.

    Raises:
        LakeError: It is not there, cannot be read, or is of a newer version of Fanlog.
    """
    uri = location.table_uri(table.name)
    try:
        opened = DeltaTable(uri, version=version, storage_options=location.storage_options)
    except TableNotFoundError as error:
        raise NoLake(f"there is no table {table.name!r} in the lake at {location.uri}") from error
    except (DeltaError, OSError) as error:
        which = "" if version is None else f" at version {version}"
        raise LakeError(f"table {uri}{which} cannot be opened: {error}") from error
    written = _version(opened)
    if written > table.version:
        raise LakeError(
            f"table {table.name!r} in {location.uri} has schema version {written}; this version of "
            f"Fanlog knows {table.version} at most: use the one that wrote it, or a newer one"
        )
    return opened


def ensure_table(location: Location, table: Table) -> DeltaTable:
    """Open a table for writing: made if it is not there, migrated if it is older.

    Any number of processes may do so at once.

    Raises:
        LakeError: It cannot be opened or made.
    """
    uri, options = location.table_uri(table.name), location.storage_options
    try:
        is_there = DeltaTable.is_deltatable(uri, storage_options=options)
        if not is_there:
            DeltaTable.create(
                uri,
                Schema.from_arrow(table.schema),
                mode="error",
                partition_by=list(table.partition_by) or None,
                name=table.name,
                configuration={VERSION_PROPERTY: str(table.version)},
                raise_if_key_not_exists=False,
                storage_options=options,
                # A retry after another process made the table would give it another id.
                commit_properties=CommitProperties(max_commit_retries=0),
            )
    except (DeltaError, OSError) as error:
        # Another process may have made it meanwhile; if not, opening it says so.
        if not DeltaTable.is_deltatable(uri, storage_options=options):
            raise LakeError(f"table {uri} cannot be made: {error}") from error
    opened = open_table(location, table)
    failures = 0
    while (written := _version(opened)) < table.version:
        try:
            table.migrations[written](opened)
            opened = open_table(location, table)
            opened.alter.set_table_properties(
                {VERSION_PROPERTY: str(written + 1)}, raise_if_not_exists=False
            )
        except (DeltaError, OSError) as error:
            # Another process may migrate at the same time; one of them succeeds.
            failures += 1
            if failures > MIGRATION_FAILURES_MAX:
                raise LakeError(f"table {uri} cannot be migrated: {error}") from error
        opened = open_table(location, table)
    return opened


def ensure_lake(location: Location) -> str:
    """Make the lake if there is none; its id.

    Raises:
        LakeError: It cannot be made, or it is not one lake.
    """
    ensure_table(location, MESSAGES)
    if identity.read_identity(location) is None:
        identity.write_identity(location, _messages_id(location))
    return lake_id(location)


def lake_id(location: Location) -> str:
    """The id of the lake that is there.

    Raises:
        LakeError: There is none, or its tables are of two lakes.
    """
    found, written = _messages_id(location), identity.read_identity(location)
    if written is None:
        raise LakeError(
            f"{identity.IDENTITY_FILE} is missing in {location.uri}: no lake, or part of one"
        )
    if written != found:
        raise LakeError(
            f"{identity.IDENTITY_FILE} in {location.uri} is of lake {written}, the table "
            f"{MESSAGES.name!r} beside it of lake {found}: two lakes were mixed up"
        )
    return found


def _messages_id(location: Location) -> str:
    return str(open_table(location, MESSAGES).metadata().id)


def _version(opened: DeltaTable) -> int:
    text = opened.metadata().configuration.get(VERSION_PROPERTY)
    # A table of our name by another program has no version: it counts as version 1.
    return int(text) if text is not None else 1
