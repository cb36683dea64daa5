"""Statements in the five styles of parameters, and modules that are found from a connection."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import psycopg
import pytest

from fanlog.databases.dialect import Dialect, dialect_of
from fanlog.errors import InvalidArgument

STATEMENT = "SELECT :b, :a, '100%', :b"
VALUES = {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("qmark", ("SELECT ?, ?, '100%', ?", (2, 1, 2))),
        ("numeric", ("SELECT :1, :2, '100%', :3", (2, 1, 2))),
        ("named", ("SELECT :b, :a, '100%', :b", {"a": 1, "b": 2})),
        ("format", ("SELECT %s, %s, '100%%', %s", (2, 1, 2))),
        ("pyformat", ("SELECT %(b)s, %(a)s, '100%%', %(b)s", {"a": 1, "b": 2})),
    ],
)
def test_a_statement_in_each_style(style, expected):
    dialect = Dialect("other", style, sqlite3.Error, sqlite3.IntegrityError)
    assert dialect.rendered(STATEMENT, VALUES) == expected


@pytest.mark.parametrize("style", ["qmark", "named"])
def test_sqlite_takes_two_of_them(style):
    with closing(sqlite3.connect(":memory:")) as connection:
        dialect = dialect_of(connection, style)
        assert dialect.execute(connection, STATEMENT, **VALUES).fetchone() == (2, 1, "100%", 2)


def test_the_module_of_a_connection():
    class Own(sqlite3.Connection):
        """A program's own class of connections."""

    with closing(sqlite3.connect(":memory:", factory=Own)) as connection:
        found = dialect_of(connection)
    assert (found.kind, found.paramstyle, found.error) == ("sqlite", "qmark", sqlite3.Error)
    # No server is needed to see of which module a connection would be.
    found = dialect_of(psycopg.Connection.__new__(psycopg.Connection))
    assert (found.kind, found.paramstyle, found.error) == ("postgresql", "pyformat", psycopg.Error)


def test_a_connection_of_no_module_is_refused():
    class Lonely:
        def cursor(self) -> None: ...

        def commit(self) -> None: ...

    with pytest.raises(InvalidArgument, match="no DB-API module"):
        dialect_of(Lonely())
