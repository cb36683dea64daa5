"""The two tables of an outbox: its rows, and its lanes.

Each row is in a *lane*, chosen by topic and ordering key, so that all rows of a key are in one. A
lane is published by one relay at a time, as the epochs of one query of the broker's sink.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from fanlog.databases import tables
from fanlog.databases.dialect import Dialect, dialect_of
from fanlog.databases.tables import TableName
from fanlog.errors import InvalidArgument

LANES_DEFAULT: Final = 16
LANES_MAX: Final = 1_000
_ROW_COLUMNS: Final = (
    *("id", "lane", "topic", "data", "attributes", "ordering_key", "dedup_id", "added_at"),
    *("epoch", "refusals", "refused", "retry_at"),
)
_LANE_COLUMNS: Final = ("lane", "query", "epoch", "opened_at", "holder", "held_until")
_REMEDY: Final = "make it with `fanlog outbox create`, or Outbox.create"


@dataclass(frozen=True, slots=True)
class OutboxTables:
    """The names of the tables, as statements on one kind of database have them."""

    dialect: Dialect
    rows_name: TableName
    lanes_name: TableName
    #: Quoted.
    rows: str
    lanes: str

    @classmethod
    def of(cls, connection: Any, table: str, paramstyle: str | None = None) -> OutboxTables:
        """Raises InvalidArgument: The name is none, or the database is neither of the two."""
        dialect = dialect_of(connection, paramstyle)
        if dialect.kind == "other":
            raise InvalidArgument(
                "connection: an outbox is kept in SQLite or PostgreSQL (psycopg, psycopg2, "
                f"pg8000); {type(connection).__module__} is another module"
            )
        rows = TableName.parse(table)
        lanes = rows.with_ending("lanes")
        return cls(dialect, rows, lanes, rows.quoted(dialect), lanes.quoted(dialect))

    def check(self, connection: Any) -> None:
        """Raises FailedPrecondition: A table is missing, or is another one."""
        for name, columns in (
            (self.rows_name, _ROW_COLUMNS),
            (self.lanes_name, _LANE_COLUMNS),
        ):
            tables.check_columns(self.dialect, connection, name, columns, _REMEDY)

    def create(self, connection: Any, lanes: int) -> bool:
        """Make the tables unless they are there; the caller commits. Whether they were made."""
        if not 1 <= lanes <= LANES_MAX:
            raise InvalidArgument(f"lanes: {lanes} is not from 1 to {LANES_MAX}")
        self.dialect.begin(connection)
        if not tables.is_there(self.dialect, connection, self.rows_name):
            tables.create(self.dialect, connection, self.rows_name, *self._statements())
        self.check(connection)
        if self.lane_count(connection):
            return False
        for lane in range(lanes):
            self.dialect.execute(
                connection,
                f"INSERT INTO {self.lanes} (lane, query, epoch, opened_at, holder, held_until) "
                "VALUES (:lane, '', 0, NULL, '', 0)",
                lane=lane,
            )
        self.rename_queries(connection)
        return True

    def rename_queries(self, connection: Any) -> None:
        """Give every lane a query that no broker has heard of, and forget what was published."""
        name = f"outbox/{uuid4()}/"
        for lane in range(self.lane_count(connection)):
            self.dialect.execute(
                connection,
                f"UPDATE {self.lanes} SET query = :query, epoch = 0, opened_at = NULL, "
                "holder = '', held_until = 0 WHERE lane = :lane",
                query=f"{name}{lane}",
                lane=lane,
            )

    def lane_count(self, connection: Any) -> int:
        cursor = self.dialect.execute(connection, f"SELECT COUNT(*) FROM {self.lanes}")
        return int(cursor.fetchone()[0])

    def _statements(self) -> Iterator[str]:
        is_sqlite = self.dialect.kind == "sqlite"
        # Numbers of rows are never used again: that of one row is part of no other's order.
        row_id = (
            "INTEGER PRIMARY KEY AUTOINCREMENT"
            if is_sqlite
            else "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
        )
        bytes_type = "BLOB" if is_sqlite else "BYTEA"
        yield (
            f"CREATE TABLE IF NOT EXISTS {self.rows} (id {row_id}, lane INTEGER NOT NULL, "
            f"topic TEXT NOT NULL, data {bytes_type} NOT NULL, attributes TEXT NOT NULL, "
            "ordering_key TEXT NOT NULL, dedup_id TEXT NOT NULL, "
            "added_at DOUBLE PRECISION NOT NULL, epoch BIGINT, "
            "refusals INTEGER NOT NULL DEFAULT 0, refused TEXT NOT NULL DEFAULT '', "
            "retry_at DOUBLE PRECISION NOT NULL DEFAULT 0)"
        )
        yield (
            f"CREATE TABLE IF NOT EXISTS {self.lanes} (lane INTEGER PRIMARY KEY, "
            "query TEXT NOT NULL, epoch BIGINT NOT NULL, opened_at DOUBLE PRECISION, "
            "holder TEXT NOT NULL, held_until DOUBLE PRECISION NOT NULL)"
        )
        yield self._index("by_lane", "(lane, id)")
        # Few rows are refused, and each other one asks for those before it.
        yield self._index("refused", "(lane, topic, ordering_key, id) WHERE retry_at > 0")

    def _index(self, ending: str, what: str) -> str:
        index, table = self.rows_name.with_ending(ending), self.rows_name
        # SQLite has the schema at the index, PostgreSQL at the table.
        if self.dialect.kind == "sqlite":
            table = TableName("", table.table)
        else:
            index = TableName("", index.table)
        return (
            f"CREATE INDEX IF NOT EXISTS {index.quoted(self.dialect)} "
            f"ON {table.quoted(self.dialect)} {what}"
        )
