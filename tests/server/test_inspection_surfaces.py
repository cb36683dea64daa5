"""Inspection over the forms of REST and on the command line: the same answers everywhere."""

from __future__ import annotations

import json
from typing import Any

import pytest
import requests

from commands import invoke
from server.conftest import PATIENCE_S, PROJECT, RunningServer, unique

SETTINGS = {"trace_sample": 1, "project": PROJECT}
FORMS = ("short", "google", "path")


@pytest.fixture
def server(still_server: RunningServer) -> RunningServer:
    return still_server


@pytest.fixture(scope="module")
def engine() -> str:
    return "memory"


class Form:
    """One form of REST: its paths, and answers with names in snake_case."""

    def __init__(self, server: RunningServer, form: str) -> None:
        self._server = server
        self.is_short = form == "short"
        self._form = form

    def peek(self, name: str, **query: Any) -> Any:
        return self._get(f"{self._of(name)}{':' if self._form == 'google' else '/'}peek", query)

    def purge(self, name: str, **body: Any) -> Any:
        return self._call(
            "POST",
            f"{self._of(name)}{'/' if self._form == 'path' else ':'}purge",
            json=self._spelled(body),
        )

    def backlog(self, name: str, **query: Any) -> Any:
        return self._get(f"{self._of(name)}/backlog", query)

    def backlogs(self, **query: Any) -> Any:
        return self._get(
            "/v1/backlogs" if self.is_short else f"/v1/projects/{PROJECT}/backlogs", query
        )

    def trace(self, message_id: str, **query: Any) -> Any:
        return self._get(f"/v1/messages/{message_id}{'/' if self.is_short else ':'}trace", query)

    def _of(self, name: str) -> str:
        return f"/v1/subscriptions/{name.rpartition('/')[2]}" if self.is_short else f"/v1/{name}"

    def _get(self, path: str, query: dict[str, Any]) -> Any:
        return self._call("GET", path, params=self._spelled(query))

    def _spelled(self, fields: dict[str, Any]) -> dict[str, Any]:
        return fields if self.is_short else {camel(key): value for key, value in fields.items()}

    def _call(self, method: str, path: str, **options: Any) -> Any:
        response = requests.request(method, self._server.http(path), timeout=PATIENCE_S, **options)
        found = response.json()
        if response.status_code != 200:
            return found["error"]["status"]
        return snake(found)


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def snake(value: Any) -> Any:
    """Names in snake_case, and numbers that Google's JSON writes as text as numbers."""
    if isinstance(value, list):
        return [snake(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        "".join(f"_{c.lower()}" if c.isupper() else c for c in key): snake(one)
        for key, one in value.items()
    }


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest, server: RunningServer) -> Form:
    return Form(server, request.param)


def test_peek_and_its_pages(server, form):
    topic, name = server.topic_and_subscription()
    ids = server.publish(topic, b"0", b"1", b"2", colour="red")
    server.pull(name, 1)
    page = form.peek(name, max_messages=2)
    assert [one["state"] for one in page["messages"]] == ["OUTSTANDING", "BACKLOG"]
    key = "id" if form.is_short else "message_id"
    assert [one["message"][key] for one in page["messages"]] == ids[:2]
    assert page["messages"][1]["message"]["attributes"] == {"colour": "red"}
    assert page["messages"][0]["until"].endswith("Z")
    rest = form.peek(name, max_messages=2, page_token=page["next_page_token"])
    assert [one["message"][key] for one in rest["messages"]] == ids[2:]
    assert "next_page_token" not in rest
    [last] = form.peek(name, message_id=ids[2])["messages"]
    assert last["message"][key] == ids[2]
    assert form.peek(name, message_id=ids[0], time="2026-01-01T00:00:00Z") == "INVALID_ARGUMENT"
    assert form.peek(name, max_messages=-1) == "INVALID_ARGUMENT"
    assert form.peek(name, page_token="nonsense") == "INVALID_ARGUMENT"
    assert form.peek(name, nonsense=1) == "INVALID_ARGUMENT"
    assert form.peek(f"projects/{PROJECT}/subscriptions/nobody") == "NOT_FOUND"


