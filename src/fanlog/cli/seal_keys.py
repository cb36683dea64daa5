"""`fanlog auth seal-key`: the key that secrets are sealed with in a data folder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from fanlog.cli import options
from fanlog.cli.groups import add_command
from fanlog.cli.output import Output
from fanlog.cli.secret_files import new_secret_file
from fanlog.errors import InvalidArgument

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

    A broker that runs needs no command: it seals with the first key of its file at each start.
    """
    from fanlog.broker.resealing import reseal
    from fanlog.broker.seal_key_file import read_seal_keys, seal_keys
    from fanlog.log import folder
    from fanlog.log.embedded import EmbeddedLog

    [first, *others] = read_seal_keys(new)
    if others:
        raise InvalidArgument(
            f"--new: {str(new)!r} has {len(others) + 1} keys; name one that has one"
        )
    former = [] if old is None else [key for key in read_seal_keys(old) if key != first]
    folder.require(data_dir)
    store = EmbeddedLog(data_dir)
    try:
        count = reseal(store, seal_keys([first, *former]), time.time_ns())
    finally:
        store.close()
    Output(is_json=json).done(
        f"sealed {count} records of {data_dir} with the seal key {first.id.hex()}",
        {"data_dir": str(data_dir), "seal_key": first.id.hex(), "records": count},
    )
