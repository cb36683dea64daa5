"""`fanlog export`: what exports rejected, and having it exported again."""

from __future__ import annotations

from typing import Annotated

import typer

from fanlog.cli import options
from fanlog.cli.output import Output
from fanlog.errors import FailedPrecondition

app = typer.Typer(no_args_is_help=True, help="Look at what exports rejected, and redrive it.")

Subscription = Annotated[
    str, typer.Argument(metavar="SUB", help="An export subscription: short or full name.")
]
Reason = Annotated[str, typer.Option(metavar="WORD", help="Only where the reason has this in it.")]


@app.command()
def rejected(
    subscription: Subscription,
    reason: Reason = "",
    limit: Annotated[int, typer.Option(min=1, help="Show at most so many.")] = 100,
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """List the messages that did not fit, and why."""
    _check_lake()
    from fanlog.pipeline.export.rejected import Rejected

    with options.connect(endpoint) as client:
        found = Rejected(client, options.subscription(subscription, project)).rows(reason)
    columns = ["message_id", "topic", "partition", "offset", "batch", "reason"]
    rows = found.select(columns).slice(0, limit).to_pylist()
    Output(is_json=json).rows(columns, iter(rows))


@app.command()
def redrive(
    subscription: Subscription,
    reason: Reason = "",
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """Have rejected messages exported again, once the cause is gone."""
    _check_lake()
    from fanlog.pipeline.export.rejected import Rejected

    name = options.subscription(subscription, project)
    with options.connect(endpoint) as client:
        done = Rejected(client, name).redrive(reason)
    Output(is_json=json).done(
        f"{done.reopened} of {done.rows} rejected messages of {name} will be exported again",
        {"subscription": name, "rows": done.rows, "reopened": done.reopened},
    )


def _check_lake() -> None:
    try:
        import fanlog.lake  # noqa: F401
    except ImportError as error:
        raise FailedPrecondition(str(error)) from error