def test_purge(server, form):
    topic, name = server.topic_and_subscription()
    ids = server.publish(topic, b"0", b"1", b"2")
    assert int(form.purge(name, dry_run=True)["purged"]) == 3
    assert int(form.purge(name, message_id=ids[1])["purged"]) == 1
    assert form.purge(name, message_id=ids[1], time="2026-01-01T00:00:00Z") == "INVALID_ARGUMENT"
    assert form.purge(name, nonsense=True) == "INVALID_ARGUMENT"
    assert int(form.purge(name)["purged"]) == 2
    # Nought is said where the form says all of its fields.
    assert int(form.purge(name).get("purged", 0)) == 0


def test_backlogs(server, form):
    topic, name = server.topic_and_subscription()
    server.publish(topic, b"0", b"1")
    server.advance(2)
    found = form.backlog(name)
    assert (int(found["messages"]), int(found["lag_messages"])) == (2, 2)
    assert found["oldest_unacked_age"] == "2s"
    assert [one["topic"] for one in form.backlog(name, by_topic="true")["topics"]] == [
        topic.rpartition("/")[2] if form.is_short else topic
    ]
    shown = name.rpartition("/")[2] if form.is_short else name
    names: list[str] = []
    query: dict[str, Any] = {"page_size": 1}
    while True:
        page = form.backlogs(**query)
        names += [one["subscription"] for one in page["backlogs"]]
        if "next_page_token" not in page:
            break
        query["page_token"] = page["next_page_token"]
    assert shown in names
    assert len(names) == len(set(names))


def test_what_messages_ask_for(server, form):
    topic, name = server.topic_and_subscription()
    asked = {"fanlog-delay": "60", "fanlog-ttl": "5", "fanlog-priority": "4"}
    [message_id] = server.publish(topic, b"x", **asked)
    [found] = form.peek(name)["messages"]
    assert (found["state"], int(found["priority"])) == ("PENDING", 4)
    assert found["until"] < found["expires_at"]
    trace = form.trace(message_id)
    assert trace["due_at"] == found["until"]
    assert trace["subscriptions"][0]["expires_at"] == found["expires_at"]
    server.publish(topic, b"y", **{"fanlog-depends-on": message_id})
    assert server.pull(name) == []
    found = form.backlog(name)
    assert (int(found["pending"]), int(found["depending"])) == (1, 1)


def test_trace(server, form):
    topic, name = server.topic_and_subscription()
    [message_id] = server.publish(topic, b"x", colour="red")
    server.ack(name, server.pull(name))
    shown = name.rpartition("/")[2] if form.is_short else name
    found = form.trace(message_id, subscription=shown, attributes="true")
    [here] = found["subscriptions"]
    assert (here["subscription"], here["state"]) == (shown, "ACKNOWLEDGED")
    assert [event["what"] for event in here["events"]] == ["delivered", "acknowledged"]
    assert found["attributes"] == {"colour": "red"}
    assert form.trace("nonsense") == "INVALID_ARGUMENT"
    assert form.trace("4000000000000000000001") == "NOT_FOUND"


class Shell:
    def __init__(self, server: RunningServer) -> None:
        self._environ = {"PUBSUB_EMULATOR_HOST": server.endpoint, "FANLOG_PROJECT": PROJECT}
        self.stderr = ""

    def run(self, *args: str, exit_code: int = 0) -> str:
        result = invoke(args, env=self._environ)
        assert result.exit_code == exit_code, (result.output, result.exception)
        self.stderr = result.stderr
        return str(result.stdout)

    def lines(self, *args: str) -> list[Any]:
        return [json.loads(line) for line in self.run(*args, "--json").splitlines()]


@pytest.fixture
def shell(server: RunningServer) -> Shell:
    return Shell(server)


