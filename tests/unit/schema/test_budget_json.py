"""JSON Schemas and messages that ask for work without end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fanlog.errors import InvalidArgument
from fanlog.schema import Impossible, Long, Mismatch, breaking_changes, compile_schema
from fanlog.schema.budget import budget_to_compile
from fanlog.schema.json_tree import Tree
from fanlog.schema.json_work import JsonWork
from unit.schema.work import calls

#: A pattern that takes 60 us for each character it looks at.
SLOW = "([ab]{1,50}){1,50}c"
DRAFT = "http://json-schema.org/draft-07/schema#"


def schema(definition: Any) -> Any:
    return compile_schema("JSON", json.dumps(definition))


def refused(definition: Any) -> str:
    with pytest.raises(InvalidArgument) as caught:
        schema(definition)
    return str(caught.value)


def lattice(levels: int, key: str = "allOf") -> dict[str, Any]:
    """Each level looks at the same value twice."""
    made: dict[str, Any] = {
        f"d{n}": {key: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)
    }
    made[f"d{levels}"] = {"type": "integer"}
    return {"$defs": made, "$ref": "#/$defs/d0"}


def work(definition: Any) -> JsonWork:
    budget = budget_to_compile(json.dumps(definition) * 100)
    return JsonWork(Tree(definition, budget), definition, {}, budget)


def steps(definition: Any, value: Any, most: int = 10**30) -> int:
    return work(definition).count(value, most)[0]


# Patterns.


def test_a_pattern_has_so_many_bytes():
    sentence = refused({"properties": {"a": {"pattern": "\\p{L}{300}"}}})
    assert sentence.startswith(
        "the JSON Schema is wrong at $.properties.a.pattern: '\\\\p{L}{300}'"
    )
    assert "at most 4194304 bytes" in sentence


def test_a_name_pattern_has_so_many_bytes():
    sentence = refused({"patternProperties": {"\\p{L}{300}": True, "a": {}}})
    assert "at $.patternProperties['" in sentence


@pytest.mark.parametrize("pattern", ["\\pL{200}%d", "\\p{L}{50}"])
def test_many_large_patterns_are_refused_after_the_first_few(pattern):
    many = [{"pattern": pattern % n if "%" in pattern else pattern} for n in range(390)]
    assert "bytes" in refused({"allOf": many})


@pytest.mark.parametrize(
    "pattern",
    ["^.{1,255}$", "^[^<>]{0,1000}$", "^\\p{L}{1,64}$", "^[A-Z]{2}\\d{10}$", "^\\w{1,64}$"],
)
def test_usual_patterns_are_fine(pattern):
    schema({"properties": {"a": {"pattern": pattern}}}).validate(b'{"b": 1}', "JSON")


def test_a_message_that_a_pattern_may_take_long_for_is_said_to_be_long():
    one = schema({"items": {"pattern": SLOW}})
    assert not one.is_long(b'["ab"]')
    assert one.is_long(json.dumps(["ab" * 10_000]).encode())
    # Only what the pattern looks at counts.
    assert not schema({"properties": {"a": {"pattern": SLOW}}}).is_long(
        b'{"b":"' + b"x" * 9999 + b'"}'
    )


# Lattices.


@pytest.mark.parametrize("key", ["allOf", "anyOf", "oneOf"])
def test_a_lattice_of_references_is_counted_and_refused(key):
    sentences = []
    assert calls(lambda: sentences.append(refused(lattice(60, key)))) < 50_000
    assert "looks at a message in more than 50000000 steps" in sentences[0]


def test_steps_double_with_every_level_of_a_lattice():
    ten, eleven = (steps(lattice(levels), 1) for levels in (10, 11))
    assert 1.9 < eleven / ten < 2.1


def test_what_doubles_with_the_depth_of_a_message_is_counted_for_each():
    twice = [{"items": {"$ref": "#/$defs/n"}}] * 2
    tree = {"$defs": {"n": {"allOf": twice}}, "$ref": "#/$defs/n"}
    one = schema(tree)
    one.validate(b"[" * 5 + b"]" * 5, "JSON")
    assert not one.is_long(b"[" * 5 + b"]" * 5)
    assert one.is_long(b"[" * 25 + b"]" * 25)

    def check() -> None:
        with pytest.raises(Mismatch, match="checking the message takes more than 50000000 steps"):
            one.validate(b"[" * 60 + b"]" * 60, "JSON")

    assert calls(check) < 20_000


def test_a_schema_that_looks_at_itself_on_the_spot_is_refused():
    assert "refers to itself" in refused({"anyOf": [{"type": "string"}, {"$ref": "#"}]})


@pytest.mark.parametrize(
    "definition",
    [
        {"$id": "http://x/a", "$defs": {"b": {"$id": "b", "type": "string"}}, "$ref": "b"},
        {"$defs": {"b": {"$anchor": "b", "type": "string"}}, "$ref": "#b"},
        {"definitions": {"a/b": {"type": "string"}}, "$ref": "#/definitions/a~1b"},
        {"x": [{"type": "string"}], "$ref": "#/x/0"},
        {"$dynamicAnchor": "node", "properties": {"next": {"$dynamicRef": "#node"}}},
        {"$schema": DRAFT, "properties": {"schema": {"$ref": DRAFT}}},
    ],
)
def test_references_are_followed_as_the_library_does(definition):
    assert schema(definition).short_bytes > 0
    assert steps(definition, "x") < 1_000


def test_a_reference_counts_as_what_it_means():
    inner = {"enum": [f"value {n}" for n in range(1_000)]}
    plain = steps(inner, "x")
    assert plain > 1_000
    for definition in (
        {"$defs": {"b": {"$anchor": "b", **inner}}, "$ref": "#b"},
        {"$id": "http://x/a", "$defs": {"b": {"$id": "c/b", **inner}}, "$ref": "http://x/c/b"},
        {"here": {"it": inner}, "$ref": "#/here/it"},
    ):
        assert steps(definition, "x") >= plain


def test_a_usual_message_is_short_whatever_is_in_it():
    branches = [
        {"properties": {"kind": {"const": n}, "id": {"type": "string"}}, "required": ["kind"]}
        for n in range(200)
    ]
    assert schema({"oneOf": branches}).short_bytes > 100
    fields = {f"field{n}": {"type": "string", "maxLength": 9} for n in range(3_000)}
    assert schema({"properties": fields}).short_bytes > 300


def test_a_choice_that_grows_is_still_compiled():
    """A grammar of expressions: two branches look at the same child."""
    sides = {"left": {"$ref": "#"}, "right": {"$ref": "#"}}
    binary = {"type": "object", "properties": sides, "required": ["left"]}
    grammar = {"oneOf": [{"type": "number"}, binary, {**binary, "required": ["right"]}]}
    one = schema(grammar)
    one.validate(b'{"left": 1}', "JSON")
    with pytest.raises(Mismatch):
        one.validate(b'{"left": {"left": "x"}}', "JSON")


# Mistakes.


def test_the_first_mistake_is_told_and_the_rest_not_listed():
    with pytest.raises(Mismatch) as caught:
        schema({"items": {"type": "string"}}).validate(b"[" + b"1," * 300_000 + b"1]", "JSON")
    assert str(caught.value) == '$[0]: 1 is not of type "string"'


def test_a_choice_is_explained_for_a_small_message_alone():
    one = schema({"anyOf": [{"items": {"type": "string"}}, {"type": "null"}]})
    with pytest.raises(Mismatch, match="is not valid under any of the schemas"):
        one.validate(b"[1]", "JSON")
    with pytest.raises(Mismatch, match="too large for the place to be looked for"):
        one.validate(b"[" + b"1," * 300_000 + b"1]", "JSON")


# Depth.


@pytest.mark.parametrize("levels", [300, 900, 1_000, 5_000])
def test_a_deep_definition_is_bad_input(levels):
    definition = '{"not":' * levels + "{}" + "}" * levels
    with pytest.raises(InvalidArgument, match=r"nested more than 250 levels|depth limit"):
        compile_schema("JSON", definition)


def test_a_chain_of_references_longer_than_the_stack_is_bad_input():
    defs: dict[str, Any] = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(3_000)}
    defs["d3000"] = {}
    sentence = refused({"$defs": defs, "$ref": "#/$defs/d0"})
    assert "too many others" in sentence or "takes more than" in sentence


# Transformations.


def test_a_default_in_every_item_is_paid_by_the_message():
    old = schema({"items": {"type": "object"}})
    new = schema({"items": {"properties": {"a": {"default": "x" * 100_000}}}})
    transform = new.transform_from(old, "JSON")
    assert len(transform(b"[{}]")) > 100_000
    with pytest.raises(Impossible, match="transforming the message takes more than 1000000 steps"):
        transform(b"[" + b"{}," * 999 + b"{}]")


def test_many_properties_for_many_objects_are_paid_by_the_message():
    new = schema({"items": {"properties": {f"p{n}": {} for n in range(5_000)}}})
    transform = new.transform_from(schema({}), "JSON")

    def check() -> None:
        with pytest.raises(Impossible, match="takes more than"):
            transform(b"[" + b"{}," * 9_999 + b"{}]")

    assert calls(check) < 50_000


def test_whoever_cannot_wait_is_told_that_a_message_may_take_long():
    text = {"default": "ab" * 20_000, "pattern": SLOW}
    new = schema({"properties": {"a": text}})
    with pytest.raises(Long):
        new.transform_from(schema({}), "JSON", is_patient=False)(b"{}")


# Comparison.


def test_long_lists_are_compared_by_look_ups():
    old, new = schema({"enum": list(range(30_000))}), schema({"enum": list(range(100, 30_100))})
    assert len(new.breaks(old)) == 100


def test_lists_of_objects_are_counted():
    def listed(first: int) -> Any:
        return schema({"enum": [{"a": n} for n in range(first, first + 10_000)]})

    with pytest.raises(InvalidArgument, match="comparing the revisions takes more than"):
        breaking_changes("FULL", listed(9_000), [("0", listed(0))])
