"""The dashboard and the alert rules: they are current, and Prometheus makes sense of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from scripts.monitoring.__main__ import DEPLOY, FILES
from scripts.monitoring.alert_rules import RULES, rules_file
from scripts.monitoring.dashboard import VARIABLES, expressions
from scripts.monitoring.expressions import expression

from fanlog.server.metric_families import FAMILIES
from monitoring.conftest import Promtool
from monitoring.scraped import MINUTES, Change, Sample, samples, series
from monitoring.worked import worked

ROOT = DEPLOY.parent
CLI = (ROOT / "docs" / "reference" / "cli.md").read_text()

#: A bound that makes a histogram's high values the most of them.
STALLED = {"le": "+Inf"}
#: How the series go on that make each alert fire.
SCENES: dict[str, list[Change]] = {
    "FanlogDeadLettersArriving": [Change("fanlog_dead_letters_total", 1)],
    "FanlogDeadLettersFailing": [Change("fanlog_dead_letter_failures_total", 1)],
    "FanlogBacklogLarge": [Change("fanlog_backlog_messages", 5_000)],
    "FanlogBacklogOld": [
        Change("fanlog_oldest_unacked_age_seconds", 60),
        Change("fanlog_backlog_messages", 0, 1),
    ],
    "FanlogConsumerGone": [
        Change("fanlog_backlog_messages", 0, 7),
        Change("fanlog_consumers", 0, 0),
    ],
    "FanlogNothingAcknowledged": [Change("fanlog_deliveries_total", 10)],
    "FanlogEndpointFailing": [Change("fanlog_push_breaker", 0, 2)],
    "FanlogPushOff": [Change("fanlog_push_breaker", 0, 3)],
    "FanlogDegraded": [Change("fanlog_degraded", 0, 1)],
    "FanlogPublishesRefused": [Change("fanlog_publish_refusals_total", 2)],
    "FanlogPushedBack": [Change("fanlog_pushed_back_total", 2)],
    "FanlogMessagesDropped": [Change("fanlog_dropped_total", 2)],
    "FanlogCommitsFailing": [Change("fanlog_commit_failures_total", 1)],
    "FanlogPublishSlow": [Change("fanlog_publish_seconds_bucket", 100, labels=STALLED)],
    "FanlogDiskLow": [Change("fanlog_disk_room_bytes", 0, 1e9)],
    "FanlogDiskFilling": [Change("fanlog_disk_room_bytes", -1e9, 1e12)],
    "FanlogDamagedBatches": [Change("fanlog_damaged_batches_total", 1)],
    "FanlogLakeAlarm": [Change("fanlog_lake_alarm", 0, 1)],
    "FanlogArchiveBehind": [Change("fanlog_committed_sequence", 1)],
    "FanlogJobsFailed": [Change("fanlog_jobs", 1, labels={"state": "failed"})],
    "FanlogRestarted": [Change("process_start_time_seconds", 1)],
    "FanlogLoopStalls": [Change("fanlog_loop_lag_seconds_bucket", 100, labels=STALLED)],
    "FanlogFilesRunningOut": [
        Change("process_open_fds", 0, 900),
        Change("process_max_fds", 0, 1_000),
    ],
    "FanlogClockStepped": [Change("fanlog_clock_steps_total", 1)],
    "FanlogClockBehind": [Change("fanlog_clock_behind_seconds", 0, 5)],
    "FanlogExportFailing": [Change("fanlog_otlp_requests_total", 1, labels={"outcome": "failed"})],
    "FanlogMetricsCut": [Change("fanlog_metrics_cut", 0, 3)],
}
#: Alerts that fire along with another one: where one is meant, the other one is true as well.
ALONG = {
    "FanlogBacklogLarge": {"FanlogConsumerGone"},
    "FanlogBacklogOld": {"FanlogConsumerGone"},
}


@pytest.fixture(scope="module")
def scrape(tmp_path_factory: pytest.TempPathFactory) -> list[Sample]:
    """A scrape of a server with something of everything that the rules and panels look at."""
    return samples(worked(tmp_path_factory.mktemp("monitoring")))


@pytest.mark.parametrize("name", FILES)
def test_the_files_are_current(name):
    assert (DEPLOY / name).read_text() == FILES[name](), "stale: run `make docs`"


def test_every_rule_has_its_scene():
    assert SCENES.keys() == {rule.name for rule in RULES}


def test_the_guide_has_every_alert():
    guide = (ROOT / "docs" / "guides" / "monitoring.md").read_text()
    rows = re.findall(r"^\| (`Fanlog.*?) \| (.*?) \|", guide, re.MULTILINE)
    told = {
        name: severity
        for names, severities in rows
        for name, severity in zip(
            re.findall(r"`(\w+)`", names),
            severities.split(", ") if ", " in severities else [severities] * 9,
            strict=False,
        )
    }
    assert told == {rule.name: rule.severity for rule in RULES}


def test_every_command_of_an_advice_is_one():
    for rule in RULES:
        for command in re.findall(r"`(fanlog [a-z -]+)`", rule.advice):
            assert f"## `{command}" in CLI, f"{rule.name}: {command}"


def test_templates_name_what_there_is():
    assert expression("sum(<fanlog_acks>)", 'job="x"') == 'sum(fanlog_acks_total{job="x"})'
    assert expression("<fanlog_commit_seconds.bucket>") == "fanlog_commit_seconds_bucket"
    assert expression('<fanlog_jobs state="failed">') == 'fanlog_jobs{state="failed"}'
    for wrong in (
        "<fanlog_nothing>",
        "<fanlog_commit_seconds>",
        "<fanlog_acks.sum>",
        '<fanlog_jobs stat="failed">',
    ):
        with pytest.raises(KeyError):
            expression(wrong)


def test_the_dashboard_is_whole():
    dashboard = json.loads((DEPLOY / "grafana/fanlog.json").read_text())
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))
    rows = [panel["title"] for panel in dashboard["panels"] if panel["type"] == "row"]
    assert rows == [
        *("Overview", "Topics", "Subscriptions", "Push", "Log and disk", "Pipeline", "Process")
    ]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    assert len(places) == len(set(places)), "two panels in one place"
    shown = {target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])}
    assert shown == {one for _, one in expressions()}
    names = {one["name"] for one in dashboard["templating"]["list"]}
    assert set(re.findall(r"\$([a-z]+)", " ".join(shown))) <= names
    for name, template in VARIABLES.items():
        family = FAMILIES[template.strip("<>")]
        assert name == "job" or name in family.labels


def _plain(text: str) -> str:
    """An expression of the dashboard, without its variables."""
    return re.sub(r"\$(job|topic|subscription)", ".*", text.replace("$__rate_interval", "5m"))


def _names(text: str) -> set[str]:
    """The metrics that an expression names."""
    return set(re.findall(r"\b(?:fanlog|process|python)_[a-z_]+", text))


#: Labels by which an expression sums up.
_BY = re.compile(r"\bby \(([^)]*)\)")


def test_every_expression_names_metrics_of_a_real_scrape(scrape):
    there = {sample.name for sample in scrape}
    labels = {
        name: {label for sample in scrape if sample.name == name for label in sample.labels}
        for name in there
    }
    everything = [*expressions(), *((rule.name, rule.expression) for rule in RULES)]
    for place, text in everything:
        # Labels of messages, such as those of a matcher, are no names.
        bare = re.sub(r"\{[^}]*\}", "", text)
        assert _names(bare), place
        assert _names(bare) <= there, place
        for by in _BY.findall(bare):
            wanted = set(by.replace(" ", "").split(",")) - {"job", "instance"}
            assert any(wanted <= labels[name] for name in _names(bare)), f"{place}: by {by}"


def test_prometheus_reads_the_rules(promtool):
    code, said = promtool("check", "rules", DEPLOY / "prometheus/fanlog.rules.yml")
    assert code == 0, said
    assert f"{len(RULES)} rules found" in said


def test_prometheus_refuses_a_rule_that_is_none(promtool, tmp_path):
    """The check bites."""
    path = tmp_path / "rules.yml"
    path.write_text(rules_file().replace("increase(", "increase((", 1))
    code, _ = promtool("check", "rules", path)
    assert code != 0


def test_every_panel_shows_something_of_a_real_scrape(promtool, scrape, tmp_path):
    """Counters grow, so that their rates are numbers."""
    grown = [
        Change(name, 1)
        for name in {sample.name for sample in scrape}
        if name.endswith(("_total", "_sum", "_count", "_bucket"))
    ]
    shown = [f"count({_plain(one)}) > bool 0" for _, one in expressions()]
    test = {
        "input_series": list(series(scrape, grown)),
        "promql_expr_test": [
            {"expr": one, "eval_time": "30m", "exp_samples": [{"labels": "{}", "value": 1}]}
            for one in shown
        ],
    }
    assert _test(promtool, tmp_path, test) == ""


def test_no_alert_fires_while_all_is_well(promtool, scrape, tmp_path):
    assert _firing(promtool, tmp_path, scrape, []) == set()


@pytest.mark.parametrize("name", SCENES)
def test_the_alert_fires(name, promtool, scrape, tmp_path):
    changes = SCENES[name]
    touched = [sample for sample in scrape if any(one.takes(sample) for one in changes)]
    assert touched, "the scrape has nothing of this"
    firing = _firing(promtool, tmp_path, scrape, changes)
    assert name in firing
    assert firing - {name} <= ALONG.get(name, set())


def _quiet(found: list[Sample]) -> list[Sample]:
    """The scrape of a server that is well, whatever was tried on it before."""
    well = {
        "fanlog_backlog_messages": 0,
        "fanlog_oldest_unacked_age_seconds": 0,
        "fanlog_push_breaker": 0,
        "fanlog_metrics_cut": 0,
        "fanlog_lake_alarm": 0,
        "fanlog_disk_room_bytes": 1e12,
        "fanlog_archived_sequence": 1,
        "fanlog_committed_sequence": 1,
        "process_open_fds": 10,
    }
    return [Sample(one.name, one.labels, well.get(one.name, one.value)) for one in found]


def _firing(
    promtool: Promtool, folder: Path, found: list[Sample], changes: list[Change]
) -> set[str]:
    """The alerts that fire.

    promtool compares, and names what is otherwise: here it expects that every alert fires.
    """
    names = {rule.name for rule in RULES}
    tests = [
        {
            "expr": f'count(ALERTS{{alertname="{name}",alertstate="firing"}}) > bool 0',
            "eval_time": f"{MINUTES - 1}m",
            "exp_samples": [{"labels": "{}", "value": 1}],
        }
        for name in names
    ]
    inputs = list(series(_quiet(found), changes))
    said = _test(promtool, folder, {"input_series": inputs, "promql_expr_test": tests})
    quiet = set(re.findall(r'alertname=\\"(\w+)\\"', said))
    assert len(quiet) == said.count("got: nil") == said.count("expr: "), said
    return names - quiet


def _test(promtool: Promtool, folder: Path, test: dict[str, object]) -> str:
    """Test the rules on series; what promtool finds otherwise than expected."""
    (folder / "fanlog.rules.yml").write_text(rules_file())
    path = folder / "test.yml"
    written = {
        "rule_files": ["fanlog.rules.yml"],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", **test}],
    }
    path.write_text(yaml.safe_dump(written, sort_keys=False))
    code, said = promtool("test", "rules", path)
    if code == 0:
        return ""
    # Otherwise the series or the rules could not be read.
    assert "expr: " in said, said
    return said
