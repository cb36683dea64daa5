"""`fanlog sub tail` and `fanlog topic watch`: messages as they come."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fanlog import limits
from fanlog.cli import options
from fanlog.cli.browsing import show_browsed
from fanlog.cli.messages import followed, show_received
from fanlog.cli.options import Remote, TopicName
from fanlog.cli.output import note, printable
from fanlog.errors import InvalidArgument

if TYPE_CHECKING:
    from fanlog.client.browse import BrowseCriteria

Most = Annotated[int | None, typer.Option("--max", min=1, help="Stop after so many messages.")]
DataAlone = Annotated[
    bool, typer.Option("--data", help="Show the data alone, a message on each line.")
]
#: Of a tail, unless told.
LAST = 10


@dataclass(frozen=True, slots=True)
class WantedOptions:
    """The options that say which of the messages are shown."""

    matching: Annotated[
        str | None, typer.Option("--filter", metavar="EXPR", help="Only messages that match.")
    ] = None
    key: Annotated[str | None, typer.Option(help="Only messages with this ordering key.")] = None
    attr: options.Attributes = None
    decode: Annotated[
        bool, typer.Option("--decode", help="Show the data as JSON, by the topic's schema.")
    ] = False

    def criteria(self) -> BrowseCriteria:
        return {
            "ordering_key": self.key or "",
            "attributes": options.pairs(self.attr, "--attr"),
            "filter": self.matching or "",
            "decode": self.decode,
        }

    @property
    def are_given(self) -> bool:
        return self != WantedOptions() and self != WantedOptions(attr=[])


def tail(
    *,
    subscription: options.SubscriptionName,
    last: Annotated[
        int | None,
        typer.Option(
            "--last",
            "-n",
            min=0,
            max=limits.BROWSE_MESSAGES_MAX,
            help=f"Begin with so many of the latest messages; {LAST} when not given.",
        ),
    ] = None,
    consume: Annotated[
        bool,
        typer.Option("--consume", help="Pull and acknowledge them: other consumers miss them."),
    ] = False,
    wanted: WantedOptions,
    data: DataAlone = False,
    most: Most = None,
    remote: Remote,
) -> None:
    """Show the messages of a subscription as they come. Nothing is leased, unless --consume."""
    show = _Shown(remote, is_data_alone=data)
    name = remote.subscription(subscription)
    if not consume:
        _follow(remote, {"subscription": name}, wanted, LAST if last is None else last, most, show)
        return
    if wanted.are_given or last is not None:
        raise InvalidArgument(
            "--consume: takes every message that the subscription gets; leave out --filter, --key, "
            "--attr, --decode and --last"
        )
    with _until_interrupted(), remote.connect() as client:
        for messages, ttl_s in followed(client, name, most):
            for message in messages:
                show.received(message, ttl_s)
            # Only now: a message that was not shown must not be acknowledged.
            client.acknowledge(name, [message.ack_id for message in messages])


def watch(
    *,
    topic: TopicName,
    last: Annotated[
        int,
        typer.Option(
            "--last",
            "-n",
            min=0,
            max=limits.BROWSE_MESSAGES_MAX,
            help="Begin with so many of the latest messages.",
        ),
    ] = 0,
    wanted: WantedOptions,
    data: DataAlone = False,
    most: Most = None,
    remote: Remote,
) -> None:
    """Show the messages of a topic as they are published. No subscription is made."""
    show = _Shown(remote, is_data_alone=data)
    _follow(remote, {"topic": remote.topic(topic)}, wanted, last, most, show)


def _follow(
    remote: Remote,
    source: BrowseCriteria,
    wanted: WantedOptions,
    last: int,
    most: int | None,
    show: _Shown,
) -> None:
    from fanlog.client.following import TopicFollower

    criteria = source | wanted.criteria()
    if show.is_whole:
        criteria["max_data_bytes"] = limits.MESSAGE_BYTES_MAX
    with _until_interrupted(), remote.connect() as client:
        follower = TopicFollower(client, criteria, tell=lambda sentence: note(printable(sentence)))
        latest = follower.latest(last)
        count = 0
        for messages in (latest, follower):
            for message in messages:
                show.browsed(message)
                count += 1
                if count == most:
                    return


class _Shown:
    """How messages are written to standard output."""

    def __init__(self, remote: Remote, *, is_data_alone: bool) -> None:
        if is_data_alone and remote.json:
            raise InvalidArgument("give --data or --json, not both")
        self._output = remote.output
        self._is_data_alone = is_data_alone

    @property
    def is_whole(self) -> bool:
        """Whether data is shown to its end, however long it is."""
        return self._is_data_alone or self._output.is_json

    def browsed(self, one: Any) -> None:
        if self._is_data_alone:
            _write(one.decoded.encode() or one.message.data)
        else:
            show_browsed(self._output, one)

    def received(self, message: Any, ttl_s: float | None) -> None:
        if self._is_data_alone:
            _write(message.message.data)
        else:
            show_received(self._output, message, ttl_s)


def _write(data: bytes) -> None:
    """Write data as it is, and to a terminal only what it can show."""
    if sys.stdout.isatty():
        data = printable(data.decode("utf-8", "backslashreplace")).encode()
    sys.stdout.flush()
    sys.stdout.buffer.write(data + b"\n")
    sys.stdout.buffer.flush()


@contextmanager
def _until_interrupted() -> Iterator[None]:
    """Ctrl-C is how a person ends it, and needs no word."""
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
