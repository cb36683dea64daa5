"""Jobs: bounded work on the pipeline, its kinds and the states it goes through.

A job is asked for once and done by whichever worker gets it. Each time a worker takes it up is an
*attempt*; only the last attempt is listened to, so that a worker that was thought dead and comes
back changes nothing.

| state      | on                 | becomes                                              |
|------------|--------------------|------------------------------------------------------|
| WAITING    | a worker claims it | RUNNING, attempt + 1                                 |
| RUNNING    | another claims it  | RUNNING, attempt + 1; the first one is refused       |
| RUNNING    | claimed too often  | FAILED                                               |
| WAITING    | cancel             | CANCELLED                                            |
| RUNNING    | cancel             | CANCELLING; the worker learns it with its next report |
| CANCELLING | claim, or report   | CANCELLED, or the state that the worker reports      |

Pure: times are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from fanlog import limits, times
from fanlog.errors import Aborted, FailedPrecondition, InvalidArgument
from fanlog.model import names
from fanlog.model.json_value import Json, JsonObject
from fanlog.model.names import shown
from fanlog.routing import filter_parse

State = Literal["WAITING", "RUNNING", "CANCELLING", "DONE", "FAILED", "CANCELLED"]
ENDED: frozenset[State] = frozenset({"DONE", "FAILED", "CANCELLED"})

#: Where jobs wait to be taken up: a topic and a subscription like any other.
TOPIC = names.topic_name(names.SYSTEM_PROJECT, "jobs")
SUBSCRIPTION = names.subscription_name(names.SYSTEM_PROJECT, "workers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    #: projects/p/jobs/j
    name: str
    kind: str
    #: JSON; records are read by these types, and their codec knows no recursive one.
    arguments: Mapping[str, Any] = field(default_factory=dict)
    state: State = "WAITING"
    attempt: int = 0
    worker: str = ""
    done: int = 0
    total: int = 0
    phase: str = ""
    error: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)
    created_s: float = 0.0
    #: 0 before it is.
    started_s: float = 0.0
    updated_s: float = 0.0
    ended_s: float = 0.0

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    @property
    def rate(self) -> float:
        """Done per second since the attempt began; 0 when that cannot be said."""
        elapsed_s = self.updated_s - self.started_s
        return self.done / elapsed_s if self.started_s and elapsed_s > 0 else 0.0

    @property
    def remaining_s(self) -> float:
        """How long it will take at this rate; 0 when that cannot be said."""
        left = self.total - self.done
        return left / self.rate if self.state == "RUNNING" and self.rate and left > 0 else 0.0

    def claim(self, worker: str, now: float) -> Job:
        """Take it up.

        Raises:
            FailedPrecondition: It has ended; there is nothing to do.
        """
        if self.has_ended:
            raise FailedPrecondition(f"job {self.name!r} has ended: {self.state}")
        if self.state == "CANCELLING":
            return replace(self, state="CANCELLED", ended_s=now, updated_s=now)
        if self.attempt >= limits.JOB_ATTEMPTS_MAX:
            error = f"{self.attempt} workers took it up and none came to an end"
            return replace(self, state="FAILED", error=error, ended_s=now, updated_s=now)
        return replace(
            self,
            state="RUNNING",
            attempt=self.attempt + 1,
            worker=worker,
            done=0,
            started_s=now,
            updated_s=now,
        )

    def report(self, report: JobReport, now: float) -> Job:
        """What a worker says of its attempt; one that is CANCELLING then is to stop and say so.

        Raises:
            Aborted: Another attempt has begun, or it has ended otherwise.
        """
        is_last = (self.worker, self.attempt) == (report.worker, report.attempt)
        if is_last and self.state == report.state and self.has_ended:
            return self
        if self.has_ended or not is_last:
            raise Aborted(
                f"job {self.name!r} is {self.state}, attempt {self.attempt} by {self.worker!r}; "
                f"attempt {report.attempt} by {report.worker!r} is over"
            )
        is_stopping = self.state == "CANCELLING" and report.state == "RUNNING"
        return replace(
            self,
            state="CANCELLING" if is_stopping else report.state,
            done=report.done,
            total=report.total,
            phase=report.phase,
            error=report.error,
            result=report.result,
            updated_s=now,
            ended_s=now if report.state in ENDED else 0.0,
        )

    def cancel(self, now: float) -> Job:
        """Ask it to stop.

        Raises:
            FailedPrecondition: It has ended.
        """
        if self.has_ended:
            raise FailedPrecondition(f"job {self.name!r} has ended: {self.state}")
        if self.state == "WAITING":
            return replace(self, state="CANCELLED", ended_s=now, updated_s=now)
        return replace(self, state="CANCELLING", updated_s=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """A worker's report on its attempt at a job."""

    worker: str
    attempt: int
    state: State
    done: int = 0
    total: int = 0
    phase: str = ""
    error: str = ""
    result: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.worker:
            raise InvalidArgument("worker: empty; say who reports")
        if self.state not in ("RUNNING", *ENDED):
            raise InvalidArgument("state: a worker reports RUNNING, DONE, FAILED or CANCELLED")
        if self.state == "FAILED" and not self.error:
            raise InvalidArgument("error: empty; a job that failed says why")
        if self.done < 0 or self.total < 0:
            raise InvalidArgument("done, total: negative")


