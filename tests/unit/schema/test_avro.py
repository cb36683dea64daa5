"""Avro: definitions that are refused, messages that are, and where the sentences point."""

from __future__ import annotations

import io
import json

import fastavro
import pytest

from fanlog.errors import InvalidArgument
from fanlog.schema.compiled import Mismatch
from fanlog.schema.compiler import compile_schema

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "count", "type": "int"},
        {"name": "total", "type": "double", "default": 0},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "PAID"]}},
        {"name": "tags", "type": {"type": "map", "values": "long"}},
        {"name": "lines", "type": {"type": "array", "items": {
            "type": "record", "name": "Line",
            "fields": [{"name": "sku", "type": "string"}, {"name": "code", "type": "bytes"}],
        }}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {"name": "parent", "type": ["null", "Order"], "default": None},
        {"name": "live", "type": "boolean"},
        {"name": "ratio", "type": "float"},
    ],
}  # fmt: skip

GOOD = {
    "id": "o-1",
    "count": 2,
    "total": 1.5,
    "note": {"string": "hi"},
    "kind": "PAID",
    "tags": {"a": 1, "b": -(2**40)},
    "lines": [{"sku": "x", "code": "\u00ff\u0000"}, {"sku": "y", "code": ""}],
    "hash": "abcd",
    "parent": None,
    "live": True,
    "ratio": 0.5,
}

#: The same, as fastavro has values.
GOOD_VALUE = GOOD | {
    "note": "hi",
    "lines": [{"sku": "x", "code": b"\xff\x00"}, {"sku": "y", "code": b""}],
    "hash": b"abcd",
}


def record(*fields: object) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": fields})


def order() -> object:
    return compile_schema("AVRO", json.dumps(ORDER))


def binary(value: object) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(ORDER), value)
    return out.getvalue()


def test_a_good_message_passes_in_both_encodings():
    order().validate(json.dumps(GOOD).encode(), "JSON")
    order().validate(binary(GOOD_VALUE), "BINARY")
    inner = GOOD | {"parent": {"shop.Order": GOOD}}
    order().validate(json.dumps(inner).encode(), "JSON")
    order().validate(binary(GOOD_VALUE | {"parent": GOOD_VALUE}), "BINARY")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"id": 3}, "$.id: expected a string, found the number 3"),
        ({"count": 2**31}, "$.count: expected a 32-bit integer, found the number 2147483648"),
        ({"count": True}, "$.count: expected a 32-bit integer, found true"),
        ({"count": 1.0}, "$.count: expected a 32-bit integer, found the number 1.0"),
        ({"total": "1"}, "$.total: expected a number, found the string '1'"),
        ({"note": "hi"}, '$.note: expected null or {"string": …}, found the string \'hi\''),
        ({"note": {"int": 1}}, "$.note: expected null or {\"string\": …}, found the branch 'int'"),
        ({"note": {"string": 1}}, "$.note.string: expected a string, found the number 1"),
        ({"kind": "OLD"}, "$.kind: expected a symbol of enum shop.Kind, found the string 'OLD'"),
        ({"tags": {"a": None}}, "$.tags.a: expected a 64-bit integer, found null"),
        ({"tags": {"a b": "x"}}, "$.tags['a b']: expected a 64-bit integer, found the string 'x'"),
        ({"lines": [GOOD["lines"][0], {"sku": "x"}]},
         "$.lines[1]: the field 'code' of record shop.Line is missing"),
        ({"lines": {}}, "$.lines: expected an array, found an object"),
        ({"lines": [{"sku": "x", "code": "\u0100"}]},
         "$.lines[0].code: expected bytes as a string of the characters 0 to 255, found others"),
        ({"hash": "abc"}, "$.hash: expected 4 bytes (fixed shop.Hash), found 3"),
        ({"live": None}, "$.live: expected true or false, found null"),
        ({"other": 1}, "$: 'other' is no field of record shop.Order"),
        ({"parent": {"shop.Order": []}},
         "$.parent['shop.Order']: expected an object (record shop.Order), found an array"),
    ],
)  # fmt: skip
def test_json_that_does_not_conform(change, sentence):
    with pytest.raises(Mismatch) as caught:
        order().validate(json.dumps(GOOD | change).encode(), "JSON")
    assert str(caught.value) == sentence


