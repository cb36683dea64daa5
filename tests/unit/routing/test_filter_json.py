"""The JSON form of filters: what is accepted and as which tree, and what a refusal says."""

from __future__ import annotations

import json

import pytest

from fanlog import limits
from fanlog.routing.filter_ast import (
    And,
    Attribute,
    Compare,
    Filter,
    Glob,
    Has,
    Not,
    Op,
    Or,
    Payload,
)
from fanlog.routing.filter_parse import FilterError, parse
from fanlog.routing.filter_print import to_text
from unit.routing.filter_tables import rows

K, J = Attribute("k"), Attribute("j")


@pytest.mark.parametrize(("written", "printed"), rows("filters_json_accepted.txt"))
def test_accepted(written: str, printed: str) -> None:
    tree = parse(written)
    assert tree is not None
    assert to_text(tree) == printed
    assert repr(parse(printed)) == repr(tree)


@pytest.mark.parametrize(("written", "sentence"), rows("filters_json_refused.txt"))
def test_refused(written: str, sentence: str) -> None:
    with pytest.raises(FilterError) as refused:
        parse(written)
    assert refused.value.message == sentence


@pytest.mark.parametrize(
    ("document", "tree"),
    [
        ({"k": "v"}, Compare(K, Op.EQ, "v")),
        ({"k": 5}, Compare(K, Op.EQ, "5")),
        ({"k": {"<": 5}}, Compare(K, Op.LT, 5)),
        ({"payload.k": 5}, Compare(Payload(("k",)), Op.EQ, 5)),
        ({"k": {"!=": "a*b"}}, Not(Glob(K, ("a", "b")))),
        ({"k": {"exists": False}}, Not(Has(K))),
        ({"k": "v", "j": {"exists": True}}, And((Compare(K, Op.EQ, "v"), Has(J)))),
        (
            {"k": {">": 1, "<": 5}, "j": "w"},
            And((Compare(K, Op.GT, 1), Compare(K, Op.LT, 5), Compare(J, Op.EQ, "w"))),
        ),
        ({"any": [{"k": "*"}, {"j": "*"}]}, Or((Has(K), Has(J)))),
        ({"not": {"k": "*", "j": "*"}}, Not(And((Has(K), Has(J))))),
    ],
)
def test_trees(document: dict[str, object], tree: Filter) -> None:
    for text in (json.dumps(document), f"\n\t {json.dumps(document, indent=3)} \r\n"):
        assert repr(parse(text)) == repr(tree)


def test_ours_in_any_case() -> None:
    assert parse(json.dumps({"attributes.k": "v" * 300})) is not None
    with pytest.raises(FilterError, match="4097 bytes; at most 4096"):
        parse('{"k": "' + "v" * 4_088 + '"}')


def test_predicates() -> None:
    keys: dict[str, object] = {f"k{number}": 1 for number in range(99)}
    assert parse(json.dumps(keys | {"k": {"in": ["a", "b"]}})) is not None
    with pytest.raises(FilterError, match="101 predicates; at most 100"):
        parse(json.dumps(keys | {"k": {">": 1, "<": 5}}))


def nested(levels: int, *, pairs: bool = False) -> str:
    document: dict[str, object] = {"k": "v"}
    for _ in range(levels):
        document = {"any": [document, {"a": 1}], "b": 2} if pairs else {"not": document}
    return json.dumps(document, separators=(",", ":"))


def test_nesting() -> None:
    assert parse(nested(limits.FILTER_NESTING_MAX)) is not None
    assert parse(nested(limits.FILTER_NESTING_MAX // 2, pairs=True)) is not None
    with pytest.raises(FilterError, match="33 levels of AND, OR and NOT; at most 32"):
        parse(nested(33))
    with pytest.raises(FilterError, match="34 levels of AND, OR and NOT; at most 32"):
        parse(nested(17, pairs=True))
    with pytest.raises(
        FilterError, match=r"69 brackets within each other at column \d+; at most 68"
    ):
        parse(nested(70))


def test_half_characters_are_refused() -> None:
    for text in ('{"k": "\ud800"}', '{"k\ud800": "v"}', r'{"\ud800": "v"}'):
        with pytest.raises(FilterError, match="half of a surrogate pair in the string at column"):
            parse(text)


def test_control_characters_in_strings_are_no_json() -> None:
    with pytest.raises(FilterError, match="no JSON within a string at column 9"):
        parse('{"k": "v\n"}')


@pytest.mark.parametrize("key", ["k" * 3_000, "\n" * 3_000, "a." * 1_000, "payload" + "[" * 3_000])
def test_refusals_of_long_keys_are_short(key: str) -> None:
    for document in ({key: None}, {"k": {key: 1}}, {"not": {key: {"gt": 1}}}):
        with pytest.raises(FilterError) as refused:
            parse(json.dumps(document))
        assert len(refused.value.message) < 500
