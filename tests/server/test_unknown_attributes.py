"""Attributes that begin with `fanlog-`: an unknown one is refused by name, on every surface."""

from __future__ import annotations

from base64 import b64encode

import pytest
import requests
from google.api_core.exceptions import InvalidArgument

from commands import invoke
from fanlog.config import PROJECT_DEFAULT
from fanlog.model import attributes
from fanlog.v1.message_pb2 import Message
from server.conftest import PATIENCE_S
from server.unique import unique
from server.v1 import SinkClient

#: Instructions are read: `docs/reference/options.md` says what they may be.
DATA = attributes.PUBLISHED - {*attributes.TERMS, *attributes.SEQUENCES}


TYPO = "fanlog-dedupid"
MEANT = "did you mean 'fanlog-dedup-id'?"


@pytest.fixture(scope="module")
def engine() -> str:
    return "memory"


@pytest.fixture
def topic(server) -> str:
    return server.topic(name=f"projects/{PROJECT_DEFAULT}/topics/{unique('attributes')}")


def publish_grpc(server, topic, name):
    try:
        server.publish(topic, b"fine", b"not", **{name: "x"})
    except InvalidArgument as error:
        return error.message
    return ""


def _posted(server, path, body):
    answer = requests.post(server.http(path), json=body, timeout=PATIENCE_S)
    return "" if answer.status_code == 200 else answer.json()["error"]["message"]


def _messages(name):
    return {"messages": [{"data": b64encode(b"x").decode(), "attributes": {name: "x"}}]}


def publish_google(server, topic, name):
    return _posted(server, f"/v1/{topic}:publish", _messages(name))


def publish_path(server, topic, name):
    return _posted(server, f"/v1/{topic}/publish", _messages(name))


def publish_short(server, topic, name):
    return _posted(server, f"/v1/topics/{topic.rpartition('/')[2]}:publish", _messages(name))


def publish_cli(server, topic, name):
    result = invoke(
        ["publish", topic.rpartition("/")[2], "x", "--attr", f"{name}=x"],
        env={"PUBSUB_EMULATOR_HOST": server.endpoint, "FANLOG_PROJECT": None},
    )
    return "" if result.exit_code == 0 else result.stderr


def publish_sink(server, topic, name):
    sink = SinkClient(server, unique("query"))
    answer = sink.stage(sink.key(1), (topic, [Message(data=b"x", attributes={name: "x"})]))
    sink.close()
    return "".join(one.reason for one in answer.refused)


SURFACES = [
    *(publish_grpc, publish_google, publish_path, publish_short),
    *(publish_cli, publish_sink),
]


@pytest.mark.parametrize("publish", SURFACES)
def test_an_unknown_one_is_refused_with_what_was_meant(server, topic, publish):
    said = publish(server, topic, TYPO)
    assert f"'{TYPO}' is not an attribute this service knows" in said
    assert MEANT in said


@pytest.mark.parametrize("publish", SURFACES)
@pytest.mark.parametrize("name", sorted(DATA))
def test_what_consumers_copy_is_data(server, topic, publish, name):
    assert publish(server, topic, name) == ""


def test_nothing_of_the_request_is_published(server, topic):
    name = server.subscription(topic)
    assert publish_grpc(server, topic, TYPO)
    assert server.pull(name) == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("fanlog-dedup", "fanlog-dedup-id"),
        ("fanlog-Dedup_Id", "fanlog-dedup-id"),
        ("fanlog-deadletter-reason", "fanlog-dead-letter-reason"),
        ("fanlog-original-id", "fanlog-original-message-id"),
        ("fanlog-", ""),
        ("fanlog-zzz", ""),
    ],
)
def test_what_is_meant(name, meant):
    found = attributes.meant(name, attributes.PUBLISHED)
    assert found.startswith(meant)
    assert bool(found) == bool(meant)


def test_what_a_publisher_says_is_delivered_as_it_is(server, topic):
    """Nothing of it is believed, and nothing of it is taken away."""
    name = server.subscription(topic)
    said = dict.fromkeys(sorted(DATA - {attributes.DEDUP_ID}), "x")
    server.publish(topic, b"x", **said)
    [received] = server.pull(name)
    assert dict(received.message.attributes) == said
