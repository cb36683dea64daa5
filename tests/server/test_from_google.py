"""The guide to coming from Google has every field and method, and quotes refusals as they are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import google.pubsub_v1 as gapic
import pytest
from google.api_core.exceptions import MethodNotImplemented
from google.protobuf.message import Message
from google.pubsub_v1.services.schema_service.transports import SchemaServiceGrpcTransport
from google.pubsub_v1.types import pubsub, schema

from fanlog.model.labels import SUBSCRIPTION_LABELS, TOPIC_LABELS
from fanlog.server.services import SERVICES
from server.unique import unique

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "from-google.md").read_text("utf-8")
ROW = re.compile(r"^\| `(\w+)` \| (same|more|refused|output) \| ?(.*?) ?\|$", re.MULTILINE)
#: By the names of the messages in a heading: rows of field, kind and text.
SECTIONS = {
    tuple(heading.split(", ")): ROW.findall(text)
    for heading, text in re.findall(r"^### (.*?)\n(.*?)(?=^##)", GUIDE, re.MULTILINE | re.DOTALL)
}
ROWS = {names[0]: rows for names, rows in SECTIONS.items() if len(names) == 1}
REFUSED = [
    (message, field, text)
    for message, rows in ROWS.items()
    for field, kind, text in rows
    if kind == "refused"
]

#: Messages that say nothing but which resource, or a page of a list.
_PLAIN = re.compile(r"(Get|Delete|List|Detach)\w*Request|\w+Response")
#: Messages that only stand in refused fields, or that Google's own tools send to each other, or
#: that no caller sends.
_ELSEWHERE = {
    "IngestionDataSourceSettings",
    "PlatformLogsSettings",
    "IngestionFailureEvent",
    "MessageTransform",
    "JavaScriptUDF",
    "AIInference",
    "Compression",
    "BigtableConfig",
    "CompiledProtoSchema",
    "PubsubClientTelemetry",
    "ReceivedMessage",
}


@pytest.fixture(scope="module")
def engine() -> str:
    return "memory"


def messages() -> dict[str, Any]:
    """The types of messages that callers send, by name."""
    found: dict[str, Any] = {}
    for module in (pubsub, schema):
        for name in module.__protobuf__.manifest:
            kind = getattr(module, name)
            if hasattr(kind, "pb") and name not in _ELSEWHERE and not _PLAIN.fullmatch(name):
                found[name] = kind
    return found


def test_every_message_has_a_section():
    assert {name for names in SECTIONS for name in names} == set(messages())


@pytest.mark.parametrize("names", SECTIONS, ids=lambda names: names[0])
def test_every_field_has_a_row(names):
    known = messages()
    fields = {
        field.name.removesuffix("_")
        for name in names
        for field in known[name].pb().DESCRIPTOR.fields
    }
    rows = [field for field, _, _ in SECTIONS[names]]
    assert sorted(rows) == sorted(fields)


def test_every_method_is_there(server):
    services = [one for one in SERVICES if one.name.startswith("google.")]
    assert len(services) == 4
    for service in services:
        name = service.short_name
        [row] = re.findall(rf"^\| `{name}` \| (.*) \|$", GUIDE, re.MULTILINE)
        served = {method.name for method in (*service.methods, *service.streams)}
        assert set(re.findall(r"`(\w+)`", row)) == served


def test_every_label_is_there():
    """A new label needs a row in docs/guides/from-google.md."""
    rows = set(re.findall(r"^\| `(fanlog-[\w-]+)` \|", GUIDE, re.MULTILINE))
    assert rows >= TOPIC_LABELS | SUBSCRIPTION_LABELS


def test_there_are_refusals():
    assert len(REFUSED) >= 10


@pytest.mark.parametrize(("message", "field", "text"), REFUSED)
def test_refusals(server, message, field, text):
    assert re.fullmatch(r'".*"', text)
    with pytest.raises(MethodNotImplemented) as refused:
        _send(server, message, _filled(messages()[message].pb(), field))
    assert refused.value.message == text.strip('"')


def _filled(kind: Any, field: str) -> Any:
    """A message of this kind in which one field has some value."""
    message = kind()
    descriptor = kind.DESCRIPTOR.fields_by_name[field]
    if descriptor.message_type is None:
        setattr(message, field, True if descriptor.cpp_type == descriptor.CPPTYPE_BOOL else "x")
    elif descriptor.message_type.GetOptions().map_entry:
        getattr(message, field)["key"] = "value"
    elif isinstance(getattr(message, field), Message):
        getattr(message, field).SetInParent()
    else:
        getattr(message, field).add()
    return message


def _send(server: Any, kind: str, message: Any) -> None:
    """Make the resource that the message stands for, or is a part of."""
    name = unique("refused")
    match kind:
        case "Topic":
            message.name = f"projects/test/topics/{name}"
            server.publisher.create_topic(request=pubsub.Topic(message))
        case "CreateSnapshotRequest":
            _, message.subscription = server.topic_and_subscription()
            message.name = f"projects/test/snapshots/{name}"
            server.subscriber.create_snapshot(request=pubsub.CreateSnapshotRequest(message))
        case "Schema":
            message.type_, message.definition = 2, '"string"'
            transport = SchemaServiceGrpcTransport(channel=server.channel())
            with gapic.SchemaServiceClient(transport=transport) as client:
                client.create_schema(
                    parent="projects/test", schema_id=name, schema=schema.Schema(message)
                )
        case _:
            subscription = pubsub.Subscription.pb()(name=f"projects/test/subscriptions/{name}")
            if kind == "Subscription":
                subscription.MergeFrom(message)
            elif kind == "BigQueryConfig":
                subscription.bigquery_config.CopyFrom(message)
            else:
                assert kind == "CloudStorageConfig"
                subscription.cloud_storage_config.CopyFrom(message)
            subscription.topic = server.topic()
            server.subscriber.create_subscription(request=pubsub.Subscription(subscription))
