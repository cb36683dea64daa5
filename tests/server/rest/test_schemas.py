"""Schemas over REST: the official client, and JSON by hand."""

from __future__ import annotations

import base64
import json
from typing import Any

import google.pubsub_v1 as gapic
import pytest
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials

from server.conftest import PROJECT, RunningServer
from server.unique import unique

PARENT = f"projects/{PROJECT}"
ONE = json.dumps({"type": "record", "name": "R", "fields": [{"name": "id", "type": "string"}]})
TWO = json.dumps({"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]})
ORDER = json.dumps({"type": "object", "required": ["id"]})


@pytest.fixture(scope="module")
def engine() -> str:
    return "memory"


@pytest.fixture
def client(server: RunningServer) -> Any:
    transport = gapic.SchemaServiceClient.get_transport_class("rest")(
        host=server.http("").removeprefix("http://"),
        url_scheme="http",
        credentials=AnonymousCredentials(),
    )
    return gapic.SchemaServiceClient(transport=transport)


def test_the_official_client_over_rest(client):
    kind = gapic.Schema.Type.AVRO
    made = client.create_schema(
        parent=PARENT,
        schema=gapic.Schema(type_=kind, definition=ONE),
        schema_id=unique("rest-schema"),
    )
    second = client.commit_schema(name=made.name, schema=gapic.Schema(type_=kind, definition=TWO))
    ids = [one.revision_id for one in client.list_schema_revisions(name=made.name)]
    assert ids == [second.revision_id, made.revision_id]
    assert client.get_schema(name=f"{made.name}@{made.revision_id}").definition == ONE
    assert made.name in [one.name for one in client.list_schemas(parent=PARENT)]
    client.validate_schema(parent=PARENT, schema=gapic.Schema(type_=kind, definition=ONE))
    message = {"parent": PARENT, "name": made.name, "encoding": 1, "message": b'{"id": 3}'}
    client.validate_message(request=message)
    with pytest.raises(exceptions.BadRequest, match="expected a 32-bit integer"):
        client.validate_message(request=message | {"message": b'{"id": "x"}'})
    back = client.rollback_schema(name=made.name, revision_id=made.revision_id)
    assert back.definition == ONE
    client.delete_schema_revision(request={"name": f"{made.name}@{back.revision_id}"})
    client.delete_schema(name=made.name)
    with pytest.raises(exceptions.NotFound):
        client.get_schema(name=made.name)


def test_json_by_hand(server, call):
    name = unique("rest-schema")
    path = f"/v1/{PARENT}/schemas/{name}"
    made = call(
        "POST",
        f"/v1/{PARENT}/schemas?schemaId={name}",
        {"type": "JSON", "definition": ORDER},
        headers={"fanlog-compatibility": "BACKWARD"},
    )
    assert made.status_code == 200, made.text
    assert made.headers["fanlog-compatibility"] == "BACKWARD"
    assert made.json()["type"] == "JSON"
    assert call("GET", path).json()["definition"] == ORDER
    listed = call("GET", f"/v1/{PARENT}/schemas").json()["schemas"]
    assert {"JSON"} == {one["type"] for one in listed if one["name"].endswith(name)}
    narrower = json.dumps({"type": "object", "required": ["id", "name"]})
    body = {"schema": {"type": "JSON", "definition": narrower}}
    assert "$.name: is required" in call.refused(400, "POST", f"{path}:commit", body)
    topic = f"/v1/{PARENT}/topics/{unique('rest-topic')}"
    settings = {"schema": f"{PARENT}/schemas/{name}", "encoding": "JSON"}
    assert call("PUT", topic, {"schemaSettings": settings}).json()["schemaSettings"] == settings
    data = base64.b64encode(b"{}").decode()
    sentence = call.refused(400, "POST", f"{topic}:publish", {"messages": [{"data": data}]})
    assert sentence.startswith('messages[0].data: $: "id" is a required property')
    refused = {"type": "XML", "definition": "x"}
    path = f"/v1/{PARENT}/schemas?schemaId={unique('x')}"
    assert "PROTOCOL_BUFFER, AVRO, JSON" in call.refused(400, "POST", path, refused)
