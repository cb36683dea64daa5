"""The index where it might go wrong: shared filters, large ones, and what must not cost more.

Cost is counted in lines run, not in seconds: a count is the same on every machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import pytest

from fanlog.limits import FILTER_NESTING_MAX, FILTER_PREDICATES_MAX
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
from fanlog.routing.filter_conjunctions import CONJUNCTIONS_MAX, PRODUCT_MAX, conjunctions
from fanlog.routing.filter_index import FilterIndex
from filter_oracle import evaluate

A, B, N = Attribute("a"), Attribute("b"), Attribute("n")


def equal(field: Attribute | Payload | Envelope, value: str | float) -> Compare:
    return Compare(field, Op.EQ, value)


def between(field: Attribute | Payload, low: str | float, high: str | float) -> And:
    return And((Compare(field, Op.GE, low), Compare(field, Op.LT, high)))


def indexed(trees: Iterable[Filter]) -> FilterIndex[int]:
    index = FilterIndex[int]()
    for id_, tree in enumerate(trees):
        index.add(id_, tree)
    return index


def lines_run(function: Callable[[], Any]) -> int:
    count = 0

    def trace(_: FrameType, event: str, __: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return count


#: Filters of one shape each, as many as wanted, and a message that a few of them match.
SHAPES: dict[str, tuple[Callable[[int], Filter], Candidate]] = {
    "equality": (lambda i: equal(A, f"v{i}"), Candidate({"a": "v7"})),
    "equality of payload": (lambda i: equal(Payload(("a",)), i), Candidate({}, b'{"a":7}')),
    "fields of their own": (lambda i: Has(Attribute(f"k{i}")), Candidate({"k7": "", "x": ""})),
    "paths of their own": (
        lambda i: Has(Payload(("p", f"k{i}"))),
        Candidate({}, b'{"p":{"k7":0}}'),
    ),
    "places of their own": (lambda i: Has(Payload((i,))), Candidate({}, b"[null,1]")),
    "many in one place": (
        lambda i: And((equal(A, "v"), equal(B, f"v{i}"))),
        Candidate({"a": "v", "b": "v7"}),
    ),
    "a grid": (
        lambda i: And((equal(A, f"v{i % 40}"), equal(B, f"v{i // 40}"))),
        Candidate({"a": "v7", "b": "v1"}),
    ),
    "equality and prefix": (
        lambda i: And((equal(A, "v"), Prefix(B, f"v{i:05}-"))),
        Candidate({"a": "v", "b": "v00007-x"}),
    ),
    "equality and inequality": (
        lambda i: And((equal(A, f"v{i}"), Compare(B, Op.NE, "x"))),
        Candidate({"a": "v7"}),
    ),
    "in": (lambda i: In(A, (f"v{i}", f"w{i}")), Candidate({"a": "w7"})),
    "or": (
        lambda i: Or((equal(A, f"v{i}"), equal(B, f"v{i}"))),
        Candidate({"a": "v7", "b": "v8"}),
    ),
    "or of ands": (
        lambda i: Or((And((equal(A, f"v{i}"), Has(B))), And((equal(B, f"v{i}"), Has(N))))),
        Candidate({"a": "v7", "b": "v7", "n": ""}),
    ),
    "and of ors": (
        lambda i: And((equal(A, "v"), Or((equal(B, f"v{i}"), equal(N, f"v{i}"))))),
        Candidate({"a": "v", "b": "v7", "n": "v8"}),
    ),
    "prefix": (lambda i: Prefix(A, f"v{i:05}"), Candidate({"a": "v00007-x"})),
    "glob": (lambda i: Glob(A, (f"v{i:05}", "x")), Candidate({"a": "v00007-x"})),
    "low bound": (lambda i: Compare(N, Op.GT, i), Candidate({"n": "2.5"})),
    "high bound": (lambda i: Compare(N, Op.LT, -i), Candidate({"n": "-2.5"})),
    "low bound of strings": (lambda i: Compare(A, Op.GE, f"v{i:05}"), Candidate({"a": "v00002"})),
    "intervals in a row": (lambda i: between(N, i, i + 1), Candidate({"n": "7"})),
    "overlapping intervals": (lambda i: between(N, i, i + 2.5), Candidate({"n": "7"})),
    "nested intervals": (lambda i: between(N, i, 100_000 - i), Candidate({"n": "2"})),
    "intervals from one bound": (lambda i: between(N, 0, i + 1), Candidate({"n": "1e4"})),
    "intervals to one bound": (lambda i: between(N, i, 100_000), Candidate({"n": "2"})),
    "intervals of strings": (
        lambda i: between(A, f"2026-01-01T{i:05}", f"2026-01-01T{i:05}~"),
        Candidate({"a": "2026-01-01T00007+"}),
    ),
    "intervals of the payload": (
        lambda i: between(Payload(("a",)), i, i + 1),
        Candidate({}, b'{"a":7.5}'),
    ),
    "equality and interval": (
        lambda i: And((equal(A, "v"), *between(N, i, i + 1).children)),
        Candidate({"a": "v", "n": "7"}),
    ),
    "message id": (lambda i: equal(Envelope.MESSAGE_ID, f"{i}"), Candidate({}, message_id="7")),
    "publish time": (
        lambda i: Compare(Envelope.PUBLISH_TIME, Op.GT, i),
        Candidate({}, publish_time_us=3),
    ),
    "never": (lambda i: between(N, i + 1, i), Candidate({"n": "7"})),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_cost_of_a_message_does_not_grow_with_filters_that_do_not_match(shape):
    tree, message = SHAPES[shape]
    few, many = (indexed(map(tree, range(count))) for count in (100, 2_000))
    expected = [id_ for id_ in range(2_000) if evaluate(tree(id_), message)]
    assert sorted(many.match(message)) == expected
    # Not remembered from a message before, and the same filters match in both.
    lines_few, lines_many = (
        lines_run(lambda index=index: index.match(message))
        for index in (indexed(map(tree, range(100))), indexed(map(tree, range(2_000))))
    )
    assert sorted(few.match(message)) == expected
    assert lines_many < lines_few * 1.5 + 40


@pytest.mark.parametrize("shape", SHAPES)
def test_adding_and_removing_does_not_get_dearer(shape):
    tree, message = SHAPES[shape]

    def fill_and_empty(count: int) -> None:
        index = indexed(map(tree, range(count)))
        for id_ in range(count):
            index.remove((id_ * 7) % count)
        assert index.is_empty
        assert index.match(message) == []

    assert lines_run(lambda: fill_and_empty(1_009)) < 15 * lines_run(lambda: fill_and_empty(101))


def test_identical_filters_are_one():
    tree = And((equal(A, "v"), Compare(B, Op.NE, "w"), Prefix(N, "x")))
    one, many = indexed([tree]), indexed([tree] * 5_000)
    message = Candidate({"a": "v", "n": "xy"})
    assert many.match(message) == list(range(5_000))
    assert lines_run(lambda: many.match(message)) == lines_run(lambda: one.match(message))
    removal = lines_run(lambda: [many.remove(id_) for id_ in range(1, 4_999)])
    assert removal < 40 * 5_000
    assert sorted(many.match(message)) == [0, 4_999]
    many.add(7, tree)
    many.remove(0)
    assert sorted(many.match(message)) == [7, 4_999]


def test_one_and_true_are_not_identical():
    a = Payload(("a",))
    index = indexed(
        [equal(a, 1), equal(a, True), equal(a, 1.0), In(a, (1, "x")), In(a, (True, "x"))]
    )
    assert sorted(index.match(Candidate({}, b'{"a":1}'))) == [0, 2, 3]
    assert sorted(index.match(Candidate({}, b'{"a":true}'))) == [1, 4]


def test_all_of_many_thresholds():
    index = indexed(Compare(N, Op.GE, i) for i in range(3_000))
    assert sorted(index.match(Candidate({"n": "1e6"}))) == list(range(3_000))
    assert len(index.match(Candidate({"n": "1500"}))) == 1_501
    assert index.match(Candidate({"n": "many"})) == []


def test_an_id_comes_once_however_many_ways_there_are():
    both = Or((equal(A, "v"), equal(B, "v"), Has(A), And((equal(A, "v"), equal(B, "v")))))
    index = indexed([both, both, Or((both, Compare(N, Op.GT, 1)))])
    assert sorted(index.match(Candidate({"a": "v", "b": "v", "n": "2"}))) == [0, 1, 2]


def test_a_replaced_filter_is_gone():
    index = indexed([equal(A, "v")])
    index.add(0, equal(A, "w"))
    assert len(index) == 1
    assert index.match(Candidate({"a": "v"})) == []
    assert index.match(Candidate({"a": "w"})) == [0]


def test_an_unknown_id_is_refused():
    index = indexed([Has(A)])
    with pytest.raises(KeyError):
        index.remove(1)
    assert index.match(Candidate({"a": ""})) == [0]


def test_what_is_found_belongs_to_the_caller():
    index = indexed([between(N, 0, 9)] * 2)
    index.match(Candidate({"n": "5"})).clear()
    assert index.match(Candidate({"n": "5"})) == [0, 1]


def test_the_data_is_left_alone_unless_somebody_asks():
    index = indexed([equal(A, "v"), Has(Envelope.TOPIC)])
    unread = Candidate({"a": "v"}, data=None)  # type: ignore[arg-type]
    assert (index.needs_attributes, index.needs_payload) == (True, False)
    assert sorted(index.match(unread)) == [0, 1]
    index.add(0, And((equal(A, "w"), Has(Payload(("a",))))))
    assert (index.needs_attributes, index.needs_payload) == (True, True)
    assert index.match(unread) == [1]
    index.remove(0)
    assert (index.needs_attributes, index.needs_payload) == (False, False)


@pytest.mark.parametrize(
    "tree",
    [
        And(tuple(equal(Attribute(f"k{i}"), "v") for i in range(FILTER_PREDICATES_MAX))),
        Or(tuple(equal(Attribute(f"k{i}"), "v") for i in range(FILTER_PREDICATES_MAX))),
        And(tuple(In(Attribute(f"k{i}"), tuple("uvw")) for i in range(FILTER_PREDICATES_MAX))),
        And(
            tuple(Or((Has(Attribute(f"k{i}")), Has(A))) for i in range(FILTER_PREDICATES_MAX // 2))
        ),
        Or(
            tuple(And((Has(Attribute(f"k{i}")), Has(A))) for i in range(FILTER_PREDICATES_MAX // 2))
        ),
        Not(And(tuple(Not(Or((Has(A), equal(B, f"{i}")))) for i in range(50)))),
        Or(
            tuple(
                And(tuple(Or((Prefix(A, f"{i}{j}{k}"), Has(B))) for j in range(5)))
                for i in range(5)
                for k in range(2)
            )
        ),
    ],
    ids=["and", "or", "and of in", "and of or", "or of and", "nots", "or of and of or"],
)
def test_large_filters_stay_small(tree):
    found = conjunctions(tree)
    assert len(found) <= CONJUNCTIONS_MAX
    size = sum(len(each.steps) + len(each.rest) for each in found)
    assert size <= PRODUCT_MAX * FILTER_PREDICATES_MAX
    index = indexed([tree] * 3)
    everything = {f"k{i}": "v" for i in range(FILTER_PREDICATES_MAX)}
    for attributes in (everything, everything | {"a": "000"}, {"k3": "v"}, {"b": ""}, {}):
        message = Candidate(attributes)
        assert sorted(index.match(message)) == [0, 1, 2] * evaluate(tree, message)


def test_a_filter_as_deep_as_may_be():
    tree: Filter = equal(A, "v")
    for level in range(FILTER_NESTING_MAX):
        tree = And((Has(A), tree)) if level % 2 else Or((Has(B), Not(tree), Prefix(N, "1")))
    index = indexed([tree])
    for attributes in ({"a": "v"}, {"a": "w"}, {"a": "v", "b": ""}, {"a": "v", "n": "12"}, {}):
        message = Candidate(attributes)
        assert index.match(message) == [0] * evaluate(tree, message)


@pytest.mark.parametrize(
    ("tree", "matching", "other"),
    [
        (Prefix(A, ""), Candidate({"a": ""}), Candidate({})),
        (Prefix(Envelope.ORDERING_KEY, ""), Candidate({}, ordering_key="k"), Candidate({})),
        (Prefix(Payload(("a",)), ""), Candidate({}, b'{"a":""}'), Candidate({}, b'{"a":1}')),
        (
            Compare(N, Op.LE, 1.7976931348623157e308),
            Candidate({"n": "1e308"}),
            Candidate({"n": ""}),
        ),
        (Compare(N, Op.GE, 0), Candidate({"n": "-0.0"}), Candidate({"n": "-1e-300"})),
        (Compare(N, Op.LT, 5e-324), Candidate({"n": "-0"}), Candidate({"n": "5e-324"})),
        (Compare(A, Op.GE, ""), Candidate({"a": ""}), Candidate({})),
        (Compare(A, Op.LE, "a"), Candidate({"a": "a"}), Candidate({"a": "a\0"})),
        (between(A, "a", "a\0"), Candidate({"a": "a"}), Candidate({"a": "a\0"})),
        (Compare(A, Op.NE, "v"), Candidate({}), Candidate({"a": "v"})),
    ],
)
def test_edges(tree, matching, other):
    index = indexed([tree, And((Has(Envelope.TOPIC), tree))])
    assert sorted(index.match(matching)) == [0, 1]
    assert index.match(other) == []


def test_what_always_holds_and_what_never_does():
    index = indexed(
        [Has(Envelope.TOPIC), Prefix(Envelope.TOPIC, ""), between(N, 2, 1), equal(A, 1)]
    )
    assert sorted(index.match(Candidate({"n": "1", "a": "1"}))) == [0, 1]
    assert len(index) == 4
