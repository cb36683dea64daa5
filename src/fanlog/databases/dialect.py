"""The dialect of a connection: how its module takes parameters, and what its database can do.

Statements are written once, with parameters as `:name`, and rendered in the style that the module
of the connection asks for. Modules are found, never imported: a program has imported its own.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final, Literal

from fanlog.errors import FailedPrecondition, InvalidArgument

Kind = Literal["sqlite", "postgresql", "other"]

_STYLES: Final = ("qmark", "numeric", "named", "format", "pyformat")
#: First parts of the names of modules.
_KINDS: Final[Mapping[str, Kind]] = {
    "sqlite3": "sqlite",
    "pysqlite3": "sqlite",
    "sqlcipher3": "sqlite",
    "psycopg": "postgresql",
    "psycopg2": "postgresql",
    "pg8000": "postgresql",
}
_PARAMETER: Final = re.compile(r":([a-z_]+)")
#: libpq's number for a connection outside a transaction.
_PG_IDLE: Final = 0


@dataclass(frozen=True, slots=True)
class Dialect:
    """What statements on a connection need to know of its module."""

    kind: Kind
    paramstyle: str
    #: The module's base of errors, and its error for a row that breaks a rule such as a unique key.
    error: type[Exception]
    integrity_error: type[Exception]

    def execute(self, connection: Any, statement: str, **values: object) -> Any:
        """Run a statement with parameters as `:name`; give the cursor."""
        call = self.rendered(statement, values) if values else (statement,)
        if self.kind == "other" and hasattr(connection, "execute"):
            # Cursors of DuckDB have transactions of their own.
            return connection.execute(*call)
        cursor = connection.cursor()
        cursor.execute(*call)
        return cursor

    def rendered(self, statement: str, values: Mapping[str, object]) -> tuple[str, Any]:
        """A statement and its parameters as the module wants them."""
        order: list[str] = []

        def place(found: re.Match[str]) -> str:
            order.append(found[1])
            match self.paramstyle:
                case "qmark":
                    return "?"
                case "format":
                    return "%s"
                case "pyformat":
                    return f"%({found[1]})s"
                case "numeric":
                    return f":{len(order)}"
                case _:
                    return found[0]

        if "format" in self.paramstyle:
            statement = statement.replace("%", "%%")
        text = _PARAMETER.sub(place, statement)
        if self.paramstyle in ("named", "pyformat"):
            return text, {name: values[name] for name in order}
        return text, tuple(values[name] for name in order)

    def begin(self, connection: Any) -> None:
        """Begin a transaction that is going to write, where the module does not do so by itself."""
        if self.kind == "sqlite" and not connection.in_transaction:
            # Not at the first write: one that has read before may find that it comes too late.
            connection.execute("BEGIN IMMEDIATE")

    def check_transaction(self, connection: Any) -> None:
        """See that statements are part of a transaction.

        Raises:
            FailedPrecondition: Each would be committed by itself.
        """
        if self._commits_each(connection):
            raise FailedPrecondition(
                "the connection commits each statement by itself, so nothing could be written "
                "together with your work: switch autocommit off, or begin a transaction first"
            )

    def _commits_each(self, connection: Any) -> bool:
        if self.kind == "sqlite":
            # Python 3.12 has `autocommit`; before, and beside it, there is `isolation_level`.
            mode = getattr(connection, "autocommit", -1)
            is_alone = connection.isolation_level is None if mode == -1 else mode is True
            return is_alone and not connection.in_transaction
        # With some modules it is a method, which says nothing.
        if getattr(connection, "autocommit", False) is not True:
            return False
        status = getattr(getattr(connection, "info", None), "transaction_status", _PG_IDLE)
        return int(status) == _PG_IDLE


def dialect_of(connection: Any, paramstyle: str | None = None) -> Dialect:
    """The dialect of a DB-API connection, or of a wrapper around one.

    Args:
        paramstyle: For a wrapper that takes parameters in another style than the module.

    Raises:
        InvalidArgument: It is no such connection.
    """
    if not (hasattr(connection, "cursor") and hasattr(connection, "commit")):
        raise InvalidArgument(
            f"connection: {type(connection).__name__} is no DB-API connection (PEP 249)"
        )
    module = _module_of(connection)
    style = paramstyle or getattr(module, "paramstyle", None)
    if module is None or style is None:
        raise InvalidArgument(
            f"connection: no DB-API module of {type(connection).__module__}."
            f"{type(connection).__qualname__} is found; unwrap the connection"
        )
    if style not in _STYLES:
        raise InvalidArgument(f"paramstyle: {style!r} is not one of {', '.join(_STYLES)}")
    kind = _KINDS.get(module.__name__.partition(".")[0], "other")
    return Dialect(kind, style, module.Error, module.IntegrityError)


def _module_of(connection: Any) -> ModuleType | None:
    """The DB-API module of a connection's class or of one that it inherits from."""
    for owner in type(connection).__mro__:
        name = owner.__module__
        while name:
            module = sys.modules.get(name)
            if module is not None and hasattr(module, "paramstyle"):
                return module
            name = name.rpartition(".")[0]
    # A pool's connection, as that of SQLAlchemy or Django, has the real one inside.
    for attribute in ("driver_connection", "dbapi_connection", "connection"):
        inner = getattr(connection, attribute, None)
        if inner is not None and inner is not connection and hasattr(inner, "cursor"):
            return _module_of(inner)
    return None
