"""Protobuf: what a reader's message type breaks of a writer's, and what becomes of a message."""

from __future__ import annotations

import json

import pytest

from fanlog.schema.compiled import Impossible
from fanlog.schema.compiler import compile_schema


def proto3(body: str) -> object:
    return compile_schema("PROTOCOL_BUFFER", f'syntax = "proto3"; message M {{ {body} }}')


def proto2(body: str) -> object:
    return compile_schema("PROTOCOL_BUFFER", f"message M {{ {body} }}")


#: Name, the writer's fields, the reader's, and what breaks.
CASES = [
    ("the same", "int32 a = 1;", "int32 a = 1;", []),
    ("a field more", "int32 a = 1;", "int32 a = 1; string b = 2;", []),
    ("a field less", "int32 a = 1; string b = 2;", "int32 a = 1;", []),
    ("renamed", "int32 a = 1;", "int32 z = 1;",
     ["$.z: number 1 is called 'z' in JSON; the other calls it 'a'"]),
    ("renamed, the same in JSON", "int32 a = 1;", 'int32 z = 1 [json_name = "a"];', []),
    ("int32 to int64", "int32 a = 1;", "int64 a = 1;",
     ["$.a: int64 is written otherwise than int32 in JSON"]),
    ("int64 to int32", "int64 a = 1;", "int32 a = 1;", ["$.a: int32 cannot be read from int64"]),
    ("string to int32", "string a = 1;", "int32 a = 1;", ["$.a: int32 cannot be read from string"]),
    ("int32 to sint32", "int32 a = 1;", "sint32 a = 1;", ["$.a: sint32 cannot be read from int32"]),
    ("made repeated", "int32 a = 1;", "repeated int32 a = 1;",
     ["$.a: is repeated; for the other it is singular"]),
    ("repeated no more", "repeated int32 a = 1;", "int32 a = 1;",
     ["$.a: is singular; for the other it is repeated"]),
    ("nested", "message N { int32 x = 1; } N n = 1;", "message N { string x = 1; } N n = 1;",
     ["$.n.x: string cannot be read from int32"]),
    ("an enum value more", "enum E { Z = 0; } E e = 1;", "enum E { Z = 0; Y = 1; } E e = 1;", []),
    ("an enum value less", "enum E { Z = 0; Y = 1; } E e = 1;", "enum E { Z = 0; } E e = 1;",
     ["$.e: the enum lacks the value 'Y'"]),
    ("an enum value renumbered", "enum E { Z = 0; Y = 1; } E e = 1;",
     "enum E { Z = 0; Y = 2; } E e = 1;",
     ["$.e: the value 'Y' has the number 2; for the other it is 1"]),
    ("two fields into a oneof", "int32 a = 1; int32 b = 2;",
     "oneof o { int32 a = 1; int32 b = 2; }",
     ["$.o: the oneof holds one of 'a', 'b'; the other may write several of them"]),
    ("one field into a oneof", "int32 a = 1;", "oneof o { int32 a = 1; int32 b = 2; }", []),
    ("a oneof grows", "oneof o { int32 a = 1; }", "oneof o { int32 a = 1; int32 b = 2; }", []),
    ("itself inside", "M m = 1; int32 a = 2;", "M m = 1; bool a = 2;",
     ["$.a: bool cannot be read from int32"]),
    ("a map's values", "map<string, int32> m = 1;", "map<string, bool> m = 1;",
     ["$.m.value: bool cannot be read from int32"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "writer", "reader", "breaks"), CASES, ids=[c[0] for c in CASES])
def test_what_breaks(name, writer, reader, breaks):
    assert proto3(reader).breaks(proto3(writer)) == breaks


@pytest.mark.parametrize(
    ("writer", "reader", "breaks"),
    [
        ("", "required int32 a = 1;", ["$.a: is required; the other does not know it"]),
        ("optional int32 a = 1;", "required int32 a = 1;",
         ["$.a: is required; the other may leave it out"]),
        ("required int32 a = 1;", "optional int32 a = 1;", []),
    ],
)  # fmt: skip
def test_required_fields(writer, reader, breaks):
    assert proto2(reader).breaks(proto2(writer)) == breaks


#: Name, the writer's fields, the reader's, a message, and what becomes of it (a text is why not).
TRANSFORMED = [
    ("dropped", "int32 a = 1; string b = 2;", "int32 a = 1;", {"a": 1, "b": "x"}, {"a": 1}),
    ("renamed", "int32 a = 1;", "int32 long_name = 1;", {"a": 1}, {"longName": 1}),
    ("int32 to int64", "int32 a = 1;", "int64 a = 1;", {"a": 1}, {"a": "1"}),
    ("an enum value renamed", "enum E { Z = 0; Y = 1; } E e = 1;",
     "enum E { Z = 0; X = 1; } E e = 1;", {"e": "Y"}, {"e": "X"}),
    ("another type", "int32 a = 1;", "string a = 1;", {"a": 1},
     "$.a: string cannot be read from int32"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "writer", "reader", "message", "expected"),
    TRANSFORMED,
    ids=[t[0] for t in TRANSFORMED],
)
def test_what_becomes_of_a_message(name, writer, reader, message, expected):
    new, old = proto3(reader), proto3(writer)
    if isinstance(expected, str):
        with pytest.raises(Impossible) as caught:
            new.transform_from(old, "JSON")
        assert str(caught.value) == expected
        return
    made = new.transform_from(old, "JSON")(json.dumps(message).encode())
    assert json.loads(made) == expected
    new.validate(made, "JSON")


def test_binary_messages():
    old, new = proto3("int32 a = 1; string b = 2;"), proto3("int64 a = 1;")
    assert new.transform_from(old, "BINARY")(b"\x08\x05\x12\x01x") == b"\x08\x05"
    new = proto2("required int32 c = 3;")
    with pytest.raises(Impossible, match="required and missing: c"):
        new.transform_from(old, "BINARY")(b"\x08\x05")