def test_what_is_no_json():
    with pytest.raises(Mismatch, match="expected JSON: "):
        order().validate(b'{"id"', "JSON")


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "$.id: the bytes end in the middle of the value"),
        (b"\x06abc", "$.count: the bytes end in the middle of the value"),
        (b"\x08abc", "$.id: a length of 4 bytes is claimed; the bytes end in the middle"),
        (b"\x01", "$.id: expected a length, found -1"),
        (b"\x02\xff", "$.id: expected a string in UTF-8, found other bytes"),
        (b"\x00\x80\x80\x80\x80\x10", "$.count: expected a 32-bit integer, found 2147483648"),
        (b"\x00\x00" + b"\0" * 8 + b"\x04", "$.note: expected a branch of the union, 0 to 1: 2"),
        (b"\x00\x00" + b"\0" * 8 + b"\0\x01",
         "$.kind: expected a symbol of enum shop.Kind, 0 to 1: -1"),
        (b"\x00\x00" + b"\0" * 8 + b"\0\0" + b"\xfe\xff\xff\xff\x0f",
         "$.tags: a block claims 2147483647 items; there is no room for so many"),
        (b"\x00\x00" + b"\0" * 8 + b"\0\0" + b"\x02\x02", "$.tags: a block claims 1"),
    ],
)  # fmt: skip
def test_bytes_that_do_not_conform(data, sentence):
    with pytest.raises(Mismatch) as caught:
        order().validate(data, "BINARY")
    assert str(caught.value).startswith(sentence)


def test_bytes_after_the_message():
    with pytest.raises(Mismatch, match="complete after"):
        order().validate(binary(GOOD_VALUE) + b"\0", "BINARY")


def test_a_claim_of_many_items_without_bytes_is_bounded():
    nulls = compile_schema("AVRO", '{"type": "array", "items": "null"}')
    nulls.validate(b"\x06\x00", "BINARY")
    with pytest.raises(Mismatch, match="checking the message takes more than 10040 steps"):
        nulls.validate(b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x00", "BINARY")


def test_nesting_without_end_is_refused():
    chain = compile_schema(
        "AVRO", '{"type":"record","name":"R","fields":[{"name":"r","type":["null","R"]}]}'
    )
    chain.validate(b"\x02" * 20 + b"\x00", "BINARY")
    with pytest.raises(Mismatch, match="nested too deeply"):
        chain.validate(b"\x02" * 100_000 + b"\x00", "BINARY")


@pytest.mark.parametrize(
    ("definition", "sentence"),
    [
        ("{", "the Avro definition is not JSON: "),
        ('["int"]', "the Avro definition is a union at its top; a schema has exactly one"),
        ('{"type": "recrod"}', "the Avro definition is wrong at $.type: the type 'recrod' is not"),
        ('"strng"', "the Avro definition is wrong at $: the type 'strng' is not known"),
        ('{"name": "x"}', "the Avro definition is wrong at $: expected an object with 'type'"),
        ('{"type": "record", "name": "9", "fields": []}',
         "the Avro definition is wrong at $.name: expected a name, found the string '9'"),
        ('{"type": "record", "name": "R"}',
         "the Avro definition is wrong at $.fields: expected a list of fields, found null"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a"}]}',
         "the Avro definition is wrong at $.fields[0]: the field 'a' has no 'type'"),
        (record({"name": "a", "type": "int"}, {"name": "a", "type": "int"}),
         "the Avro definition is wrong at $.fields[1]: the record has a field 'a' already"),
        (record({"name": "a", "type": "int", "default": "x"}),
         "the Avro definition is wrong at $.fields[0].default: expected int as default, found"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["int", "int"]}]}',
         "the Avro definition is wrong at $.fields[0].type[1]: the union has 'int' twice"),
        ('{"type": "enum", "name": "E", "symbols": ["A", "A"]}',
         "the Avro definition is wrong at $.symbols: a symbol is there twice"),
        ('{"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}',
         "the Avro definition is wrong at $.default: expected one of the symbols"),
        ('{"type": "fixed", "name": "F"}',
         "the Avro definition is wrong at $.size: expected a number of bytes, found null"),
        ('{"type": "array"}', "the Avro definition is wrong at $: expected 'items'"),
        ("[" * 2000 + "]" * 2000, "the Avro definition is"),
        ("  ", "definition: a schema needs one, but it is empty"),
    ],
)  # fmt: skip
def test_definitions_that_are_refused(definition, sentence):
    with pytest.raises(InvalidArgument) as caught:
        compile_schema("AVRO", definition)
    assert str(caught.value).startswith(sentence)
    assert len(str(caught.value)) < 500
