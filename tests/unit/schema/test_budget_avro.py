"""Avro definitions and messages that ask for work without end: refused, after little of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.schema import Impossible, Mismatch, breaking_changes, compile_schema
from fanlog.schema.budget import StepBudget
from unit.schema.work import calls

#: What a small request may cost: a few milliseconds.
FEW = 30_000


def chain(levels: int, leaf: Any = "null", **more: Any) -> dict[str, Any]:
    """Records that each use the one below twice."""
    made = {"type": "record", "name": "R0", "fields": [{"name": "a", "type": leaf}]}
    for level in range(1, levels + 1):
        fields = [
            {"name": "a", "type": made, **more},
            {"name": "b", "type": f"R{level - 1}", **more},
        ]
        made = {"type": "record", "name": f"R{level}", "fields": fields}
    return made


def avro(definition: Any) -> Any:
    return compile_schema("AVRO", json.dumps(definition))


def refused(definition: Any) -> str:
    with pytest.raises(InvalidArgument) as caught:
        avro(definition)
    return str(caught.value)


def zigzag(number: int) -> bytes:
    number <<= 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def test_a_budget_says_what_was_too_much():
    budget = StepBudget(3, "counting", InvalidArgument)
    budget.spend(2)
    budget.spend()
    assert budget.spent == 3
    with pytest.raises(InvalidArgument, match="counting takes more than 3 steps"):
        budget.spend()


def test_a_chain_of_records_used_twice_is_compiled_in_linear_work():
    ten, twenty = (
        calls(lambda n=levels: avro({"type": "array", "items": chain(n)})) for levels in (10, 20)
    )
    assert twenty < 3 * ten


def test_a_chain_too_long_for_any_message_is_refused():
    sentences = []
    work = calls(lambda: sentences.append(refused({"type": "array", "items": chain(40)})), most=FEW)
    assert work < FEW
    [sentence] = sentences
    assert "takes more than 40010000 steps to be checked" in sentence


@pytest.mark.parametrize(
    "definition",
    [chain(20), {"type": "array", "items": chain(20)}, {"type": "map", "values": chain(20)}],
    ids=["alone", "array", "map"],
)
def test_a_message_of_such_a_chain_is_refused_before_it_is_walked(definition):
    schema = avro(definition)
    data = b"" if definition["type"] == "record" else b"\x02\x02a\x00"

    def check() -> None:
        with pytest.raises(Mismatch, match="checking the message takes more than"):
            schema.validate(data, "BINARY")

    assert calls(check) < 1_000


def test_a_chain_behind_unions_is_paid_for_when_it_is_met():
    """A union's branch costs nothing unless a message has it."""
    inner = chain(15)
    schema = avro({"type": "array", "items": ["null", inner]})
    assert schema.validate(zigzag(100) + b"\0" * 100 + b"\0", "BINARY") < 1_000
    with pytest.raises(Mismatch, match="takes more than"):
        schema.validate(zigzag(1) + b"\x02" + b"\0", "BINARY")


def test_items_without_bytes_have_one_budget_for_the_whole_message():
    schema = avro({"type": "array", "items": {"type": "array", "items": "null"}})
    inner = zigzag(6_000) + b"\0"
    schema.validate(zigzag(1) + inner + b"\0", "BINARY")

    def check() -> None:
        with pytest.raises(Mismatch, match=r"\$\[\d\]: checking the message takes more than"):
            schema.validate(zigzag(400) + inner * 400 + b"\0", "BINARY")

    assert calls(check) < 20_000


def test_a_large_and_honest_message_is_checked():
    schema = avro({"type": "array", "items": "int"})
    count = 100_000
    steps = schema.validate(zigzag(count) + b"\x02" * count + b"\0", "BINARY")
    assert count <= steps < 2 * count


def test_a_large_and_honest_definition_is_compiled():
    fields = [
        {"name": f"field{n}", "type": ["null", "string"], "default": None} for n in range(4000)
    ]
    schema = avro({"type": "record", "name": "R", "fields": fields})
    schema.validate(b"\0" * 4000, "BINARY")
    assert schema.size_bytes < 32 * 1024 * 1024


# Defaults.


def test_defaults_that_write_out_to_more_than_there_is_memory_are_refused():
    bomb = chain(14, {"type": "array", "items": "int"}, default={})
    bottom = bomb
    while bottom["name"] != "R0":
        bottom = bottom["fields"][0]["type"]
    bottom["fields"][0]["default"] = [1, 2]
    sentences = []
    assert calls(lambda: sentences.append(refused(bomb))) < FEW
    assert "written out, has more than 10000 values or 1048576 bytes" in sentences[0]


def test_a_long_text_in_many_defaults_is_measured_in_bytes():
    text = {"name": "t", "type": "string", "default": "x" * 20_000}
    inner = {"type": "record", "name": "I", "fields": [text]}
    fields = [{"name": "f0", "type": inner, "default": {}}]
    fields += [{"name": f"f{n}", "type": "I", "default": {}} for n in range(1, 60)]
    outer = {"type": "record", "name": "O", "fields": fields}
    top = {"type": "record", "name": "T", "fields": [{"name": "o", "type": outer, "default": {}}]}
    assert "the default of the field 'o', written out" in refused(top)


def test_a_default_that_contains_itself_is_refused():
    loop = {"name": "r", "type": "R", "default": {}}
    assert "contains itself" in refused({"type": "record", "name": "R", "fields": [loop]})


