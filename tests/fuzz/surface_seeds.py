"""Seeds of the targets for schemas, policies, CloudEvents and their REST; see `fuzz.seeds`."""

from __future__ import annotations

import json
from collections.abc import Iterable

from fuzz.draw import chunk
from fuzz.targets import events, rest, schemas
from fuzz.world import TOPIC

_FIELD = {"name": "n", "type": "long"}
_AVRO = {"type": "record", "name": "R", "fields": [_FIELD]}
_AVRO_NEW = _AVRO | {
    "fields": [
        {"name": "m", "aliases": ["n"], "type": "double"},
        {"name": "s", "type": ["null", "string"], "default": None},
    ]
}
_PROTO = (
    'syntax = "proto3"; message R { int64 n = 1; repeated string s = 2; E e = 3; enum E {A = 0;} }'
)
_PROTO_NEW = 'syntax = "proto3"; message R { int32 n = 1; map<string, int32> m = 4; }'
_JSON = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
_JSON_NEW = {
    "type": "object",
    "properties": {"n": {"$ref": "#/$defs/x"}, "s": {"type": "string", "default": ""}},
    "$defs": {"x": {"type": ["integer", "null"], "minimum": 0}},
}
_EVENT = {"specversion": "1.0", "id": "1", "source": "/s", "type": "orders", "data": {"v": 1}}


def seeds() -> dict[str, list[bytes]]:
    return {
        "events": list(_events()),
        "rest_resources": list(_rest()),
        "schema": list(_schemas()),
        "schema_work": list(_schema_work()),
        "policy": list(_policies()),
    }


def _schemas() -> Iterable[bytes]:
    for kind, old, new, text, binary in (
        ("AVRO", json.dumps(_AVRO), json.dumps(_AVRO_NEW), b'{"n": 1}', b"\2"),
        ("PROTOCOL_BUFFER", _PROTO, _PROTO_NEW, b'{"n": "1", "s": ["a"]}', b"\x08\x01\x12\x01a"),
        ("JSON", json.dumps(_JSON), json.dumps(_JSON_NEW), b'{"n": 1}', b""),
    ):
        place = bytes([schemas.TYPES.index(kind)])
        for first, second in ((new, old), (old, new), (old, old)):
            both = chunk(first.encode()) + chunk(second.encode())
            yield place + b"\0" + both + text
            yield place + b"\1" + both + binary


def _schema_work() -> Iterable[bytes]:
    """Forty levels of one shape each, of every type, and a message that goes into them."""
    for kind, shapes in enumerate(((0, 1, 2, 3, 12, 31), (8, 10, 11, 26, 42, 15), (0, 1, 2))):
        for shape in shapes:
            for levels in (4, 40):
                built = bytes([levels]) + bytes([shape]) * levels + b"\0"
                head = bytes([kind]) + built * 2
                if kind == 1 or shape % 2:
                    yield head + b"\0" + b"[" * levels + b"]" * levels
                else:
                    yield head + b"\1" + b"\2" * levels + b"\0" * 80


def _policies() -> Iterable[bytes]:
    viewer = chunk(b"roles/viewer")
    yield viewer + b"\2" + chunk(b"user:a@example.com") + chunk(b"allUsers")
    yield viewer + b"\1" + chunk(b"domain:example.com") + chunk(b"roles/nobody") + b"\0"
    yield viewer + b"\1" + chunk(b"serviceAccount:p.svc.id.goog[n/a]")


def _event(mode: int, body: bytes, headers: dict[bytes, bytes] | None = None) -> bytes:
    head = bytes([1, mode])
    if headers is None:
        return head + b"\0" + chunk(body)
    bits = sum(1 << events.HEADERS.index(name) for name in headers)
    values = b"".join(chunk(headers[name]) for name in events.HEADERS if name in headers)
    return head + bytes([1, bits]) + values + chunk(body)


def _events() -> Iterable[bytes]:
    yield _event(0, json.dumps(_EVENT).encode()) * 2
    yield _event(0, json.dumps(_EVENT | {"data_base64": "AA=="}).encode())
    yield _event(1, json.dumps([_EVENT, _EVENT | {"id": ""}, 7]).encode())
    binary = {b"specversion": b"1.0", b"id": b"1", b"source": b"/%C3%A4", b"type": b"orders"}
    yield _event(4, b"data", binary | {b"time": b"2026-01-31T12:00:00.5+01:00"}) * 2
    yield _event(2, b"{}")


def _http(method: str, path: str, body: object = None, query: bytes = b"") -> bytes:
    place = events.PATHS.index(f"/v1/{path}")
    content = b"" if body is None else json.dumps(body).encode()
    head = bytes([rest.METHODS.index(method), place])
    return head + chunk(query) + chunk(content)


def _rest() -> Iterable[bytes]:
    schema = {"type": "AVRO", "definition": json.dumps(_AVRO)}
    create = _http("POST", "projects/test/schemas", schema, b"schemaId=shape")
    newer = {"schema": schema | {"name": events.SCHEMA, "definition": json.dumps(_AVRO_NEW)}}
    yield (
        create
        + _http("POST", f"{events.SCHEMA}:commit", newer)
        + _http("GET", f"{events.SCHEMA}:listRevisions")
    )
    settings = {"schemaSettings": {"schema": events.SCHEMA, "encoding": "JSON"}}
    update = _http("PATCH", TOPIC, {"topic": settings, "updateMask": "schemaSettings"})
    messages = [{"data": "eyJuIjogMX0="}, {"data": "e30="}]
    yield create + update + _http("POST", f"{TOPIC}:publish", {"messages": messages[:1]})
    yield create + update + _http("POST", f"{TOPIC}:publish", {"messages": messages})
    yield (
        create
        + update
        + _http("DELETE", events.SCHEMA)
        + _http("POST", "topics/orders:publish", {"messages": messages})
    )
    yield _http("POST", "projects/test/schemas:validate", {"schema": schema})
    message = {"schema": schema, "message": "e30=", "encoding": "JSON"}
    yield _http("POST", "projects/test/schemas:validateMessage", message)
    binding = {"role": "roles/viewer", "members": ["user:a@example.com"]}
    grant = _http("POST", f"{TOPIC}:setIamPolicy", {"policy": {"bindings": [binding]}})
    yield grant + _http("GET", f"{TOPIC}:getIamPolicy")
    yield grant + _http("POST", f"{TOPIC}:setIamPolicy", {"policy": {"etag": "eA=="}})
    asked = {"permissions": ["pubsub.topics.publish", "pubsub.topics.nothing"]}
    yield _http("POST", f"{TOPIC}:testIamPermissions", asked)
    new = {"name": "new", "topic": "orders", "mode": "pull", "ack_deadline_seconds": 30}
    yield _http("POST", "subscriptions", new)
    yield _http("POST", "subscriptions/failing:pull", {"max_messages": 1}) + _http(
        "POST", "subscriptions/failing:nack", {"ack_ids": ["x"], "requeue": False}
    )
