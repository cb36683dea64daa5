"""`fanlog sub peek|purge|backlog` and `fanlog message trace`: looking, and emptying a backlog."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from fanlog import limits
from fanlog.cli import options
from fanlog.cli.groups import add_command
from fanlog.cli.options import Remote
from fanlog.cli.output import Output, content, note, printable, resource, shown
from fanlog.errors import InvalidArgument

if TYPE_CHECKING:
    from fanlog.client.inspection import Place

messages = typer.Typer(no_args_is_help=True, help="Look at one message.")

_COLUMNS = (
    "subscription",
    "messages",
    "bytes",
    "outstanding",
    "delayed",
    "pending",
    "depending",
    "oldest",
    "lag_messages",
    "pressure",
    "dropped",
)


#: Facts about a peeked message that are shown when there are any.
_TOLD = ("failed_deliveries", "behind_message_id", "lapsed", "priority", "waits_for")


def peek(
    *,
    subscription: options.SubscriptionName,
    most: Annotated[int, typer.Option("--max", min=1, help="Show so many at most.")] = 10,
    message_id: Annotated[
        str | None, typer.Option("--message-id", metavar="ID", help="From this message on.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Published from then on; 2h: two hours ago."),
    ] = None,
    remote: Remote,
) -> None:
    """Show unacknowledged messages without taking them: nothing is leased or counted."""
    from itertools import islice

    from fanlog.client.inspection import InspectionClient

    name = remote.subscription(subscription)
    place = _place(message_id, start, "--from")
    count = 0
    with remote.connect() as client:
        page_size = min(most, limits.PEEK_MESSAGES_MAX)
        found = InspectionClient(client).peek(name, page_size=page_size, **place)
        for one in islice(found, most):
            _show_peeked(remote.output, one)
            count += 1
    if not count:
        note("no messages")


def purge(
    *,
    subscription: options.SubscriptionName,
    message_id: Annotated[
        str | None,
        typer.Option("--before-message", metavar="ID", help="Only messages before this one."),
    ] = None,
    before: Annotated[
        str | None,
        typer.Option(
            "--before", metavar="TIME", help="Only what was published before; 2h: two hours ago."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say how many it would be, and leave them.")
    ] = False,
    remote: Remote,
) -> None:
    """Acknowledge all unacknowledged messages, outstanding ones included."""
    from fanlog.client.inspection import InspectionClient

    name = remote.subscription(subscription)
    place = _place(message_id, before, "--before")
    with remote.connect() as client:
        done = InspectionClient(client).purge(name, dry_run=dry_run, **place)
    verb = "would purge" if dry_run else "purged"
    remote.output.done(
        f"{verb} {done.purged} messages of {name}; {done.outstanding} of them outstanding",
        {
            "name": name,
            "purged": done.purged,
            "outstanding": done.outstanding,
            "dry_run": dry_run,
        },
    )


def backlog(
    *,
    subscription: Annotated[
        str | None,
        typer.Argument(metavar="SUB", help="Short or full name; all of the project without it."),
    ] = None,
    by_topic: Annotated[
        bool, typer.Option("--by-topic", help="Of a pattern: a line for each topic.")
    ] = False,
    remote: Remote,
) -> None:
    """Show how far subscriptions are behind: messages, bytes, age of the oldest, lag."""
    from fanlog.client.inspection import InspectionClient

    output = remote.output
    if by_topic and subscription is None:
        raise InvalidArgument("--by-topic: goes with one subscription; name it")
    with remote.connect() as client:
        looking = InspectionClient(client)
        if subscription is None:
            rows = map(_with_estimates, looking.backlogs(remote.parent))
            output.rows(_COLUMNS, rows if output.is_json else map(_marked, rows))
            return
        found = looking.backlog(remote.subscription(subscription), by_topic=by_topic)
    if by_topic:
        output.rows(("topic", *_COLUMNS[1:]), [_behind(one) for one in found.topics])
        if found.topics_left_off:
            note(f"{found.topics_left_off} topics with fewer messages are left off")
        return
    fields = _with_estimates(found)
    fields |= {"forwarding": found.forwarding, "lag": found.lag.ToJsonString()}
    if found.detached:
        fields["detached"] = True
    output.fields(fields)


@add_command(messages)
def trace(
    *,
    message_id: Annotated[str, typer.Argument(metavar="ID", help="The id of a message.")],
    subscription: Annotated[
        str | None, typer.Option("--sub", metavar="SUB", help="Only on this subscription.")
    ] = None,
    attributes: Annotated[
        bool, typer.Option("--attributes", help="Show its attributes and its ordering key.")
    ] = False,
    remote: Remote,
) -> None:
    """Show where a message stands on every subscription, and what happened to it."""
    from fanlog.client.inspection import InspectionClient

    name = "" if subscription is None else remote.subscription(subscription)
    with remote.connect() as client:
        found = InspectionClient(client).trace(message_id, subscription=name, attributes=attributes)
    output = remote.output
    if output.is_json:
        output.line(resource(found))
        return
    fields = {
        name: value
        for name, value in resource(found).items()
        if name not in ("subscriptions", "subscriptions_left_off")
    }
    output.fields(fields)
    for one in found.subscriptions:
        _show_traced(output, one)
    if found.subscriptions_left_off:
        note(f"{found.subscriptions_left_off} more subscriptions read its topic")


def _place(message_id: str | None, time: str | None, option: str) -> Place:
    if message_id is not None and time is not None:
        raise InvalidArgument(f"give a message or {option}, not both")
    if message_id is not None:
        return {"message_id": message_id}
    return {} if time is None else {"time": options.moment(time, option)}


def _show_peeked(output: Output, one: Any) -> None:
    fields = _peeked(one)
    if output.is_json:
        output.line(fields)
        return
    parts: list[str | Text] = [
        Text(fields["publish_time"], style="dim"),
        Text(fields["message_id"], style="dim"),
        fields["state"] + (f" until {fields['until']}" if "until" in fields else ""),
    ]
    told = (name for name in (*_TOLD, "expires_at") if name in fields)
    parts += [f"{name}={fields[name]}" for name in told]
    if "ordering_key" in fields:
        parts.append(f"key={printable(fields['ordering_key'])}")
    if fields["attributes"]:
        parts.append(shown(fields["attributes"]))
    data = fields["data"] if "data" in fields else fields["data_base64"]
    parts.append(Text(printable(data), style="bold"))
    output.text(*parts)


def _peeked(one: Any) -> dict[str, Any]:
    """A peeked message as plain values; what is not set is left out."""
    fields = content(one.message)
    fields |= {"topic": one.topic, "state": one.state}
    for name in ("until", "expires_at"):
        if one.HasField(name):
            fields[name] = getattr(one, name).ToJsonString()
    for name in _TOLD:
        if getattr(one, name):
            fields[name] = getattr(one, name)
    return fields


def _behind(one: Any) -> dict[str, Any]:
    """A backlog as a row."""
    key = "subscription" if hasattr(one, "subscription") else "topic"
    return {
        key: getattr(one, key),
        "messages": one.messages,
        "bytes": one.bytes,
        "outstanding": one.outstanding,
        "delayed": one.delayed,
        "pending": one.pending,
        "depending": one.depending,
        "oldest": one.oldest_unacked_age.ToJsonString(),
        "lag_messages": one.lag_messages,
        "pressure": round(getattr(one, "pressure", 0.0), 3),
        "dropped": sum(getattr(one, "dropped", {}).values()),
    }


def _with_estimates(one: Any) -> dict[str, Any]:
    """A subscription's backlog as a row that says what of it is estimated."""
    return _behind(one) | {
        "messages_estimated": one.messages_estimated,
        "bytes_estimated": one.bytes_estimated,
    }


