"""Alerts on every surface: what is made is the same, and what is refused has the same sentence."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from fanlog.errors import ConfigError
from fanlog.model.alerts import CONDITIONS, Alert
from fanlog.server.resource_file import ensure_resources, read_resources
from server.alert_surfaces import ALERTING
from server.asking_surfaces import Refused, Unsaid, command, rest
from server.conftest import PROJECT, unique

PARENT = f"projects/{PROJECT}"
AGE = {"condition": "BACKLOG_AGE", "subscription": "PULLED", "limit": 60}
DISK = {"condition": "DISK_LOW", "limit": 1_000}

#: What is refused, and part of the sentence.
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "condition: one of DEAD_LETTERS, BACKLOG_MESSAGES"),
    ({"condition": 77}, "condition: 77 is not one of DEAD_LETTERS"),
    (AGE | {"subscription": None}, "subscription: BACKLOG_AGE needs the name of a subscription"),
    (AGE | {"subscription": f"{PARENT}/subscriptions/none"}, "does not exist"),
    (AGE | {"subscription": f"{PARENT}/topics/t"}, "subscription: "),
    (AGE | {"subscription": "billing"}, "subscription: 'billing'"),
    (
        AGE | {"subscription": "projects/another/subscriptions/billing"},
        "billing' is in another project than the alert",
    ),
    (AGE | {"limit": None}, "limit: BACKLOG_AGE needs a limit, in seconds"),
    (AGE | {"limit": 0}, "limit: 0 is out of range; 1 to "),
    (AGE | {"limit": -1}, "limit: -1 is out of range; 1 to "),
    (AGE | {"limit": 2**53 + 1}, "is out of range; 1 to 9007199254740992 seconds"),
    (AGE | {"clear": 61}, "clear: 61 is above the limit of 60"),
    (AGE | {"clear": -1}, "clear: -1 is out of range"),
    (AGE | {"minimum_time": "86401s"}, "minimum_time: 86401 s is out of range; 0 to 86400 s"),
    (AGE | {"minimum_time": "-1s"}, "minimum_time: -1 s is out of range"),
    (DISK | {"subscription": "PULLED"}, "subscription: DISK_LOW is about the server"),
    (DISK | {"clear": 999}, "clear: 999 is below the limit of 1000"),
    (
        {"condition": "CONSUMER_GONE", "subscription": "PULLED", "limit": 1},
        "limit: CONSUMER_GONE holds or does not, and takes no limit",
    ),
    (
        {"condition": "LAKE_ALARM", "clear": 0},
        "clear: LAKE_ALARM holds or does not, and takes no clear",
    ),
    (
        {"condition": "ENDPOINT_FAILING", "subscription": "PULLED"},
        "is pulled and has no endpoint that could fail",
    ),
    (DISK | {"holding": True}, "alert.holding: is set by the server; leave it unset"),
    (DISK | {"last_error": "x"}, "alert.last_error: is set by the server"),
]


@pytest.fixture
def server(still_server):
    return still_server


def given(server, fields):
    found = {field: value for field, value in fields.items() if value is not None}
    if found.get("subscription") == "PULLED":
        found["subscription"] = server.subscription(server.topic())
    return found


@pytest.mark.parametrize("surface", ALERTING)
@pytest.mark.parametrize(("fields", "sentence"), REFUSED, ids=range(len(REFUSED)))
def test_refused_everywhere_with_a_sentence(server, tmp_path, surface, fields, sentence):
    name = f"{PARENT}/alerts/{unique('refused')}"
    before = server.broker.hard.alerts.names()
    try:
        with pytest.raises((Refused, ConfigError)) as refused:
            ALERTING[surface](server, name, given(server, fields), tmp_path)
    except Unsaid:
        # The surface has no words for it: nothing was asked.
        assert surface in ("rest", "command", "file")
    else:
        assert sentence in " ".join(str(refused.value).split())
    assert server.broker.hard.alerts.names() == before


@pytest.mark.parametrize("surface", ALERTING)
@pytest.mark.parametrize(
    "fields",
    [
        AGE,
        AGE | {"clear": 0, "minimum_time": "90s"},
        AGE | {"clear": 60, "minimum_time": "0s"},
        DISK | {"clear": 1_000},
        {"condition": "DEAD_LETTERS", "subscription": "PULLED"},
        {"condition": "CONSUMER_GONE", "subscription": "PULLED"},
        {"condition": "BACKLOG_MESSAGES", "subscription": "PULLED", "limit": 2**53},
        {"condition": "PUBLISHES_REFUSED"},
        {"condition": "LAKE_ALARM"},
        {"condition": "ARCHIVE_LAG", "limit": 600},
    ],
    ids=lambda fields: "-".join(map(str, fields.values())),
)
def test_made_alike_everywhere(server, tmp_path, surface, fields):
    name, asked = f"{PARENT}/alerts/{unique('made')}", given(server, fields)
    ALERTING[surface](server, name, asked, tmp_path)
    made = server.broker.hard.alerts.alert(name)
    assert made == Alert(
        name=name,
        condition=fields["condition"],
        subscription=asked.get("subscription", ""),
        limit=fields.get("limit"),
        clear=fields.get("clear"),
        minimum_s=float(fields.get("minimum_time", "60s")[:-1]),
        created_s=made.created_s,
    )
    assert server.broker.hard.catalog.find_topic(made.topic) is not None


@pytest.mark.parametrize("name", ["projects/p/alerts/1", "projects/p/alerts/goog-x", "x/y"])
def test_names(server, name):
    if name != "x/y":
        with pytest.raises(Refused, match="alert_id: "):
            rest(server, "POST", f"/v1/projects/p/alerts?alertId={name.rpartition('/')[2]}", DISK)
    with pytest.raises(Refused, match="ALERT: "):
        command(server, "alert", "describe", name)


def test_the_system_project_has_none(server):
    with pytest.raises(Refused, match="fanlog-system"):
        rest(server, "POST", "/v1/projects/fanlog-system/alerts?alertId=mine", DISK)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["disk-full"], "CONDITION: 'disk-full' is not one of dead-letters"),
        (["disk-low", "--limit", str(2**63)], "--limit: 9223372036854775808 is out of range"),
        (["disk-low", "--limit", "1", "--minimum-time", "soon"], "--minimum-time"),
    ],
)
def test_words_of_the_command_alone(server, words, sentence):
    with pytest.raises(Refused) as refused:
        command(server, "alert", "create", unique("bad"), *words, "--project", PROJECT)
    assert sentence in str(refused.value)


def test_rest_refuses_what_is_no_condition(server):
    with pytest.raises(Refused, match="condition"):
        rest(server, "POST", f"/v1/{PARENT}/alerts?alertId=bad", DISK | {"condition": "DISK"})
    with pytest.raises(Refused, match="limits"):
        rest(server, "POST", f"/v1/{PARENT}/alerts?alertId=bad", DISK | {"limits": 1})


def test_commands(server):
    name = unique("command")
    project = ["--project", PROJECT]
    short = server.subscription(server.topic()).rpartition("/")[2]
    words = ["backlog-age", "--subscription", short, "--limit", "600", "--minimum-time", "5m"]
    said = command(server, "alert", "create", name, *words, *project)
    assert said.strip() == f"created alert {PARENT}/alerts/{name}"
    shown = json.loads(command(server, "alert", "describe", name, *project, "--json"))
    assert shown["condition"] == "BACKLOG_AGE"
    assert shown["subscription"] == f"{PARENT}/subscriptions/{short}"
    assert name in command(server, "alert", "list", *project)
    assert "deleted alert" in command(server, "alert", "delete", name, *project)
    with pytest.raises(Refused, match="does not exist"):
        command(server, "alert", "describe", name, *project)


def test_rest(server):
    name = f"{PARENT}/alerts/{unique('rest')}"
    short = name.rpartition("/")[2]
    made = rest(server, "POST", f"/v1/{PARENT}/alerts?alertId={short}", DISK)
    assert (made["name"], made["limit"], made["minimumTime"]) == (name, "1000", "60s")
    assert rest(server, "GET", f"/v1/{name}", None)["condition"] == "DISK_LOW"
    found = rest(server, "GET", f"/v1/{PARENT}/alerts?pageSize=500", None)["alerts"]
    assert name in [one["name"] for one in found]
    rest(server, "DELETE", f"/v1/{name}", None)
    with pytest.raises(Refused, match="does not exist"):
        rest(server, "GET", f"/v1/{name}", None)


FILE = """
[topics.orders]
[subscriptions.billing]
topic = "orders"
[alerts.behind]
condition = "BACKLOG_AGE"
subscription = "billing"
limit = {limit}
minimumTime = "120s"
"""


def test_a_file_with_short_names_and_one_that_differs(server, tmp_path, caplog):
    path, project = tmp_path / "r.toml", unique("files")
    caplog.set_level(logging.WARNING)
    for limit in (600, 600, 700):
        assert "limit" not in caplog.text
        path.write_text(FILE.format(limit=limit))
        server.run(ensure_resources(server.broker, read_resources(path, project)))
    made = server.broker.hard.alerts.alert(f"projects/{project}/alerts/behind")
    assert (made.limit, made.minimum_s) == (600, 120.0)
    assert made.subscription == f"projects/{project}/subscriptions/billing"
    # What is there is left as it is, and the difference is said.
    assert "limit" in caplog.text


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("alerts = 1", "alerts must be a table"),
        ("[alerts]\nx = 1", "alert 'x' must be a table of fields"),
        ("[alerts.x]\nsubscription = 1", "subscription: must be the name of a subscription"),
        ("[alerts.x]\ncondition = 'DISK'", "DISK"),
        ("[alerts.x]\nlimits = 1", "limits"),
    ],
)
def test_files_that_are_refused(tmp_path, line, sentence):
    path = tmp_path / "r.toml"
    path.write_text(line)
    with pytest.raises(ConfigError) as refused:
        read_resources(path, "p")
    assert sentence in str(refused.value)


def test_the_command_has_a_word_for_every_condition():
    from fanlog.cli.alerts import CONDITIONS as WORDS

    assert [word.upper().replace("-", "_") for word in WORDS] == list(CONDITIONS)
