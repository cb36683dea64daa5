"""`fanlog schedule`, on a server."""

from __future__ import annotations

import json

import pytest

from commands import invoke


@pytest.fixture
def server(start_server):
    return start_server("memory")


@pytest.fixture
def run(server):
    server.publisher.create_topic(name="projects/shop/topics/reports")

    def run(*args, code=0):
        where = ["--project", "shop", "--endpoint", server.endpoint]
        result = invoke(["schedule", *args, *where])
        assert result.exit_code == code, result.output + result.stderr
        return result.stdout or result.stderr

    return run


CREATE = ("create", "daily", "reports", "0 7 * * mon-fri")


def test_from_create_to_delete(run, server):
    made = run(*CREATE, "--data", "go", "--attr", "a=b", "--time-zone", "Europe/Berlin")
    assert made.startswith("created schedule projects/shop/schedules/daily, next tick 20")
    found = json.loads(run("describe", "daily", "--json"))
    assert (found["data"], found["attributes"], found["missed"]) == ("go", {"a": "b"}, "SKIP")
    assert found["time_zone"] == "Europe/Berlin"
    listed = run("list")
    assert "projects/shop/schedules/daily" in listed
    assert "0 7 * * mon-fri" in listed
    assert run("pause", "daily") == "paused schedule projects/shop/schedules/daily\n"
    changed = run("update", "daily", "--cron", "@hourly", "--missed", "all", "--no-attrs")
    assert changed == "updated schedule projects/shop/schedules/daily, paused\n"
    found = json.loads(run("describe", "projects/shop/schedules/daily", "--json"))
    assert (found["cron"], found["missed"], found["paused"]) == ("@hourly", "ALL", True)
    assert "attributes" not in found
    message_id = run("run-now", "daily").strip()
    assert message_id.endswith("000000000000")
    assert "next tick" in run("resume", "daily")
    assert run("delete", "daily") == "deleted schedule projects/shop/schedules/daily\n"
    assert "none" in run("list")


def test_data_that_is_no_text_is_shown_as_base64(run, server):
    run(*CREATE, "--data", "\udcff")
    assert json.loads(run("describe", "daily", "--json"))["data_base64"] == "/w=="


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ((*CREATE[:3], "0 25 * * *", "--data", "x"), "cron: hour, at character 3: '25' is not"),
        (CREATE, "data: empty, and so are attributes"),
        ((*CREATE, "--data", "x", "--missed", "some"), "--missed: 'some' is not one of skip"),
        ((*CREATE, "--data", "x", "--time-zone", "Mars/X"), "time_zone: 'Mars/X'"),
        (("create", "d/e", "reports", "@hourly", "--data", "x"), "SCHEDULE: 'd/e'"),
        (("update", "daily"), "nothing to change: give at least one option"),
        (("update", "daily", "--attr", "a=b", "--no-attrs"), "give --attr or --no-attrs, not both"),
        (("describe", "daily"), "schedule 'projects/shop/schedules/daily' does not exist"),
    ],
)
def test_mistakes_are_said(run, args, sentence):
    assert sentence in run(*args, code=1)
