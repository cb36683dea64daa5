"""`--resources FILE` with schedules: made when missing, left as they are when they differ."""

from __future__ import annotations

import logging

import pytest

from fanlog.errors import ConfigError
from fanlog.server.resource_file import ensure_resources, read_resources

PROJECT = "files"
TOML = """
[topics.reports]

[schedules.daily]
topic = "reports"
cron = "0 7 * * mon-fri"
time_zone = "Europe/Berlin"
data = "grüß"
attributes = { kind = "daily" }
orderingKey = "k"
missed = "LATEST"

[schedules."projects/elsewhere/schedules/far"]
topic = "projects/files/topics/reports"
cron = "@hourly"
data_base64 = "AP8="
paused = true
"""
YAML = """
topics: {reports: }
schedules:
  daily:
    topic: reports
    cron: 0 7 * * mon-fri
    timeZone: Europe/Berlin
    data: grüß
    attributes: {kind: daily}
    ordering_key: k
    missed: LATEST
  projects/elsewhere/schedules/far:
    {topic: projects/files/topics/reports, cron: "@hourly", data_base64: AP8=, paused: true}
"""


@pytest.fixture
def server(start_server):
    return start_server("memory")


def ensure(server, path, text):
    path.write_text(text)
    server.run(ensure_resources(server.broker, read_resources(path, PROJECT)))


@pytest.mark.parametrize(("name", "text"), [("r.toml", TOML), ("r.yaml", YAML)])
def test_schedules_are_made(server, tmp_path, name, text):
    ensure(server, tmp_path / name, text)
    table = server.broker.hard.schedules
    daily = table.schedule("projects/files/schedules/daily")
    assert daily.topic == "projects/files/topics/reports"
    assert (daily.cron, daily.time_zone) == ("0 7 * * mon-fri", "Europe/Berlin")
    assert (daily.data.decode(), daily.attributes) == ("grüß", {"kind": "daily"})
    assert (daily.ordering_key, daily.missed, daily.is_paused) == ("k", "LATEST", False)
    far = table.schedule("projects/elsewhere/schedules/far")
    assert (far.data, far.is_paused) == (b"\0\xff", True)


def test_one_that_is_there_is_left_and_what_differs_is_said(server, tmp_path, caplog):
    caplog.set_level(logging.INFO, "fanlog.resources")
    ensure(server, tmp_path / "r.toml", TOML)
    made = server.broker.hard.schedules.schedule("projects/files/schedules/daily")
    caplog.clear()
    ensure(server, tmp_path / "r.toml", TOML)
    assert caplog.messages == []
    ensure(server, tmp_path / "r.toml", TOML.replace("LATEST", "ALL"))
    [said] = caplog.messages
    assert "field=missed wanted='ALL' present='LATEST'" in said
    assert server.broker.hard.schedules.schedule(made.name) == made


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "topic: a name is required"),
        ('topic = "reports"\ndata = "x"', "cron: '' has 0 fields"),
        ('topic = "reports"\ncron = "@hourly"', "data: empty"),
        ('topic = "reports"\ncron = "0 25 * * *"\ndata = "x"', "hour, at character 3"),
        ('topic = "reports"\ncron = "@hourly"\ndata = "x"\ntime_zone = "No/Zone"', "time_zone"),
        ('topic = "reports"\ncron = "@hourly"\ndata = 3', "data: must be a text"),
        ('topic = "reports"\ncron = "@hourly"\ndata_base64 = "?"', "data_base64: is not base64"),
        ('topic = "reports"\ncron = "@hourly"\ndata = "x"\ndata_base64 = "eA=="', "not both"),
        ('topic = "reports"\ncron = "@hourly"\ndata = "x"\nmissed = "SOME"', "SOME"),
        ('topic = "reports"\ncron = "@hourly"\ndata = "x"\nnonsense = 1', "nonsense"),
        ('topic = "reports"\ncron = "@hourly"\ndata = "x"\nname = "y"', "schedule.name: 'y'"),
    ],
)
def test_mistakes_are_named_by_file_schedule_and_field(tmp_path, text, words):
    path = tmp_path / "r.toml"
    path.write_text(f"[schedules.daily]\n{text}\n")
    with pytest.raises(ConfigError) as refused:
        read_resources(path, PROJECT)
    assert f"{path}: schedule 'daily': " in str(refused.value)
    assert words in str(refused.value)


def test_one_whose_topic_is_nowhere(server, tmp_path):
    with pytest.raises(
        ConfigError, match=r"schedule 'projects/files/schedules/daily': .*not exist"
    ):
        ensure(server, tmp_path / "r.toml", TOML.replace("[topics.reports]", ""))
