"""The table of fields that only the service sets, walked over gRPC and Google's JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import grpc
import pytest
import requests
from google.protobuf import json_format

from fanlog.wire import output_only, types
from fanlog.wire.output_only import OutputOnly
from server.conftest import PATIENCE_S, RunningServer
from server.unique import unique

PROJECT = "projects/test"

#: A value of each field that the service would not give.
VALUES: dict[tuple[str, str], Any] = {
    ("PubsubMessage", "message_id"): "7",
    ("PubsubMessage", "publish_time"): "2001-02-03T04:05:06Z",
    ("Topic", "state"): "INGESTION_RESOURCE_ERROR",
    ("Topic", "satisfies_pzs"): True,
    ("Subscription", "state"): "RESOURCE_ERROR",
    ("Subscription", "topic_message_retention_duration"): "700s",
    ("Subscription", "detached"): True,
    ("Subscription", "analytics_hub_subscription_info"): {"listing": "x"},
    ("BigQueryConfig", "state"): "PERMISSION_DENIED",
    ("CloudStorageConfig", "state"): "PERMISSION_DENIED",
    ("Snapshot", "topic"): "projects/p/topics/another",
    ("Schema", "revision_id"): "abcd1234",
    ("Schema", "revision_create_time"): "2001-02-03T04:05:06Z",
}
#: How each request is made over HTTP: verb, path after the name, and what of it is the body.
HTTP = {
    "Publish": ("POST", "{topic}:publish", None),
    "CreateTopic": ("PUT", "{name}", None),
    "UpdateTopic": ("PATCH", "{topic.name}", None),
    "CreateSubscription": ("PUT", "{name}", None),
    "UpdateSubscription": ("PATCH", "{subscription.name}", None),
    "UpdateSnapshot": ("PATCH", "{snapshot.name}", None),
    "CreateSchema": ("POST", "{parent}/schemas", "schema"),
    "CommitSchema": ("POST", "{name}:commit", None),
}
SERVICES = {"Topic": "Publisher", "Publish": "Publisher", "Schema": "SchemaService"}
AVRO = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}%s]}'


def unique_name() -> str:
    return unique("one")


class Refused(Exception):
    pass


@dataclass
class Face:
    """Takes requests as Google's JSON, and answers so."""

    server: RunningServer
    name: str

    def call(self, method: str, request: dict[str, Any]) -> dict[str, Any]:
        return self._grpc(method, request) if self.name == "grpc" else self._rest(method, request)

    def _grpc(self, method: str, request: dict[str, Any]) -> dict[str, Any]:
        takes = getattr(types, f"{method}Request", None) or getattr(types, method[6:])
        gives = types.PublishResponse if method == "Publish" else getattr(types, method[6:])
        service = next((s for word, s in SERVICES.items() if word in method), "Subscriber")
        raw = json_format.ParseDict(request, takes()).SerializeToString()
        with self.server.channel() as channel:
            try:
                answer = channel.unary_unary(f"/google.pubsub.v1.{service}/{method}")(
                    raw, timeout=PATIENCE_S
                )
            except grpc.RpcError as error:
                raise Refused(error.details()) from error
        return json_format.MessageToDict(gives.FromString(answer))

    def _rest(self, method: str, request: dict[str, Any]) -> dict[str, Any]:
        verb, template, body = HTTP[method]
        field = template[template.index("{") + 1 : template.index("}")]
        name: Any = request
        for part in field.split("."):
            name = name[part]
        path = template.replace(f"{{{field}}}", name)
        query = {"schemaId": request["schemaId"]} if "schemaId" in request else {}
        answer = requests.request(
            verb,
            self.server.http(f"/v1/{path}"),
            json=request[body] if body else request,
            params=query,
            timeout=PATIENCE_S,
        )
        if answer.status_code != 200:
            raise Refused(answer.json()["error"]["message"])
        return answer.json()


@pytest.fixture(scope="module")
def engine() -> str:
    return "memory"


@pytest.fixture(params=["grpc", "google"])
def face(server, request) -> Face:
    return Face(server, request.param)


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def spelled(face: Face, mask: str) -> str:
    return ".".join(map(camel, mask.split(".")))


