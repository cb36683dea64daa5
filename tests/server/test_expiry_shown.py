"""`expires_at` stands beside a message wherever it is shown, whoever gave it its time-to-live."""

from __future__ import annotations

import json

import pytest

from commands import invoke
from fanlog.config import PROJECT_DEFAULT
from fanlog.times import parse
from server.rest.http import Http
from server.unique import unique


@pytest.fixture(scope="module")
def engine():
    return "memory"


@pytest.fixture
def server(still_server):
    return still_server


@pytest.fixture
def place(server):
    """A topic, and a subscription whose messages live for a minute, in the server's own project."""
    topic = f"projects/{PROJECT_DEFAULT}/topics/{unique('expiry')}"
    name = f"projects/{PROJECT_DEFAULT}/subscriptions/{unique('expiry')}"
    server.publisher.create_topic(name=topic)
    request = {"name": name, "topic": topic, "labels": {"fanlog-ttl": "60"}}
    server.subscriber.create_subscription(request=request)
    return topic, name


def by_short_pull(server, name):
    http = Http(server)
    path = f"/v1/subscriptions/{name.rpartition('/')[2]}:pull"
    found = http("POST", path, {"return_immediately": True}).json()["received_messages"]
    http.close()
    return {one["message"]["id"]: one["message"].get("expires_at") for one in found}


def by_short_peek(server, name):
    http = Http(server)
    found = http("GET", f"/v1/subscriptions/{name.rpartition('/')[2]}/peek").json()
    http.close()
    return {one["message"]["id"]: one.get("expires_at") for one in found["messages"]}


def _by_command(server, verb, name):
    environ = {"PUBSUB_EMULATOR_HOST": server.endpoint, "FANLOG_PROJECT": None}
    done = invoke([*verb, name, "--json"], env=environ)
    assert done.exit_code == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {one["message_id"]: one.get("expires_at") for one in found}


def by_pull_command(server, name):
    return _by_command(server, ["pull"], name)


def by_peek_command(server, name):
    return _by_command(server, ["sub", "peek"], name)


@pytest.mark.parametrize("look", [by_short_pull, by_short_peek, by_pull_command, by_peek_command])
def test_its_own_or_that_of_the_subscription(server, place, look):
    topic, name = place
    published_s = server.clock.now()
    [own] = server.publish(topic, b"own", **{"fanlog-ttl": "30"})
    [given] = server.publish(topic, b"given")
    [delayed] = server.publish(topic, b"delayed", **{"fanlog-delay": "10"})
    server.advance(10)
    found = {key: parse(text).timestamp() - published_s for key, text in look(server, name).items()}
    assert found == pytest.approx({own: 30, given: 60, delayed: 70}, abs=0.002)


@pytest.mark.parametrize("look", [by_short_pull, by_pull_command])
def test_without_any_there_is_none(server, place, look):
    topic, name = place
    changed = {"subscription": {"name": name}, "update_mask": {"paths": ["labels.fanlog-ttl"]}}
    server.subscriber.update_subscription(request=changed)
    [message_id] = server.publish(topic, b"x")
    assert look(server, name) == {message_id: None}
