"""`fanlog outbox`: create, relay, status, retry, discard, renew."""

from __future__ import annotations

import logging
import re
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fanlog.cli import options
from fanlog.cli.groups import add_command
from fanlog.cli.options import Remote
from fanlog.cli.output import Output, note
from fanlog.errors import FailedPrecondition, FanlogError, InvalidArgument

if TYPE_CHECKING:
    from fanlog.outbox import Outbox

app = typer.Typer(
    no_args_is_help=True, help="Publish what programs add to a table in their own transactions."
)

Connect = Callable[[], Any]

Database = Annotated[
    str,
    typer.Argument(
        metavar="DATABASE",
        help="A SQLite file; or MODULE:FUNCTION, a function that gives a DB-API connection to"
        " SQLite or PostgreSQL, looked for in the working directory, too.",
    ),
]
TableOption = Annotated[str, typer.Option("--table", help="The table, as TABLE or SCHEMA.TABLE.")]
TABLE = "fanlog_outbox"

_FUNCTION = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_]\w*)")
#: How long a program may hold a SQLite file.
_BUSY_S = 30.0


@app.command()
def create(
    database: Database,
    table: TableOption = TABLE,
    lanes: Annotated[
        int, typer.Option(help="As many relays can publish at once; it cannot be changed.")
    ] = 16,
    json: options.AsJson = False,
) -> None:
    """Make the tables of an outbox, unless they are there."""
    with _outbox(database, table, may_create=True) as (outbox, connection):
        is_new = outbox.create(connection, lanes=lanes)
        connection.commit()
    sentence = f"created outbox {table}" if is_new else f"outbox {table} was there"
    Output(is_json=json).done(sentence, {"table": table, "created": is_new})


@add_command(app)
def relay(
    *,
    database: Database,
    table: TableOption = TABLE,
    drain: Annotated[
        bool, typer.Option("--drain", help="Publish what is there, and stop.")
    ] = False,
    remote: Remote,
) -> None:
    """Publish what is committed in an outbox, each message once, until SIGTERM or Ctrl-C.

    Any number of relays may run at once.
    """
    from fanlog.outbox import Relay

    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(message)s")
    with remote.connect() as client:
        work = Relay(_connect(database), client, table=table)

        def stop(_number: int, _frame: object) -> None:
            work.stop()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        note(f"relay of {table} to {client.endpoint}")
        with _sentences():
            counts = work.drain() if drain else work.run()
    remote.output.done(
        f"published {counts.published} messages in {counts.epochs} epochs;"
        f" refused {counts.refused}, failures {counts.failures}",
        asdict(counts),
    )


@app.command()
def status(database: Database, table: TableOption = TABLE, json: options.AsJson = False) -> None:
    """Show how many messages wait, for how long, and which the server refuses."""
    with _outbox(database, table) as (outbox, connection):
        found = asdict(outbox.status(connection))
    refused = found.pop("refused")
    output = Output(is_json=json)
    if json:
        output.line(found | {"refused": refused})
        return
    output.fields(found)
    if refused:
        output.rows(["id", "topic", "ordering_key", "refusals", "retry_time", "reason"], refused)


@app.command()
def retry(database: Database, table: TableOption = TABLE, json: options.AsJson = False) -> None:
    """Have messages that the server refused tried again at once."""
    with _outbox(database, table) as (outbox, connection):
        count = outbox.retry(connection)
        connection.commit()
    Output(is_json=json).done(f"{count} to be tried again", {"retried": count})


@app.command()
def discard(
    database: Database,
    row: Annotated[list[int], typer.Argument(metavar="ID…", help="As `status` shows them.")],
    table: TableOption = TABLE,
    json: options.AsJson = False,
) -> None:
    """Remove messages that the server refused: they are never published."""
    with _outbox(database, table) as (outbox, connection):
        count = outbox.discard(connection, row)
        connection.commit()
    Output(is_json=json).done(f"discarded {count}", {"discarded": count})


@app.command()
def renew(database: Database, table: TableOption = TABLE, json: options.AsJson = False) -> None:
    """Publish every message that is there as if it never was: for a lane that stands still.

    A lane stands still when its database was set back, or when it was left for a month in the
    middle of a publish. What was published before is published again, unless its topic still knows
    the dedup id. Stop the relays first.
    """
    with _outbox(database, table) as (outbox, connection):
        count = outbox.renew(connection)
        connection.commit()
    Output(is_json=json).done(f"{count} messages count as new", {"messages": count})


@contextmanager
def _outbox(database: str, table: str, *, may_create: bool = False) -> Iterator[tuple[Outbox, Any]]:
    from fanlog.outbox import Outbox

    outbox = Outbox(table)
    with _sentences():
        connection = _connect(database, may_create=may_create)()
        try:
            yield outbox, connection
        finally:
            # What is not committed is rolled back.
            connection.close()


@contextmanager
def _sentences() -> Iterator[None]:
    """Errors of a database, of whichever module, as one sentence."""
    try:
        yield
    except FanlogError:
        raise
    except Exception as error:
        if not any(one.__name__ == "Error" for one in type(error).__mro__):
            raise
        raise FailedPrecondition(f"the database says: {str(error).strip()}") from error


def _connect(database: str, *, may_create: bool = False) -> Connect:
    named = _FUNCTION.fullmatch(database)
    if named is not None:
        return _function(named[1], named[2])
    path = Path(database)
    if not path.is_file() and not may_create:
        raise InvalidArgument(
            f"DATABASE: {database!r} is neither a file nor MODULE:FUNCTION; `fanlog outbox create`"
            " makes an outbox"
        )
    address = f"{path.absolute().as_uri()}?mode={'rwc' if may_create else 'rw'}"
    return lambda: sqlite3.connect(address, uri=True, timeout=_BUSY_S)


def _function(module: str, name: str) -> Connect:
    # As `python -m` does; the script of a command has its own folder there.
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = getattr(import_module(module), name, None)
    except ImportError as error:
        raise InvalidArgument(f"DATABASE: {module} cannot be imported: {error}") from error
    if not callable(found):
        raise InvalidArgument(f"DATABASE: {module} has no function {name}")
    function: Connect = found
    return function
