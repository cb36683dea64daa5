"""`fanlog publish` and `fanlog pull`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.text import Text

from fanlog import limits
from fanlog.cli import options
from fanlog.cli.options import Remote
from fanlog.cli.output import Output, note, printable, received, shown
from fanlog.errors import InvalidArgument
from fanlog.model.attributes import DELIVER_AT, PUBLISHER, PUBLISHER_EPOCH, SEQUENCE

if TYPE_CHECKING:
    from fanlog.client import Client, types

#: A tenth of the request is left for the topic's name, tags and lengths.
_REQUEST_BYTES_MAX = limits.PUBLISH_BYTES_MAX * 9 // 10
_READ_BYTES = 1024 * 1024
#: How long one poll of `--follow` waits.
_FOLLOW_WAIT_S = 25.0
#: Pause before a server that went away is asked again.
_RECONNECT_S = 1.0


def publish(
    *,
    topic: options.TopicName,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA|-",
            help="The message, or - for standard input: one message per line, empty lines skipped.",
        ),
    ] = None,
    attr: options.Attributes = None,
    key: Annotated[str, typer.Option(help="The ordering key.")] = "",
    publisher: Annotated[
        str, typer.Option(help="The name of the publisher, for its order or its numbers.")
    ] = "",
    sequence: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="NUMBER",
            help="The number of the first message among its publisher's; others count on.",
        ),
    ] = None,
    publisher_epoch: Annotated[
        int | None,
        typer.Option(min=0, metavar="NUMBER", help="Higher whenever the publisher counts anew."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="Publish the content of a file as one message.")
    ] = None,
    delay: Annotated[
        str | None, typer.Option(metavar="TIME", help="Deliver so much later, such as 90s or 2h.")
    ] = None,
    deliver_at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Deliver at a time, such as 2026-01-31T12:00:00Z."),
    ] = None,
    ttl: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Do not deliver when it was deliverable for so long."),
    ] = None,
    priority: Annotated[
        int | None, typer.Option(help="Higher ones are delivered first; 0 to 9.")
    ] = None,
    depends_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help="Deliver after the message with this id was acknowledged; may be repeated.",
        ),
    ] = None,
    tenant: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Whose they are; subscriptions may serve them in turn."),
    ] = None,
    remote: Remote,
) -> None:
    """Publish messages. When the command returns they are durable."""
    from fanlog.client import types

    name = remote.topic(topic)
    attributes = options.pairs(attr, "--attr")
    if publisher and attributes.setdefault(PUBLISHER, publisher) != publisher:
        raise InvalidArgument(f"--attr {PUBLISHER} says otherwise; give one of them")
    chunks = _chunks(data, file, is_empty_allowed=bool(attr))
    attributes = _with_terms(attributes, delay, deliver_at, ttl, priority, depends_on or (), tenant)
    _check_numbers(attributes, sequence, publisher_epoch)
    output = remote.output
    count = 0
    with remote.connect() as client:
        for chunk in chunks:
            messages = [
                types.PubsubMessage(data=item, attributes=attributes, ordering_key=key)
                for item in chunk
            ]
            for request in _requests(messages):
                message_ids = client.publish(
                    name,
                    request,
                    sequence=None if sequence is None else sequence + count,
                    publisher_epoch=publisher_epoch,
                )
                count += len(message_ids)
                _report(output, message_ids, is_streamed=data == "-")
    if data == "-" and not remote.json:
        output.text(f"published {count} messages")


def pull(
    *,
    subscription: options.SubscriptionName,
    max_messages: Annotated[
        int | None,
        typer.Option("--max", min=1, help="Stop after this many; 10 when not following."),
    ] = None,
    ack: Annotated[bool, typer.Option("--ack", help="Acknowledge what was shown.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with messages as they come.")
    ] = False,
    wait: Annotated[
        str | None, typer.Option(help="Wait this long for the first message, such as 10s.")
    ] = None,
    remote: Remote,
) -> None:
    """Pull messages and show them."""
    name = remote.subscription(subscription)
    wait_s = options.duration_s(wait, "--wait") if wait is not None else 0.0
    output = remote.output
    count = 0
    with remote.connect() as client:
        if follow:
            answers = followed(client, name, max_messages)
        else:
            answers = _pulled(client, name, max_messages or 10, wait_s)
        for messages, ttl_s in answers:
            for message in messages:
                show_received(output, message, ttl_s)
            if ack:
                # Only now: a message that was not shown must not be acknowledged.
                client.acknowledge(name, [message.ack_id for message in messages])
            count += len(messages)
    if count == 0:
        note("no messages")
    elif not ack and not remote.json:
        note(
            "not acknowledged: they come again after the ack deadline (unless the subscription "
            "delivers at most once); --ack acknowledges them"
        )


def _check_numbers(
    attributes: Mapping[str, str], sequence: int | None, publisher_epoch: int | None
) -> None:
    for option, number, name in (
        ("--sequence", sequence, SEQUENCE),
        ("--publisher-epoch", publisher_epoch, PUBLISHER_EPOCH),
    ):
        if number is not None and name in attributes:
            raise InvalidArgument(f"--attr {name} and {option} say the same; give one of them")


def _with_terms(
    attributes: dict[str, str],
    delay: str | None,
    deliver_at: str | None,
    ttl: str | None,
    priority: int | None,
    depends_on: Sequence[str],
    tenant: str | None,
) -> dict[str, str]:
    """Attributes with those that the options stand for."""
    from fanlog.model import term_attributes as terms

    asking = terms.attributes_for(
        delay_s=None if delay is None else options.duration_s(delay, "--delay"),
        ttl_s=None if ttl is None else options.duration_s(ttl, "--ttl"),
        priority=priority,
        depends_on=depends_on,
        tenant=tenant,
    )
    if deliver_at is not None:
        asking[DELIVER_AT] = deliver_at
    for name in asking.keys() & attributes.keys():
        raise InvalidArgument(f"--attr {name} and an option say the same; give one of them")
    return attributes | asking


def _chunks(
    data: str | None, file: Path | None, *, is_empty_allowed: bool
) -> Iterator[list[bytes]]:
    if data is not None and file is not None:
        raise InvalidArgument("give DATA or --file, not both")
    if file is not None:
        try:
            return iter([[file.read_bytes()]])
        except OSError as error:
            raise InvalidArgument(f"cannot read {file}: {error.strerror}") from error
    if data == "-":
        return _lines()
    if not data and not is_empty_allowed:
        raise InvalidArgument("a message needs data or attributes: give DATA, - or --attr")
    return iter([[(data or "").encode("utf-8", "surrogateescape")]])


def _lines() -> Iterator[list[bytes]]:
    """Yield the lines there are, as they come: a pipe that trickles is published as it trickles."""
    source = cast(BufferedIOBase, sys.stdin.buffer)
    rest = b""
    while chunk := source.read1(_READ_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        if found := [line for line in lines if line]:
            yield found
    if rest:
        yield [rest]


def _requests(
    messages: Iterable[types.PubsubMessage],
) -> Iterator[list[types.PubsubMessage]]:
    """Cut messages into requests that the API's limits allow."""
    request: list[types.PubsubMessage] = []
    size_bytes = 0
    for message in messages:
        message_bytes = message.ByteSize()
        is_full = len(request) == limits.PUBLISH_MESSAGES_MAX
        if request and (is_full or size_bytes + message_bytes > _REQUEST_BYTES_MAX):
            yield request
            request, size_bytes = [], 0
        request.append(message)
        size_bytes += message_bytes
    if request:
        yield request


