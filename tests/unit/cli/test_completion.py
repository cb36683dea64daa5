"""Which parameters of commands complete names of the server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from fanlog.cli.commands import app
from fanlog.cli.completion import by_metavar, complete_subscription, complete_topic

#: The names of parameters that name a topic or a subscription.
NAMING = ("topic", "to_topic", "topic_id", "dead_letter", "subscription", "source")
#: These ask no server.
LOCAL = ("filter",)


def commands(command: Any, *path: str) -> Iterator[tuple[str, Any]]:
    for name, one in getattr(command, "commands", {}).items():
        yield from commands(one, *path, name)
    if not hasattr(command, "commands"):
        yield " ".join(path), command


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("path", [path for path in COMMANDS if path not in LOCAL])
def test_each_name_completes(path):
    for one in COMMANDS[path].params:
        if one.name in NAMING:
            assert one._custom_shell_complete is not None, one.name


def test_some_have_names():
    named = [one.name for command in COMMANDS.values() for one in command.params]
    assert sum(name in NAMING for name in named) > 40


@pytest.mark.parametrize(
    ("metavar", "completion"),
    [
        ("TOPIC", complete_topic),
        ("TOPIC|PATTERN", complete_topic),
        ("SUB", complete_subscription),
        ("SUBJECT", None),
        ("none|TOPIC", None),
        (None, None),
    ],
)
def test_by_metavar(metavar, completion):
    assert by_metavar(metavar) is completion
