"""Schemas with an old and a new revision, and topics that take both."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from fanlog.config import PROJECT_DEFAULT
from server.conftest import RunningServer
from server.registry import AVRO, BINARY, JSON, JSON_TYPE, PROTO, Registry
from server.unique import unique

LABEL = "fanlog-schema-revision"
REVISION = "googclient_schemarevisionid"
WRITTEN = "fanlog-schema-written-revision"
REASON = "fanlog-schema-reason"


@dataclass(frozen=True)
class Case:
    """An old and a new definition, and a message of the old one as it is in the new."""

    kind: Any
    encoding: Any
    old: str
    new: str
    before: bytes
    after: bytes


def avro(*fields: dict[str, object]) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


def thing(properties: dict[str, object], *required: str) -> str:
    return json.dumps({"type": "object", "properties": properties, "required": required})


#: A name by alias, a field with a default, a field dropped.
AVRO_OLD = avro({"name": "id", "type": "string"}, {"name": "note", "type": "string"})
AVRO_NEW = avro(
    {"name": "key", "type": "string", "aliases": ["id"]},
    {"name": "count", "type": "int", "default": 7},
)
PROTO_OLD = 'syntax = "proto3"; message Order { string id = 1; string note = 2; }'
PROTO_NEW = 'syntax = "proto3"; message Order { string key = 1; int32 count = 3; }'
TEXT = {"type": "string"}
JSON_OLD = thing({"id": TEXT, "note": TEXT}, "id")
JSON_NEW = thing({"key": TEXT | {"x-aliases": ["id"]}, "count": {"default": 7}}, "key")
BEFORE = b'{"id":"a","note":"n"}'

CASES = {
    "avro-json": Case(AVRO, JSON, AVRO_OLD, AVRO_NEW, BEFORE, b'{"key":"a","count":7}'),
    "avro-binary": Case(AVRO, BINARY, AVRO_OLD, AVRO_NEW, b"\x02a\x02n", b"\x02a\x0e"),
    "protobuf-json": Case(PROTO, JSON, PROTO_OLD, PROTO_NEW, BEFORE, b'{"key": "a"}'),
    "protobuf-binary": Case(
        PROTO, BINARY, PROTO_OLD, PROTO_NEW, b"\x0a\x01a\x12\x01n", b"\x0a\x01a"
    ),
    "json": Case(JSON_TYPE, JSON, JSON_OLD, JSON_NEW, BEFORE, b'{"key":"a","count":7}'),
}


class World:
    """A schema with two revisions and a topic that takes both."""

    def __init__(self, server: RunningServer, case: Case = CASES["avro-json"]) -> None:
        self.server = server
        self.case = case
        self.registry = Registry(server)
        made = self.registry.create(case.old, case.kind)
        self.schema, self.old = made.name, made.revision_id
        self.new = self.registry.commit(made.name, case.new, case.kind).revision_id
        # In the default project, where every form of REST can reach it.
        self.topic = self.registry.topic(
            self.schema,
            case.encoding,
            topic=f"projects/{PROJECT_DEFAULT}/topics/{unique('revised')}",
        )

    def subscription(self, revision: str = "", labels: Any = None, **fields: Any) -> str:
        labels = {LABEL: revision or self.new} | (labels or {})
        name = f"projects/{PROJECT_DEFAULT}/subscriptions/{unique('revised')}"
        fields = {"name": name, "labels": labels} | fields
        return self.server.subscription(self.topic, **fields)

    def publish(self, *data: bytes, **more: Any) -> list[str]:
        return self.server.publish(self.topic, *(data or [self.case.before]), **more)

    def relabel(self, subscription: str, labels: dict[str, str]) -> None:
        self.server.subscriber.update_subscription(
            request={
                "subscription": {"name": subscription, "labels": labels},
                "update_mask": {"paths": ["labels"]},
            }
        )


#: Of the new revision nothing can be read with the old one, which has no defaults.
BACKWARDS = b'{"key":"b","count":1}'
WHY = "$.id: the message was written without this field, and it has no default"
