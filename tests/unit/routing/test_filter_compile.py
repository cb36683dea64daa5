"""Compiled filters: each rule of the language's meaning once, by hand."""

from __future__ import annotations

import pytest

from fanlog.limits import FILTER_NESTING_MAX
from fanlog.routing.candidate import Candidate
from fanlog.routing.filter_ast import (
    And,
    Attribute,
    Compare,
    Envelope,
    Filter,
    Glob,
    Has,
    In,
    Not,
    Op,
    Or,
    Payload,
    Prefix,
)
from fanlog.routing.filter_compile import compile_filter, read_number
from filter_oracle import as_number, evaluate
from filter_trees import NOT_QUITE_JSON, NUMBER_LIKE, NUMBERS, PLAIN

K = Attribute("k")
A = Payload(("a",))
ORDER = [Op.LT, Op.LE, Op.GT, Op.GE]


def holds(tree: Filter, candidate: Candidate) -> bool:
    found = compile_filter(tree)(candidate)
    assert found is evaluate(tree, candidate)
    return found


@pytest.mark.parametrize(
    ("tree", "is_true"),
    [
        (Has(K), False),
        (Compare(K, Op.EQ, "v"), False),
        (Compare(K, Op.NE, "v"), True),
        (Compare(K, Op.LT, "v"), False),
        (Not(Compare(K, Op.LT, "v")), True),
        (Compare(K, Op.GE, 0), False),
        (Prefix(K, ""), False),
        (Glob(K, ("", "a")), False),
        (In(K, ("v", "w")), False),
        (Has(Envelope.ORDERING_KEY), False),
        (Compare(Envelope.ORDERING_KEY, Op.EQ, ""), False),
        (Prefix(Envelope.ORDERING_KEY, ""), False),
        (Has(Envelope.TOPIC), True),
        (Compare(Envelope.MESSAGE_ID, Op.EQ, ""), True),
        (Has(Envelope.PUBLISH_TIME), True),
        (Has(A), False),
        (Compare(A, Op.NE, 1), True),
    ],
)
def test_what_is_missing_fails_every_test(tree, is_true):
    assert holds(tree, Candidate({})) is is_true


@pytest.mark.parametrize("text", NUMBER_LIKE)
def test_an_attribute_in_order_is_read_as_json_writes_numbers(text):
    assert read_number(text) == as_number(text)
    for op in ORDER:
        for number in NUMBERS:
            holds(Compare(K, op, number), Candidate({"k": text}))


@pytest.mark.parametrize("text", ["5", "5.0", "-0", "1e3", "0.1", "1E-2", "-12.5e+1"])
def test_numbers(text):
    assert read_number(text) == float(text)


@pytest.mark.parametrize(
    "text",
    ["", " 5", "5\n", "+5", "05", "5.", ".5", "1_0", "0x1", "\u0661", "nan", "inf", "1e999"],
)
def test_no_numbers(text):
    assert read_number(text) is None


@pytest.mark.parametrize("op", Op)
def test_strings_are_ordered_by_code_points(op):
    for text in PLAIN:
        for value in PLAIN:
            holds(Compare(K, op, value), Candidate({"k": text}))
    # In UTF-16 it would be the other way round.
    assert holds(Compare(K, Op.LT, "\U00010000"), Candidate({"k": "\uffff"}))


@pytest.mark.parametrize("data", NOT_QUITE_JSON)
def test_data_that_readers_of_json_disagree_on(data):
    candidate = Candidate({}, data)
    for tree in (Has(A), Compare(A, Op.EQ, 1), Compare(A, Op.LT, 10), Has(Payload(("k", "a", 1)))):
        holds(tree, candidate)


