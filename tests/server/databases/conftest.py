"""Databases of programs: a SQLite file, and a PostgreSQL server that the tests start themselves."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from server.unique import unique

_BINARIES = Path("/usr/lib/postgresql")
_CONFIGURATION = """
fsync = off
full_page_writes = off
listen_addresses = ''
max_connections = 50
shared_buffers = 16MB
"""


@pytest.fixture(scope="module")
def engine() -> str:
    return "memory"


def missing(what: str) -> None:
    """Skip on a laptop, fail in CI: `make test` runs scripts/test_tools.sh, which installs it."""
    if os.environ.get("CI"):
        pytest.fail(f"{what}; scripts/test_tools.sh installs what these tests need")
    pytest.skip(f"{what}; scripts/test_tools.sh says how to get it")


def _binaries() -> Path:
    found = sorted(_BINARIES.glob("*/bin/initdb"), key=lambda one: int(one.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    if on_path is None:
        missing("PostgreSQL is not installed")
        raise AssertionError
    return Path(on_path).parent


@contextmanager
def _postgres() -> Iterator[str]:
    """A server on a socket in a folder of its own; it does not run as root, and would not."""
    binaries = _binaries()
    # A short path: a socket's has 107 characters at most.
    folder = Path(tempfile.mkdtemp(prefix="fanlog-pg-"))
    user: dict[str, Any] = {}
    if os.geteuid() == 0:
        user = {"user": "postgres", "group": "postgres", "extra_groups": []}
        shutil.chown(folder, "postgres", "postgres")
    where: dict[str, Any] = {
        "cwd": folder,
        "env": {"PATH": os.environ["PATH"], "LC_ALL": "C"},
        **user,
    }
    data = folder / "data"
    try:
        cluster = ["-D", data, "-U", "tests", "-A", "trust", "--no-sync", "-E", "UTF8"]
        # Not to pipes: the server would hold them open.
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        subprocess.run([binaries / "initdb", *cluster], check=True, **quiet, **where)
        with (data / "postgresql.conf").open("a") as settings:
            settings.write(_CONFIGURATION)
        control = [binaries / "pg_ctl", "-w", "-D", data, "-l", folder / "log"]
        subprocess.run([*control, "-o", f"-k {folder}", "start"], check=True, **quiet, **where)
        try:
            yield f"host={folder} user=tests dbname=postgres"
        finally:
            # Connections that tests left open are cut.
            subprocess.run([*control, "-m", "fast", "stop"], check=True, **quiet, **where)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The DSN of a server; each test makes a database or tables of its own."""
    with _postgres() as dsn:
        yield dsn


class Database:
    """A database of a test's own."""

    def __init__(self, kind: str, address: str) -> None:
        self.kind = kind
        self.address = address
        self._open: list[Any] = []

    def connect(self) -> Any:
        connection = connect(self.kind, self.address)
        self._open.append(connection)
        return connection

    def close(self) -> None:
        for connection in self._open:
            connection.close()

    def run(self, statement: str, *values: object) -> list[Any]:
        """Run a statement in a transaction of its own; its rows."""
        connection = connect(self.kind, self.address)
        try:
            mark = "?" if self.kind == "sqlite" else "%s"
            cursor = connection.cursor()
            cursor.execute(statement.replace("?", mark), values)
            found = cursor.fetchall() if cursor.description else []
            connection.commit()
            return list(found)
        finally:
            connection.close()


def connect(kind: str, address: str) -> Any:
    if kind == "sqlite":
        return sqlite3.connect(address, timeout=30, check_same_thread=False)
    return psycopg.connect(address)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.xdist_group("pg"))])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        found = Database("sqlite", str(tmp_path / "program.db"))
    else:
        dsn = request.getfixturevalue("postgres")
        name = unique("db").replace("-", "_")
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        found = Database("postgresql", dsn.replace("dbname=postgres", f"dbname={name}"))
    yield found
    found.close()
