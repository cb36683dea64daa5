"""JSON Schema: what a reader's schema breaks of a writer's, and what becomes of a message."""

from __future__ import annotations

import json

import pytest

from fanlog.schema.compiled import Impossible
from fanlog.schema.compiler import compile_schema


def thing(properties: object, *required: str, **more: object) -> object:
    return {"type": "object", "properties": properties, "required": required, **more}


TEXT, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
CLOSED = {"additionalProperties": False}
UNPROVEN = "is new or changed; whether the other keeps to it cannot be shown"


def tree(kind: object) -> object:
    node = thing({"next": {"$ref": "#/$defs/node"}, "value": kind})
    return {"$ref": "#/$defs/node", "$defs": {"node": node}}


#: Name, the writer's schema, the reader's, and what breaks.
CASES = [
    ("the same", thing({"a": TEXT}), thing({"a": TEXT}), []),
    ("an optional property more", thing({"a": TEXT}), thing({"a": TEXT, "b": TEXT}), []),
    ("a required property more", thing({"a": TEXT}), thing({"a": TEXT, "b": TEXT}, "b"),
     ["$.b: is required; the other does not know it"]),
    ("made required", thing({"a": TEXT}), thing({"a": TEXT}, "a"),
     ["$.a: is required; the other may leave it out"]),
    ("required no more", thing({"a": TEXT}, "a"), thing({"a": TEXT}), []),
    ("a property less, open", thing({"a": TEXT, "b": TEXT}), thing({"a": TEXT}), []),
    ("a property less, closed", thing({"a": TEXT, "b": TEXT}), thing({"a": TEXT}, **CLOSED),
     ["$.b: is not allowed; the other writes it"]),
    ("integer to number", thing({"a": INTEGER}), thing({"a": NUMBER}), []),
    ("number to integer", thing({"a": NUMBER}), thing({"a": INTEGER}),
     ["$.a: expects integer; the other writes number, too"]),
    ("any to integer", thing({"a": {}}), thing({"a": INTEGER}),
     ["$.a: expects integer; the other writes anything"]),
    ("a type more", thing({"a": TEXT}), thing({"a": {"type": ["string", "null"]}}), []),
    ("a type less", thing({"a": {"type": ["string", "null"]}}), thing({"a": TEXT}),
     ["$.a: expects string; the other writes null, too"]),
    ("a value more", {"enum": ["x"]}, {"enum": ["x", "y"]}, []),
    ("a value less", {"enum": ["x", "y"]}, {"enum": ["x"]}, ["$: does not allow 'y' any more"]),
    ("values listed", TEXT, {"enum": ["x"]},
     ["$: expects one of 1 values; the other writes any"]),
    ("a narrower range", INTEGER | {"minimum": 1}, INTEGER | {"minimum": 2},
     ["$: minimum is 2; the other has 1"]),
    ("a wider range", INTEGER | {"minimum": 2}, INTEGER | {"minimum": 1}, []),
    ("a length", TEXT, TEXT | {"maxLength": 5}, ["$: maxLength is 5; the other has none"]),
    ("a pattern", TEXT, TEXT | {"pattern": "^a"}, [f"$: pattern {UNPROVEN}"]),
    ("a format", TEXT, TEXT | {"format": "date"}, [f"$: format {UNPROVEN}"]),
    ("items", {"type": "array", "items": NUMBER}, {"type": "array", "items": INTEGER},
     ["$['*']: expects integer; the other writes number, too"]),
    ("a choice more", {"oneOf": [TEXT]}, {"anyOf": [TEXT, INTEGER]}, []),
    ("a choice less", {"anyOf": [TEXT, INTEGER]}, {"anyOf": [TEXT]},
     [f"$: anyOf {UNPROVEN}"]),
    ("a tree that grows", tree(INTEGER), tree(NUMBER), []),
    ("a tree that shrinks", tree(NUMBER), tree(INTEGER),
     ["$.next.value: expects integer; the other writes number, too"]),
    ("free values", {"type": "object"}, {"type": "object", "additionalProperties": TEXT},
     ["$: additional properties are restricted; the other writes any"]),
    ("nested, twice", thing({"o": thing({"a": TEXT, "b": TEXT})}),
     thing({"o": thing({"a": INTEGER}, "b")}),
     ["$.o.b: is required; the other may leave it out",
      "$.o.a: expects integer; the other writes string, too"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "writer", "reader", "breaks"), CASES, ids=[c[0] for c in CASES])
def test_what_breaks(name, writer, reader, breaks):
    new, old = (compile_schema("JSON", json.dumps(one)) for one in (reader, writer))
    assert new.breaks(old) == breaks


#: Name, the writer's schema, the reader's, a message, and what becomes of it (a text is why not).
TRANSFORMED = [
    ("default", thing({"a": TEXT}), thing({"a": TEXT, "b": INTEGER | {"default": 3}}),
     {"a": "x"}, {"a": "x", "b": 3}),
    ("alias", thing({"a": TEXT}), thing({"z": TEXT | {"x-aliases": ["a"]}}),
     {"a": "x"}, {"z": "x"}),
    ("dropped", thing({"a": TEXT, "b": TEXT}), thing({"a": TEXT}),
     {"a": "x", "b": "y"}, {"a": "x"}),
    ("what neither knows stays", thing({"a": TEXT}), thing({"a": TEXT}),
     {"a": "x", "q": 1}, {"a": "x", "q": 1}),
    ("in lists", thing({"l": {"type": "array", "items": thing({"a": TEXT, "b": TEXT})}}),
     thing({"l": {"type": "array", "items": thing({"a": TEXT, "c": {"default": 1}})}}),
     {"l": [{"a": "x", "b": "y"}]}, {"l": [{"a": "x", "c": 1}]}),
    ("through references", tree(INTEGER), tree(NUMBER | {"default": 1.5}),
     {"next": {"value": 2}}, {"next": {"value": 2}, "value": 1.5}),
    ("not possible", thing({"a": NUMBER}), thing({"a": INTEGER}), {"a": 1.5},
     '$.a: 1.5 is not of type "integer"'),
    ("not possible, missing", thing({"a": TEXT}), thing({"a": TEXT, "b": TEXT}, "b"), {"a": "x"},
     '$: "b" is a required property'),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "writer", "reader", "message", "expected"),
    TRANSFORMED,
    ids=[t[0] for t in TRANSFORMED],
)
def test_what_becomes_of_a_message(name, writer, reader, message, expected):
    new, old = (compile_schema("JSON", json.dumps(one)) for one in (reader, writer))
    transform = new.transform_from(old, "JSON")
    data = json.dumps(message).encode()
    if isinstance(expected, str):
        with pytest.raises(Impossible) as caught:
            transform(data)
        assert str(caught.value) == expected
        return
    assert json.loads(transform(data)) == expected


def test_large_integers_stay_what_they_are():
    new, old = (
        compile_schema("JSON", json.dumps(thing({name: INTEGER | {"x-aliases": ["a"]}})))
        for name in ("z", "a")
    )
    large = 123456789012345678901234567890
    assert new.transform_from(old, "JSON")(b'{"a":%d}' % large) == b'{"z":%d}' % large


def test_what_is_nested_too_deeply_is_impossible():
    new, old = (compile_schema("JSON", json.dumps(one)) for one in ({"type": "array"}, {}))
    with pytest.raises(Impossible, match="nested too deeply"):
        new.transform_from(old, "JSON")(b"[" * 990 + b"]" * 990)
