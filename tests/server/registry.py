"""The official client of a server's schemas, and definitions that tests need all the time."""

from __future__ import annotations

import json
from typing import Any

import google.pubsub_v1 as gapic
from google.pubsub_v1.services.schema_service.transports import SchemaServiceGrpcTransport

from server.conftest import PROJECT, RunningServer
from server.unique import unique

PARENT = f"projects/{PROJECT}"
JSON_TYPE = 100
AVRO, PROTO = gapic.Schema.Type.AVRO, gapic.Schema.Type.PROTOCOL_BUFFER
JSON, BINARY = gapic.Encoding.JSON, gapic.Encoding.BINARY
BASIC, FULL = gapic.SchemaView.BASIC, gapic.SchemaView.FULL


def record(*fields: tuple[str, object], **defaults: object) -> str:
    made = [
        {"name": name, "type": kind} | ({"default": defaults[name]} if name in defaults else {})
        for name, kind in fields
    ]
    return json.dumps({"type": "record", "name": "Order", "fields": made})


ONE = record(("id", "string"))
TWO = record(("id", "string"), ("count", "int"), count=0)
OTHER = record(("id", "string"), ("name", "string"))
ORDER_PROTO = 'syntax = "proto3"; message Order { string id = 1; int32 count = 2; }'
ORDER_JSON = json.dumps({"type": "object", "required": ["id"]})


class Registry:
    """The official client of a server's schemas, and short words for it."""

    def __init__(self, server: RunningServer) -> None:
        self.server = server
        self.client = gapic.SchemaServiceClient(
            transport=SchemaServiceGrpcTransport(channel=server.channel())
        )

    def create(self, definition: str = ONE, kind: Any = AVRO, **metadata: str) -> Any:
        return self.client.create_schema(
            parent=PARENT,
            schema=gapic.Schema(type_=kind, definition=definition),
            schema_id=unique("schema"),
            metadata=_pairs(metadata),
        )

    def commit(self, name: str, definition: str, kind: Any = AVRO, **metadata: str) -> Any:
        return self.client.commit_schema(
            name=name,
            schema=gapic.Schema(name=name, type_=kind, definition=definition),
            metadata=_pairs(metadata),
        )

    def get(self, name: str, view: Any = FULL) -> Any:
        return self.client.get_schema(request={"name": name, "view": view})

    def topic(self, schema: str, encoding: Any = JSON, *, topic: str = "", **more: str) -> str:
        settings = {"schema": schema, "encoding": encoding} | more
        return self.server.topic(**{"name": topic} if topic else {}, schema_settings=settings)

    def revision_ids(self, name: str) -> list[str]:
        return [one.revision_id for one in self.client.list_schema_revisions(name=name)]


def _pairs(metadata: dict[str, str]) -> list[tuple[str, str]]:
    return [(key.replace("_", "-"), value) for key, value in metadata.items()]
