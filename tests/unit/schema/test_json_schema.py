"""JSON Schema: definitions that are refused, messages that are."""

from __future__ import annotations

import json

import pytest

from fanlog.errors import InvalidArgument
from fanlog.schema.compiled import Mismatch
from fanlog.schema.compiler import compile_schema

ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "minLength": 1},
        "count": {"type": "integer", "minimum": 1},
        "at": {"type": "string", "format": "date-time"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
    },
    "required": ["id"],
    "additionalProperties": False,
    "$defs": {"line": {"type": "object", "required": ["sku"]}},
}


def order() -> object:
    return compile_schema("JSON", json.dumps(ORDER))


def test_a_good_message_passes():
    order().validate(b'{"id": "x", "count": 3, "lines": [{"sku": 1}]}', "JSON")


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"{}", '$: "id" is a required property'),
        (b'{"id": ""}', '$.id: "" is shorter than 1 character'),
        (b'{"id": "x", "count": 0}', "$.count: 0 is less than the minimum of 1"),
        (b'{"id": "x", "lines": [{"sku": 1}, {}]}', '$.lines[1]: "sku" is a required property'),
        (b'{"id": "x", "at": "noon"}', '$.at: "noon" is not a "date-time"'),
        (b'{"id": "x", "y": 1, "count": 0}',
         "$: Additional properties are not allowed ('y' was unexpected)"),
        (b"nope", "$: expected JSON: "),
        (b'{"id": "' + b"x" * 2000 + b'", "count": "a"}', '$.count: "a" is not of type "integer"'),
    ],
)  # fmt: skip
def test_messages_that_do_not_conform(data, sentence):
    with pytest.raises(Mismatch) as caught:
        order().validate(data, "JSON")
    assert str(caught.value).startswith(sentence)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("definition", "sentence"),
    [
        ("{", "the JSON Schema is not JSON: "),
        ("5", "the JSON Schema is not an object"),
        ('{"type": "objec"}', "the JSON Schema is wrong at $.type: "),
        ('{"properties": {"a": {"minLength": "x"}}}',
         "the JSON Schema is wrong at $.properties.a.minLength: "),
        ('{"pattern": "("}', "the JSON Schema is wrong at $.pattern: "),
        ('{"$ref": "#/nope"}', "the JSON Schema is wrong at $: Pointer '/nope' does not exist"),
        ('{"items": {"$ref": "http://169.254.169.254/x"}}',
         "the JSON Schema is wrong at $.items['$ref']: 'http://169.254.169.254/x' lies outside"),
        ('{"$ref": "other.json"}', "the JSON Schema is wrong at $: "),
        ('{"$schema": "http://nope/"}', "the JSON Schema is wrong at $: Unknown meta-schema"),
    ],
)  # fmt: skip
def test_definitions_that_are_refused(definition, sentence):
    with pytest.raises(InvalidArgument) as caught:
        compile_schema("JSON", definition)
    assert str(caught.value).startswith(sentence)


def test_there_is_no_binary_encoding():
    order().check_encoding("JSON")
    with pytest.raises(InvalidArgument, match="have the encoding JSON only"):
        order().check_encoding("BINARY")
