"""`fanlog sub nack`: messages that were pulled and not acknowledged go back, or on."""

from __future__ import annotations

from typing import Annotated

import typer

from fanlog import limits
from fanlog.cli import options
from fanlog.cli.options import Remote
from fanlog.errors import InvalidArgument


def nack(
    *,
    subscription: options.SubscriptionName,
    ack_ids: Annotated[
        list[str], typer.Argument(metavar="ACK_ID", help="As `fanlog pull --json` shows them.")
    ],
    delay: Annotated[
        str | None,
        typer.Option(help="Deliver them again after this long, such as 30s; up to 12h."),
    ] = None,
    uncounted: Annotated[
        bool, typer.Option("--uncounted", help="Count no failure: it was not the message's fault.")
    ] = False,
    terminal: Annotated[
        bool, typer.Option("--terminal", help="Not again: straight to the dead letter topic.")
    ] = False,
    reason: Annotated[str, typer.Option(help="Kept, and told by the dead letter.")] = "",
    remote: Remote,
) -> None:
    """Give messages back: to be delivered again now or later, or to the dead letter topic."""
    if len(ack_ids) > limits.ACK_IDS_MAX:
        raise InvalidArgument(
            f"{len(ack_ids)} ack ids; at most {limits.ACK_IDS_MAX} are allowed in a request"
        )
    name = remote.subscription(subscription)
    delay_s = None if delay is None else options.duration_s(delay, "--delay")
    with remote.connect() as client:
        client.nack(
            name,
            ack_ids,
            requeue=not terminal,
            counted=not uncounted,
            delay_s=delay_s,
            reason=reason,
        )
    remote.output.done(
        f"nacked {len(ack_ids)} messages of {name}", {"name": name, "nacked": len(ack_ids)}
    )