@pytest.mark.parametrize(
    ("data", "tree", "is_true"),
    [
        (b'{"a":1}', Compare(A, Op.EQ, True), False),
        (b'{"a":true}', Compare(A, Op.EQ, 1), False),
        (b'{"a":true}', In(A, (1, "true")), False),
        (b'{"a":true}', In(A, (1, True)), True),
        (b'{"a":true}', Compare(A, Op.GT, 0), False),
        (b'{"a":"1"}', Compare(A, Op.EQ, 1), False),
        (b'{"a":"1"}', Compare(A, Op.GE, 1), False),
        (b'{"a":1}', Compare(A, Op.EQ, "1"), False),
        (b'{"a":1.0}', Compare(A, Op.EQ, 1), True),
        (b'{"a":-0.0}', Compare(A, Op.EQ, 0), True),
        (b'{"a":9007199254740993}', Compare(A, Op.EQ, 2**53), True),
        (b'{"a":9007199254740993}', Compare(A, Op.GT, 2**53), False),
        (b'{"a":null}', Has(A), False),
        (b'{"a":[]}', Has(A), True),
        (b'{"a":[]}', Compare(A, Op.NE, "x"), True),
        (b'{"a":[]}', In(A, ("x", 1)), False),
        (b'{"a":["x"]}', Compare(Payload(("a", 0)), Op.EQ, "x"), True),
        (b'{"a":"x"}', Compare(Payload(("a", 0)), Op.EQ, "x"), False),
        (b'{"a":{"0":"x"}}', Compare(Payload(("a", 0)), Op.EQ, "x"), False),
        (b'[{"a":"x"}]', Compare(Payload((0, "a")), Op.EQ, "x"), True),
        (b'[{"a":"x"}]', Has(Payload((1, "a"))), False),
        (b'"a"', Has(A), False),
    ],
)
def test_types_in_the_payload(data, tree, is_true):
    assert holds(tree, Candidate({}, data)) is is_true


@pytest.mark.parametrize(
    ("parts", "matching", "others"),
    [
        (("a", "a"), ["aa", "aba"], ["a", "ab", ""]),
        (("", "b"), ["b", "ab"], ["", "ba"]),
        (("ab", "ba"), ["abba", "ab\nba"], ["aba"]),
        (("", "a", "a", ""), ["aa", "xaxax"], ["a"]),
        (("x", "ab", "b"), ["xabb", "x-ab-b"], ["xab"]),
        (("", ".", "+", ""), [".+", "a.b+c"], ["+.", "ab"]),
    ],
)
def test_globs_anchor_both_ends_and_use_nothing_twice(parts, matching, others):
    for text in matching + others:
        assert holds(Glob(K, parts), Candidate({"k": text})) is (text in matching)


def test_times_are_microseconds():
    candidate = Candidate({}, publish_time_us=1_700_000_000_000_001)
    assert holds(Compare(Envelope.PUBLISH_TIME, Op.GT, 1_700_000_000_000_000), candidate)
    assert holds(Compare(Envelope.PUBLISH_TIME, Op.EQ, 1_700_000_000_000_001), candidate)
    assert not holds(In(Envelope.PUBLISH_TIME, (0, 1)), candidate)


def test_other_strings_of_a_message_are_read_as_numbers_too():
    assert holds(Compare(Envelope.MESSAGE_ID, Op.LT, 10), Candidate({}, message_id="9"))
    assert not holds(Compare(Envelope.MESSAGE_ID, Op.LT, "10"), Candidate({}, message_id="9"))


@pytest.mark.parametrize(
    "tree",
    [
        # The parser refuses these; a tree from elsewhere is at least harmless.
        Compare(K, Op.EQ, 1),
        Compare(K, Op.LT, True),
        Compare(A, Op.GE, False),
        Compare(Envelope.PUBLISH_TIME, Op.EQ, "1"),
        Compare(Envelope.PUBLISH_TIME, Op.GE, "1"),
        Prefix(Envelope.PUBLISH_TIME, ""),
        In(K, (1, True)),
    ],
)
def test_values_that_a_field_cannot_have(tree):
    assert not holds(tree, Candidate({"k": "1"}, b'{"a":true}', publish_time_us=1))


def test_a_tree_as_deep_and_as_wide_as_a_filter_may_be():
    tree: Filter = Compare(K, Op.EQ, "v")
    for level in range(FILTER_NESTING_MAX):
        tree = And((Has(K), tree)) if level % 2 else Or((Has(A), Not(tree)))
    wide = And(tuple(Compare(Attribute(f"k{i}"), Op.EQ, "v") for i in range(100)))
    everything = {f"k{i}": "v" for i in range(100)}
    assert holds(wide, Candidate(everything))
    assert not holds(wide, Candidate(everything | {"k99": "w"}))
    for text in ("v", "w"):
        holds(tree, Candidate({"k": text}))


def test_data_is_read_once_and_only_when_asked_for():
    candidate = Candidate({"k": "v"}, b'{"a":[1]}')
    assert candidate.payload is candidate.payload
    untouched = Candidate({"k": "v"}, data=None)  # type: ignore[arg-type]
    assert compile_filter(Or((Compare(K, Op.EQ, "v"), Has(A))))(untouched)
