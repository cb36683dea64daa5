"""Avro against another implementation: what `fastavro` writes passes and comes back alike."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanlog.schema import avro_codec, avro_tree
from fanlog.schema.compiled import Mismatch
from fanlog.schema.compiler import compile_schema

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


@st.composite
def schemas(draw: st.DrawFn) -> Any:
    """Give a record whose fields are of all kinds; every named type has a name of its own."""
    count = 0

    def named(kind: dict[str, Any]) -> dict[str, Any]:
        nonlocal count
        count += 1
        return kind | {"name": f"T{count}"}

    def one(depth: int) -> Any:
        kinds = [*PRIMITIVES, "enum", "fixed"] + ["array", "map", "record", "union"] * (depth > 0)
        kind = draw(st.sampled_from(kinds))
        match kind:
            case "enum":
                return named({"type": "enum", "symbols": ["A", "B", "C"]})
            case "fixed":
                return named({"type": "fixed", "size": draw(st.integers(0, 5))})
            case "array":
                return {"type": "array", "items": one(depth - 1)}
            case "map":
                return {"type": "map", "values": one(depth - 1)}
            case "record":
                return record(depth - 1)
            case "union":
                return draw(st.permutations(["null", "string", "long"]))
        return kind

    def record(depth: int) -> Any:
        fields = [{"name": f"f{at}", "type": one(depth)} for at in range(draw(st.integers(1, 3)))]
        return named({"type": "record", "fields": fields})

    return record(2)


def values(kind: Any) -> st.SearchStrategy[Any]:
    if isinstance(kind, list):
        return st.one_of([values(one) for one in kind])
    if isinstance(kind, str):
        kind = {"type": kind}
    match kind["type"]:
        case "null":
            return st.none()
        case "boolean":
            return st.booleans()
        case "int":
            return st.integers(-(2**31), 2**31 - 1)
        case "long":
            return st.integers(-(2**63), 2**63 - 1)
        case "float":
            return st.floats(width=32, allow_nan=False)
        case "double":
            return st.floats(allow_nan=False)
        case "bytes":
            return st.binary(max_size=20)
        case "string":
            return st.text(max_size=20)
        case "fixed":
            return st.binary(min_size=kind["size"], max_size=kind["size"])
        case "enum":
            return st.sampled_from(kind["symbols"])
        case "array":
            return st.lists(values(kind["items"]), max_size=3)
        case "map":
            return st.dictionaries(st.text(max_size=5), values(kind["values"]), max_size=3)
    return st.fixed_dictionaries({one["name"]: values(one["type"]) for one in kind["fields"]})


@given(st.data())
def test_what_fastavro_writes_passes_and_comes_back_alike(data):
    schema = data.draw(schemas())
    value = data.draw(values(schema))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    written = out.getvalue()
    definition = json.dumps(schema)
    compile_schema("AVRO", definition).validate(written, "BINARY")
    node = avro_tree.parse(definition)
    decoded, end = avro_codec.decode(node, written)
    assert end == len(written)
    assert avro_codec.encode(node, decoded) == written


@given(st.data())
def test_json_and_binary_are_the_same_messages(data):
    schema = data.draw(schemas())
    value = data.draw(values(schema))
    text = io.StringIO()
    fastavro.json_writer(text, fastavro.parse_schema(schema), [value])
    if "Infinity" in text.getvalue():
        return
    compiled = compile_schema("AVRO", json.dumps(schema))
    compiled.validate(text.getvalue().encode(), "JSON")


@given(schemas(), st.binary(max_size=60))
def test_any_bytes_are_judged_and_what_passes_can_be_read(schema, data):
    definition = json.dumps(schema)
    try:
        compile_schema("AVRO", definition).validate(data, "BINARY")
    except Mismatch:
        return
    node = avro_tree.parse(definition)
    assert avro_codec.decode(node, data)[1] == len(data)


def test_a_revision_resolves_as_fastavro_resolves_it():
    writer = {"type": "record", "name": "R", "fields": [
        {"name": "a", "type": "int"}, {"name": "gone", "type": "string"},
        {"name": "u", "type": ["null", "int"]},
    ]}  # fmt: skip
    reader = {"type": "record", "name": "R", "fields": [
        {"name": "u", "type": ["null", "long"]}, {"name": "z", "type": "double", "aliases": ["a"]},
        {"name": "d", "type": "string", "default": "x"},
    ]}  # fmt: skip
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(writer), {"a": 5, "gone": "g", "u": 7})
    expected = fastavro.schemaless_reader(
        io.BytesIO(out.getvalue()), fastavro.parse_schema(writer), fastavro.parse_schema(reader)
    )
    old, new = (compile_schema("AVRO", json.dumps(one)) for one in (writer, reader))
    made = new.transform_from(old, "BINARY")(out.getvalue())
    read = fastavro.schemaless_reader(io.BytesIO(made), fastavro.parse_schema(reader), None)
    assert read == expected == {"u": 7, "z": 5.0, "d": "x"}


@pytest.mark.parametrize("number", [0, -1, 1, 63, 64, -64, -65, 2**31, 2**63 - 1, -(2**63)])
def test_numbers_come_back(number):
    node = avro_tree.AvroNode(kind="long")
    assert avro_codec.decode(node, avro_codec.encode(node, number))[0] == number
