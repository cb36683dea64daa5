"""What messages ask for, on every surface of HTTP, in the sink, and in what is made of them."""

from __future__ import annotations

import base64
import json

import pytest

from fanlog.config import PROJECT_DEFAULT
from fanlog.v1.message_pb2 import Message
from server.conftest import unique
from server.v1 import SinkClient

DATA = base64.b64encode(b"x").decode()


@pytest.fixture(scope="module")
def engine() -> str:
    return "memory"


@pytest.fixture
def topic(call):
    name = unique("asking")
    assert call("POST", "/v1/topics", {"name": name}).status_code == 201
    return name


@pytest.fixture
def subscription(call, topic):
    name = unique("asking-sub")
    settings = {
        "message_ttl_seconds": 3600,
        "expired": "drop",
        "dependency_timeout_seconds": 60,
        "dependency_policy": "deliver",
    }
    made = call("POST", "/v1/subscriptions", {"name": name, "topic": topic, **settings})
    assert made.status_code == 201
    assert settings.items() <= made.json().items()
    return name


def full(topic):
    return f"projects/{PROJECT_DEFAULT}/topics/{topic}"


def pulled(call, subscription):
    body = {"return_immediately": True}
    response = call("POST", f"/v1/subscriptions/{subscription}:pull", body)
    return [one["message"] for one in response.json()["received_messages"]]


def publish(call, topic, **fields):
    return call("POST", f"/v1/topics/{topic}:publish", {"messages": [{"data": DATA} | fields]})


def pending(server, topic):
    [partition] = server.broker.hard.catalog.topic(full(topic)).partitions
    agenda = server.broker.hard.agendas.find(partition)
    return 0 if agenda is None else len(agenda.pending)


def test_fields_of_the_short_form(server, call, topic, subscription):
    assert publish(call, topic, delay_seconds=100).status_code == 200
    assert publish(call, topic, ttl_seconds=60.5, priority=7).status_code == 200
    [message] = pulled(call, subscription)
    assert message["attributes"] == {"fanlog-ttl": "60.5", "fanlog-priority": "7"}
    # It depends on a message that is leased.
    assert publish(call, topic, depends_on=[message["id"], message["id"]]).status_code == 200
    assert pulled(call, subscription) == []
    assert message["expires_at"] > message["publish_time"]
    assert pending(server, topic) == 1


def test_numbers_of_publishers(call, topic, subscription):
    first = publish(call, topic, publisher="p", sequence=1, publisher_epoch=4).json()
    assert publish(call, topic, publisher="p", sequence=1, publisher_epoch=4).json() == first
    refused = publish(call, topic, publisher="p", sequence=0, publisher_epoch=4)
    assert refused.status_code == 400
    assert refused.json()["error"]["status"] == "FAILED_PRECONDITION"
    assert "the number expected next is 2" in refused.text
    [message] = pulled(call, subscription)
    assert message["attributes"] == {
        "fanlog-publisher": "p",
        "fanlog-sequence": "1",
        "fanlog-publisher-epoch": "4",
    }


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"delay_seconds": "5"}, "messages[0].delay_seconds: cannot be"),
        ({"delay_seconds": -1}, "fanlog-delay is '-1'"),
        ({"deliver_at": 5}, "messages[0].deliver_at: cannot be"),
        ({"deliver_at": "soon"}, "an RFC 3339 time"),
        ({"ttl_seconds": 0}, "fanlog-ttl is '0'"),
        ({"priority": 5.5}, "messages[0].priority: cannot be"),
        ({"priority": 10}, "0 to 9 are allowed"),
        ({"priority": 1, "ordering_key": "k"}, "ordering key 'k'"),
        ({"delay_seconds": 1, "deliver_at": "2030-01-01T00:00:00Z"}, "both say when"),
        ({"priority": 1, "attributes": {"fanlog-priority": "2"}}, "says so, too"),
        ({"depends_on": "1000000000000"}, "messages[0].depends_on: cannot be"),
        ({"depends_on": [7]}, "messages[0].depends_on[0]: cannot be"),
        ({"depends_on": ["1000000000000,1000000000001"]}, "is not a message id"),
        ({"depends_on": []}, "fanlog-depends-on has ''"),
        ({"depends_on": ["99999000000000000"]}, "those of its own topic alone"),
        ({"sequence": "1", "publisher": "p"}, "messages[0].sequence: cannot be"),
        ({"sequence": 1.5, "publisher": "p"}, "messages[0].sequence: cannot be"),
        ({"sequence": -1, "publisher": "p"}, "fanlog-sequence is '-1'"),
        ({"sequence": 1}, "fanlog-sequence is given without fanlog-publisher"),
        ({"publisher_epoch": 1, "publisher": "p"}, "is given without fanlog-sequence"),
        ({"publisher": 7}, "messages[0].publisher: cannot be"),
        ({"prioritaet": 1}, "prioritaet"),
    ],
)
def test_refusals_of_the_short_form(call, topic, fields, says):
    response = publish(call, topic, **fields)
    assert response.status_code == 400
    assert says in response.text


