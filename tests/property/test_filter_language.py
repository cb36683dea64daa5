"""Filters written, read and written again: text and JSON mean the same, and nothing is lost."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fanlog.errors import InvalidArgument
from fanlog.routing.filter_ast import (
    Attribute,
    Compare,
    Field,
    Filter,
    Glob,
    Has,
    In,
    Not,
    Op,
    Payload,
    Prefix,
)
from fanlog.routing.filter_parse import parse
from fanlog.routing.filter_print import to_text
from filter_trees import trees

Document = dict[str, Any]

#: Any characters that a message may have, often such as mean something to a filter.
odd_texts = st.text(
    st.sampled_from('\\"*.[]:,() \n\0-_aN{}') | st.characters(exclude_categories=["Cs"]),
    max_size=8,
)
odd_fields: st.SearchStrategy[Field] = st.one_of(
    odd_texts.map(Attribute),
    st.lists(odd_texts | st.integers(0, 999_999_999), min_size=1, max_size=4)
    .map(tuple)
    .map(Payload),
)


def check(tree: Filter) -> None:
    # Equality alone would take 1 for 1.0 and for true.
    assert repr(parse(to_text(tree), limited=False)) == repr(tree)


@given(trees(depth=4))
def test_what_is_printed_parses_back(tree: Filter) -> None:
    check(tree)


@given(odd_fields, odd_texts, odd_texts, st.sampled_from(Op))
def test_odd_names_and_values_parse_back(field: Field, one: str, other: str, op: Op) -> None:
    for tree in (
        Has(field),
        Compare(field, op, one),
        Prefix(field, one),
        Glob(field, ("", one or "x", other)),
        In(field, (one, one + other + "x")),
    ):
        check(tree)
        check(Not(tree))


# A document of the JSON form, and the same filter written by hand.

json_fields = st.sampled_from(
    ["k", "event", "attributes.any", 'attributes."a.b"', "payload.a", 'payload.items[0]."x y"']
)
#: Without backslashes: they mean more in the text than within JSON's strings.
plain_texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\\"), max_size=5)
scalars = st.one_of(
    plain_texts,
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
)
operands = st.one_of(
    st.fixed_dictionaries(
        {},
        optional={
            "=": scalars,
            "!=": scalars,
            "<": plain_texts | st.integers(),
            ">=": plain_texts | st.floats(allow_nan=False, allow_infinity=False),
            "in": st.lists(
                scalars.filter(lambda value: "*" not in str(value)), min_size=1, max_size=3
            ),
            "prefix": plain_texts,
            "exists": st.booleans(),
        },
    ).filter(bool),
    scalars,
)


def documents(depth: int = 3) -> st.SearchStrategy[Document]:
    flat = st.dictionaries(json_fields, operands, min_size=1, max_size=3)
    if not depth:
        return flat
    below = documents(depth - 1)
    joined = st.fixed_dictionaries(
        {}, optional={"any": st.lists(below, min_size=1, max_size=3), "not": below}
    )
    return flat | st.tuples(joined, flat).map(lambda two: {**two[0], **two[1]})


def by_hand(document: Document) -> str:
    return " AND ".join(_keyed(key, value) for key, value in document.items())


def _keyed(key: str, value: Any) -> str:
    if key == "any":
        return "(" + " OR ".join(f"({by_hand(one)})" for one in value) + ")"
    if key == "not":
        return f"NOT ({by_hand(value)})"
    if not isinstance(value, dict):
        return f"{key} = {_literal(value)}"
    return " AND ".join(_test(key, name, operand) for name, operand in value.items())


def _test(key: str, name: str, operand: Any) -> str:
    if name == "exists":
        there = f'{key} = "*"'
        return there if operand else f"NOT {there}"
    if name == "in":
        return f"{key} IN ({', '.join(map(_literal, operand))})"
    return f"{key} {':' if name == 'prefix' else name} {_literal(operand)}"


def _literal(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@given(documents())
def test_json_is_what_one_would_write_by_hand(document: Document) -> None:
    tree = parse(json.dumps(document), limited=False)
    assert tree is not None
    assert repr(parse(by_hand(document), limited=False)) == repr(tree)
    check(tree)


@given(st.text(st.sampled_from("{}[]():,\"'\\*=!<>-. aAkN05ORDT\n") | st.characters(), max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for written in (text, f"{{{text}", f"k = {text}", f'{{"k": {text}}}'):
        try:
            tree = parse(written)
        except InvalidArgument:
            continue
        if tree is not None:
            check(tree)
