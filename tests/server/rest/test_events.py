"""CloudEvents, sent by the `cloudevents` package and by hand, received by the official client."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from cloudevents.core.bindings.http import (
    to_binary_event,
    to_structured_event,
)
from cloudevents.core.v1.event import CloudEvent

from fanlog.config import PROJECT_DEFAULT
from server.registry import JSON, JSON_TYPE, Registry
from server.rest.http import Http
from server.unique import unique

BATCH = "application/cloudevents-batch+json"


@pytest.fixture(scope="module")
def engine() -> str:
    return "memory"


@pytest.fixture
def place(server):
    """An event type, which is a topic's id, and a subscription on that topic."""
    kind = unique("com.example.order")
    topic = f"projects/{PROJECT_DEFAULT}/topics/{kind}"
    server.publisher.create_topic(name=topic)
    return kind, server.subscription(topic)


def event(kind, number=1, **attributes):
    given = {"type": kind, "source": "/shop/7", "id": str(number)}
    return CloudEvent(
        attributes=given
        | {"time": datetime(2026, 1, 31, 12, tzinfo=UTC), "specversion": "1.0"}
        | attributes,
        data={"amount": number},
    )


def sent(call, message, path="/v1/events"):
    return call("POST", path, data=message.body, headers=message.headers)


def as_json(kind, number=1, **fields):
    given = {"specversion": "1.0", "type": kind, "source": "/shop/7", "id": str(number)}
    return given | {"data": {"amount": number}} | fields


def sent_batch(call, events):
    return call("POST", "/v1/events", data=json.dumps(events), headers={"content-type": BATCH})


@pytest.mark.parametrize("write", [to_binary_event, to_structured_event])
def test_both_modes_say_the_same(call, server, place, write):
    kind, subscription = place
    response = sent(call, write(event(kind, datacontenttype="application/json", tenant="blue")))
    assert response.status_code == 200, response.text
    [received] = server.pull(subscription)
    assert response.json() == {"message_ids": [received.message.message_id], "rejected": []}
    attributes = dict(received.message.attributes)
    attributes.pop("fanlog-dedup-id")
    assert json.loads(received.message.data) == {"amount": 1}
    assert datetime.fromisoformat(attributes.pop("ce-time")) == datetime(
        2026, 1, 31, 12, tzinfo=UTC
    )
    assert attributes == {
        "ce-specversion": "1.0",
        "ce-type": kind,
        "ce-source": "/shop/7",
        "ce-id": "1",
        "ce-tenant": "blue",
        "content-type": "application/json",
    }


def test_in_a_project_by_name(call, server):
    kind = unique("placed")
    topic = f"projects/elsewhere/topics/{kind}"
    server.publisher.create_topic(name=topic)
    subscription = server.subscription(topic)
    message = to_structured_event(event(kind))
    assert sent(call, message, "/v1/projects/elsewhere/events").status_code == 200
    assert len(server.pull(subscription)) == 1


def test_source_and_id_are_unique(call, server, place):
    kind, subscription = place
    first = sent(call, to_structured_event(event(kind))).json()
    assert sent(call, to_binary_event(event(kind))).json() == first
    other = sent(call, to_structured_event(event(kind, source="/shop/8"))).json()
    assert other != first
    assert len(server.pull(subscription)) == 2


def test_bytes_and_text_stay_as_they_are(call, server, place):
    kind, subscription = place
    events = [
        as_json(kind, 1, data=None, data_base64="AP8="),
        as_json(kind, 2, data="plain", datacontenttype="text/plain"),
        as_json(kind, 3, data="a string"),
    ]
    assert sent_batch(call, events).status_code == 200
    assert [one.message.data for one in server.pull(subscription)] == [
        b"\x00\xff",
        b"plain",
        b'"a string"',
    ]