class TestCommands:
    def test_peek(self, server, shell):
        topic, name = server.topic_and_subscription()
        ids = server.publish(topic, b"hello", b"\xff", b"x", key="k")
        lines = shell.lines("sub", "peek", name, "--max", "2")
        assert [one["message_id"] for one in lines] == ids[:2]
        assert (lines[0]["data"], lines[1]["data_base64"]) == ("hello", "/w==")
        assert lines[0]["state"] == "BACKLOG"
        server.pull(name, 1)
        text = shell.run("sub", "peek", name.rpartition("/")[2])
        assert "OUTSTANDING until " in text
        assert "key=k" in text
        assert len(shell.lines("sub", "peek", name, "--message-id", ids[2])) == 1
        assert shell.run("sub", "peek", name, "--from", "2099-01-01T00:00:00Z") == ""
        assert "no messages" in shell.stderr
        shell.run("sub", "peek", name, "--message-id", ids[2], "--from", "1h", exit_code=1)
        assert "not both" in shell.stderr

    def test_what_messages_ask_for(self, server, shell):
        topic, name = server.topic_and_subscription()
        [message_id] = server.publish(topic, b"x", **{"fanlog-delay": "60", "fanlog-priority": "4"})
        server.publish(topic, b"y", **{"fanlog-ttl": "5"})
        server.advance(6)
        late, gone = shell.lines("sub", "peek", name)
        assert (late["state"], late["priority"], "expires_at" in late) == ("PENDING", 4, False)
        assert (gone["lapsed"], "until" in gone) == (True, False)
        text = shell.run("sub", "peek", name)
        assert f"PENDING until {late['until']}" in text
        assert "lapsed=True" in text
        assert f"next at {late['until']}" in shell.run("message", "trace", message_id)
        [line] = shell.lines("sub", "backlog", name)
        assert line["pending"] == 1
        server.publish(topic, b"z", **{"fanlog-depends-on": message_id})
        assert server.pull(name) == []
        [line] = shell.lines("sub", "backlog", name)
        assert line["depending"] == 1

    def test_what_strangers_wrote_does_not_move_the_cursor(self, server, shell):
        topic, name = server.topic_and_subscription()
        server.publish(topic, b"\x1b[2Jgone", key="\x1b[31m", evil="\x1b]0;x")
        assert "\x1b" not in shell.run("sub", "peek", name)

    def test_purge(self, server, shell):
        topic, name = server.topic_and_subscription()
        ids = server.publish(topic, b"0", b"1", b"2")
        server.pull(name, 1)
        assert shell.run("sub", "purge", name, "--dry-run") == (
            f"would purge 3 messages of {name}; 1 of them outstanding\n"
        )
        [line] = shell.lines("sub", "purge", name, "--before-message", ids[1])
        assert line == {"name": name, "purged": 1, "outstanding": 1, "dry_run": False}
        assert shell.run("sub", "purge", name) == (
            f"purged 2 messages of {name}; 0 of them outstanding\n"
        )
        assert shell.run("sub", "purge", name).startswith("purged 0 messages")
        shell.run("sub", "purge", name, "--before", "1h", "--before-message", "1", exit_code=1)

    def test_backlog(self, server, shell):
        prefix = unique("shell")
        topic = server.topic(name=f"projects/{PROJECT}/topics/{prefix}.a")
        name = server.subscription(f"projects/{PROJECT}/topics/{prefix}.#")
        server.publish(topic, b"0", b"1")
        [line] = shell.lines("sub", "backlog", name)
        assert (line["messages"], line["lag_messages"], line["bytes_estimated"]) == (2, 2, False)
        [line] = shell.lines("sub", "backlog", name, "--by-topic")
        assert (line["topic"], line["messages"]) == (topic, 2)
        [line] = [one for one in shell.lines("sub", "backlog") if one["subscription"] == name]
        assert (line["messages_estimated"], line["bytes_estimated"]) == (False, True)
        [row] = [one for one in shell.run("sub", "backlog").splitlines() if name in one]
        assert row.split()[1:3] == ["2", f"~{line['bytes']}"]
        shell.run("sub", "backlog", "--by-topic", exit_code=1)

    def test_trace(self, server, shell):
        topic, name = server.topic_and_subscription()
        [message_id] = server.publish(topic, b"x")
        server.nack(name, server.pull(name))
        text = shell.run("message", "trace", message_id, "--attributes")
        assert f"{name}: BACKLOG" in text
        assert "nacked" in text
        [line] = shell.lines("message", "trace", message_id, "--sub", name)
        assert line["subscriptions"][0]["state"] == "BACKLOG"
        shell.run("message", "trace", "nonsense", exit_code=1)
        assert "not an id" in shell.stderr
