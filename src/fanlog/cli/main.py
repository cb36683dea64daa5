"""The `fanlog` command: its parts put together, and how it reports that one of them failed."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fanlog.cli import (
    dead_letters,
    filters,
    folder,
    jobs,
    lake,
    messages,
    pipeline,
    rejected,
    reopening,
    schemas,
    seeking,
    serve,
    subscriptions,
    topics,
    up,
)
from fanlog.cli.groups import add_command
from fanlog.cli.output import note
from fanlog.errors import FanlogError


class _Commands(TyperGroup):
    """Reports an error of the world in one sentence, and exits with 1."""

    def invoke(self, ctx: Any) -> object:
        try:
            return super().invoke(ctx)
        except FanlogError as error:
            note(f"fanlog: {error.message}")
            raise typer.Exit(1) from error


#: Permissions that no file or folder of ours is made with.
OWNER_ONLY = 0o077

app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A durable publish/subscribe service that speaks the Google Cloud Pub/Sub API.",
)
add_command(app)(serve.serve)
app.command()(pipeline.pipeline)
app.command()(up.up)
app.add_typer(topics.app, name="topic")
add_command(subscriptions.app)(seeking.seek)
add_command(subscriptions.app)(reopening.reopen)
app.add_typer(subscriptions.app, name="sub")
app.add_typer(dead_letters.app, name="dead-letter")
app.add_typer(schemas.app, name="schema")
app.add_typer(jobs.app, name="job")
app.add_typer(rejected.app, name="export")
app.add_typer(lake.app, name="lake")
add_command(app)(messages.publish)
add_command(app)(messages.pull)
app.command("filter")(filters.check)
app.command()(folder.doctor)
app.command()(folder.backup)
app.command()(folder.restore)
app.command()(folder.compact)


def _say_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"fanlog {version('fanlog')}")
        raise typer.Exit


@app.callback()
def root(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_say_version, help="Say the version and stop."
        ),
    ] = False,
    ca: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="TLS: who may have signed the server's certificate."),
    ] = None,
    cert: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="TLS: our certificate, for servers that ask for one."),
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="FILE", help="TLS: our certificate's key.")
    ] = None,
) -> None:
    """Options about TLS stand before the command; they are also read from FANLOG_CA and so on."""
    for name, value in (("FANLOG_CA", ca), ("FANLOG_CERT", cert), ("FANLOG_KEY", key)):
        if value is not None:
            # In the environment, so that processes that are started have it, too.
            os.environ[name] = value


def main() -> None:
    """Run the command line; the entry point of the `fanlog` script."""
    # Logs, lakes and backups hold messages and secrets: none of them is made for others to read.
    os.umask(os.umask(OWNER_ONLY) | OWNER_ONLY)
    try:
        app()
    except BrokenPipeError:
        # The reader of our output has gone, as in `fanlog pull … | head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
