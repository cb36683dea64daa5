"""Options that commands share, and the readers of names, durations, times and pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from google.protobuf.duration_pb2 import Duration

from fanlog import limits, times
from fanlog.cli.output import Output, note, printable
from fanlog.config import PROJECT_DEFAULT
from fanlog.errors import InvalidArgument
from fanlog.model import durations, names

if TYPE_CHECKING:
    from fanlog.client import Client

Endpoint = Annotated[
    str | None,
    typer.Option(
        "--endpoint",
        envvar="PUBSUB_EMULATOR_HOST",
        metavar="HOST:PORT",
        help="The server to talk to; 127.0.0.1:8085 when not given, https://HOST:PORT for TLS.",
    ),
]
Project = Annotated[
    str,
    typer.Option("--project", envvar="FANLOG_PROJECT", help="The project of short names."),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="One JSON object per line, for machines to read.")
]
Attributes = Annotated[
    list[str] | None,
    typer.Option("--attr", metavar="KEY=VALUE", help="An attribute; may be given many times."),
]
SubscriptionName = Annotated[
    str,
    typer.Argument(
        metavar="SUB",
        help="A subscription: short or full name.",
    ),
]
TopicName = Annotated[
    str,
    typer.Argument(metavar="TOPIC", help="A topic: short or full name."),
]
LABEL_HELP = "A label; may be given many times."
DataDir = Annotated[
    Path,
    typer.Option("--data-dir", envvar="FANLOG_DATA_DIR", help="The data folder of the broker."),
]
ImportRoots = Annotated[
    list[Path] | None,
    typer.Option(
        "--import-root",
        envvar="FANLOG_IMPORT_ROOTS",
        metavar="DIR",
        help="Folder whose files `fanlog job import` may publish; may be repeated. None otherwise.",
    ),
]
Buckets = Annotated[
    list[str] | None,
    typer.Option(
        "--s3-bucket",
        envvar="FANLOG_S3_BUCKETS",
        metavar="NAME",
        help="Bucket that imports and exports may use; may be repeated. None otherwise.",
    ),
]

PROJECT = PROJECT_DEFAULT
DATA_DIR = Path("data")

#: As long as protobuf's Duration, about ten thousand years.
_DURATION_S_MAX = 315_576_000_000


@dataclass(frozen=True, slots=True)
class Remote:
    """The options of every command that calls a server: where it calls, and how it answers."""

    project: Project = PROJECT
    endpoint: Endpoint = None
    json: AsJson = False

    def connect(self) -> Client:
        return connect(self.endpoint)

    @property
    def parent(self) -> str:
        """The full name of the project."""
        return names.project_name(self.project)

    @property
    def output(self) -> Output:
        return Output(is_json=self.json)

    def topic(self, name: str) -> str:
        return topic(name, self.project)

    def subscription(self, name: str) -> str:
        return subscription(name, self.project)

    def schema(self, name: str) -> str:
        return schema(name, self.project)

    def report_deleted(self, noun: str, name: str) -> None:
        self.output.done(f"deleted {noun} {name}", {"name": name, "deleted": True})


def connect(endpoint: str | None) -> Client:
    """Make a client. Imported here and not above: `fanlog --help` need not wait for gRPC."""
    from fanlog.client import Client

    return Client(endpoint, on_hint=lambda hint: note(f"hint: {printable(hint)}"))


def _full_name(
    make: Callable[[str, str], str], parse: Callable[[str], object]
) -> Callable[[str, str], str]:
    """A reader of names that may be given short: it takes the name and the project."""

    def read(name: str, project: str) -> str:
        return str(parse(name if "/" in name else make(project, name)))

    return read


topic = _full_name(names.topic_name, names.parse_topic)
topic_or_pattern = _full_name(names.topic_name, names.parse_topic_or_pattern)
subscription = _full_name(names.subscription_name, names.parse_subscription)
snapshot = _full_name(names.snapshot_name, names.parse_snapshot)
schema = _full_name(names.schema_name, names.parse_schema)


def one_of(word: str, known: Mapping[str, int], option: str) -> int:
    """Give the number that a word stands for, in either case.

    Raises:
        InvalidArgument: Not one of those known.
    """
    found = known.get(word.lower())
    if found is None:
        raise InvalidArgument(f"{option}: {names.shown(word)} is not one of {', '.join(known)}")
    return found


def pairs(texts: Iterable[str] | None, option: str) -> dict[str, str]:
    """Read `key=value` texts; a key given twice is refused."""
    read: dict[str, str] = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InvalidArgument(f"{option} {text!r} is not of the form KEY=VALUE")
        if key in read:
            raise InvalidArgument(f"{option} names {key!r} twice")
        read[key] = value
    return read


def duration(text: str, option: str) -> Duration:
    """Read a duration as protobuf has it."""
    found = Duration()
    found.FromMicroseconds(round(duration_s(text, option) * 1e6))
    return found


def whole_s(text: str, option: str) -> int:
    """Read a duration of whole seconds, no longer than an ack deadline may be."""
    seconds = duration_s(text, option)
    if not seconds.is_integer():
        raise InvalidArgument(f"{option} {text!r} must be whole seconds")
    if seconds > limits.ACK_DEADLINE_S_MAX:
        raise InvalidArgument(
            f"{option} {text!r} is longer than the {limits.ACK_DEADLINE_S_MAX} seconds allowed"
        )
    return int(seconds)


def duration_s(text: str, option: str) -> float:
    """Read `90`, `90s`, `1m30s`, `12h` or `7d` as seconds."""
    try:
        seconds = durations.seconds(text)
    except ValueError as error:
        raise InvalidArgument(
            f"{option} {names.shown(text)} is not a duration; "
            "write 90s, 10m, 12h, 7d or seconds as a number"
        ) from error
    if seconds > _DURATION_S_MAX:
        raise InvalidArgument(f"{option} {names.shown(text)} is longer than any duration may be")
    return seconds


def moment(text: str, option: str) -> datetime:
    """Read an RFC 3339 time, or a duration as that long ago."""
    if text[:1].isdigit() and durations.PART.match(text):
        ago = timedelta(seconds=duration_s(text, option))
        try:
            return datetime.now(UTC) - ago
        except OverflowError as error:
            raise _out_of_calendar(text, option) from error
    try:
        return times.parse(text).astimezone(UTC)
    except times.NoZone as error:
        raise InvalidArgument(
            f"{option} {names.shown(text)} has no time zone; end it with Z for UTC"
        ) from error
    except ValueError as error:
        raise InvalidArgument(
            f"{option} {names.shown(text)} is not a time; write 2025-01-31T12:00:00Z,"
            " or 10m for ten minutes ago"
        ) from error
    except OverflowError as error:
        raise _out_of_calendar(text, option) from error


def window(start: str | None, end: str | None) -> dict[str, datetime]:
    """Read `--from` and `--to`, as fields of a request; only those that were given."""
    given = (("start_time", start, "--from"), ("end_time", end, "--to"))
    return {field: moment(text, option) for field, text, option in given if text is not None}


def _out_of_calendar(text: str, option: str) -> InvalidArgument:
    return InvalidArgument(f"{option} {names.shown(text)} lies outside of the years 1 to 9999")


def spark_master(text: str, **given: str | None) -> str:
    """The Spark to run on.

    Args:
        given: Options about a driver of our own, by name; None where one was not given.

    Raises:
        InvalidArgument: It is a Spark Connect server, which has a driver already.
    """
    useless = [f"--{name.replace('_', '-')}" for name, value in given.items() if value is not None]
    if useless and text.startswith("sc://"):
        raise InvalidArgument(
            f"{' and '.join(useless)}: with a Spark Connect server (sc://…) the driver is the "
            "server; it is told so where it is started"
        )
    return text
