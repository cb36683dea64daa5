"""Schemas in the short form, and revisions by number on every surface."""

from __future__ import annotations

import json

import pytest
from google.api_core.exceptions import FailedPrecondition, InvalidArgument, NotFound

from commands import invoke
from fanlog.config import PROJECT_DEFAULT
from server.registry import ONE, TWO, Registry
from server.unique import unique

PROJECT = f"projects/{PROJECT_DEFAULT}"


@pytest.fixture(scope="module")
def engine() -> str:
    return "memory"


@pytest.fixture
def made(call):
    """A schema with two revisions: its id and theirs."""
    name = unique("short-schema")
    body = {"name": name, "type": "AVRO", "definition": ONE, "compatibility": "BACKWARD"}
    first = call("POST", "/v1/schemas", body)
    assert first.status_code == 201, first.text
    second = call("POST", f"/v1/schemas/{name}:commit", {"definition": TWO})
    assert second.status_code == 201, second.text
    return name, first.json()["revision_id"], second.json()["revision_id"]


def full(name: str) -> str:
    return f"{PROJECT}/schemas/{name}"


def test_the_life_of_a_schema(call):
    name = unique("short-schema")
    body = {"name": name, "type": "AVRO", "definition": ONE, "compatibility": "BACKWARD"}
    made = call("POST", "/v1/schemas", body).json()
    assert (made["name"], made["type"], made["revision"]) == (name, "AVRO", 1)
    assert (made["definition"], made["compatibility"]) == (ONE, "BACKWARD")
    assert made["revision_create_time"].endswith("Z")
    assert call("GET", f"/v1/schemas/{name}").json() == made
    listed = call("GET", "/v1/schemas").json()["schemas"]
    [found] = [one for one in listed if one["name"] == name]
    assert (found["revision"], found["revision_id"]) == (1, made["revision_id"])
    assert "definition" not in found
    assert call("DELETE", f"/v1/schemas/{name}").status_code == 204
    assert "does not exist" in call.refused(404, "GET", f"/v1/schemas/{name}")


def test_revisions_by_number_and_by_id(call, made):
    name, first, second = made
    revisions = call("GET", f"/v1/schemas/{name}/revisions").json()["revisions"]
    assert [(one["revision"], one["revision_id"]) for one in revisions] == [(2, second), (1, first)]
    for path in (
        f"{name}@1",
        f"{name}@{first}",
        f"{name}/revisions/1",
        f"{name}/revisions/{first}",
    ):
        found = call("GET", f"/v1/schemas/{path}").json()
        assert (found["revision_id"], found["definition"]) == (first, ONE)
    assert "has no revision '3'" in call.refused(404, "GET", f"/v1/schemas/{name}@3")
    for wrong in ("0", "01", "x", "12345678901"):
        sentence = call.refused(400, "GET", f"/v1/schemas/{name}@{wrong}")
        assert "or by its number" in sentence


def test_a_rollback_by_number(call, made):
    name, first, _ = made
    body = {"revision": 1, "compatibility": "NONE"}
    found = call("POST", f"/v1/schemas/{name}:rollback", body).json()
    assert (found["revision"], found["definition"], found["compatibility"]) == (3, ONE, "NONE")
    body = {"revision": first}
    assert call("POST", f"/v1/schemas/{name}:rollback", body).json()["revision"] == 4
    assert call.refused(400, "POST", f"/v1/schemas/{name}:rollback", {"revision": True})
    sentence = call.refused(400, "POST", f"/v1/schemas/{name}:rollback", {"revision": "x"})
    assert sentence.startswith("revision:")


def test_a_number_is_never_given_twice(call, made):
    name, _, second = made
    assert call("DELETE", f"/v1/schemas/{name}@2").status_code == 204
    found = call("POST", f"/v1/schemas/{name}/revisions", {"definition": TWO}).json()
    assert found["revision"] == 3
    assert found["revision_id"] != second
    assert call("DELETE", f"/v1/schemas/{name}/revisions/3").status_code == 204
    call("POST", f"/v1/schemas/{name}/revisions", {"definition": TWO})
    revisions = call("GET", f"/v1/schemas/{name}/revisions").json()["revisions"]
    assert [one["revision"] for one in revisions] == [4, 1]


def test_what_is_wrong_is_named_as_it_is_called_here(call, made):
    name, _, _ = made
    body = {"name": "x", "type": "AVRO", "definition": ONE}
    assert call.refused(400, "POST", "/v1/schemas", body).startswith("name:")
    body = {"name": unique("short-schema"), "type": "AVRO", "definition": ONE, "compatibility": "?"}
    assert call.refused(400, "POST", "/v1/schemas", body).startswith("compatibility:")
    assert "BACKWARD" in call.refused(
        400, "POST", f"/v1/schemas/{name}:commit", {"definition": json.dumps("string")}
    )
    assert "definition: needed" in call.refused(400, "POST", f"/v1/schemas/{name}:commit", {})
    body = {"definition": ONE}
    assert "does not exist" in call.refused(404, "POST", "/v1/schemas/none-such:commit", body)
    assert "no such field" in call.refused(400, "POST", "/v1/schemas", {"name": "abc", "size": 1})