# Arguments.

_Check = Callable[[str, str, Json], Json]


def check_arguments(project: str, kind: str, arguments: Mapping[str, Json]) -> JsonObject:
    """Check the arguments of a job; give them with full names and plain values.

    Raises:
        InvalidArgument: An unknown kind or argument, one missing, or one that is wrong.
    """
    kinds = KINDS.get(kind)
    if kinds is None:
        raise InvalidArgument(f"kind: {shown(kind)}; there are {', '.join(KINDS)}")
    required, checks, _ = kinds
    for name in arguments:
        if name not in checks:
            known = ", ".join(checks) or "none"
            raise InvalidArgument(f"arguments.{name}: not an argument of {kind}; there are {known}")
    for name in required:
        if name not in arguments:
            raise InvalidArgument(f"arguments.{name}: missing; {kind} needs it")
    found = {
        name: checks[name](f"arguments.{name}", project, value) for name, value in arguments.items()
    }
    _check_window(found)
    _check_together(kind, found)
    return found


def _text(field: str, _: str, value: Json) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidArgument(f"{field}: must be a text")
    return value


def _name(parse: Callable[..., object], full: Callable[[str, str], str]) -> _Check:
    def check(field: str, project: str, value: Json) -> str:
        text = _text(field, project, value)
        name = text if text.startswith("projects/") else full(project, text)
        parse(name, field=field)
        return name

    return check


_topic = _name(names.parse_topic, names.topic_name)
_pattern = _name(names.parse_topic_or_pattern, names.topic_name)
_subscription = _name(names.parse_subscription, names.subscription_name)
_schema = _name(names.parse_schema, names.schema_name)


def _list_of(check: _Check) -> _Check:
    def checked(field: str, project: str, value: Json) -> list[Json]:
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list | tuple) or not values:
            raise InvalidArgument(f"{field}: must be a list, and not an empty one")
        return [check(f"{field}[{index}]", project, one) for index, one in enumerate(values)]

    return checked


def _time(field: str, project: str, value: Json) -> str:
    text = _text(field, project, value)
    try:
        return times.of_datetime(times.parse(text), timespec="auto")
    except times.NoZone as error:
        raise InvalidArgument(f"{field}: {shown(text)} has no time zone; Z is UTC") from error
    except (ValueError, OverflowError) as error:
        raise InvalidArgument(
            f"{field}: {shown(text)} is not a time such as 2026-11-16T09:30:00Z"
        ) from error


def _filter(field: str, project: str, value: Json) -> str:
    text = _text(field, project, value)
    try:
        filter_parse.parse(text)
    except InvalidArgument as error:
        raise InvalidArgument(f"{field}: {error.message.removeprefix('filter: ')}") from error
    return text


def _count(field: str, _: str, value: Json) -> int:
    # JSON of protobuf has only floats.
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise InvalidArgument(f"{field}: must be a whole number")
    if value < 0:
        raise InvalidArgument(f"{field}: must not be negative")
    return int(value)


def _flag(field: str, _: str, value: Json) -> bool:
    if not isinstance(value, bool):
        raise InvalidArgument(f"{field}: must be true or false")
    return value


