"""Problems: what is wrong now, in sentences. Rules without I/O: facts and times are arguments.

A problem has a code, which never changes its meaning, and is about one resource or the server. It
is there while its rule holds, and nothing else is kept of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from fanlog import limits
from fanlog.model.jobs import Job

Severity = Literal["ERROR", "WARNING", "NOTE"]
Kind = Literal["server", "topic", "subscription", "schedule", "alert", "job"]

_RANK: Final[Mapping[Severity, int]] = {"ERROR": 0, "WARNING": 1, "NOTE": 2}


@dataclass(frozen=True, slots=True)
class ProblemCode:
    """A row of the table of problems."""

    severity: Severity
    kind: Kind
    #: When it is there, and what to do; for the page of problems.
    meaning: str


CODES: Final[Mapping[str, ProblemCode]] = {
    "publishing_refused": ProblemCode(
        *("ERROR", "server"),
        "There is no room for publishes. They are taken again as soon as there is.",
    ),
    "lake_alarm": ProblemCode(
        *("ERROR", "server"),
        "The lake is not as it should be: nothing is trimmed. `fanlog lake status` says more.",
    ),
    "damaged_batches": ProblemCode(
        *("ERROR", "server"),
        "Stored messages that failed their checksum were met since the server started. "
        "`fanlog doctor` finds all of them.",
    ),
    "commits_failed": ProblemCode(
        *("WARNING", "server"),
        "Commits failed since the server started: their callers were told. The log says why.",
    ),
    "disk_low": ProblemCode(
        *("WARNING", "server"),
        "Little can still be written before publishes are refused. Free some room on the disk.",
    ),
    "archive_stalled": ProblemCode(
        *("WARNING", "server"),
        "The archive has not come further for a while. Look whether the pipeline runs.",
    ),
    "backlog_ending": ProblemCode(
        *("ERROR", "subscription"),
        "Messages that wait are let go of soon, unacknowledged: the subscription's retention ends. "
        "Consume them, or give it a longer retention.",
    ),
    "push_off": ProblemCode(
        *("ERROR", "subscription"),
        "The endpoint said that it is gone: nothing is pushed until push_config is set again.",
    ),
    "push_failing": ProblemCode(
        *("WARNING", "subscription"), "The endpoint fails, and is left alone for a while each time."
    ),
    "export_failing": ProblemCode(
        *("WARNING", "subscription"), "Messages cannot be exported to their table, or bucket."
    ),
    "subscription_stalled": ProblemCode(
        *("WARNING", "subscription"),
        "Messages wait, there is a consumer, and it has acknowledged none for 10 minutes.",
    ),
    "subscription_unattended": ProblemCode(
        *("WARNING", "subscription"), "Messages wait for 10 minutes, and there is no consumer."
    ),
    "backlog_high": ProblemCode(
        *("WARNING", "subscription"), "The backlog is above the high mark of its policy."
    ),
    "dead_letters_arriving": ProblemCode(
        *("WARNING", "subscription"), "Messages became dead letters within the last 15 minutes."
    ),
    "topic_deleted": ProblemCode(
        *("NOTE", "subscription"), "Its topic was deleted: it gets no more messages."
    ),
    "subscription_detached": ProblemCode(
        *("NOTE", "subscription"), "It is detached from its topic, and has no messages."
    ),
    "schema_deleted": ProblemCode(
        *("ERROR", "topic"),
        "The schema of the topic was deleted: all publishes to it are refused. Set its "
        "schema_settings, or clear them.",
    ),
    "schedule_failing": ProblemCode(
        *("WARNING", "schedule"), "The latest tick of the schedule cannot be published."
    ),
    "alert_holding": ProblemCode(
        *("WARNING", "alert"),
        "The rule of an alert holds. It began with a message to the topic `fanlog.alerts`.",
    ),
    "alert_untold": ProblemCode(
        *("WARNING", "alert"),
        "The message of an alert cannot be published. It is tried again every few seconds.",
    ),
    "job_waiting": ProblemCode(
        *("WARNING", "job"),
        "No worker has taken the job for 2 minutes. Look whether the pipeline runs.",
    ),
    "job_failed": ProblemCode(
        *("WARNING", "job"), "The job failed within the last day. Delete it once it is seen to."
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    code: str
    #: Full name; empty for the server.
    resource: str
    sentence: str
    #: None when that is not known.
    since_s: float | None = None

    @property
    def severity(self) -> Severity:
        return CODES[self.code].severity

    @property
    def kind(self) -> Kind:
        return CODES[self.code].kind


def by_rank(found: Iterable[Problem]) -> list[Problem]:
    """The worst first; of the same severity those that hold longest."""
    return sorted(
        found, key=lambda one: (_RANK[one.severity], one.since_s or 0.0, one.resource, one.code)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionFacts:
    """A subscription as the rules look at it."""

    name: str
    mode: str
    messages: int
    #: Those of them that could be delivered now, or are outstanding.
    ready: int
    #: Since the oldest was published; 0 without any.
    oldest_age_s: float
    consumers: int
    #: The last acknowledgement since the broker started; None for none.
    acked_s: float | None
    #: The last message that became a dead letter since then, and how many did.
    letter_s: float | None
    letters: int
    retention_s: float
    #: Why messages are not pushed just now.
    trouble: str = ""
    is_push_off: bool = False
    is_detached: bool = False
    is_topic_gone: bool = False
    #: How full its backlog is, and the high mark; None without limits.
    fill: float | None = None
    high: float = 1.0


def of_subscription(facts: SubscriptionFacts, now: float, started_s: float) -> Iterator[Problem]:
    """The problems of a subscription, with the time since when the broker runs."""
    short = facts.name.rpartition("/")[2]
    if facts.is_detached:
        yield _of(facts, "subscription_detached", f"{short} is detached from its topic")
        return
    if facts.is_topic_gone:
        yield _of(facts, "topic_deleted", f"{short} gets nothing more: its topic was deleted")
    if facts.trouble:
        code = "push_off" if facts.is_push_off else "push_failing"
        code = "export_failing" if facts.mode == "export" else code
        yield _of(facts, code, f"{short}: {facts.trouble}")
    waiting = f"{facts.messages:,} message{'s wait' if facts.messages != 1 else ' waits'}"
    if facts.messages:
        left_s = facts.retention_s - facts.oldest_age_s
        if left_s < min(limits.ENDING_S, facts.retention_s / limits.ENDING_PART):
            yield _of(
                *(facts, "backlog_ending"),
                f"{short} loses its oldest messages unacknowledged in {lasting(max(0.0, left_s))}: "
                f"its retention ends; {waiting}",
                now - facts.oldest_age_s + facts.retention_s - limits.ENDING_S,
            )
    idle_s = min(facts.oldest_age_s, now - max(facts.acked_s or 0.0, started_s))
    if facts.ready and not facts.trouble:
        if facts.consumers and idle_s >= limits.STALLED_S:
            verb = "exported" if facts.mode == "export" else "acknowledged"
            yield _of(
                *(facts, "subscription_stalled"),
                f"{short} has not {verb} for {lasting(idle_s)}; {waiting}",
                now - idle_s,
            )
        elif not facts.consumers and idle_s >= limits.UNATTENDED_S:
            yield _of(
                *(facts, "subscription_unattended"),
                f"{short} has no consumer, and no message was acknowledged for {lasting(idle_s)}; "
                f"{waiting}",
                now - idle_s,
            )
    if facts.fill is not None and facts.fill >= facts.high:
        yield _of(
            *(facts, "backlog_high"),
            f"the backlog of {short} is {facts.fill:.0%} full; {waiting}",
        )
    if facts.letter_s is not None and now - facts.letter_s <= limits.LETTERS_LATELY_S:
        since = "since the server started"
        yield _of(
            *(facts, "dead_letters_arriving"),
            f"{facts.letters:,} {_messages(facts.letters)} of {short} became dead letters {since}, "
            f"the last {lasting(now - facts.letter_s)} ago",
            facts.letter_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """The server as the rules look at it."""

    degraded: str
    lake_alarm: str
    damaged: int
    commits_failed: int
    room_bytes: int
    #: Below this many bytes of room publishes are refused; 0 where they never are.
    reserve_bytes: int
    #: Commits that the archive lacks, and since when it has come no further.
    unarchived: int
    archive_idle_s: float


def of_server(facts: ServerFacts, now: float) -> Iterator[Problem]:
    if facts.degraded:
        yield Problem(code="publishing_refused", resource="", sentence=facts.degraded)
    if facts.lake_alarm:
        sentence = f"the lake: {facts.lake_alarm}"
        yield Problem(code="lake_alarm", resource="", sentence=sentence)
    if facts.damaged:
        sentence = f"{facts.damaged:,} damaged batches were met since the server started"
        yield Problem(code="damaged_batches", resource="", sentence=sentence)
    if facts.commits_failed:
        sentence = f"{facts.commits_failed:,} commits failed since the server started"
        yield Problem(code="commits_failed", resource="", sentence=sentence)
    if not facts.degraded and facts.room_bytes < facts.reserve_bytes * limits.ROOM_LOW_RESERVES:
        room = max(0, facts.room_bytes - facts.reserve_bytes)
        sentence = f"{in_bytes(room)} can still be written before publishes are refused"
        yield Problem(code="disk_low", resource="", sentence=sentence)
    if facts.unarchived and facts.archive_idle_s >= limits.STALLED_S:
        yield Problem(
            code="archive_stalled",
            resource="",
            sentence=f"the archive has not come further for {lasting(facts.archive_idle_s)}; "
            f"{facts.unarchived:,} commits are not in the lake",
            since_s=now - facts.archive_idle_s,
        )


def of_topic(name: str) -> Problem:
    """The problem of a topic whose schema was deleted."""
    short = name.rpartition("/")[2]
    sentence = f"{short} takes no messages: its schema was deleted"
    return Problem(code="schema_deleted", resource=name, sentence=sentence)


def of_schedule(name: str, error: str, failed_s: float) -> Problem:
    """The problem of a schedule whose latest tick failed."""
    sentence = f"{name.rpartition('/')[2]} cannot publish its tick: {error}"
    return Problem(code="schedule_failing", resource=name, sentence=sentence, since_s=failed_s)


def of_alert(name: str, sentence: str, since_s: float) -> Problem:
    """The problem of an alert that holds."""
    return Problem(code="alert_holding", resource=name, sentence=sentence, since_s=since_s)


def of_untold_alert(name: str, error: str) -> Problem:
    """The problem of an alert whose message cannot be published."""
    sentence = f"{name.rpartition('/')[2]} cannot publish its message: {error}"
    return Problem(code="alert_untold", resource=name, sentence=sentence)


def of_job(job: Job, now: float) -> Iterator[Problem]:
    short = f"{job.kind} {job.name.rpartition('/')[2]}"
    if job.state == "WAITING" and now - job.created_s >= limits.JOB_WAITS_S:
        yield Problem(
            code="job_waiting",
            resource=job.name,
            sentence=f"no worker has taken the job {short} for {lasting(now - job.created_s)}",
            since_s=job.created_s,
        )
    elif job.state == "FAILED" and now - job.ended_s <= limits.JOB_FAILED_S:
        yield Problem(
            code="job_failed",
            resource=job.name,
            sentence=f"the job {short} failed: {job.error}" if job.error else f"{short} failed",
            since_s=job.ended_s,
        )


def lasting(seconds: float) -> str:
    """A time as people say it: `14 min`, `3 h`, `2 d`."""
    for unit_s, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= unit_s:
            return f"{int(seconds // unit_s)} {unit}"
    return f"{int(seconds)} s"


def in_bytes(size_bytes: int) -> str:
    """A size as people say it: `1.5 GiB`."""
    size = float(size_bytes)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1_024:
            return f"{size_bytes} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1_024
    return f"{size:.1f} TiB"


def _of(
    facts: SubscriptionFacts, code: str, sentence: str, since_s: float | None = None
) -> Problem:
    return Problem(code=code, resource=facts.name, sentence=sentence, since_s=since_s)


def _messages(count: int) -> str:
    return "message" if count == 1 else "messages"
