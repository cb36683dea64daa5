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
from fanlog.spark import column
from filter_oracle import evaluate
from filter_trees import candidates, trees
from spark import table

TREES = 240
#: Trees in one select: more of them make code that Java refuses to compile.
TREES_AT_ONCE = 40
CANDIDATES = 400


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


def test_every_back_end_gives_the_same_answer(frame, all_trees, all_candidates):
    expected = {
        number: [evaluate(tree, candidate) for tree in all_trees]
        for number, candidate in enumerate(all_candidates)
    }
    compiled = [compile_filter(tree) for tree in all_trees]
    for number, candidate in enumerate(all_candidates):
        assert [test(candidate) for test in compiled] == expected[number], candidate.data
    wrong = []
    for start in range(0, len(all_trees), TREES_AT_ONCE):
        some = all_trees[start : start + TREES_AT_ONCE]
        conditions = [column(tree).alias(str(index)) for index, tree in enumerate(some)]
        for row in frame.select("number", *conditions).collect():
            number, *answers = row
            wrong += [
                (tree, all_candidates[number].data, all_candidates[number].attributes, answer)
                for tree, answer, right in zip(
                    some, answers, expected[number][start:], strict=False
                )
                if answer is not right
            ]
    assert wrong == []
