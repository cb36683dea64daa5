"""Backlogs with limits over HTTP: fields of the short form, refusals, headers, inspection."""

from __future__ import annotations

import base64

import pytest

from server.conftest import unique

DATA = base64.b64encode(b"x").decode()
POLICY = {
    "backlog_policy": "push-back",
    "backlog_messages": 4,
    "backlog_bytes": 1_000_000,
    "backlog_age_seconds": 3600,
    "backlog_high": 0.75,
    "backlog_low": 0.25,
    "backlog_critical": True,
    "backlog_group": "shop",
}


@pytest.fixture(scope="module")
def engine() -> str:
    return "memory"


@pytest.fixture
def topic(call):
    name = unique("pressed")
    assert call("POST", "/v1/topics", {"name": name}).status_code == 201
    return name


def publish(call, topic):
    return call("POST", f"/v1/topics/{topic}:publish", {"messages": [{"data": DATA}]})


def test_fields_of_the_short_form(call, topic):
    name = unique("pressed-sub")
    made = call("POST", "/v1/subscriptions", {"name": name, "topic": topic, **POLICY})
    assert made.status_code == 201, made.text
    assert POLICY.items() <= made.json().items()
    assert made.json()["labels"]["fanlog-backlog-critical"] == "true"
    changed = call("PATCH", f"/v1/subscriptions/{name}", {"backlog_messages": 8})
    assert changed.json()["backlog_messages"] == 8
    assert changed.json()["backlog_high"] == 0.75
    refused = call("PATCH", f"/v1/subscriptions/{name}", {"backlog_low": 0.9})
    assert refused.status_code == 400
    assert "the low mark (0.9) is not below the high mark" in refused.text
    other = call("PATCH", f"/v1/subscriptions/{name}", {"backlog_high": "much"})
    assert other.status_code == 400


def test_push_back_is_429_and_says_when_to_come_again(call, topic):
    name = unique("pressed-sub")
    call("POST", "/v1/subscriptions", {"name": name, "topic": topic, **POLICY})
    said = [publish(call, topic) for _ in range(4)]
    assert [one.status_code for one in said] == [200] * 4
    assert said[1].headers.get("fanlog-pressure") is None
    assert said[2].headers["fanlog-pressure"] == "0.750"
    refused = publish(call, topic)
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    assert "pushes back" in refused.text
    backlog = call("GET", f"/v1/subscriptions/{name}/backlog").json()
    assert (backlog["pressure"], backlog["dropped"]) == (1.0, {})


def test_drops_are_shown(call, topic):
    name = unique("pressed-sub")
    policy = {"backlog_policy": "drop-oldest", "backlog_messages": 2}
    call("POST", "/v1/subscriptions", {"name": name, "topic": topic, **policy})
    for _ in range(5):
        publish(call, topic)
    backlog = call("GET", f"/v1/subscriptions/{name}/backlog").json()
    assert backlog["dropped"] == {"limit": 3}
    assert backlog["dropped_spans"][0]["messages"] == 3
    snapshot = call("POST", "/v1/snapshots", {"name": unique("snap"), "subscription": name})
    assert snapshot.status_code in (200, 201)
    assert "3 (limit: 3) messages were dropped" in snapshot.headers["fanlog-hint"]
