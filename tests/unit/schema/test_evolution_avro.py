"""Avro: what a reader's schema breaks of a writer's, and what becomes of a message."""

from __future__ import annotations

import json

import pytest

from fanlog.schema.compiled import Impossible
from fanlog.schema.compiler import compile_schema


def record(*fields: object, **more: object) -> object:
    return {"type": "record", "name": "R", "fields": fields, **more}


def field(name: str, kind: object, **more: object) -> object:
    return {"name": name, "type": kind, **more}


def enum(*symbols: str, **more: object) -> object:
    return {"type": "enum", "name": "E", "symbols": symbols, **more}


A = field("a", "int")
FIXED = {"type": "fixed", "name": "F", "size": 2}

#: Name, the writer's schema, the reader's, and what breaks.
CASES = [
    ("the same", record(A), record(A), []),
    ("a field more, with default", record(A), record(A, field("b", "int", default=7)), []),
    ("a field more, without", record(A), record(A, field("b", "int")),
     ["$.b: the field is not written by the other, and has no default"]),
    ("a field less", record(A, field("b", "int")), record(A), []),
    ("fields in another order", record(A, field("b", "int")), record(field("b", "int"), A), []),
    ("renamed by alias", record(A), record(field("z", "int", aliases=["a"])), []),
    ("renamed without", record(A), record(field("z", "int")),
     ["$.z: the field is not written by the other, and has no default"]),
    ("int to long", "int", "long", []),
    ("int to double", "int", "double", []),
    ("long to int", "long", "int", ["$: int cannot be read from long"]),
    ("double to float", "double", "float", ["$: float cannot be read from double"]),
    ("string to bytes", "string", "bytes", []),
    ("string to int", record(field("a", "string")), record(A),
     ["$.a: int cannot be read from string"]),
    ("made nullable", record(A), record(field("a", ["null", "int"])), []),
    ("made nullable and longer", record(A), record(field("a", ["null", "long"])), []),
    ("nullable no more", record(field("a", ["null", "int"])), record(A),
     ["$.a: int cannot be read from null"]),
    ("a branch more", record(field("a", ["null", "int"])),
     record(field("a", ["null", "int", "string"])), []),
    ("a branch less", record(field("a", ["null", "int", "string"])),
     record(field("a", ["null", "int"])), ["$.a.string: no branch of the union reads string"]),
    ("a symbol more", enum("A"), enum("A", "B"), []),
    ("a symbol less", enum("A", "B"), enum("A"),
     ["$: enum E lacks the symbol 'B' and has no default"]),
    ("a symbol less, with default", enum("A", "B"), enum("A", default="A"), []),
    ("items changed", {"type": "array", "items": "int"}, {"type": "array", "items": "string"},
     ["$['*']: string cannot be read from int"]),
    ("values widened", {"type": "map", "values": "int"}, {"type": "map", "values": "long"}, []),
    ("another size", FIXED, FIXED | {"size": 3},
     ["$: fixed F of 3 bytes cannot be read from fixed F of 2 bytes"]),
    ("another record", record(A), record(A) | {"name": "S"},
     ["$: record S cannot be read from record R"]),
    ("another record, by alias", record(A), record(A) | {"name": "S", "aliases": ["R"]}, []),
    ("another namespace", record(A), record(A) | {"namespace": "n"}, []),
    ("itself inside", record(A, field("r", ["null", "R"])),
     record(field("a", "string"), field("r", ["null", "R"])),
     ["$.a: string cannot be read from int"]),
    ("two things at once", record(A, field("b", "int")),
     record(field("a", "boolean"), field("c", "int")),
     ["$.a: boolean cannot be read from int",
      "$.c: the field is not written by the other, and has no default"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "writer", "reader", "breaks"), CASES, ids=[c[0] for c in CASES])
def test_what_breaks(name, writer, reader, breaks):
    new, old = (compile_schema("AVRO", json.dumps(one)) for one in (reader, writer))
    assert new.breaks(old) == breaks


RICH = record(
    field("z", "long", aliases=["a"]),
    field("n", ["null", "string"], default=None),
    field("b", "bytes", default="\u00ff"),
    field("l", {"type": "array", "items": record(field("q", "int", default=1), name="S")},
          default=[{}]),
    field("d", {"type": "map", "values": ["int", "null"]}, default={"x": 3, "y": None}),
)  # fmt: skip

#: Name, the writer's schema, the reader's, a message, and what becomes of it (a text is why not).
TRANSFORMED = [
    ("defaults, alias, dropped", record(A, field("gone", "string")), RICH,
     {"a": 1, "gone": "x"},
     {"z": 1, "n": None, "b": "\u00ff", "l": [{"q": 1}], "d": {"x": {"int": 3}, "y": None}}),
    ("into a union", record(A), record(field("a", ["null", "long"])),
     {"a": 1}, {"a": {"long": 1}}),
    ("out of a union", record(field("a", ["null", "int"])), record(A), {"a": {"int": 1}}, {"a": 1}),
    ("null out of a union", record(field("a", ["null", "int"])), record(A),
     {"a": None}, "$.a: int cannot be read from null"),
    ("int to double", record(A), record(field("a", "double")), {"a": 1}, {"a": 1.0}),
    ("a symbol that is known", record(field("e", enum("A", "B"))), record(field("e", enum("A"))),
     {"e": "A"}, {"e": "A"}),
    ("a symbol that is not", record(field("e", enum("A", "B"))), record(field("e", enum("A"))),
     {"e": "B"}, "$.e: enum E has no symbol 'B' any more, and no default"),
    ("a symbol with default", record(field("e", enum("A", "B"))),
     record(field("e", enum("A", default="A"))), {"e": "B"}, {"e": "A"}),
    ("text to bytes", record(field("s", "string")), record(field("s", "bytes")),
     {"s": "é"}, {"s": "Ã©"}),
    ("bytes to text", record(field("s", "bytes")), record(field("s", "string")),
     {"s": "Ã©"}, {"s": "é"}),
    ("bytes that are none", record(field("s", "bytes")), record(field("s", "string")),
     {"s": "\u00ff"}, "$.s: the bytes are not UTF-8 text"),
    ("a field that is not there", record(A), record(A, field("b", "int")), {"a": 1},
     "$.b: the message was written without this field, and it has no default"),
    ("nested", record(field("m", {"type": "map", "values": {"type": "array", "items": "int"}})),
     record(field("m", {"type": "map", "values": {"type": "array", "items": "float"}})),
     {"m": {"k": [1, 2]}}, {"m": {"k": [1.0, 2.0]}}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "writer", "reader", "message", "expected"),
    TRANSFORMED,
    ids=[t[0] for t in TRANSFORMED],
)
def test_what_becomes_of_a_message(name, writer, reader, message, expected):
    new, old = (compile_schema("AVRO", json.dumps(one)) for one in (reader, writer))
    data = json.dumps(message).encode()
    old.validate(data, "JSON")
    transform = new.transform_from(old, "JSON")
    if isinstance(expected, str):
        with pytest.raises(Impossible) as caught:
            transform(data)
        assert str(caught.value) == expected
        return
    made = transform(data)
    assert json.loads(made) == expected
    new.validate(made, "JSON")


def test_what_is_nested_too_deeply_is_impossible():
    definition = json.dumps(
        {
            "type": "record",
            "name": "Node",
            "fields": [{"name": "next", "type": {"type": "array", "items": "Node"}}],
        }
    )
    schema = compile_schema("AVRO", definition)
    data = b'{"next":[' * 130 + b'{"next":[]}' + b"]}" * 130
    schema.validate(data, "JSON")
    with pytest.raises(Impossible, match="cannot be written: Recursion limit reached"):
        schema.transform_from(schema, "JSON")(data)
