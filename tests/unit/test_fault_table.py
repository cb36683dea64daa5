"""The table of a cluster's faults names tests that there are, and every test of faults."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "internals" / "testing.md"
_NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")
LEVELS = {"P", "K", "N", "U", "S"}
#: Behind the level of a test that is for `make nightly`.
AT_NIGHT = ", at night"


def table() -> str:
    _, section = PAGE.read_text().split("\n## Faults of a cluster\n")
    return section


def names_in(path: Path) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    }


def test_every_test_that_is_named_is_there():
    named = _NAMED.findall(table())
    assert len(named) > 40
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not (TESTS / path).exists() or name not in names_in(TESTS / path)
    ]
    assert missing == []


def test_every_fault_has_a_level_and_a_test():
    rows = [line for line in table().splitlines() if line.startswith("| ")][2:]
    for row in rows:
        _, _, level, tests, _ = row.split("|")
        assert level.strip().removesuffix(AT_NIGHT) in LEVELS, row
        assert _NAMED.search(tests), row


def test_every_test_of_faults_is_named():
    named = set(_NAMED.findall(table()))
    files = (TESTS / "kafka").glob("test_faults_*.py")
    left_out = [
        f"{path.name}::{name}"
        for path in sorted(files)
        for name in sorted(names_in(path))
        if (f"kafka/{path.name}", name) not in named and not name.startswith("test_in_the_end")
    ]
    assert left_out == []
