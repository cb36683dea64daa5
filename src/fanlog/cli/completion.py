"""Names that a shell completes: those of the topics and subscriptions of the server that is meant.

A shell waits while the server is asked, and shows nothing else: the answer is short, comes soon or
not at all, and no trouble is told.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import typer

from fanlog import limits
from fanlog.config import PROJECT_DEFAULT
from fanlog.errors import FanlogError
from fanlog.model import names

if TYPE_CHECKING:
    from fanlog.client.overview import OverviewClient

#: How long a shell waits at most.
PATIENCE_S: Final = 1.0

#: The ids among the first ones that have a fragment in them, of a project.
_Find = Callable[["OverviewClient", str, str], Iterator[str]]


def complete_topic(ctx: typer.Context, incomplete: str) -> list[str]:
    """Topics that begin with what is typed: short names, or full ones."""
    return _complete(ctx, incomplete, "topics", _topics)


def complete_subscription(ctx: typer.Context, incomplete: str) -> list[str]:
    """Subscriptions that begin with what is typed: short names, or full ones."""
    return _complete(ctx, incomplete, "subscriptions", _subscriptions)


def by_metavar(metavar: str | None) -> Callable[[typer.Context, str], list[str]] | None:
    """The completer of a parameter whose metavar is `TOPIC` or `SUB`, or has it before a `|`."""
    return {"TOPIC": complete_topic, "SUB": complete_subscription}.get(
        (metavar or "").partition("|")[0]
    )


def _complete(ctx: typer.Context, incomplete: str, kind: str, find: _Find) -> list[str]:
    project, stem = _given(ctx, "project", "FANLOG_PROJECT") or PROJECT_DEFAULT, ""
    fragment = incomplete
    if "/" in incomplete:
        parts = incomplete.split("/")
        if len(parts) != 4 or parts[0] != "projects" or parts[2] != kind:
            return []
        project, fragment = parts[1], parts[3]
        stem = incomplete.removesuffix(fragment)
    try:
        with _connected(ctx) as client:
            from fanlog.client.overview import OverviewClient

            found = find(OverviewClient(client), names.project_name(project), fragment)
            return [stem + one for one in found if one.startswith(fragment)]
    except (FanlogError, OSError, ValueError):
        # No server, no right to ask it, no such project: there is nothing to offer.
        return []


def _topics(overview: OverviewClient, project: str, fragment: str) -> Iterator[str]:
    page = overview.topic_page(project, contains=fragment, page_size=limits.ROWS_MAX)
    return (one.name.rpartition("/")[2] for one in page.topics)


def _subscriptions(overview: OverviewClient, project: str, fragment: str) -> Iterator[str]:
    page = overview.subscription_page(project, contains=fragment, page_size=limits.ROWS_MAX)
    return (one.name.rpartition("/")[2] for one in page.subscriptions)


def _connected(ctx: typer.Context) -> Any:
    from fanlog.cli.root import use_caller
    from fanlog.client import Client

    before = ctx.find_root().params
    use_caller(**{name: before.get(name) for name in _CALLER})
    return Client(_given(ctx, "endpoint", "PUBSUB_EMULATOR_HOST"), timeout_s=PATIENCE_S)


#: Options that stand before a command, and say how it calls.
_CALLER: Final = ("ca", "cert", "key", "token_file", "credentials")


def _given(ctx: typer.Context, option: str, variable: str) -> str | None:
    """An option as it was typed so far, or the variable in its place."""
    return ctx.params.get(option) or os.environ.get(variable)