@pytest.mark.parametrize(
    "path", ["/v1/{topic}:publish", "/v1/{topic}/publish"], ids=["google", "path"]
)
def test_attributes_of_the_other_forms(server, call, topic, path):
    where = path.format(topic=full(topic))
    body = {"messages": [{"data": DATA, "attributes": {"fanlog-delay": "100"}}]}
    assert call("POST", where, body).status_code == 200
    assert pending(server, topic) == 1
    body["messages"][0]["attributes"]["fanlog-delay"] = "soon"
    assert "a number of seconds" in call("POST", where, body).text


def test_extensions_of_events(server, call, topic, subscription):
    event = {
        "specversion": "1.0",
        "type": topic,
        "source": "/a",
        "id": "1",
        "fanlogdelay": 100,
        "fanlogpriority": 3,
        "data": 1,
    }
    headers = {"content-type": "application/cloudevents+json"}
    response = call("POST", "/v1/events", data=json.dumps(event).encode(), headers=headers)
    assert response.status_code < 300
    assert pending(server, topic) == 1
    event |= {"fanlogpriority": 10, "id": "2"}
    response = call("POST", "/v1/events", data=json.dumps(event).encode(), headers=headers)
    assert "fanlog-priority is '10'" in response.text
    event |= {"fanlogpriority": 1, "id": "3", "fanlogdependson": "first"}
    response = call("POST", "/v1/events", data=json.dumps(event).encode(), headers=headers)
    assert "fanlog-depends-on has 'first'" in response.text
    event = {**event, "fanlogdependson": None, "fanlogsequence": 1}
    response = call("POST", "/v1/events", data=json.dumps(event).encode(), headers=headers)
    assert "fanlogsequence: an event is known by its source and id" in response.text


def test_staged_rows(server, topic):
    sink = SinkClient(server, unique("query"))
    try:
        key = sink.key(0)
        rows = [
            Message(data=b"a", attributes={"fanlog-delay": "100"}),
            Message(data=b"b", attributes={"fanlog-delay": "soon"}),
            Message(data=b"c", attributes={"fanlog-deliver-at": "1990-01-01T00:00:00Z"}),
            Message(data=b"d"),
            Message(data=b"e", attributes={"fanlog-depends-on": "99999000000000000"}),
            Message(data=b"f", attributes={"fanlog-publisher": "p", "fanlog-sequence": "1"}),
        ]
        answer = sink.stage(key, (full(topic), rows))
        assert answer.messages == 2
        refused = {one.row: one.reason for one in answer.refused}
        assert refused.keys() == {1, 2, 4, 5}
        assert "rows of a sink are published once" in refused[5]
        assert pending(server, topic) == 0
        sink.commit(0, key)
        assert pending(server, topic) == 1
    finally:
        sink.close()


def test_a_forward_goes_on_at_once_and_keeps_its_priority(server):
    """It was due when it was forwarded; its time-to-live was its place's."""
    topic, target = server.topic(), server.topic()
    server.subscription(topic, push_config={"push_endpoint": f"topic:{target.split('/')[-1]}"})
    reader = server.subscription(target)
    asked = {"fanlog-delay": "0.2", "fanlog-ttl": "60", "fanlog-priority": "4"}
    server.publish(topic, b"x", **asked)
    [received] = server.await_pull(reader)
    attributes = dict(received.message.attributes)
    assert attributes["fanlog-priority"] == "4"
    assert not {"fanlog-delay", "fanlog-ttl"} & attributes.keys()


def test_a_forward_has_no_number(server):
    topic, target = server.topic(), server.topic()
    server.subscription(topic, push_config={"push_endpoint": f"topic:{target.split('/')[-1]}"})
    reader = server.subscription(target)
    server.publish(topic, b"x", **{"fanlog-publisher": "p", "fanlog-sequence": "1"})
    [received] = server.await_pull(reader)
    attributes = dict(received.message.attributes)
    assert attributes["fanlog-publisher"] == "p"
    assert "fanlog-sequence" not in attributes
