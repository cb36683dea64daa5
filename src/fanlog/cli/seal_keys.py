"""`fanlog auth seal-key`: the key that secrets are sealed with in a data folder."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fanlog.cli import options
from fanlog.cli.groups import add_command
from fanlog.cli.output import Output
from fanlog.cli.secret_files import new_secret_file
from fanlog.errors import InvalidArgument

if TYPE_CHECKING:
    from fanlog.log.embedded import EmbeddedLog

app = typer.Typer(
    no_args_is_help=True, help="Make and replace the key that secrets are sealed with."
)


@add_command(app)
def create(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A file that is not there yet.")],
    json: options.AsJson = False,
) -> None:
    """Make a seal key, in a file that its owner alone may read.

    Keep a copy away from the data folder: without the key, the folder's secrets are lost.
    """
    from fanlog.broker.seal_key_file import new_seal_key

    with new_secret_file(path, "FILE") as write:
        key = new_seal_key()
        write(f"{key.text()}\n".encode("ascii"))
    Output(is_json=json).done(
        f"made the seal key {key.id.hex()} in {path}",
        {"seal_key": key.id.hex(), "file": str(path)},
    )


@add_command(app)
def rotate(
    new: Annotated[Path, typer.Option(metavar="FILE", help="The key that is to seal from now on.")],
    old: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The key that seals now; not needed for a folder whose secrets are plain.",
        ),
    ] = None,
    data_dir: options.DataDir = options.DATA_DIR,
    json: options.AsJson = False,
) -> None:
    """Seal the secrets of a data folder with another key, in one commit; with the broker down.

    A broker with several keys in its file does the same at each start, with the first of them.
    """
    from fanlog.broker import resealing
    from fanlog.broker.seal_key_file import read_seal_keys, seal_keys

    [first, *others] = read_seal_keys(new)
    if others:
        raise InvalidArgument(
            f"--new: {str(new)!r} has {len(others) + 1} keys; name a file with the new one alone"
        )
    former = [] if old is None else [key for key in read_seal_keys(old) if key != first]
    with _stopped(data_dir) as store:
        keys = seal_keys([first, *former])
        count = resealing.reseal(store, time.time_ns(), opens=keys, seals=keys)
    Output(is_json=json).done(
        f"sealed {count} records of {data_dir} with the seal key {first.id.hex()}",
        {"data_dir": str(data_dir), "seal_key": first.id.hex(), "records": count},
    )


@add_command(app)
def remove(
    old: Annotated[Path, typer.Option(metavar="FILE", help="The key that seals now.")],
    data_dir: options.DataDir = options.DATA_DIR,
    json: options.AsJson = False,
) -> None:
    """Leave the secrets of a data folder plain again, in one commit; with the broker down."""
    from fanlog.broker import resealing
    from fanlog.broker.seal_key_file import read_seal_keys, seal_keys

    opens = seal_keys(read_seal_keys(old))
    with _stopped(data_dir) as store:
        count = resealing.reseal(store, time.time_ns(), opens=opens)
    Output(is_json=json).done(
        f"opened {count} records of {data_dir}: their secrets are plain",
        {"data_dir": str(data_dir), "seal_key": "", "records": count},
    )


@add_command(app)
def give_up(
    data_dir: options.DataDir = options.DATA_DIR,
    yes: Annotated[
        bool, typer.Option("--yes", help="The key is lost for good: remove the secrets.")
    ] = False,
    json: options.AsJson = False,
) -> None:
    """Remove the sealed secrets of a data folder whose key is lost; with the broker down.

    Messages and everything else stay. The server makes new secrets of its own; subscriptions with
    webhook secrets are named, and push nothing until their push config is set again.
    """
    from fanlog.broker import resealing

    if not yes:
        raise InvalidArgument(
            f"the sealed secrets of {data_dir} would be lost for good; say --yes if their seal key "
            "is lost, too"
        )
    with _stopped(data_dir) as store:
        names = resealing.give_up(store, time.time_ns())
    output = Output(is_json=json)
    output.done(
        f"removed the sealed secrets of {data_dir}; {len(names)} subscriptions push nothing until "
        "their push config is set",
        {"data_dir": str(data_dir), "subscriptions": names},
    )
    if not json:
        for name in names:
            output.text(name)


@contextmanager
def _stopped(data_dir: Path) -> Iterator[EmbeddedLog]:
    """The log of a folder that no broker serves."""
    from fanlog.log import folder
    from fanlog.log.embedded import EmbeddedLog

    folder.require(data_dir)
    store = EmbeddedLog(data_dir)
    try:
        yield store
    finally:
        store.close()
