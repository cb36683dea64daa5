"""`fanlog sub seek`: move a subscription to a time, a snapshot, a position or a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from google.protobuf.timestamp_pb2 import Timestamp

from fanlog.cli import options
from fanlog.cli.options import Remote
from fanlog.cli.output import printable
from fanlog.errors import InvalidArgument

if TYPE_CHECKING:
    from fanlog.client.reopening import SeekTarget


def seek(
    *,
    subscription: options.SubscriptionName,
    time: Annotated[
        str | None,
        typer.Option(help="To a time: 2025-01-31T12:00:00Z, or 10m for ten minutes ago."),
    ] = None,
    snapshot: Annotated[str | None, typer.Option(help="To a snapshot: short or full name.")] = None,
    position: Annotated[
        str | None,
        typer.Option(
            help="To a position: the id of the next message, on a pattern one a topic with commas;"
            " or earliest, or now."
        ),
    ] = None,
    message_id: Annotated[
        str | None, typer.Option("--message-id", metavar="ID", help="To a message, with it.")
    ] = None,
    begin: Annotated[bool, typer.Option("--begin", help="To the oldest message kept.")] = False,
    end: Annotated[
        bool, typer.Option("--end", help="Past the newest message: acknowledges the backlog.")
    ] = False,
    remote: Remote,
) -> None:
    """Move a subscription: messages before the place are acknowledged, those after are not."""
    from fanlog.client.reopening import ReopenClient

    given = [time, snapshot, position, message_id]
    if sum([*(one is not None for one in given), begin, end]) != 1:
        raise InvalidArgument(
            "say where to: one of --time, --snapshot, --position, --message-id, --begin and --end"
        )
    name = remote.subscription(subscription)
    place, target = _target(time, snapshot, position, message_id, begin, remote)
    with remote.connect() as client:
        done = ReopenClient(client).seek(name, **target)
    since = done.reopened_from.ToJsonString() if done.HasField("reopened_from") else ""
    fields: dict[str, object] = {"name": name, "place": place}
    fields |= {"reopened": done.reopened, "acknowledged": done.acknowledged}
    fields |= {
        key: value for key, value in (("reopened_from", since), ("hint", done.hint)) if value
    }
    text = f"moved {name} to {place}: {done.reopened} reopened"
    text += f" from {since} on" if since else ""
    text += f", {done.acknowledged} acknowledged"
    text += f"; {printable(done.hint)}" if done.hint else ""
    remote.output.done(text, fields)


def _target(
    time: str | None,
    snapshot: str | None,
    position: str | None,
    message_id: str | None,
    begin: bool,
    remote: Remote,
) -> tuple[str, SeekTarget]:
    """The place as it is shown, and as it is asked for."""
    if time is not None:
        stamp = Timestamp()
        stamp.FromDatetime(options.moment(time, "--time"))
        return stamp.ToJsonString(), {"time": stamp}
    if snapshot is not None:
        full = options.snapshot(snapshot, remote.project)
        return full, {"snapshot": full}
    if position is not None:
        return f"position {printable(position)}", {"position": position}
    if message_id is not None:
        return f"message {printable(message_id)}", {"message_id": message_id}
    if begin:
        return "the beginning", {"position": "earliest"}
    return "the end", {"position": "now"}