def test_a_batch_names_each_that_is_rejected(call, server, place):
    kind, subscription = place
    missing = unique("no-such-topic")
    events = [
        as_json(kind, 1),
        as_json(missing, 2),
        as_json(kind, 3, specversion="0.3"),
        "not an event",
        as_json(kind, 5),
    ]
    response = sent_batch(call, events)
    assert response.status_code == 207
    answer = response.json()
    assert [one is None for one in answer["message_ids"]] == [False, True, True, True, False]
    assert [
        (one["index"], one.get("id"), one["error"]["status"]) for one in answer["rejected"]
    ] == [
        (1, "2", "NOT_FOUND"),
        (2, "3", "INVALID_ARGUMENT"),
        (3, None, "INVALID_ARGUMENT"),
    ]
    assert "specversion" in answer["rejected"][1]["error"]["message"]
    assert [one.message.attributes["ce-id"] for one in server.pull(subscription)] == ["1", "5"]


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"id": ""}, "id"),
        ({"source": None}, "source"),
        ({"type": None}, "type"),
        ({"time": "yesterday"}, "time"),
        ({"Tenant": "blue"}, "Tenant"),
        ({"tenant": {}}, "tenant"),
        ({"data_base64": "AA=="}, "data_base64"),
        ({"data": None, "data_base64": "%"}, "data_base64"),
        ({"type": "com/example"}, "com/example"),
    ],
)
def test_what_is_no_event_is_refused(call, place, fields, word):
    kind, _ = place
    headers = {"content-type": "application/cloudevents+json"}
    body = json.dumps(as_json(kind) | fields)
    assert word in call.refused(400, "POST", "/v1/events", data=body, headers=headers)


@pytest.mark.parametrize("body", [b"[]", b"{}", b"[", b"7"])
def test_what_is_no_batch_is_refused(call, body):
    call.refused(400, "POST", "/v1/events", data=body, headers={"content-type": BATCH})


def test_what_says_nothing_of_events_is_refused(call):
    assert "ce-" in call.refused(415, "POST", "/v1/events", {"hello": "world"})


def test_a_type_without_a_topic_is_not_found(call):
    kind = unique("nobody")
    message = to_structured_event(event(kind))
    sentence = call.refused(404, "POST", "/v1/events", data=message.body, headers=message.headers)
    assert sentence == (
        f"topic 'projects/{PROJECT_DEFAULT}/topics/{kind}' does not exist, and an event makes none "
        f"in project '{PROJECT_DEFAULT}' (event_topics); create it first"
    )
    assert call("GET", f"/v1/topics/{kind}").status_code == 404


def _binary(call, kind, path):
    return sent(call, to_binary_event(event(kind)), path)


def _structured(call, kind, path):
    return sent(call, to_structured_event(event(kind)), path)


def _batch(call, kind, path):
    body = json.dumps([as_json(kind)])
    return call("POST", path, data=body, headers={"content-type": BATCH})


MODES = [_binary, _structured, _batch]


@pytest.fixture
def making(start_server):
    """A server whose events make topics, in two projects; a caller, and a reader of all of them."""
    server = start_server("memory", event_topics="create", event_projects=("shop", "lab"))
    readers = {
        project: server.subscription(f"projects/{project}/topics/#") for project in ("shop", "lab")
    }
    call = Http(server)
    yield server, call, readers
    call.close()


@pytest.mark.parametrize("send", MODES)
def test_the_first_event_makes_its_topic(making, send):
    server, call, readers = making
    for project, reader in readers.items():
        answer = send(call, "com.example.placed", f"/v1/projects/{project}/events")
        assert answer.status_code == 200, answer.text
        # Patterns read the new topic from its first message on.
        [got] = server.drain(reader, 1)
        assert got.message.attributes["ce-type"] == "com.example.placed"
        assert got.message.message_id == answer.json()["message_ids"][0]
        # The second one finds it, and is the same event.
        again = send(call, "com.example.placed", f"/v1/projects/{project}/events")
        assert again.json() == answer.json()


@pytest.mark.parametrize("send", MODES)
def test_in_other_projects_it_does_not(making, send):
    server, call, _ = making
    answer = send(call, "com.example.placed", "/v1/projects/elsewhere/events")
    body = answer.json()
    assert answer.status_code == 404
    assert "an event makes none in project 'elsewhere'" in body["error"]["message"]
    assert list(server.publisher.list_topics(project="projects/elsewhere")) == []


