"""Filters in words."""

from __future__ import annotations

import pytest
from hypothesis import given

from fanlog.routing.filter_ast import Filter
from fanlog.routing.filter_parse import parse
from fanlog.routing.filter_words import in_words, kind_of, parts_of
from filter_trees import trees


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('attributes.region = "eu"', 'attribute "region" is "eu"'),
        ("region != eu", 'attribute "region" is not "eu"'),
        ('hasAttribute("k")', 'there is attribute "k"'),
        ("payload:a.b[0]", 'there is data "a.b[0]"'),
        ("payload.amount >= 1.5", 'data "amount" is at least 1.5'),
        ("payload.paid = true", 'data "paid" is true'),
        ('hasPrefix(attributes.k, "p")', 'attribute "k" begins with "p"'),
        ("k = a*b", 'attribute "k" begins with "a" and ends with "b"'),
        ("k = *a*b*", 'attribute "k" has "a" and then has "b"'),
        ('k IN ("a", "b")', 'attribute "k" is one of "a", "b"'),
        (
            'publish_time < "2026-01-01T00:00:00Z"',
            "the publish time is before 2026-01-01T00:00:00Z",
        ),
        ("ordering_key = x", 'the ordering key is "x"'),
        ("a=1 AND b=2 AND c=3", "all 3 of these"),
        ("a=1 OR b=2", "any of these 2"),
        ("NOT a:b", "not this"),
    ],
)
def test_words(text, words):
    tree = parse(text)
    assert tree is not None
    assert in_words(tree) == words


@given(trees())
def test_every_tree_has_words_and_its_parts_are_trees(tree: Filter):
    waiting = [tree]
    while waiting:
        one = waiting.pop()
        assert in_words(one)
        parts = parts_of(one)
        waiting += parts
        least = {"AND": 2, "OR": 2, "NOT": 1, "TEST": 0}[kind_of(one)]
        assert len(parts) >= 2 if least == 2 else len(parts) == least
