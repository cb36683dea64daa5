"""The `fanlog` script: runs the command that was asked for."""

from __future__ import annotations

import gc
import os
import sys

#: Permissions that no file or folder of ours is made with.
OWNER_ONLY = 0o077


def app() -> None:
    """Run the command of `sys.argv`."""
    if sys.argv[1:2] == ["serve"]:
        # Next to nothing that is made while a server starts is garbage, and looking for it again
        # and again takes a sixth of the time: the server looks once, when it is ready.
        gc.disable()
        # Alone: a server starts in half the time without the modules of the other commands.
        from fanlog.cli.groups import add_command
        from fanlog.cli.root import new_app
        from fanlog.cli.serve import serve

        server_alone = new_app()
        add_command(server_alone)(serve)
        server_alone()
    else:
        from fanlog.cli.commands import app as every_command

        every_command()


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
