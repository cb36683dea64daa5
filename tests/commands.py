"""The command line in this process.

What Typer makes of its declarations is made once: that takes longer than most commands.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import typer
from click import Command
from click.testing import CliRunner, Result

from fanlog.cli.commands import app


@cache
def _command() -> Command:
    return typer.main.get_command(app)


def invoke(args: Sequence[str], **options: Any) -> Result:
    """Run a command; what it said, and how it ended."""
    return CliRunner().invoke(_command(), list(args), **options)


def lines_of(args: Sequence[str], **options: Any) -> list[Any]:
    """Run a command that must succeed, with --json; its lines."""
    result = invoke([*args, "--json"], **options)
    assert result.exit_code == 0, (result.output, result.exception)
    return [json.loads(line) for line in result.stdout.splitlines()]
