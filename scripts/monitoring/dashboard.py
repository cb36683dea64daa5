"""The dashboard of Grafana, from which `deploy/grafana/fanlog.json` is written.

Titles and units are of the panels; their descriptions are those of the metrics they show.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scripts.monitoring.expressions import expression, families_of

_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
#: Of the dashboard's variables.
_JOB: Final = 'job=~"$job"'
_TOPICS: Final = 'topic=~"$topic"'
_SUBSCRIPTIONS: Final = 'subscription=~"$subscription"'
_RATE: Final = "[$__rate_interval]"
_COLUMNS, _HEIGHT = 3, 7


@dataclass(frozen=True, slots=True)
class Query:
    #: A template of `expressions`.
    template: str
    #: The name of a line; `{{label}}` is the value of a label.
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    queries: Sequence[Query]
    #: A unit of Grafana: short, s, bytes, Bps, ops, percentunit.
    unit: str = "short"
    #: Whether it is one number.
    is_stat: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    panels: Sequence[Panel]
    matchers: tuple[str, ...] = (_JOB,)


def _rate(name: str) -> str:
    return f"sum(rate(<{name}>{_RATE}))"


def _rate_by(name: str, label: str) -> str:
    return f"sum by ({label}) (rate(<{name}>{_RATE}))"


def _top(template: str) -> str:
    return f"topk(20, {template})"


def _times(title: str, name: str) -> Panel:
    """Half, most and nearly all values of a histogram are below these lines."""
    lines = [
        Query(
            f"histogram_quantile({part}, sum by (le) (rate(<{name}.bucket>{_RATE})))", f"{legend}"
        )
        for part, legend in ((0.5, "median"), (0.9, "90 %"), (0.99, "99 %"))
    ]
    return Panel(title, lines, "s")


def _of_topics(title: str, template: str, unit: str = "short") -> Panel:
    return Panel(title, [Query(_top(template), "{{topic}}")], unit)


def _of_subscriptions(title: str, template: str, unit: str = "short") -> Panel:
    return Panel(title, [Query(_top(template), "{{subscription}}")], unit)


def _rates(title: str, names: dict[str, str], unit: str = "ops") -> Panel:
    return Panel(title, [Query(_rate(name), legend) for name, legend in names.items()], unit)


OVERVIEW: Final = Row(
    "Overview",
    (
        Panel("Published", [Query(_rate("fanlog_published"), "in")], "ops", is_stat=True),
        Panel("Acknowledged", [Query(_rate("fanlog_acks"), "acked")], "ops", is_stat=True),
        Panel("Backlog", [Query("sum(<fanlog_backlog_messages>)", "messages")], is_stat=True),
        Panel(
            "Oldest unacknowledged",
            [Query("max(<fanlog_oldest_unacked_age_seconds>)", "age")],
            "s",
            is_stat=True,
        ),
        Panel("Publishing refused", [Query("max(<fanlog_degraded>)", "degraded")], is_stat=True),
        Panel(
            "Resources",
            [
                Query("sum(<fanlog_topics>)", "topics"),
                Query("sum(<fanlog_subscriptions>)", "subscriptions"),
                Query("sum(<fanlog_streams>)", "streams"),
            ],
            is_stat=True,
        ),
        _rates(
            "Messages",
            {
                "fanlog_published": "published",
                "fanlog_deliveries": "delivered",
                "fanlog_acks": "acknowledged",
            },
        ),
        _rates(
            "Trouble",
            {
                "fanlog_nacks": "nacked",
                "fanlog_expiries": "expired",
                "fanlog_redeliveries": "delivered again",
                "fanlog_dead_letters": "dead letters",
                "fanlog_lapsed_messages": "lapsed",
            },
        ),
        _times("Time of a publish", "fanlog_publish_seconds"),
        _times("From publish to delivery", "fanlog_delivery_seconds"),
        _times("From publish to acknowledgement", "fanlog_ack_seconds"),
        Panel(
            "Calls that failed, by code",
            [Query('sum by (code) (rate(<fanlog_calls code!="OK">' + _RATE + "))", "{{code}}")],
            "ops",
        ),
    ),
)

TOPIC_ROW: Final = Row(
    "Topics",
    (
        _of_topics("Published", _rate_by("fanlog_topic_published", "topic"), "ops"),
        _of_topics("Bytes published", _rate_by("fanlog_topic_published_bytes", "topic"), "Bps"),
        _of_topics("Publishes", _rate_by("fanlog_topic_publishes", "topic"), "ops"),
        _of_topics("Messages in the log", "sum by (topic) (<fanlog_topic_stored_messages>)"),
        _of_topics("Refused by the rate", _rate_by("fanlog_publish_rate_refusals", "topic"), "ops"),
        _of_topics("Fullest backlog", "max by (topic) (<fanlog_topic_pressure>)", "percentunit"),
    ),
    (_JOB, _TOPICS),
)

SUBSCRIPTION_ROW: Final = Row(
    "Subscriptions",
    (
        _of_subscriptions("Backlog", "sum by (subscription) (<fanlog_backlog_messages>)"),
        _of_subscriptions(
            "Age of the oldest",
            "max by (subscription) (<fanlog_oldest_unacked_age_seconds>)",
            "s",
        ),
        _of_subscriptions("Outstanding", "sum by (subscription) (<fanlog_outstanding_messages>)"),
        _of_subscriptions("Delivered", _rate_by("fanlog_deliveries", "subscription"), "ops"),
        _of_subscriptions("Acknowledged", _rate_by("fanlog_acks", "subscription"), "ops"),
        _of_subscriptions(
            "Mean time from publish to acknowledgement",
            f"{_rate_by('fanlog_ack_wait_seconds', 'subscription')}"
            f" / {_rate_by('fanlog_acks', 'subscription')}",
            "s",
        ),
        _of_subscriptions("Nacked", _rate_by("fanlog_nacks", "subscription"), "ops"),
        _of_subscriptions("Expired", _rate_by("fanlog_expiries", "subscription"), "ops"),
        _of_subscriptions("Dead letters", _rate_by("fanlog_dead_letters", "subscription"), "ops"),
        _of_subscriptions(
            "Dropped by full backlogs", _rate_by("fanlog_dropped", "subscription"), "ops"
        ),
        _of_subscriptions("Consumers", "sum by (subscription) (<fanlog_consumers>)"),
        _of_subscriptions(
            "Bytes delivered", _rate_by("fanlog_delivered_bytes", "subscription"), "Bps"
        ),
    ),
    (_JOB, _SUBSCRIPTIONS),
)

PUSH: Final = Row(
    "Push",
    (
        Panel(
            "Requests by outcome",
            [Query(_rate_by("fanlog_push_outcomes", "outcome"), "{{outcome}}")],
            "ops",
        ),
        _of_subscriptions(
            "Circuit breaker: 0 closed, 1 half-open, 2 open, 3 off",
            "max by (subscription) (<fanlog_push_breaker>)",
        ),
        _of_subscriptions("Window", "sum by (subscription) (<fanlog_push_window>)"),
        _of_subscriptions(
            "Waits for the rate", _rate_by("fanlog_push_rate_waits", "subscription"), "ops"
        ),
    ),
    (_JOB, _SUBSCRIPTIONS),
)

DISK: Final = Row(
    "Log and disk",
    (
        Panel(
            "Disk",
            [
                Query("sum(<fanlog_disk_bytes>)", "store"),
                Query("sum(<fanlog_disk_free_page_bytes>)", "free in it"),
                Query("sum(<fanlog_default_retention_bytes>)", "kept by default"),
            ],
            "bytes",
        ),
        Panel("Room", [Query("min(<fanlog_disk_room_bytes>)", "room")], "bytes"),
        _times("Time of a commit", "fanlog_commit_seconds"),
        _times("Time of a push request", "fanlog_push_seconds"),
        Panel(
            "Commits",
            [Query(f"sum(rate(<fanlog_commit_seconds.count>{_RATE}))", "commits")],
            "ops",
        ),
        Panel(
            "Bytes of a commit, on average",
            [
                Query(
                    f"sum(rate(<fanlog_commit_bytes.sum>{_RATE}))"
                    f" / sum(rate(<fanlog_commit_bytes.count>{_RATE}))",
                    "bytes",
                )
            ],
            "bytes",
        ),
        Panel(
            "Publishes refused",
            [Query(_rate_by("fanlog_publish_refusals", "reason"), "{{reason}}")],
            "ops",
        ),
        _rates(
            "Commits that failed, damaged batches",
            {"fanlog_commit_failures": "failed", "fanlog_damaged_batches": "damaged"},
        ),
        _rates(
            "Trimmed before its time",
            {"fanlog_default_retention_trimmed_messages": "messages"},
        ),
    ),
)

PIPELINE: Final = Row(
    "Pipeline",
    (
        Panel(
            "Commits not yet in the lake",
            [
                Query(
                    "sum(<fanlog_committed_sequence>) - sum(<fanlog_archived_sequence>)", "commits"
                )
            ],
        ),
        Panel("Lake alarm", [Query("max(<fanlog_lake_alarm>)", "alarm")]),
        Panel("Jobs", [Query("sum by (state) (<fanlog_jobs>)", "{{state}}")]),
        Panel(
            "Schedules",
            [
                Query(_rate("fanlog_schedule_ticks_published"), "published"),
                Query(_rate("fanlog_schedule_ticks_missed"), "missed"),
                Query(_rate("fanlog_schedule_tick_failures"), "failed"),
            ],
            "ops",
        ),
    ),
)

PROCESS: Final = Row(
    "Process",
    (
        Panel(
            "Processor",
            [Query(f"rate(<process_cpu_seconds>{_RATE})", "{{instance}}")],
            "percentunit",
        ),
        Panel("Memory", [Query("<process_resident_memory_bytes>", "{{instance}}")], "bytes"),
        _times("How late the loop is", "fanlog_loop_lag_seconds"),
        Panel(
            "Open files",
            [
                Query("<process_open_fds>", "open on {{instance}}"),
                Query("<process_max_fds>", "at most on {{instance}}"),
            ],
        ),
        Panel("Connections", [Query("sum by (protocol) (<fanlog_connections>)", "{{protocol}}")]),
        Panel(
            "Calls by method",
            [Query(_top(_rate_by("fanlog_calls", "method")), "{{method}}")],
            "ops",
        ),
        Panel(
            "Requests given up",
            [Query(_rate_by("fanlog_requests_given_up", "reason"), "{{reason}}")],
            "ops",
        ),
        Panel(
            "Credentials that were not believed",
            [Query(_rate_by("fanlog_authentication_failures", "reason"), "{{reason}}")],
            "ops",
        ),
        Panel(
            "Clock",
            [
                Query("max(<fanlog_clock_behind_seconds>)", "behind"),
                Query(f"sum(increase(<fanlog_clock_steps>{_RATE}))", "steps"),
            ],
        ),
        Panel(
            "Up since",
            [Query("<process_start_time_seconds> * 1000", "{{instance}}")],
            "dateTimeFromNow",
            is_stat=True,
        ),
        Panel(
            "Resources without metrics", [Query("sum by (kind) (<fanlog_metrics_cut>)", "{{kind}}")]
        ),
    ),
)

ROWS: Final = (OVERVIEW, TOPIC_ROW, SUBSCRIPTION_ROW, PUSH, DISK, PIPELINE, PROCESS)


def expressions() -> Iterator[tuple[str, str]]:
    """Every expression, with the row and panel that it is of."""
    for row in ROWS:
        for panel in row.panels:
            for query in panel.queries:
                yield f"{row.title}: {panel.title}", _written(query, row)


def dashboard_file() -> str:
    """The text of the dashboard's file."""
    panels: list[dict[str, Any]] = []
    top = 0
    for row in ROWS:
        panels.append(_row(row, len(panels), top))
        top += 1
        for number, panel in enumerate(row.panels):
            place = {
                "x": number % _COLUMNS * 8,
                "y": top + number // _COLUMNS * _HEIGHT,
                "w": 8,
                "h": _HEIGHT,
            }
            panels.append(_panel(panel, row, len(panels), place))
        top += -(-len(row.panels) // _COLUMNS) * _HEIGHT
    return json.dumps(_whole(panels), indent=2, ensure_ascii=False) + "\n"


def _written(query: Query, row: Row) -> str:
    return expression(query.template, *row.matchers)


def _whole(panels: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "title": "Fanlog",
        "uid": "fanlog",
        "description": "Made by `make docs` from scripts/monitoring/dashboard.py.",
        "tags": ["fanlog"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": list(_variables())},
        "annotations": {"list": []},
        "links": [],
        "panels": panels,
    }


def _variables() -> Iterator[dict[str, Any]]:
    yield {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
    }
    for name, template in VARIABLES.items():
        query = f"label_values({expression(template, *(() if name == 'job' else (_JOB,)))}, {name})"
        yield {
            "name": name,
            "label": name.capitalize(),
            "type": "query",
            "datasource": _SOURCE,
            "query": {"query": query, "refId": name},
            "definition": query,
            "refresh": 2,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
            "sort": 1,
        }


#: The metric that has the values of each variable.
VARIABLES: Final = {
    "job": "<fanlog_build_info>",
    "topic": "<fanlog_topic_published>",
    "subscription": "<fanlog_deliveries>",
}


def _row(row: Row, number: int, top: int) -> dict[str, Any]:
    return {
        "id": number + 1,
        "type": "row",
        "title": row.title,
        "collapsed": False,
        "gridPos": {"x": 0, "y": top, "w": 24, "h": 1},
        "panels": [],
    }


def _panel(panel: Panel, row: Row, number: int, place: dict[str, int]) -> dict[str, Any]:
    named = dict.fromkeys(one for query in panel.queries for one in families_of(query.template))
    return {
        "id": number + 1,
        "type": "stat" if panel.is_stat else "timeseries",
        "title": panel.title,
        "description": "\n".join(f"`{one.name}`: {one.text}" for one in named),
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": _STAT_OPTIONS if panel.is_stat else _LINE_OPTIONS,
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "expr": _written(query, row),
                "legendFormat": query.legend,
            }
            for index, query in enumerate(panel.queries)
        ],
    }


_STAT_OPTIONS: Final = {
    "colorMode": "none",
    "graphMode": "area",
    "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
}
_LINE_OPTIONS: Final = {
    "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
    "tooltip": {"mode": "multi", "sort": "desc"},
}
