"""Compiled filters against the oracle: any filter, any message."""

from __future__ import annotations

from hypothesis import given, settings

from fanlog.routing.filter_compile import compile_filter
from filter_oracle import evaluate
from filter_trees import candidates, trees


@settings(max_examples=1_500)
@given(trees(), candidates())
def test_it_says_what_the_oracle_says(tree, candidate):
    assert compile_filter(tree)(candidate) is evaluate(tree, candidate)
