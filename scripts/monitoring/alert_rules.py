"""The alert rules of Prometheus, from which `deploy/prometheus/fanlog.rules.yml` is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import yaml

from scripts.monitoring.expressions import expression

Severity = Literal["critical", "warning", "info"]

_HEAD: Final = """\
# Made by `make docs` from scripts/monitoring/alert_rules.py and the table of metrics; do not edit.
# Load it with `rule_files:`. docs/guides/monitoring.md says what each alert asks for.
"""
#: A server of ours: metrics of processes have the same names everywhere.
_OURS: Final = "and on (job, instance) <fanlog_build_info>"
_OF: Final = "{{ $labels.subscription }}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One alert: it fires when the expression has held for so long."""

    name: str
    #: A template of `expressions`.
    when: str
    for_: str
    severity: Severity
    summary: str
    #: What to look at, or to do.
    advice: str

    @property
    def expression(self) -> str:
        return expression(self.when)


DELIVERY: Final = (
    Rule(
        name="FanlogDeadLettersArriving",
        when="sum by (job, instance, subscription) (increase(<fanlog_dead_letters>[10m])) > 0",
        for_="0m",
        severity="warning",
        summary=f"{_OF} made {{{{ $value | humanize }}}} dead letters in ten minutes",
        advice="`fanlog dead-letter list` shows them, `redrive` delivers them again.",
    ),
    Rule(
        name="FanlogDeadLettersFailing",
        when=(
            "sum by (job, instance, subscription)"
            " (increase(<fanlog_dead_letter_failures>[10m])) > 0"
        ),
        for_="0m",
        severity="critical",
        summary=f"dead letters of {_OF} go nowhere",
        advice="Its dead letter topic is gone, or the server may not publish to it; the log says.",
    ),
    Rule(
        name="FanlogBacklogLarge",
        when="<fanlog_backlog_messages> - <fanlog_backlog_pending_messages> > 100000",
        for_="15m",
        severity="warning",
        summary=f"{{{{ $value | humanize }}}} messages of {_OF} wait",
        advice="Its consumers do not keep up: look at their rate of acks, and add some.",
    ),
    Rule(
        name="FanlogBacklogOld",
        when=(
            "<fanlog_oldest_unacked_age_seconds> > 900"
            " and <fanlog_backlog_messages> > <fanlog_backlog_pending_messages>"
        ),
        for_="5m",
        severity="warning",
        summary=f"a message of {_OF} has waited for {{{{ $value | humanizeDuration }}}}",
        advice="`fanlog sub peek` shows it; one that always fails needs a dead letter policy.",
    ),
    Rule(
        name="FanlogConsumerGone",
        when=(
            "<fanlog_backlog_messages> - <fanlog_backlog_pending_messages> > 0"
            " and <fanlog_consumers> == 0 and increase(<fanlog_deliveries>[15m]) == 0"
        ),
        for_="10m",
        severity="warning",
        summary=f"nobody takes the {{{{ $value | humanize }}}} messages of {_OF}",
        advice="No stream, pull or push sender was there for a while: start its consumers.",
    ),
    Rule(
        name="FanlogNothingAcknowledged",
        when="increase(<fanlog_deliveries>[15m]) > 0 and increase(<fanlog_acks>[15m]) == 0",
        for_="15m",
        severity="warning",
        summary=f"{_OF} is delivered to and acknowledges nothing",
        advice="Its consumers fail, or take longer than the ack deadline.",
    ),
)

PUSH: Final = (
    Rule(
        name="FanlogEndpointFailing",
        when="max_over_time(<fanlog_push_breaker>[5m]) == 2",
        for_="5m",
        severity="warning",
        summary=f"the endpoint of {_OF} fails: its circuit breaker is open",
        advice="Messages wait, and one at a time is tried. `fanlog sub describe` has the reason.",
    ),
    Rule(
        name="FanlogPushOff",
        when="<fanlog_push_breaker> == 3",
        for_="0m",
        severity="critical",
        summary=f"the endpoint of {_OF} answered 410, and push is off",
        advice="Set its push config to resume, or delete the subscription.",
    ),
)

PUBLISHING: Final = (
    Rule(
        name="FanlogDegraded",
        when="<fanlog_degraded> == 1",
        for_="0m",
        severity="critical",
        summary="publishing is refused: there is no room",
        advice="`/readyz` says why. Free the disk, or let the archive come further.",
    ),
    Rule(
        name="FanlogPublishesRefused",
        when="sum by (job, instance, reason) (increase(<fanlog_publish_refusals>[5m])) > 0",
        for_="0m",
        severity="warning",
        summary="publishes were refused: {{ $labels.reason }}",
        advice="Publishers try again. The disk, the hot log or the writer is full.",
    ),
    Rule(
        name="FanlogPushedBack",
        when="sum by (job, instance, subscription) (increase(<fanlog_pushed_back>[5m])) > 0",
        for_="5m",
        severity="warning",
        summary=f"publishers are pushed back by the backlog of {_OF}",
        advice="It is critical and full: its consumers do not keep up.",
    ),
    Rule(
        name="FanlogMessagesDropped",
        when="sum by (job, instance, subscription, reason) (increase(<fanlog_dropped>[10m])) > 0",
        for_="0m",
        severity="warning",
        summary=f"a full backlog of {_OF} let messages go: {{{{ $labels.reason }}}}",
        advice="That is its policy; its consumers do not keep up.",
    ),
    Rule(
        name="FanlogCommitsFailing",
        when="increase(<fanlog_commit_failures>[10m]) > 0",
        for_="0m",
        severity="critical",
        summary="commits failed",
        advice="The disk is full or broken; the log says. Nothing was acknowledged meanwhile.",
    ),
    Rule(
        name="FanlogPublishSlow",
        when=(
            "histogram_quantile(0.99, sum by (job, instance, le)"
            " (rate(<fanlog_publish_seconds.bucket>[5m]))) > 1"
        ),
        for_="10m",
        severity="warning",
        summary="one publish in a hundred takes {{ $value | humanizeDuration }}",
        advice="Compare it with the time of commits: a slow disk, or a busy process.",
    ),
)

