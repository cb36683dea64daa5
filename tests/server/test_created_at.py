"""When topics and subscriptions were made: kept, and told by our own forms."""

from __future__ import annotations

import json

import pytest
from google.api_core.exceptions import InvalidArgument

from commands import invoke
from fanlog.broker.clock import ManualClock
from fanlog.client import CallFailed, Client
from fanlog.client.catalog import CatalogClient
from fanlog.v1 import catalog_pb2 as pb
from server.rest.http import Http
from server.unique import unique

NOW_S = 1_700_000_000.25
NOW = "2023-11-14T22:13:20.250Z"
LATER = "2023-11-14T22:15:00.250Z"


@pytest.fixture
def server(start_server):
    return start_server(clock=ManualClock(NOW_S), project="test")


@pytest.fixture
def call(server):
    speaker = Http(server)
    yield speaker
    speaker.close()


def test_it_is_told_and_outlives_a_restart(server, call):
    topic = server.topic()
    server.advance(100)
    name = server.subscription(topic)
    for _ in range(2):
        with Client(server.endpoint) as client:
            told = CatalogClient(client)
            [found] = told.describe_topics([topic, topic + "-none"]).values()
            assert (found.created_at.ToJsonString(), found.partition_count) == (NOW, 1)
            [found] = told.describe_subscriptions([name]).values()
            assert found.created_at.ToJsonString() == LATER
        server.restart()


def test_what_is_asked_for_has_to_be_names(server):
    with Client(server.endpoint) as client:
        for request in (
            pb.DescribeTopicsRequest(),
            pb.DescribeTopicsRequest(topics=["projects/test/topics/abc"] * 1_001),
            pb.DescribeTopicsRequest(topics=["orders"]),
        ):
            with pytest.raises(CallFailed, match="topics") as caught:
                client.call("fanlog.v1.Catalog/DescribeTopics", request, pb.DescribeTopicsResponse)
            assert caught.value.status == "INVALID_ARGUMENT"


def test_the_short_form(server, call):
    topic, name = unique("short-topic"), unique("short-sub")
    made = call("POST", "/v1/topics", {"name": topic}).json()
    assert (made["created_at"], made["partition_count"]) == (NOW, 1)
    server.advance(100)
    made = call("POST", "/v1/subscriptions", {"name": name, "topic": topic}).json()
    assert made["created_at"] == LATER
    changed = call("PATCH", f"/v1/topics/{topic}", {"labels": {"a": "b"}}).json()
    assert changed["created_at"] == NOW
    for one in call("GET", "/v1/topics").json()["topics"]:
        assert one["created_at"] == NOW
    for one in call("GET", "/v1/subscriptions").json()["subscriptions"]:
        assert one["created_at"] == LATER
    body = {"name": unique("short-topic"), "created_at": NOW}
    assert "created_at" in call.refused(400, "POST", "/v1/topics", body)


def test_retention_as_a_number(server, call):
    topic = unique("short-topic")
    body = {"name": topic, "retention_seconds": 86_400, "partition_count": 1}
    made = call("POST", "/v1/topics", body).json()
    assert (made["retention_seconds"], made["message_retention_duration"]) == (86_400, "86400s")
    made = call("PATCH", f"/v1/topics/{topic}", {"retention_seconds": 600.5}).json()
    assert (made["retention_seconds"], made["message_retention_duration"]) == (600.5, "600.500s")
    made = call("PATCH", f"/v1/topics/{topic}", {"retention_seconds": None}).json()
    assert "message_retention_duration" not in made
    body = {"name": unique("short-sub"), "topic": topic, "retention_seconds": 3600}
    made = call("POST", "/v1/subscriptions", body).json()
    assert (made["retention_seconds"], made["message_retention_duration"]) == (3600, "3600s")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"partition_count": 2}, "partition_count: cannot be '2'; a topic has 1 partition"),
        ({"partition_count": 0}, "partition_count: cannot be '0'; a topic has 1 partition"),
        ({"partition_count": "1"}, "partition_count: cannot be '1'"),
        ({"partition_count": True}, "partition_count: cannot be 'True'"),
        ({"retention_seconds": 5}, "retention_seconds: "),
        ({"retention_seconds": -1}, "retention_seconds: '-1' is out of range"),
        ({"retention_seconds": 1e300}, "retention_seconds: "),
        ({"retention_seconds": "1d"}, "retention_seconds: cannot be the string '1d'"),
        (
            {"retention_seconds": 600, "message_retention_duration": "600s"},
            "retention_seconds: say it, or message_retention_duration, not both",
        ),
    ],
)
def test_what_is_refused(call, fields, sentence):
    body = {"name": unique("short-topic")} | fields
    assert call.refused(400, "POST", "/v1/topics", body).startswith(sentence)


