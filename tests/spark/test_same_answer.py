"""Closure, index, Spark Column and oracle give the same answer, for every filter and message."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from fanlog.routing.candidate import Candidate
from fanlog.routing.filter_ast import Filter
from fanlog.routing.filter_compile import compile_filter
from fanlog.routing.filter_index import FilterIndex
from fanlog.spark import column
from filter_oracle import evaluate
from filter_trees import candidates, trees
from spark import table

#: One worker has them all: a second session would cost as much as the tests.
pytestmark = pytest.mark.xdist_group("spark")

TREES = 240
#: Trees in one select.
TREES_AT_ONCE = 60
CANDIDATES = 400
#: Every so many trees also as filters, each in a query of its own.
FILTER_EVERY = 30


def examples(strategy: st.SearchStrategy[Any], count: int) -> list[Any]:
    """The same examples every time. All trees meet all messages, so one of each is not drawn."""
    found: list[Any] = []

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def gather(example: Any) -> None:
        found.append(example)

    gather()
    return found


@pytest.fixture(scope="module")
def all_trees() -> list[Filter]:
    return examples(trees(), TREES)


@pytest.fixture(scope="module")
def all_candidates() -> list[Candidate]:
    return examples(candidates(), CANDIDATES)


@pytest.fixture(scope="module")
def frame(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, all_candidates: list[Candidate]
) -> DataFrame:
    path = tmp_path_factory.mktemp("messages") / "messages.parquet"
    return table.messages(spark, path, all_candidates)


@pytest.fixture(scope="module")
def expected(all_trees: list[Filter], all_candidates: list[Candidate]) -> list[list[bool]]:
    """By message, then by tree."""
    return [[evaluate(tree, candidate) for tree in all_trees] for candidate in all_candidates]


def test_closures_mean_what_filters_mean(all_trees, all_candidates, expected):
    compiled = [compile_filter(tree) for tree in all_trees]
    assert [[test(candidate) for test in compiled] for candidate in all_candidates] == expected


def test_the_index_means_what_filters_mean(all_trees, all_candidates, expected):
    index: FilterIndex[int] = FilterIndex()
    for number, tree in enumerate(all_trees):
        index.add(number, tree)
    for candidate, answers in zip(all_candidates, expected, strict=True):
        assert sorted(index.match(candidate)) == [n for n, answer in enumerate(answers) if answer]


def test_columns_mean_what_filters_mean(frame, all_trees, all_candidates, expected):
    wrong = []
    for start in range(0, len(all_trees), TREES_AT_ONCE):
        some = all_trees[start : start + TREES_AT_ONCE]
        conditions = [column(tree).alias(str(index)) for index, tree in enumerate(some)]
        for number, *answers in frame.select("number", *conditions).collect():
            right = expected[number][start : start + TREES_AT_ONCE]
            wrong += [
                (some[index], all_candidates[number], answer)
                for index, answer in enumerate(answers)
                if answer is not right[index]
            ]
    assert wrong == []


def test_columns_filter_as_they_answer(frame, all_trees, expected):
    for index in range(0, len(all_trees), FILTER_EVERY):
        passed = frame.where(column(all_trees[index])).select("number").collect()
        right = {number for number, answers in enumerate(expected) if answers[index]}
        assert {number for (number,) in passed} == right, all_trees[index]
