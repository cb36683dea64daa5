"""The `fanlog` command without its commands: what stands before them, and how one fails."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fanlog.errors import FanlogError, InvalidArgument

#: Each names a caller.
_CALLER = ("FANLOG_TOKEN", "FANLOG_TOKEN_FILE", "FANLOG_CREDENTIALS")


class _Commands(TyperGroup):
    """Reports an error of the world in one sentence, and exits with 1."""

    def invoke(self, ctx: Any) -> object:
        try:
            return super().invoke(ctx)
        except FanlogError as error:
            from fanlog.cli.output import note

            note(f"fanlog: {error.message}")
            raise typer.Exit(1) from error


def new_app() -> typer.Typer:
    """A command line to which commands are added."""
    app = typer.Typer(
        cls=_Commands,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="A durable publish/subscribe service that speaks the Google Cloud Pub/Sub API.",
    )
    app.callback()(root)
    return app


def _say_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        typer.echo(f"fanlog {version('fanlog')}")
        raise typer.Exit


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
    token_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Call with the API token in this file.")
    ] = None,
    credentials: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Call as the service account of this key file."),
    ] = None,
) -> None:
    """Options about TLS and the caller stand before the command; or FANLOG_CA and so on."""
    use_caller(ca, cert, key, token_file, credentials)


def use_caller(
    ca: str | None,
    cert: str | None,
    key: str | None,
    token_file: str | None,
    credentials: str | None,
) -> None:
    """Have every call of this process, and of those it starts, made so."""
    if token_file and credentials:
        raise InvalidArgument("give --token-file or --credentials, not both: a call has one caller")
    if token_file or credentials:
        # What the environment says of the caller holds no more.
        for name in _CALLER:
            os.environ.pop(name, None)
    given = (
        *(("FANLOG_CA", ca), ("FANLOG_CERT", cert), ("FANLOG_KEY", key)),
        *(("FANLOG_TOKEN_FILE", token_file), ("FANLOG_CREDENTIALS", credentials)),
    )
    for name, value in given:
        if value is not None:
            # In the environment, so that processes that are started have it, too.
            os.environ[name] = value
