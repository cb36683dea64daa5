"""`fanlog message browse` and `fanlog topic try-filter`: the log, and filters on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from fanlog import limits
from fanlog.cli import options
from fanlog.cli.options import Remote, TopicName
from fanlog.cli.output import Output, content, note, printable, resource, shown
from fanlog.errors import InvalidArgument

if TYPE_CHECKING:
    from fanlog.client.browse import BrowseCriteria


def browse(
    *,
    topic: Annotated[
        str | None,
        typer.Argument(metavar="TOPIC", help="A topic: short or full name."),
    ] = None,
    subscription: Annotated[
        str | None,
        typer.Option(
            "--sub",
            metavar="SUB",
            help="What this subscription reads, by its filter.",
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Published from then on; 2h: two hours ago."),
    ] = None,
    before: Annotated[
        str | None,
        typer.Option("--before", metavar="TIME", help="Published before then, the newest first."),
    ] = None,
    offset: Annotated[
        int | None, typer.Option(min=0, help="From this offset of the topic on.")
    ] = None,
    message_id: Annotated[
        str | None, typer.Option("--message-id", metavar="ID", help="From this message on.")
    ] = None,
    newest: Annotated[bool, typer.Option("--newest", help="The newest first.")] = False,
    key: Annotated[str | None, typer.Option(help="Only messages with this ordering key.")] = None,
    attr: options.Attributes = None,
    matching: Annotated[
        str | None, typer.Option("--filter", metavar="EXPR", help="Only messages that match.")
    ] = None,
    most: Annotated[int, typer.Option("--max", min=1, help="Show so many at most.")] = 20,
    decode: Annotated[
        bool, typer.Option("--decode", help="Show the data as JSON, by the topic's schema.")
    ] = False,
    remote: Remote,
) -> None:
    """Show messages of the log, hot or archived, acknowledged or not; nothing is leased."""
    from fanlog.client.browse import BrowseClient

    criteria = _place(start, before, offset, message_id)
    if topic is None and subscription is None:
        raise InvalidArgument("name a topic, or give --sub")
    if topic is not None:
        criteria["topic"] = remote.topic(topic)
    if subscription is not None:
        criteria["subscription"] = remote.subscription(subscription)
    if newest:
        criteria["newest_first"] = True
    criteria |= {
        "ordering_key": key or "",
        "attributes": options.pairs(attr, "--attr"),
        "filter": matching or "",
        "decode": decode,
        "max_messages": min(most, limits.BROWSE_MESSAGES_MAX),
    }
    left = most
    with remote.connect() as client:
        for page in BrowseClient(client).pages(**criteria):
            for one in page.messages[:left]:
                show_browsed(remote.output, one)
            left -= len(page.messages)
            if left <= 0:
                return
            if not page.messages and page.next_page_token:
                note(f"nothing up to {page.looked_until.ToJsonString()}; looking on")
    if left == most:
        note("no messages")


def try_filter(
    *,
    topic: TopicName,
    expression: Annotated[
        str, typer.Argument(metavar="EXPR", help="The filter, as text or in its JSON form.")
    ],
    last: Annotated[
        int,
        typer.Option(min=1, max=limits.TRY_MESSAGES_MAX, help="On the latest so many messages."),
    ] = limits.TRY_MESSAGES_DEFAULT,
    show: Annotated[
        int,
        typer.Option(
            min=0, max=limits.TRY_SAMPLES_MAX, help="Show so many that match, and that do not."
        ),
    ] = 0,
    remote: Remote,
) -> None:
    """Try a filter on the latest messages of a topic: how many of them it matches."""
    from fanlog.client.browse import BrowseClient

    with remote.connect() as client:
        found = BrowseClient(client).try_filter(
            expression, remote.topic(topic), last=last, samples=show
        )
    output = remote.output
    fields: dict[str, object] = {"looked_at": found.looked_at, "matched": found.matched}
    fields["looked_back_to"] = found.looked_back_to.ToJsonString()
    if found.cut_short:
        fields["cut_short"] = True
    kinds = (("matching", found.matching[:show]), ("others", found.others[:show]))
    if output.is_json:
        output.line(fields | {name: [_plain(one) for one in some] for name, some in kinds})
        return
    output.text(f"{found.matched} of {found.looked_at} messages match")
    for name, some in kinds:
        for one in some:
            output.text("+" if name == "matching" else "-", *_parts(one))
    if found.cut_short:
        note(f"cut short: they are large; looked back to {fields['looked_back_to']}")


def _place(
    start: str | None, before: str | None, offset: int | None, message_id: str | None
) -> BrowseCriteria:
    given = [start, before, offset, message_id]
    if sum(one is not None for one in given) > 1:
        raise InvalidArgument("give one of --from, --before, --offset and --message-id")
    if start is not None:
        return {"time": options.moment(start, "--from")}
    if before is not None:
        return {"time": options.moment(before, "--before"), "newest_first": True}
    if offset is not None:
        return {"offset": offset}
    return {} if message_id is None else {"message_id": message_id}


def show_browsed(output: Output, one: Any) -> None:
    """Write a browsed message as a line."""
    if output.is_json:
        output.line(_plain(one))
    else:
        output.text(*_parts(one))


def _plain(one: Any) -> dict[str, Any]:
    """A browsed message as plain values."""
    fields = content(one.message) | {"topic": one.topic, "offset": one.offset, "tier": one.tier}
    told = resource(one)
    names = ("decoded", "decoding_error", "schema_revision_id", "addressee", "data_cut")
    return fields | {name: told[name] for name in names if name in told}


def _parts(one: Any) -> list[str | Text]:
    fields = _plain(one)
    parts: list[str | Text] = [
        Text(fields["publish_time"], style="dim"),
        Text(fields["message_id"], style="dim"),
    ]
    if fields["tier"] != "hot":
        parts.append(f"[{fields['tier']}]")
    if "ordering_key" in fields:
        parts.append(f"key={printable(fields['ordering_key'])}")
    if fields["attributes"]:
        parts.append(shown(fields["attributes"]))
    data = fields.get("decoded") or fields.get("data", fields.get("data_base64", ""))
    cut = "…" if one.data_cut and "decoded" not in fields else ""
    parts.append(Text(printable(data) + cut, style="bold"))
    if "decoding_error" in fields:
        parts.append(f"not decoded: {printable(fields['decoding_error'])}")
    return parts
