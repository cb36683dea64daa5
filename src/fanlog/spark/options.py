"""The options of a Spark program, read once and checked: Kafka's names where they mean the same.

Spark writes the names of options in lower case and does not check them, so that unknown options are
refused here, with the name that was probably meant.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal, TypedDict

from fanlog import times
from fanlog.client.address import resolve_endpoint
from fanlog.config import PROJECT_DEFAULT
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.routing.filter_parse import parse as parse_filter
from fanlog.routing.filter_scan import FilterError

PROJECT_VARIABLE: Final = "FANLOG_PROJECT"

#: Kafka's numbers for the two ends of a partition.
EARLIEST: Final = -2
LATEST: Final = -1

_COMMON: Final = (
    *("endpoint", "ca", "cert", "key", "token_file", "credentials"),
    "project",
)
_SELECTION: Final = ("topic", "topics", "topicPattern", "subscription")
_READ: Final = (
    *_COMMON,
    *_SELECTION,
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "maxMessagesPerTrigger",
    "minPartitions",
    "failOnDataLoss",
    "filter",
    "includeSequence",
)
_WRITE: Final = (*_COMMON, "topic", "deadLetterTopic", "txnAppId", "txnVersion")
_ALIASES: Final = {"subscribe": "topics", "maxoffsetspertrigger": "maxMessagesPerTrigger"}
#: Options that Spark itself adds to those of a streaming query.
_SPARK: Final = frozenset({"checkpointlocation", "queryname", "outputmode"})
_HINTS: Final = {
    "subscribepattern": "a regular expression in Kafka's connector; here it is topicPattern, with *"
    " for one segment of a name and # for any number of them",
    "path": 'messages have no path; name the topic with option("topic", …)',
    "assign": "partitions are not assigned here; name topics, and offsets with startingOffsets",
    "kafka.bootstrap.servers": "the server is named by endpoint, as HOST:PORT",
    "includeheaders": "attributes are always there, as the column attributes",
}
_INTEGER: Final = re.compile(r"[0-9]{1,18}", re.ASCII)

#: Offsets by topic, as given and as full name alike, and by partition; None stands for all of it.
Named = Mapping[str, Mapping[int | None, int]]
#: Where to begin or to end.
Position = Literal["earliest", "latest"] | Named


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of a read, free of contradictions: `read_options` has checked them."""

    endpoint: str
    project: str
    #: Full names; empty when there is a pattern or a subscription.
    topics: tuple[str, ...] = ()
    pattern: str = ""
    subscription: str = ""
    starting: Position = "earliest"
    ending: Position = "latest"
    #: Microseconds since the epoch; in place of the positions.
    starting_us: int | None = None
    ending_us: int | None = None
    max_messages: int | None = None
    min_partitions: int | None = None
    fail_on_data_loss: bool = True
    filter: str = ""
    include_sequence: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Where rows are published to."""

    endpoint: str
    project: str
    #: Full name; empty when each row says its own.
    topic: str = ""
    #: Full name of the topic for rows that are refused; empty when one of them fails the query.
    dead_letter_topic: str = ""
    #: Names a write for ever: the same write again publishes nothing. As in Delta Lake.
    transaction: tuple[str, int] | None = None


def read_options(
    given: Mapping[str, str], *, is_streaming: bool | None, environ: Mapping[str, str] | None = None
) -> ReadOptions:
    """Check the options of a read; `is_streaming` is None where it is not known yet.

    Raises:
        InvalidArgument: The sentence names the option, its value, and the values it may have.
    """
    values = _known(given, _READ)
    reader = _Reader(values, os.environ if environ is None else environ)
    selection = reader.selection()
    if is_streaming is False:
        _refuse(
            values, "maxMessagesPerTrigger", "is for streaming queries; a batch has endingOffsets"
        )
    if is_streaming:
        for name in ("endingOffsets", "endingTimestamp"):
            _refuse(values, name, "is for batch queries; a streaming query does not end")
    for one, other in (
        ("startingOffsets", "startingTimestamp"),
        ("endingOffsets", "endingTimestamp"),
    ):
        if one in values and other in values:
            raise InvalidArgument(f"options {one} and {other} exclude each other; choose one")
    starting = reader.position("startingOffsets", "latest" if is_streaming else "earliest")
    ending = reader.position("endingOffsets", "latest")
    if is_streaming is False:
        _check_ends(starting, "startingOffsets", "latest", LATEST)
    _check_ends(ending, "endingOffsets", "earliest", EARLIEST)
    return ReadOptions(
        endpoint=reader.endpoint(),
        project=reader.project,
        **selection,
        starting=starting,
        ending=ending,
        starting_us=reader.time_us("startingTimestamp"),
        ending_us=reader.time_us("endingTimestamp"),
        max_messages=reader.count("maxMessagesPerTrigger"),
        min_partitions=reader.count("minPartitions"),
        fail_on_data_loss=reader.flag("failOnDataLoss", default=True),
        filter=reader.filter(),
        include_sequence=reader.flag("includeSequence", default=False),
    )


def write_options(
    given: Mapping[str, str], environ: Mapping[str, str] | None = None
) -> WriteOptions:
    """Check the options of a write; raises as `read_options` does."""
    values = _known(given, _WRITE)
    reader = _Reader(values, os.environ if environ is None else environ)
    return WriteOptions(
        endpoint=reader.endpoint(),
        project=reader.project,
        topic=reader.topic("topic"),
        dead_letter_topic=reader.topic("deadLetterTopic"),
        transaction=reader.transaction(),
    )


def full_topic(name: str, project: str, *, option: str) -> str:
    """Give the full name of a topic that may be given short."""
    full = name if "/" in name else names.topic_name(project, name)
    return str(names.parse_topic(full, field=f"option {option}"))


def _known(given: Mapping[str, str], known: tuple[str, ...]) -> dict[str, str]:
    """The values by the names we write them with."""
    spelled = {name.lower(): name for name in known}
    spelled |= {alias: name for alias, name in _ALIASES.items() if name in known}
    values: dict[str, str] = {}
    for key in given:
        lower = key.lower()
        if lower in _SPARK:
            continue
        if lower not in spelled:
            raise InvalidArgument(_unknown(lower, known))
        name = spelled[lower]
        if name in values:
            raise InvalidArgument(f"option {name} is given twice, also under its other name")
        values[name] = given[key]
    return values


def _unknown(lower: str, known: tuple[str, ...]) -> str:
    if hint := _HINTS.get(lower):
        return f"option {lower} is not known: {hint}"
    everywhere = {name.lower(): name for name in (*_READ, *_WRITE)}
    if lower in everywhere:
        use = "reading" if everywhere[lower] in _READ else "writing"
        return f"option {everywhere[lower]} is for {use}"
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(lower, list(by_lower), n=1)
    if close:
        return f"option {lower} is not known; did you mean {by_lower[close[0]]}?"
    return f"option {lower} is not known; known are {', '.join(sorted(known))}"


def _refuse(values: Mapping[str, str], name: str, why: str) -> None:
    if name in values:
        raise InvalidArgument(f"option {name} {why}")


def _check_ends(position: Position, option: str, wrong: str, number: int) -> None:
    is_wrong = position == wrong
    if not isinstance(position, str):
        is_wrong = any(number in offsets.values() for offsets in position.values())
    if is_wrong:
        raise InvalidArgument(f"option {option}: {wrong!r} ({number}) would leave nothing to read")


class _Selection(TypedDict, total=False):
    """The one of these options that is given, with full names."""

    topics: tuple[str, ...]
    pattern: str
    subscription: str


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads single options."""

    values: Mapping[str, str]
    environ: Mapping[str, str]
    #: Of names without one.
    project: str = field(init=False)

    def __post_init__(self) -> None:
        given = self.values.get("project") or self.environ.get(PROJECT_VARIABLE) or PROJECT_DEFAULT
        project = names.parse_project(names.project_name(given), field="option project")
        object.__setattr__(self, "project", project)

    def endpoint(self) -> str:
        get = self.values.get
        return resolve_endpoint(
            get("endpoint"),
            self.environ,
            ca=get("ca"),
            cert=get("cert"),
            key=get("key"),
            token_file=get("token_file"),
            credentials=get("credentials"),
        )

    def selection(self) -> _Selection:
        found = [name for name in _SELECTION if name in self.values]
        if len(found) != 1:
            said = " and ".join(found) if found else "none of them"
            raise InvalidArgument(
                f"one of the options {', '.join(_SELECTION)} says what to read; given: {said}"
            )
        (name,) = found
        if name == "topicPattern":
            text = self.values[name]
            full = text if "/" in text else names.topic_name(self.project, text)
            return {"pattern": str(names.parse_topic_or_pattern(full, field=f"option {name}"))}
        if name == "subscription":
            text = self.values[name]
            full = text if "/" in text else names.subscription_name(self.project, text)
            return {"subscription": str(names.parse_subscription(full, field=f"option {name}"))}
        texts = [self.values[name]] if name == "topic" else self.values[name].split(",")
        topics = (full_topic(text.strip(), self.project, option=name) for text in texts)
        return {"topics": tuple(dict.fromkeys(topics))}

    def topic(self, name: str) -> str:
        text = self.values.get(name)
        return "" if text is None else full_topic(text, self.project, option=name)

    def position(self, name: str, default: Literal["earliest", "latest"]) -> Position:
        text = self.values.get(name)
        if text is None:
            return default
        if text.lower() == "earliest":
            return "earliest"
        if text.lower() == "latest":
            return "latest"
        try:
            table = json.loads(text)
        except ValueError:
            table = None
        if not isinstance(table, dict):
            raise self._bad(name, 'earliest, latest or JSON such as {"orders": {"0": 23}}')
        found: dict[str, dict[int | None, int]] = {}
        for topic, offsets in table.items():
            by_partition = offsets if isinstance(offsets, dict) else {None: offsets}
            full = full_topic(topic, self.project, option=name)
            found[full] = {
                self._partition(name, key): self._offset(name, offset)
                for key, offset in by_partition.items()
            }
        return found

    def _partition(self, name: str, key: str | None) -> int | None:
        if key is not None and not _INTEGER.fullmatch(key):
            raise self._bad(name, 'partitions as numbers, such as {"orders": {"0": 23}}')
        return None if key is None else int(key)

    def _offset(self, name: str, offset: object) -> int:
        if isinstance(offset, bool) or not isinstance(offset, int) or offset < EARLIEST:
            raise self._bad(
                name, "offsets as whole numbers from 0 on, -2 (earliest) or -1 (latest)"
            )
        return offset

    def time_us(self, name: str) -> int | None:
        text = self.values.get(name)
        if text is None:
            return None
        if _INTEGER.fullmatch(text):
            return int(text) * 1_000
        try:
            time = times.parse(text)
        except times.NoZone:
            raise self._bad(name, "a time with its zone, such as 2026-01-31T12:00:00Z") from None
        except ValueError:
            raise self._bad(name, "milliseconds since 1970, or 2026-01-31T12:00:00Z") from None
        whole = time.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
        return (whole.days * 86_400 + whole.seconds) * 1_000_000 + whole.microseconds

    def count(self, name: str) -> int | None:
        text = self.values.get(name)
        if text is None:
            return None
        if not _INTEGER.fullmatch(text) or int(text) < 1:
            raise self._bad(name, "a whole number, 1 or more")
        return int(text)

    def flag(self, name: str, *, default: bool) -> bool:
        text = self.values.get(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise self._bad(name, "true or false")
        return text.lower() == "true"

    def filter(self) -> str:
        text = self.values.get("filter", "")
        try:
            parse_filter(text)
        except FilterError as error:
            raise InvalidArgument(f"option {error}") from error
        return text

    def transaction(self) -> tuple[str, int] | None:
        app, version = self.values.get("txnAppId"), self.values.get("txnVersion")
        if app is None and version is None:
            return None
        if not app or version is None:
            raise InvalidArgument(
                "options txnAppId and txnVersion are given together or not at all"
            )
        if not _INTEGER.fullmatch(version):
            raise self._bad("txnVersion", "a whole number, 0 or more")
        return app, int(version)

    def _bad(self, name: str, wanted: str) -> InvalidArgument:
        return InvalidArgument(
            f"option {name} takes {wanted}, not {names.shown(self.values[name])}"
        )
