"""`fanlog sub reopen`: messages that were acknowledged are delivered again."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from fanlog import limits
from fanlog.cli import options
from fanlog.cli.options import Remote
from fanlog.cli.output import printable
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.v1 import replay_pb2

_RANGE = re.compile(r"(\d{1,10}):(\d{1,12})(?:-(\d{1,13}))?", re.ASCII)


def reopen(
    *,
    subscription: options.SubscriptionName,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Published from then on; 2h: two hours ago."),
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Published before then.")
    ] = None,
    offsets: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PARTITION:START[-END]",
            help="Offsets from START to before END, or one alone; may be given many times.",
        ),
    ] = None,
    message_id: Annotated[
        list[str] | None,
        typer.Option("--message-id", metavar="ID", help="A message; may be given many times."),
    ] = None,
    request_id: Annotated[
        str, typer.Option(metavar="ID", help="Asking twice with one is asking once.")
    ] = "",
    remote: Remote,
) -> None:
    """Deliver messages again that were acknowledged: same messages, same ids, no copies."""
    from fanlog.client.reopening import ReopenClient

    name = remote.subscription(subscription)
    what: dict[str, Any] = {**options.window(start, end)}
    if sum([bool(what), bool(offsets), bool(message_id)]) != 1:
        raise InvalidArgument("say what: --from or --to, or --offsets, or --message-id")
    if offsets:
        what["offsets"] = [_range(text) for text in offsets]
    if message_id:
        what["message_ids"] = message_id
    with remote.connect() as client:
        done = ReopenClient(client).reopen(name, request_id=request_id, **what)
    why = [{"reason": one.reason, "count": one.count} for one in done.skipped_messages]
    text = f"reopened {done.reopened} messages of {name}; {done.skipped} skipped"
    if why:
        said = "; ".join(f"{one.count} {printable(one.reason)}" for one in done.skipped_messages)
        text += f" ({said})"
    remote.output.done(
        text,
        {
            "name": name,
            "reopened": done.reopened,
            "skipped": done.skipped,
            "skipped_messages": why,
        },
    )


def _range(text: str) -> replay_pb2.OffsetSet:
    found = _RANGE.fullmatch(text)
    if found is None:
        raise InvalidArgument(
            f"--offsets {names.shown(text)} is not of the form PARTITION:START or "
            "PARTITION:START-END"
        )
    partition, start = int(found[1]), int(found[2])
    end = start + 1 if found[3] is None else int(found[3])
    if not start < end <= limits.OFFSET_MAX:
        raise InvalidArgument(f"--offsets {names.shown(text)}: START must be less than END")
    return replay_pb2.OffsetSet(partition=partition, start=start, end=end)