def test_partitions_are_for_the_beginning(server, call):
    topic = unique("short-topic")
    call("POST", "/v1/topics", {"name": topic})
    sentence = call.refused(400, "PATCH", f"/v1/topics/{topic}", {"partition_count": 1})
    assert "partition_count" in sentence


def test_pull_and_publish_as_paths(server, call):
    topic, name = unique("short-topic"), unique("short-sub")
    call("POST", "/v1/topics", {"name": topic})
    call("POST", "/v1/subscriptions", {"name": name, "topic": topic})
    body = {"messages": [{"data": "eA=="}] * 4}
    answer = call("POST", f"/v1/topics/{topic}/publish", body)
    assert (answer.status_code, len(answer.json()["message_ids"])) == (200, 4)
    path = f"/v1/subscriptions/{name}/pull"
    found = call("GET", f"{path}?max=1").json()["received_messages"]
    found += call("POST", f"{path}?max=1").json()["received_messages"]
    found += call("POST", path, {"max_messages": 1}).json()["received_messages"]
    found += call("POST", f"{path}?max_messages=1&return_immediately=true").json()[
        "received_messages"
    ]
    assert len({one["message"]["id"] for one in found}) == 4
    assert call("GET", f"{path}?return_immediately=true").json() == {"received_messages": []}


@pytest.mark.parametrize(
    ("query", "body", "sentence"),
    [
        ("max=0", None, "max: 0 is out of range; 1 to 1000"),
        ("max=1001", None, "max: 1001 is out of range"),
        ("max=many", None, "max"),
        ("max=1&max_messages=2", None, "given twice"),
        ("most=1", None, "no such query parameter"),
        ("max=1", {"max_messages": 2}, "in the query and in the body"),
    ],
)
def test_what_a_pull_at_a_path_refuses(server, call, query, body, sentence):
    topic, name = unique("short-topic"), unique("short-sub")
    call("POST", "/v1/topics", {"name": topic})
    call("POST", "/v1/subscriptions", {"name": name, "topic": topic})
    path = f"/v1/subscriptions/{name}/pull?{query}"
    assert sentence in call.refused(400, "POST", path, body)


def test_the_command_line(server):
    topic = server.topic()
    name = server.subscription(topic)
    where = ["--project", "test", "--endpoint", server.endpoint]
    for arguments in (
        ["topic", "describe", topic],
        ["topic", "list"],
        ["sub", "describe", name],
        ["sub", "list"],
    ):
        assert json.loads(invoke([*arguments, "--json", *where]).output)["created_at"] == NOW
        assert NOW in invoke([*arguments, *where]).output
    made = json.loads(invoke(["topic", "create", unique("cli-topic"), "--json", *where]).output)
    assert made["created_at"] == NOW


def test_googles_answers_are_as_they_were(server, call):
    topic = server.topic()
    assert call("GET", f"/v1/{topic}").json() == {"name": topic, "state": "ACTIVE"}
    with pytest.raises(InvalidArgument):
        server.topic(name="projects/test/topics/x")