def test_what_is_validated(call, made):
    name, _, _ = made
    body = {"name": name, "encoding": "JSON", "message": "eyJpZCI6ICJ4IiwgImNvdW50IjogMX0="}
    assert call("POST", "/v1/schemas:validate_message", body).status_code == 204
    body |= {"name": f"{name}@1", "message": "e30="}
    assert "id" in call.refused(400, "POST", "/v1/schemas:validate_message", body)
    body = {"type": "AVRO", "definition": ONE, "encoding": "JSON", "message": "eyJpZCI6ICJ4In0="}
    assert call("POST", "/v1/schemas:validate_message", body).status_code == 204
    assert "name:" in call.refused(
        400, "POST", "/v1/schemas:validate_message", {**body, "name": name}
    )
    wrong = {"type": "AVRO", "definition": "nonsense"}
    call.refused(400, "POST", "/v1/schemas:validate", wrong)


def test_topics_name_schemas_by_their_ids(call, server, made):
    name, first, second = made
    topic = unique("short-topic")
    settings = {
        "schema": name,
        "encoding": "JSON",
        "first_revision_id": "1",
        "last_revision_id": "2",
    }
    shown = call("POST", "/v1/topics", {"name": topic, "schema_settings": settings}).json()
    # What is kept is the id: numbers are another name for it.
    expected = settings | {"first_revision_id": first, "last_revision_id": second}
    assert shown["schema_settings"] == expected
    found = server.publisher.get_topic(topic=f"{PROJECT}/topics/{topic}").schema_settings
    assert found.schema == full(name)
    again = {"schema_settings": {"schema": full(name), "encoding": "JSON"}}
    shown = call("PATCH", f"/v1/topics/{topic}", again).json()
    assert shown["schema_settings"] == {"schema": name, "encoding": "JSON"}
    call("DELETE", f"/v1/schemas/{name}")
    shown = call("GET", f"/v1/topics/{topic}").json()
    assert shown["schema_settings"]["schema"] == "_deleted-schema_"


def test_numbers_over_grpc(server, made):
    name, first, second = made
    registry = Registry(server)
    assert registry.get(f"{full(name)}@1").revision_id == first
    assert registry.get(f"{full(name)}@2").revision_id == second
    with pytest.raises(NotFound, match="has no revision '9'"):
        registry.get(f"{full(name)}@9")
    rolled = registry.client.rollback_schema(name=full(name), revision_id="2")
    assert rolled.definition == TWO
    registry.client.delete_schema_revision(name=f"{full(name)}@3")
    topic = registry.topic(full(name), first_revision_id="1", last_revision_id="2")
    found = server.publisher.get_topic(topic=topic).schema_settings
    assert (found.first_revision_id, found.last_revision_id) == (first, second)
    with pytest.raises(FailedPrecondition, match=f"revision {first} is the first or last"):
        registry.client.delete_schema_revision(name=f"{full(name)}@1")
    with pytest.raises(InvalidArgument, match="or by its number"):
        registry.topic(full(name), first_revision_id="latest")


def test_numbers_in_googles_json(call, made):
    name, first, _ = made
    assert call("GET", f"/v1/{full(name)}@1").json()["revisionId"] == first
    found = call("POST", f"/v1/{full(name)}:rollback", {"revisionId": "2"}).json()
    assert found["definition"] == TWO


def test_a_subscription_asks_for_a_number(server, made):
    name, first, _ = made
    registry = Registry(server)
    topic = registry.topic(full(name))
    wants = server.subscription(topic, labels={"fanlog-schema-revision": "1"})
    server.publish(topic, b'{"id": "x", "count": 3}')
    [received] = server.pull(wants)
    assert json.loads(received.message.data) == {"id": "x"}
    # The label stays as it was given, and keeps its revision.
    labels = server.subscriber.get_subscription(subscription=wants).labels
    assert labels["fanlog-schema-revision"] == "1"
    with pytest.raises(FailedPrecondition, match=f"asks for revision {first}"):
        registry.client.delete_schema_revision(name=f"{full(name)}@1")
    with pytest.raises(NotFound, match="has no revision '7'"):
        server.subscription(topic, labels={"fanlog-schema-revision": "7"})
    plain = server.subscription(topic, labels={"fanlog-schema-revision": "2"})
    server.publish(topic, b'{"id":   "x", "count": 4}')
    # As it was written: nothing was to be transformed.
    assert server.pull(plain)[-1].message.data == b'{"id":   "x", "count": 4}'


def test_the_command_line(server, made):
    name, first, second = made
    where = ["--endpoint", server.endpoint]
    shown = json.loads(
        invoke(["schema", "describe", name, "--revision", "1", "--json", *where]).output
    )
    assert (shown["revision"], shown["revision_id"]) == (1, first)
    assert (shown["revisions"], shown["revision_numbers"]) == ([second, first], [2, 1])
    text = invoke(["schema", "describe", name, *where]).output
    assert f"2 ({second}) 1 ({first})" in text
    listed = [
        json.loads(line)
        for line in invoke(["schema", "list", "--json", *where]).output.splitlines()
    ]
    [found] = [one for one in listed if one["name"] == full(name)]
    assert found["revision"] == 2