def _marked(row: dict[str, Any]) -> dict[str, Any]:
    """The row for people: `~` before what is estimated."""
    marked = (name for name in ("messages", "bytes") if row[f"{name}_estimated"])
    return row | {name: f"~{row[name]}" for name in marked}


def _show_traced(output: Output, one: Any) -> None:
    said = [f"{one.subscription}: {one.state}"]
    said += _named(one, ("until", "delivered_at", "expires_at"))
    if one.client_id:
        said.append(f"held by {printable(one.client_id)}")
    if one.lapsed:
        said.append("lapsed")
    if one.failed_deliveries:
        said.append(f"{one.failed_deliveries} failed deliveries")
    if one.next_delivery:
        said.append(f"next {printable(one.next_delivery)}")
    if one.behind_message_id:
        said.append(f"behind {one.behind_message_id}")
    if one.waits_for:
        said.append(f"waits for {printable(one.waits_for)}")
    if one.letter_message_id:
        said.append(f"its letter is {one.letter_message_id}")
    output.text(", ".join(said))
    for event in one.events:
        words = [f"  {event.time.ToJsonString()}  {event.what}"]
        words += [printable(event.reason)] if event.reason else []
        words += [f"message {event.message_id}"] if event.message_id else []
        output.text(": ".join(words))


def _named(one: Any, names: Iterable[str]) -> list[str]:
    words = (name.replace("_", " ") for name in names)
    times = (getattr(one, name).ToJsonString() if one.HasField(name) else "" for name in names)
    return [f"{word} {time}" for word, time in zip(words, times, strict=True) if time]