def test_a_type_that_is_no_name_makes_nothing(making):
    server, call, _ = making
    answer = _structured(call, "com/example", "/v1/projects/shop/events")
    assert answer.status_code == 400
    assert list(server.publisher.list_topics(project="projects/shop")) == []


def test_many_first_events_at_the_same_time(making):
    server, call, readers = making
    events = [as_json("com.example.placed", n) for n in range(50)]
    bodies = [json.dumps(events[:25]), *map(json.dumps, ([one] for one in events[25:]))]

    def send(body):
        response = call(
            "POST", "/v1/projects/shop/events", data=body, headers={"content-type": BATCH}
        )
        assert response.status_code == 200, response.text

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(send, bodies))
    found = {int(one.message.attributes["ce-id"]) for one in server.drain(readers["shop"], 50)}
    assert found == set(range(50))
    [topic] = server.publisher.list_topics(project="projects/shop")
    assert topic.name == "projects/shop/topics/com.example.placed"


# Topics that have a schema.


@pytest.fixture
def amounts(server):
    """A place whose data must have an integer `amount`."""
    definition = {"properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
    schema = Registry(server).create(json.dumps({"type": "object"} | definition), JSON_TYPE)
    kind = unique("com.example.amount")
    topic = f"projects/{PROJECT_DEFAULT}/topics/{kind}"
    settings = {"schema": schema.name, "encoding": JSON}
    server.publisher.create_topic(request={"name": topic, "schema_settings": settings})
    return kind, server.subscription(topic), schema


PATHS = ("/v1/events", f"/v1/projects/{PROJECT_DEFAULT}/events")


@pytest.mark.filterwarnings("ignore:Unrecognized Type enum value")
class TestSchemas:
    @pytest.mark.parametrize("path", PATHS)
    @pytest.mark.parametrize("write", [to_binary_event, to_structured_event])
    def test_data_that_conforms(self, call, server, amounts, write, path):
        kind, subscription, schema = amounts
        response = sent(call, write(event(kind, datacontenttype="application/json")), path)
        assert response.status_code == 200, response.text
        [received] = server.pull(subscription)
        assert json.loads(received.message.data) == {"amount": 1}
        attributes = received.message.attributes
        assert attributes["googclient_schemaname"] == schema.name
        assert attributes["googclient_schemarevisionid"] == schema.revision_id
        assert attributes["ce-id"] == "1"

    @pytest.mark.parametrize("path", PATHS)
    @pytest.mark.parametrize("write", [to_binary_event, to_structured_event])
    def test_data_that_does_not(self, call, server, amounts, write, path):
        kind, subscription, schema = amounts
        message = write(event(kind, "two", datacontenttype="application/json"))
        options = {"data": message.body, "headers": message.headers}
        sentence = call.refused(400, "POST", path, **options)
        assert '$.amount: "two" is not of type "integer"' in sentence
        assert f"revision {schema.revision_id} of {schema.name}" in sentence
        assert server.pull(subscription) == []

    def test_what_was_refused_is_not_known(self, call, server, amounts):
        """The id of an event that was refused may be used by one that conforms."""
        kind, subscription, _ = amounts
        assert sent_batch(call, [as_json(kind, 1, data={})]).status_code == 400
        assert sent_batch(call, [as_json(kind, 1)]).status_code == 200
        assert len(server.pull(subscription)) == 1

    def test_a_batch_names_the_one_that_does_not(self, call, server, amounts):
        kind, subscription, _ = amounts
        events = [as_json(kind, 1), as_json(kind, 2, data={"amount": "two"}), as_json(kind, 3)]
        response = sent_batch(call, events)
        assert response.status_code == 207
        [rejected] = response.json()["rejected"]
        assert (rejected["index"], rejected["id"], rejected["source"]) == (1, "2", "/shop/7")
        assert rejected["error"]["status"] == "INVALID_ARGUMENT"
        assert '$.amount: "two" is not of type "integer"' in rejected["error"]["message"]
        assert [one is None for one in response.json()["message_ids"]] == [False, True, False]
        assert [one.message.attributes["ce-id"] for one in server.pull(subscription)] == ["1", "3"]