def _report(output: Output, message_ids: Iterable[str], *, is_streamed: bool) -> None:
    for message_id in message_ids:
        if output.is_json:
            output.line({"message_id": message_id})
        elif not is_streamed:
            output.text(f"published message {message_id}")


def _pulled(
    client: Client, name: str, count: int, wait_s: float
) -> Iterator[tuple[list[Any], float | None]]:
    """Yield messages, and the time-to-live of those that have none of their own."""
    while count > 0:
        asked = min(count, limits.PULL_MESSAGES_MAX)
        messages, ttl_s = client.pull_with_ttl(name, max_messages=asked, wait_s=wait_s)
        if not messages:
            return
        yield messages, ttl_s
        count -= len(messages)
        wait_s = 0.0


def followed(
    client: Client, name: str, count: int | None
) -> Iterator[tuple[list[Any], float | None]]:
    """Poll until `count` messages came, or for ever; outlive a server that is started again."""
    from fanlog.client import CallFailed

    has_answered = False
    while count is None or count > 0:
        asked = min(count or limits.PULL_MESSAGES_MAX, limits.PULL_MESSAGES_MAX)
        try:
            messages, ttl_s = client.pull_with_ttl(name, max_messages=asked, wait_s=_FOLLOW_WAIT_S)
        except CallFailed as failure:
            if failure.status != "UNAVAILABLE" or not has_answered:
                raise
            note(f"{failure.message}; trying again")
            time.sleep(_RECONNECT_S)
            continue
        has_answered = True
        if messages:
            yield messages, ttl_s
        if count is not None:
            count -= len(messages)


def show_received(output: Output, message: Any, ttl_s: float | None) -> None:
    """Write a received message as a line."""
    fields = received(message, ttl_s)
    if output.is_json:
        output.line(fields)
        return
    parts: list[str | Text] = [
        Text(fields["publish_time"], style="dim"),
        Text(fields["message_id"], style="dim"),
    ]
    if fields.get("delivery_attempt", 1) > 1:
        parts.append(f"attempt={fields['delivery_attempt']}")
    if "ordering_key" in fields:
        parts.append(f"key={printable(fields['ordering_key'])}")
    if "expires_at" in fields:
        parts.append(f"expires={fields['expires_at']}")
    if fields["attributes"]:
        parts.append(shown(fields["attributes"]))
    data = fields.get("data")
    parts.append(
        Text(printable(data), style="bold")
        if data is not None
        else f"({len(message.message.data)} bytes: {fields['data_base64']})"
    )
    output.text(*parts)
