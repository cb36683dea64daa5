"""The index against the plain loop: the same ids, each once, whatever came and went before."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fanlog.routing.candidate import Candidate
from fanlog.routing.filter_ast import And, Attribute, Compare, Filter, Has, Op, Or, Payload, Prefix
from fanlog.routing.filter_compile import compile_filter
from fanlog.routing.filter_conjunctions import CONJUNCTIONS_MAX, STEPS_MAX, conjunctions, fields_of
from fanlog.routing.filter_index import FilterIndex
from fanlog.routing.predicate_tables import number_ranges, string_ranges
from filter_oracle import evaluate
from filter_trees import candidates, numbers, texts, trees

IDS = st.integers(0, 12)

#: Few fields and few values: many filters meet in one node, so that nodes split and empty again.
_k, _n, _a = Attribute("k"), Attribute("n"), Payload(("a",))
crowded_predicates = st.one_of(
    st.builds(Compare, st.sampled_from([_k, _n, _a]), st.just(Op.EQ), st.sampled_from("ab")),
    st.builds(Prefix, st.sampled_from([_k, _n]), st.sampled_from(["", "a", "ab"])),
    st.builds(
        Compare,
        st.sampled_from([_n, _a]),
        st.sampled_from([Op.LT, Op.LE, Op.GT, Op.GE]),
        st.integers(0, 8),
    ),
    st.sampled_from([Has(_k), Has(_a)]),
)
conjunctive = st.lists(crowded_predicates, min_size=2, max_size=4, unique=True).map(
    lambda children: And(tuple(children))
)
crowded = st.one_of(
    crowded_predicates,
    conjunctive,
    st.lists(crowded_predicates | conjunctive, min_size=2, max_size=3).map(
        lambda children: Or(tuple(children))
    ),
)
crowded_candidates = st.builds(
    Candidate,
    st.fixed_dictionaries(
        {}, optional={key: st.sampled_from(["a", "ab", "b", "3", "5", "8"]) for key in "kn"}
    ),
    st.sampled_from([b"", b'{"a":"a"}', b'{"a":3}', b'{"a":5}', b'{"a":true}']),
)


def naive(filters: dict[Any, Filter], candidate: Candidate) -> list[Any]:
    return sorted(id_ for id_, tree in filters.items() if compile_filter(tree)(candidate))


@settings(max_examples=200)
@given(st.dictionaries(IDS, trees() | crowded, max_size=13), st.lists(candidates(), max_size=4))
def test_it_finds_what_the_loop_finds(filters, messages):
    index = FilterIndex[int]()
    for id_, tree in filters.items():
        index.add(id_, tree)
    assert len(index) == len(filters)
    for message in messages:
        assert sorted(index.match(message)) == naive(filters, message)


class Changes(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.index = FilterIndex[int]()
        self.filters: dict[int, Filter] = {}
        self.version = 0

    @rule(id_=IDS, tree=crowded)
    def add_or_replace(self, id_: int, tree: Filter) -> None:
        self.index.add(id_, tree)
        self.filters[id_] = tree
        self._has_changed()

    @rule(id_=IDS, tree=trees())
    def add_or_replace_any(self, id_: int, tree: Filter) -> None:
        self.add_or_replace(id_, tree)

    @rule(trees=st.lists(crowded, min_size=8, max_size=13))
    def add_many(self, trees: list[Filter]) -> None:
        for id_, tree in enumerate(trees):
            self.add_or_replace(id_, tree)

    @rule(id_=IDS)
    def remove(self, id_: int) -> None:
        assert (id_ in self.index) is (id_ in self.filters)
        if self.filters.pop(id_, None) is not None:
            self.index.remove(id_)
            self._has_changed()

    @rule(id_=IDS, other=IDS)
    def share(self, id_: int, other: int) -> None:
        if other in self.filters:
            self.add_or_replace(id_, self.filters[other])

    @rule(candidate=crowded_candidates | candidates())
    def match(self, candidate: Candidate) -> None:
        assert sorted(self.index.match(candidate)) == naive(self.filters, candidate)

    @invariant()
    def it_knows_what_it_needs(self) -> None:
        fields = {type(field) for tree in self.filters.values() for field in fields_of(tree)}
        assert self.index.needs_attributes is (Attribute in fields)
        assert self.index.needs_payload is (Payload in fields)
        assert len(self.index) == len(self.filters)

    def teardown(self) -> None:
        for id_ in list(self.filters):
            self.remove(id_)
        assert self.index.is_empty

    def _has_changed(self) -> None:
        assert self.index.version > self.version
        self.version = self.index.version


TestChanges = Changes.TestCase
TestChanges.settings = settings(max_examples=100, stateful_step_count=25)


@settings(max_examples=400)
@given(trees(depth=4), candidates())
def test_conjunctions_mean_the_filter_and_are_few(tree, candidate):
    found = conjunctions(tree)
    assert len(found) <= CONJUNCTIONS_MAX
    assert all(len(each.steps) <= STEPS_MAX for each in found)
    assert evaluate(tree, candidate) is any(
        all(evaluate(test, candidate) for step in each.steps for test in step.tests)
        and all(evaluate(test, candidate) for test in each.rest)
        for each in found
    )


def ranges_of(bounds: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def is_range(pair: tuple[Any, Any]) -> bool:
        low, high = pair
        return pair != (None, None) and (low is None or high is None or low < high)

    bound = st.none() | bounds
    return st.dictionaries(st.tuples(bound, bound).filter(is_range), st.integers(), max_size=40)


def check_ranges(table: Any, ranges: dict[Any, int], values: list[Any]) -> None:
    for key, slot in ranges.items():
        table[key] = slot
    assert len(table) == len(ranges)
    left = dict(ranges)
    for gone in [None, *list(ranges)[::2]]:
        if gone is not None:
            del table[gone]
            del left[gone]
            assert table.get(gone) is None
        for value in values:
            assert sorted(table.find(value)) == sorted(
                slot
                for (low, high), slot in left.items()
                if (low is None or low <= value) and (high is None or value < high)
            )
    assert all(table.get(key) == slot for key, slot in left.items())
    assert len(table) == len(left)


few_numbers = st.integers(-20, 20).map(float) | numbers.map(float)


@given(ranges_of(few_numbers), st.lists(few_numbers, min_size=1, max_size=4))
def test_ranges_of_numbers(ranges, values):
    check_ranges(number_ranges(), ranges, values)


few_texts = texts | st.text("ab", max_size=3) | st.text("ab").map(lambda end: "a" * 47 + end)


@given(ranges_of(few_texts), st.lists(few_texts, min_size=1, max_size=4))
def test_ranges_of_strings(ranges, values):
    check_ranges(string_ranges(), ranges, values)
