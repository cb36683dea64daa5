"""Messages as JSON for people, by their schema."""

from __future__ import annotations

import json

import pytest

from fanlog.schema import Impossible, compile_schema

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "tags", "type": {"type": "array", "items": "int"}},
            {"name": "note", "type": ["null", "string"]},
            {"name": "raw", "type": "bytes"},
            {"name": "size", "type": "double"},
        ],
    }
)
PROTO = """
syntax = "proto3";
message Order { string id = 1; repeated int64 tags = 2; map<string, bool> said = 3; bytes raw = 4; }
"""


def test_avro():
    schema = compile_schema("AVRO", AVRO)
    data = b"\x04ab\x04\x02\x04\x00\x02\x02x\x02\xff\x00\x00\x00\x00\x00\x00\xf8?"
    schema.validate(data, "BINARY")
    found = json.loads(schema.to_json(data, "BINARY"))
    assert found == {
        "id": "ab", "tags": [1, 2], "note": {"string": "x"}, "raw": "\xff", "size": 1.5
    }  # fmt: skip
    # It is the same in Avro's own JSON.
    text = json.dumps(found).encode()
    schema.validate(text, "JSON")
    assert schema.to_json(text, "JSON") == text


def test_protobuf():
    schema = compile_schema("PROTOCOL_BUFFER", PROTO)
    data = b"\x0a\x02ab\x12\x02\x01\x02\x1a\x05\x0a\x01k\x10\x01\x22\x01\xff"
    schema.validate(data, "BINARY")
    found = json.loads(schema.to_json(data, "BINARY"))
    assert found == {"id": "ab", "tags": ["1", "2"], "said": {"k": True}, "raw": "/w=="}


def test_json_is_what_it_is():
    schema = compile_schema("JSON", '{"type": "object"}')
    assert schema.to_json(b'{"a": 1}', "JSON") == b'{"a": 1}'


def test_what_nests_too_deep_is_refused():
    nested = '{"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N"]}]}'
    schema = compile_schema("AVRO", nested)
    with pytest.raises(Impossible):
        schema.to_json(b"\x02" * 200_000 + b"\x00", "BINARY")
