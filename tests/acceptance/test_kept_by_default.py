"""What is published is kept: `fanlog serve` with its defaults, and without a lake."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from google.cloud import pubsub_v1

from acceptance.served import PATIENCE_S, Served

SPARE = "fanlog_default_retention_bytes "


def page(server: Served, path: str, body: dict[str, Any] | None = None) -> str:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://{server.http}{path}", data, {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
        return str(response.read().decode())


def await_sweep(server: Served) -> None:
    """Wait until a sweep has seen that there is something that only the default keeps."""
    late_s = time.monotonic() + PATIENCE_S
    while True:
        [line] = [one for one in page(server, "/metrics").splitlines() if one.startswith(SPARE)]
        if float(line.removeprefix(SPARE)) > 0:
            return
        assert time.monotonic() < late_s, "no sweep came"
        time.sleep(0.1)


def data_of(lines: list[dict[str, Any]]) -> list[str]:
    return [line["data"] for line in lines]


def test_a_late_subscription_gets_everything(shared, monkeypatch):
    shared.run("topic", "create", "orders")
    shared.run("publish", "orders", "-", stdin="one\ntwo\nthree\n")
    await_sweep(shared)
    shared.run("sub", "create", "late", "--topic", "orders", "--start", "earliest")
    assert data_of(shared.lines("pull", "late", "--ack")) == ["one", "two", "three"]
    # And so does one that an official client makes.
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", shared.endpoint)
    with pubsub_v1.SubscriberClient() as client:
        names = {"topic": f"projects/{shared.project}/topics/orders"}
        name = f"projects/{shared.project}/subscriptions/later"
        client.create_subscription(
            request={"name": name, "labels": {"fanlog-start": "earliest"}, **names}
        )
        received = client.pull(subscription=name, max_messages=10).received_messages
    assert [one.message.data for one in received] == [b"one", b"two", b"three"]


def test_a_redrive_reopens_the_originals_where_they_failed(shared):
    shared.run("topic", "create", "orders")
    shared.run("topic", "create", "dead")
    made = shared.run(
        *("sub", "create", "failing", "--topic", "orders"),
        *("--dead-letter", "dead", "--max-attempts", "1"),
    )
    # The letters wait for whoever comes: there is nothing to warn of.
    assert made.stderr == ""
    shared.run("sub", "create", "other", "--topic", "orders")
    shared.run("publish", "orders", "a chair")
    [original] = shared.lines("pull", "other", "--ack")
    [failed] = shared.lines("pull", "failing")
    path = f"/v1/projects/{shared.project}/subscriptions/failing:modifyAckDeadline"
    page(shared, path, {"ackIds": [failed["ack_id"]], "ackDeadlineSeconds": 0})
    await_sweep(shared)
    # Nobody had subscribed to the letters yet.
    shared.run("sub", "create", "letters", "--topic", "dead", "--start", "earliest")
    [letter] = shared.lines("dead-letter", "list", "letters")
    assert letter["source_message_id"] == original["message_id"]
    [answer] = shared.lines("dead-letter", "redrive", "letters", "--all")
    assert (answer["reopened"], answer["copied"]) == (1, 0)
    [again] = shared.lines("pull", "failing", "--ack")
    assert (again["message_id"], again["data"]) == (original["message_id"], "a chair")
    assert shared.lines("pull", "other") == []


def test_how_long_a_topic_keeps_its_messages_is_shown(shared):
    shared.run("topic", "create", "plain")
    shared.run("topic", "create", "own", "--retention", "36h")
    described = shared.run("topic", "describe", "plain").stdout
    assert re.search(r"^retention +7 days \(the server's default\) *$", described, re.MULTILINE)
    described = shared.run("topic", "describe", "own").stdout
    assert re.search(r"^retention +36 hours \(its own\) *$", described, re.MULTILINE)
    [plain] = shared.lines("topic", "describe", "plain")
    assert plain["effective_retention"] == {"duration": "604800s", "by": "server"}
    assert "message_retention_duration" not in plain
    # Google's form has the topic's own field alone; the header says the rest.
    google = json.loads(page(shared, f"/v1/projects/{shared.project}/topics/plain"))
    assert "messageRetentionDuration" not in google


@pytest.fixture
def googles_way(tmp_path: Path) -> Any:
    server = Served(tmp_path / "data", tmp_path / "server.log", environ={})
    server.start("--topic-retention", "0")
    yield server
    server.close()


def test_without_it_a_policy_whose_letters_would_be_lost_is_warned_about(googles_way):
    server = googles_way
    server.run("topic", "create", "orders")
    server.run("topic", "create", "dead")
    assert "none: messages are kept for as long as subscriptions need them" in (
        server.run("topic", "describe", "orders").stdout
    )
    made = server.run("sub", "create", "billing", "--topic", "orders", "--dead-letter", "dead")
    assert made.stderr == (
        "hint: dead letter topic 'projects/fanlog/topics/dead' has no subscription and no "
        "retention: dead letters are lost there until it has one or the other\n"
    )
    body = {"name": "short", "topic": "orders", "dead_letter": {"topic": "dead"}}
    [hint] = json.loads(page(server, "/v1/subscriptions", body))["hints"]
    assert hint.startswith("dead letter topic 'projects/fanlog/topics/dead' has no subscription")