STORAGE: Final = (
    Rule(
        name="FanlogDiskLow",
        when="<fanlog_disk_room_bytes> < 2e9",
        for_="5m",
        severity="critical",
        summary="{{ $value | humanize1024 }}B can still be written",
        advice="Publishing stops at `disk_reserve_bytes`. Free the disk, or keep less.",
    ),
    Rule(
        name="FanlogDiskFilling",
        when="predict_linear(<fanlog_disk_room_bytes>[6h], 86400) < 0",
        for_="1h",
        severity="warning",
        summary="the disk is full within a day, if it goes on so",
        advice="Look for a backlog that grows, or a retention that is too long.",
    ),
    Rule(
        name="FanlogDamagedBatches",
        when="increase(<fanlog_damaged_batches>[1h]) > 0",
        for_="0m",
        severity="critical",
        summary="stored messages fail their checksum",
        advice="They are left out, and their neighbours served. Run `fanlog doctor`.",
    ),
    Rule(
        name="FanlogLakeAlarm",
        when="<fanlog_lake_alarm> == 1",
        for_="5m",
        severity="critical",
        summary="the lake is not as it should be, and nothing is trimmed",
        advice="`/readyz` and `fanlog lake describe` say why.",
    ),
    Rule(
        name="FanlogArchiveBehind",
        when=(
            "<fanlog_committed_sequence> > <fanlog_archived_sequence>"
            " and changes(<fanlog_archived_sequence>[30m]) == 0"
        ),
        for_="10m",
        severity="warning",
        summary="the archive has not come further for half an hour",
        advice="Is the pipeline running? The hot log keeps what is not archived.",
    ),
    Rule(
        name="FanlogJobsFailed",
        when='sum by (job, instance) (delta(<fanlog_jobs state="failed">[15m])) > 0',
        for_="0m",
        severity="warning",
        summary="jobs of the pipeline failed",
        advice="`fanlog job list` has their errors.",
    ),
)

PROCESS: Final = (
    Rule(
        name="FanlogRestarted",
        when=f"changes(<process_start_time_seconds>[15m]) > 0 {_OURS}",
        for_="0m",
        severity="info",
        summary="the server was started anew",
        advice="Leases of before are redelivered. Look for the reason if nobody asked for it.",
    ),
    Rule(
        name="FanlogLoopStalls",
        when=(
            "histogram_quantile(0.99, sum by (job, instance, le)"
            " (rate(<fanlog_loop_lag_seconds.bucket>[5m]))) > 0.25"
        ),
        for_="10m",
        severity="warning",
        summary="the event loop is late by {{ $value | humanizeDuration }}",
        advice="The processor is used up, by this process or by others.",
    ),
    Rule(
        name="FanlogFilesRunningOut",
        when=f"<process_open_fds> / <process_max_fds> > 0.8 {_OURS}",
        for_="5m",
        severity="warning",
        summary="{{ $value | humanizePercentage }} of the files that may be open are",
        advice="Connections will be turned away: raise the limit of the service.",
    ),
    Rule(
        name="FanlogClockStepped",
        when="increase(<fanlog_clock_steps>[15m]) > 0",
        for_="0m",
        severity="warning",
        summary="the machine's clock was set while the server ran",
        advice="Publish times and schedules follow it; leases do not. Have it slewed (chrony).",
    ),
    Rule(
        name="FanlogClockBehind",
        when="<fanlog_clock_behind_seconds> > 1",
        for_="1m",
        severity="warning",
        summary="the clock is {{ $value | humanizeDuration }} behind the last message",
        advice="It was set back, or ahead for a while. Publish times stand still until then.",
    ),
    Rule(
        name="FanlogExportFailing",
        when='increase(<fanlog_otlp_requests outcome="failed">[15m]) > 0',
        for_="0m",
        severity="warning",
        summary="the collector of {{ $labels.signal }} takes nothing",
        advice="The log says why. What could not be sent is lost; nothing else waits for it.",
    ),
    Rule(
        name="FanlogMetricsCut",
        when="<fanlog_metrics_cut> > 0",
        for_="15m",
        severity="info",
        summary="{{ $value }} resources have no metrics of their own: {{ $labels.kind }}",
        advice="Raise `metrics_resources_max` if Prometheus has room; these rules do not see them.",
    ),
)

GROUPS: Final = {
    "fanlog-delivery": DELIVERY,
    "fanlog-push": PUSH,
    "fanlog-publishing": PUBLISHING,
    "fanlog-storage": STORAGE,
    "fanlog-process": PROCESS,
}
RULES: Final[Sequence[Rule]] = tuple(rule for rules in GROUPS.values() for rule in rules)


def rules_file() -> str:
    """The text of the file of rules."""
    groups = [
        {"name": name, "rules": [_rule(rule) for rule in rules]} for name, rules in GROUPS.items()
    ]
    text: str = yaml.safe_dump({"groups": groups}, sort_keys=False, allow_unicode=True, width=100)
    return _HEAD + text


def _rule(rule: Rule) -> dict[str, object]:
    return {
        "alert": rule.name,
        "expr": rule.expression,
        "for": rule.for_,
        "labels": {"severity": rule.severity},
        "annotations": {"summary": rule.summary, "description": rule.advice},
    }