def _one_of(*words: str) -> _Check:
    def check(field: str, project: str, value: Json) -> str:
        text = _text(field, project, value)
        if text not in words:
            raise InvalidArgument(f"{field}: {shown(text)}; there are {', '.join(words)}")
        return text

    return check


_WINDOW: dict[str, _Check] = {"start_time": _time, "end_time": _time}
#: Of a redrive: what letters are looked for by.
_SELECTING = frozenset({*_WINDOW, "source", "reason", "filter"})
_TOPICS: dict[str, _Check] = {"topics": _list_of(_topic), "pattern": _pattern}

#: By kind: arguments that must be there, how each is checked, and the purpose of the job.
KINDS: dict[str, tuple[frozenset[str], dict[str, _Check], str]] = {
    "replay": (
        frozenset({"subscription"}),
        {"subscription": _subscription, **_WINDOW, "filter": _filter, "to_topic": _topic},
        "deliver a window of history again, or publish it as copies",
    ),
    "redrive": (
        frozenset({"subscription"}),
        {
            "subscription": _subscription,
            **_WINDOW,
            "reason": _text,
            "source": _subscription,
            "filter": _filter,
            "message_ids": _list_of(_text),
            "copies": _flag,
        },
        "bring dead letters back to where they failed",
    ),
    "backtest": (
        frozenset(),
        {
            **_TOPICS,
            **_WINDOW,
            "filter": _filter,
            "schema": _schema,
            "revision": _text,
            "encoding": _one_of("JSON", "BINARY"),
            "samples": _count,
        },
        "what a filter would have matched, or a schema refused, in history",
    ),
    "fan-out": (
        frozenset({"topic"}),
        {"topic": _topic, **_WINDOW, "message_id": _text, "reopen": _flag},
        "which subscriptions a window of history matches; and reopen it there",
    ),
    "compact": (
        frozenset(),
        {"table": _text, "target_bytes": _count, "drop_damaged": _flag},
        "merge the small files of the lake",
    ),
    "expire": (
        frozenset(),
        {"table": _text, "before": _time},
        "let go of what is older than its topic's retention; of another table, than a time",
    ),
    "import": (
        frozenset({"topic", "path", "format"}),
        {
            "topic": _topic,
            "path": _text,
            "format": _one_of("parquet", "json", "csv"),
            "data": _text,
            "attributes": _text,
            "ordering_key": _text,
        },
        "publish files",
    ),
    "verify": (
        frozenset(),
        {**_TOPICS, **_WINDOW},
        "compare lake and log: counts, gaps, duplicates, checksums",
    ),
}


def _check_window(found: Mapping[str, Json]) -> None:
    start, end = found.get("start_time"), found.get("end_time")
    if not isinstance(start, str) or not isinstance(end, str):
        return
    if start and end and times.parse(end) <= times.parse(start):
        raise InvalidArgument(f"arguments.end_time: {end} is not after start_time, {start}")


def _check_together(kind: str, found: Mapping[str, Json]) -> None:
    if "topics" in found and "pattern" in found:
        raise InvalidArgument("arguments.pattern: give topics, or a pattern")
    if kind == "backtest":
        if ("filter" in found) == ("schema" in found):
            raise InvalidArgument("arguments: backtest needs a filter, or a schema")
        if "revision" in found and "schema" not in found:
            raise InvalidArgument("arguments.revision: there is no schema")
        if "encoding" in found and "schema" not in found:
            raise InvalidArgument("arguments.encoding: there is no schema")
    if kind == "redrive" and "message_ids" in found and found.keys() & _SELECTING:
        raise InvalidArgument(
            "arguments.message_ids: give them, or a selection of source, reason, filter, "
            "start_time and end_time"
        )
    if kind == "expire":
        if ("table" in found) != ("before" in found):
            raise InvalidArgument("arguments: give table and before together, or neither of them")
        if found.get("table") == "messages":
            raise InvalidArgument(
                "arguments.table: rows of messages follow the retention of their topics; expire "
                "without a table lets go of those"
            )
    if (
        kind == "compact"
        and "drop_damaged" in found
        and found.get("table", "messages") != "messages"
    ):
        raise InvalidArgument("arguments.drop_damaged: only of messages")
    if kind == "fan-out" and "message_id" in found and found.keys() & {"start_time", "end_time"}:
        raise InvalidArgument("arguments.message_id: give a window, or one message")
