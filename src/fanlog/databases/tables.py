"""Tables of ours in a program's database: safe names, whether they are there, and their columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from fanlog.databases.dialect import Dialect
from fanlog.errors import FailedPrecondition, InvalidArgument
from fanlog.model.names import shown

#: With an ending for an index it stays below PostgreSQL's 63 characters.
_NAME: Final = re.compile(r"(?:([A-Za-z_][A-Za-z0-9_]{0,62})\.)?([A-Za-z_][A-Za-z0-9_]{0,47})")


@dataclass(frozen=True, slots=True)
class TableName:
    """The name of a table, with or without that of its schema; letters, digits and underscores."""

    schema: str
    table: str

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Raises InvalidArgument: It could not be written in a statement safely."""
        found = _NAME.fullmatch(text)
        if found is None:
            raise InvalidArgument(
                f"table: {shown(text)} is not TABLE or SCHEMA.TABLE with letters, digits and "
                "underscores, 48 characters at most"
            )
        return cls(found[1] or "", found[2])

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}" if self.schema else self.table

    def with_ending(self, ending: str) -> TableName:
        return TableName(self.schema, f"{self.table}_{ending}")

    def quoted(self, dialect: Dialect) -> str:
        """As statements have it; in quotes where they are known to be the standard's."""
        if dialect.kind == "other":
            return str(self)
        return ".".join(f'"{part}"' for part in (self.schema, self.table) if part)


def is_there(dialect: Dialect, connection: Any, name: TableName) -> bool:
    """Whether a table exists, asked in a way that no transaction fails by."""
    match dialect.kind:
        case "sqlite":
            schema = f'"{name.schema}".' if name.schema else ""
            statement = f"SELECT 1 FROM {schema}sqlite_master WHERE type = 'table' AND name = :name"
            values = {"name": name.table}
        case "postgresql":
            statement = "SELECT 1 WHERE to_regclass(:name) IS NOT NULL"
            values = {"name": name.quoted(dialect)}
        case "other":
            statement = (
                "SELECT 1 FROM information_schema.tables WHERE lower(table_name) = :name"
                + " AND lower(table_schema) = :schema" * bool(name.schema)
            )
            values = {"name": name.table.lower(), "schema": name.schema.lower()}
    return dialect.execute(connection, statement, **values).fetchone() is not None


def create(dialect: Dialect, connection: Any, name: TableName, *statements: str) -> None:
    """Run the statements that make a table, alone among the connections that want to."""
    if dialect.kind == "postgresql":
        # Two that create it at once would fail, in spite of IF NOT EXISTS.
        number = int.from_bytes(blake2b(str(name).encode(), digest_size=8).digest(), signed=True)
        dialect.execute(connection, "SELECT pg_advisory_xact_lock(:number)", number=number)
    for statement in statements:
        dialect.execute(connection, statement)


def check_columns(
    dialect: Dialect, connection: Any, name: TableName, columns: Sequence[str], remedy: str
) -> None:
    """See that a table is one of ours.

    Raises:
        FailedPrecondition: It is not there, or has other columns.
    """
    if not is_there(dialect, connection, name):
        raise FailedPrecondition(f"table {name} does not exist; {remedy}")
    cursor = dialect.execute(connection, f"SELECT * FROM {name.quoted(dialect)} WHERE 1 = 0")
    found = [str(column[0]) for column in cursor.description]
    missing = [column for column in columns if column not in found]
    others = [column for column in found if column not in columns]
    if missing or others:
        raise FailedPrecondition(
            f"table {name} is another table than the one that is needed here: "
            + "; ".join(
                f"{word} {', '.join(names)}"
                for word, names in (("it lacks", missing), ("nothing is known of", others))
                if names
            )
            + "; choose another name"
        )
