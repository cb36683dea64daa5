"""The guide to filters: its examples are filters, and it quotes refusals as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fanlog.routing.candidate import Candidate
from fanlog.routing.filter_parse import FilterError, parse
from filter_oracle import evaluate

GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "filters.md").read_text(encoding="utf-8")
EXAMPLES = [
    line
    for block in re.findall(r"```filter\n(.*?)```", GUIDE, re.DOTALL)
    for line in block.splitlines()
]
REFUSALS = re.findall(r"^(\S.*)\n    (filter: .*)$", GUIDE, re.MULTILINE)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 10
    assert len(REFUSALS) > 3


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples(example: str) -> None:
    assert parse(example) is not None


@pytest.mark.parametrize(("written", "sentence"), REFUSALS)
def test_refusals(written: str, sentence: str) -> None:
    with pytest.raises(FilterError) as refused:
        parse(written)
    assert refused.value.message == sentence


def truth_table() -> list[tuple[str, dict[str, str], str]]:
    """Give the cells of the table of messages and filters: a filter, attributes, yes or no."""
    head, _, *body = re.findall(r"^\| message .*\n(?:\|.*\n)+", GUIDE, re.MULTILINE)[0].splitlines()
    filters = re.findall(r"`([^`]*)`", head)
    cells = []
    for line in body:
        message, *answers = (cell.strip() for cell in line.strip("|").split("|"))
        value = re.fullmatch(r"`k` is `(.*)`", message)
        attributes = {"k": value[1]} if value else {}
        cells += [(text, attributes, answer) for text, answer in zip(filters, answers, strict=True)]
    return cells


@pytest.mark.parametrize(("written", "attributes", "answer"), truth_table())
def test_truth_table(written: str, attributes: dict[str, str], answer: str) -> None:
    tree = parse(written)
    assert tree is not None
    assert evaluate(tree, Candidate(attributes)) is {"yes": True, "no": False}[answer]
