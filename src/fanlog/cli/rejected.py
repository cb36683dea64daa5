"""`fanlog export`: list the messages that exports rejected, and have them exported again."""

from __future__ import annotations

from typing import Annotated

import typer

from fanlog.cli.groups import add_command
from fanlog.cli.options import Remote
from fanlog.errors import FailedPrecondition

app = typer.Typer(no_args_is_help=True, help="Look at what exports rejected, and redrive it.")

ExportSubscription = Annotated[
    str, typer.Argument(metavar="SUB", help="An export subscription: short or full name.")
]
ReasonWord = Annotated[
    str, typer.Option(metavar="WORD", help="Only where the reason has this in it.")
]


@add_command(app)
def rejected(
    *,
    subscription: ExportSubscription,
    reason: ReasonWord = "",
    limit: Annotated[int, typer.Option(min=1, help="Show at most so many.")] = 100,
    remote: Remote,
) -> None:
    """List the messages that did not fit, and why."""
    _check_lake()
    from fanlog.pipeline.export.rejected import Rejected

    with remote.connect() as client:
        found = Rejected(client, remote.subscription(subscription)).rows(reason)
    columns = ["message_id", "topic", "partition", "offset", "batch", "reason"]
    rows = found.select(columns).slice(0, limit).to_pylist()
    remote.output.rows(columns, iter(rows))


@add_command(app)
def redrive(
    *,
    subscription: ExportSubscription,
    reason: ReasonWord = "",
    remote: Remote,
) -> None:
    """Have rejected messages exported again, once the cause is gone."""
    _check_lake()
    from fanlog.pipeline.export.rejected import Rejected

    name = remote.subscription(subscription)
    with remote.connect() as client:
        done = Rejected(client, name).redrive(reason)
    remote.output.done(
        f"{done.reopened} of {done.rows} rejected messages of {name} will be exported again",
        {"subscription": name, "rows": done.rows, "reopened": done.reopened},
    )


def _check_lake() -> None:
    try:
        import fanlog.lake  # noqa: F401
    except ImportError as error:
        raise FailedPrecondition(str(error)) from error
