"""How large one message may be, and how many a request may have, on every surface."""

from __future__ import annotations

import base64
import json

import pytest
from google.api_core.exceptions import InvalidArgument

from commands import invoke
from server.rest.http import Http
from server.unique import unique
from server.v1 import LogClient, SinkClient

LIMIT = 1_000
SENTENCE = f"at most {LIMIT} are allowed (message_bytes_max)"


@pytest.fixture
def server(start_server):
    return start_server(engine="memory", message_bytes_max=LIMIT, project="test")


@pytest.fixture
def topic(server):
    return server.topic()


@pytest.fixture
def call(server):
    speaker = Http(server)
    yield speaker
    speaker.close()


def test_over_grpc(server, topic):
    name = server.subscription(topic)
    # Two bytes of tag and length are the message's own.
    server.publish(topic, b"x" * (LIMIT - 3), b"y" * (LIMIT - 3))
    with pytest.raises(InvalidArgument) as caught:
        server.publish(topic, b"fine", b"x" * (LIMIT - 2))
    assert "messages[1]: the message has 1001 bytes" in caught.value.message
    assert SENTENCE in caught.value.message
    with pytest.raises(InvalidArgument, match="message_bytes_max"):
        server.publish(topic, b"x" * 10, key="k" * 500, a="v" * 500)
    assert len(server.pull(name)) == 2


def forms(topic: str) -> list[str]:
    short = topic.rpartition("/")[2]
    return [f"/v1/{topic}:publish", f"/v1/{topic}/publish", f"/v1/topics/{short}:publish"]


def message(size: int) -> dict[str, str]:
    return {"data": base64.b64encode(b"x" * size).decode()}


def test_over_rest(call, topic):
    for path in forms(topic):
        assert call("POST", path, {"messages": [message(LIMIT - 3)]}).status_code == 200
        sentence = call.refused(413, "POST", path, {"messages": [message(LIMIT)]})
        assert SENTENCE in sentence


def test_more_than_a_thousand_over_rest(call, topic):
    for path in forms(topic):
        body = {"messages": [message(1)] * 1_001}
        assert "has 1001; 1 to 1000" in call.refused(413, "POST", path, body)
        assert "1 to 1000" in call.refused(400, "POST", path, {"messages": []})


def test_events(server, call):
    name = unique("event")
    server.topic(name=f"projects/test/topics/{name}")
    event = {"specversion": "1.0", "type": name, "source": "/s", "id": "1", "data": "x" * LIMIT}
    headers = {"content-type": "application/cloudevents+json"}
    assert SENTENCE in call.refused(
        413, "POST", "/v1/events", data=json.dumps(event), headers=headers
    )


def test_rows_of_a_sink(server, topic):
    sink, log = SinkClient(server, "query"), LogClient(server)
    key = sink.key(0)
    answer = sink.stage(key, (topic, [b"fine", b"x" * LIMIT, b"fine too"]))
    [refused] = answer.refused
    assert (answer.messages, refused.row) == (2, 1)
    assert SENTENCE in refused.reason
    sink.commit(0, key)
    assert log.data(log.range_of(topic)) == [b"fine", b"fine too"]
    sink.close()
    log.close()


def test_the_command_line(server, topic):
    arguments = ["publish", topic, "x" * LIMIT, "--endpoint", server.endpoint]
    answer = invoke(arguments)
    assert answer.exit_code == 1
    assert SENTENCE in answer.output


def test_ten_megabytes_unless_set(start_server):
    server = start_server(engine="memory")
    topic = server.topic()
    server.publish(topic, b"x" * 9_990_000)
    with pytest.raises(InvalidArgument, match="at most 10000000 are allowed"):
        server.publish(topic, b"x" * 10_000_001)