def requests_with(face: Face, one: OutputOnly, method: str) -> tuple[dict, dict]:
    """A request, and the same with the field set."""
    server, value = face.server, {camel(one.field): VALUES[one.message, one.field]}
    match method:
        case "Publish":
            topic = server.topic()
            message = {"data": "eA=="}
            return tuple({"topic": topic, "messages": [message | v]} for v in ({}, value))
        case "CreateTopic":
            return tuple({"name": f"{PROJECT}/topics/{unique('one')}"} | v for v in ({}, value))
        case "UpdateTopic":
            topic = {"name": server.topic(), "labels": {"a": "b"}}
            return tuple({"topic": topic | v, "updateMask": "labels"} for v in ({}, value))
        case "CreateSubscription":
            return tuple(
                {"name": f"{PROJECT}/subscriptions/{unique('one')}"} | settings(server, one, v)
                for v in ({}, value)
            )
        case "UpdateSubscription":
            made = {"name": f"{PROJECT}/subscriptions/{unique('one')}"} | settings(server, one, {})
            face.call("CreateSubscription", made)
            mask = {"BigQueryConfig": "bigqueryConfig", "CloudStorageConfig": "cloudStorageConfig"}
            return tuple(
                {
                    "subscription": made | settings(server, one, v) | {"labels": {"a": "b"}},
                    "updateMask": mask.get(one.message, "labels"),
                }
                for v in ({}, value)
            )
        case "UpdateSnapshot":
            _, name = server.topic_and_subscription()
            made = f"{PROJECT}/snapshots/{unique('one')}"
            server.subscriber.create_snapshot(name=made, subscription=name)
            snapshot = {"name": made, "labels": {"a": "b"}}
            return tuple({"snapshot": snapshot | v, "updateMask": "labels"} for v in ({}, value))
        case "CreateSchema":
            schema = {"type": "AVRO", "definition": AVRO % ""}
            return tuple(
                {"parent": PROJECT, "schemaId": unique_name(), "schema": schema | v}
                for v in ({}, value)
            )
        case "CommitSchema":
            made = f"{PROJECT}/schemas/{unique('one')}"
            first = {"type": "AVRO", "definition": AVRO % ""}
            second = ', {"name": "%s", "type": "long", "default": 0}'
            schema_id = made.rpartition("/")[2]
            request = {"parent": PROJECT, "schemaId": schema_id, "schema": first}
            face.call("CreateSchema", request)
            return tuple(
                {
                    "name": made,
                    "schema": first | {"name": made, "definition": AVRO % (second % column)} | v,
                }
                for column, v in (("a", {}), ("b", value))
            )
    raise AssertionError(method)


def settings(server: RunningServer, one: OutputOnly, value: dict[str, Any]) -> dict[str, Any]:
    topic = {"topic": server.topic()}
    match one.message:
        case "BigQueryConfig":
            return topic | {
                "bigqueryConfig": {"table": "p.d.orders", "writeMetadata": True} | value
            }
        case "CloudStorageConfig":
            return topic | {"cloudStorageConfig": {"bucket": "orders-bucket"} | value}
        case _:
            return topic | value


ROWS = [pytest.param(one, id=f"{one.message}.{one.field}") for one in output_only.FIELDS]


def test_every_row_has_a_value():
    assert VALUES.keys() == {(one.message, one.field) for one in output_only.FIELDS}


@pytest.mark.parametrize("one", ROWS)
def test_what_becomes_of_it(face, one):
    name = camel(one.field)
    for method in one.requests:
        plain, setting = requests_with(face, one, method)
        if one.set_by_caller == "refused":
            with pytest.raises(Refused, match=one.field):
                face.call(method, setting)
            continue
        expected, found = face.call(method, plain), face.call(method, setting)
        assert found.keys() == expected.keys()
        if method == "Publish":
            continue
        given, said = VALUES[one.message, one.field], holder(found, one)
        assert said.get(name) != given, method
        if name not in ("revisionId", "revisionCreateTime", "topic"):
            assert said.get(name) == holder(expected, one).get(name)


def holder(answer: dict[str, Any], one: OutputOnly) -> dict[str, Any]:
    word = {"BigQueryConfig": "bigqueryConfig", "CloudStorageConfig": "cloudStorageConfig"}
    return answer[word[one.message]] if one.message in word else answer


@pytest.mark.parametrize("one", [row for row in ROWS if row.values[0].mask])
def test_it_cannot_be_named_in_a_mask(face, one):
    method = next((m for m in one.requests if m.startswith("Update")), "UpdateSubscription")
    request, _ = requests_with(face, one, method)
    request["updateMask"] = spelled(face, one.mask)
    with pytest.raises(Refused, match=one.mask.rpartition(".")[2]):
        face.call(method, request)


def test_a_message_is_given_an_id_and_a_time_of_its_own(face):
    topic, name = face.server.topic_and_subscription()
    message = {"data": "eA==", "messageId": "7", "publishTime": "2001-02-03T04:05:06Z"}
    answer = face.call("Publish", {"topic": topic, "messages": [message]})
    [received] = face.server.pull(name)
    assert [received.message.message_id] == answer["messageIds"] != ["7"]
    assert received.message.publish_time.year > 2001


@pytest.mark.parametrize("field", ["id", "message_id", "publish_time"])
def test_the_short_form_has_no_such_fields(server, field):
    topic = server.topic().rpartition("/")[2]
    message = {"data": "eA==", field: "2001-02-03T04:05:06Z"}
    answer = requests.post(
        server.http(f"/v1/topics/{topic}:publish"),
        json={"messages": [message]},
        timeout=PATIENCE_S,
    )
    assert answer.status_code == 400
    assert field in answer.json()["error"]["message"]