def test_defaults_in_every_item_are_paid_by_the_message():
    default = {"name": "d", "type": {"type": "array", "items": "int"}, "default": [0] * 5_000}
    old = avro({"type": "array", "items": {"type": "record", "name": "R", "fields": []}})
    new = avro({"type": "array", "items": {"type": "record", "name": "R", "fields": [default]}})
    transform = new.transform_from(old, "JSON")
    assert len(transform(b"[{},{}]")) > 20_000

    def check() -> None:
        with pytest.raises(Impossible, match="transforming the message takes more than 1000000"):
            transform(b"[" + b"{}," * 9_999 + b"{}]")

    assert calls(check) < FEW


def test_nested_defaults_are_still_filled():
    inner = {"type": "record", "name": "I", "fields": [{"name": "n", "type": "int", "default": 3}]}
    old = avro({"type": "record", "name": "R", "fields": []})
    new = avro(
        {
            "type": "record",
            "name": "R",
            "fields": [
                {"name": "i", "type": inner, "default": {}},
                {"name": "u", "type": ["null", "I"], "default": {"n": 4}},
            ],
        }
    )
    assert json.loads(new.transform_from(old, "JSON")(b"{}")) == {
        "i": {"n": 3},
        "u": {"I": {"n": 4}},
    }


def test_a_default_that_fits_no_branch_of_nested_unions_is_refused_in_few_steps():
    made: Any = {"type": "record", "name": "N0", "fields": [{"name": "x", "type": "int"}]}
    value: Any = {"x": "no number"}
    for level in range(1, 30):
        branches = [
            {"type": "record", "name": f"A{level}", "fields": [{"name": "x", "type": made}]},
            {
                "type": "record",
                "name": f"B{level}",
                "fields": [{"name": "x", "type": f"N{level - 1}"}],
            },
        ]
        made = {"type": "record", "name": f"N{level}", "fields": [{"name": "x", "type": branches}]}
        value = {"x": {"x": value}}
    top = {"type": "record", "name": "T", "fields": [{"name": "d", "type": made, "default": value}]}
    sentences = []
    assert calls(lambda: sentences.append(refused(top))) < 200_000
    assert "compiling the definition takes more than" in sentences[0]


# Names and depth.


def test_names_are_paid_by_their_length():
    fields = [
        {"name": f"f{n}", "type": {"type": "enum", "name": f"E{n}", "symbols": ["A"]}}
        for n in range(2_000)
    ]
    long = {"type": "record", "name": "R", "namespace": "n" * 100_000, "fields": fields}
    assert "compiling the definition takes more than" in refused(long)


def test_a_definition_is_nested_so_deep_and_no_deeper():
    def nested(levels: int) -> str:
        return '{"type":"array","items":' * levels + '"int"' + "}" * levels

    compile_schema("AVRO", nested(limits.SCHEMA_NESTING_MAX - 10))
    with pytest.raises(InvalidArgument, match="is nested more than 250 levels deep"):
        compile_schema("AVRO", nested(limits.SCHEMA_NESTING_MAX + 10))


def test_a_sentence_names_some_types_of_a_long_union():
    many = [{"type": "fixed", "name": f"F{n}", "size": 1} for n in range(3_000)]
    schema = avro({"type": "array", "items": many})
    with pytest.raises(Mismatch, match="or one of 2980 more") as caught:
        schema.validate(b"[1]", "JSON")
    assert len(str(caught.value)) < 1_000


# Comparison.


def union(namespace: str, count: int) -> dict[str, Any]:
    parts = [{"type": "record", "name": f"{namespace}.R{n}", "fields": []} for n in range(count)]
    return {"type": "array", "items": parts}


def test_a_long_union_is_compared_with_itself_in_linear_work():
    old, new = avro(union("n", 5_000)), avro(union("n", 5_000))
    assert calls(lambda: breaking_changes("FULL", new, [("0", old)])) < 200_000


def test_a_long_union_is_not_compared_with_every_other():
    old, new = avro(union("n", 5_000)), avro(union("m", 5_000))

    def compare() -> None:
        with pytest.raises(InvalidArgument, match="comparing the revisions takes more than"):
            breaking_changes("FULL", new, [("0", old)])

    assert calls(compare) < 2 * limits.SCHEMA_COMPARE_STEPS_MAX


def test_one_budget_is_for_all_earlier_revisions():
    old, new = avro(union("n", 300)), avro(union("m", 300))
    breaking_changes("BACKWARD", new, [("0", old)])
    with pytest.raises(InvalidArgument, match="comparing the revisions takes more than"):
        breaking_changes("FULL_TRANSITIVE", new, [(str(n), old) for n in range(20)])


def test_long_enums_are_compared_by_look_ups():
    def enum(first: int) -> Any:
        symbols = [f"S{n}" for n in range(first, first + 20_000)]
        return avro({"type": "enum", "name": "E", "symbols": symbols})

    old, new = enum(0), enum(19_000)
    assert len(new.breaks(old)) == 19_000


def test_every_place_of_the_same_break_is_told():
    def both(kind: str) -> Any:
        fields = [{"name": "a", "type": kind}, {"name": "b", "type": kind}]
        return avro({"type": "record", "name": "R", "fields": fields})

    assert len(both("int").breaks(both("string"))) == 2


def test_a_chain_of_references_deeper_than_the_stack_is_bad_input():
    fields: list[Any] = [{"name": "f0", "type": {"type": "record", "name": "R0", "fields": []}}]
    for level in range(1, 2_000):
        inner = [{"name": "x", "type": f"R{level - 1}"}]
        fields.append(
            {"name": f"f{level}", "type": {"type": "record", "name": f"R{level}", "fields": inner}}
        )
    fields.reverse()
    deep = avro({"type": "record", "name": "T", "fields": fields[::-1]})
    again = avro({"type": "record", "name": "T", "fields": fields[::-1]})
    assert isinstance(breaking_changes("FULL", deep, [("0", again)]), list)
