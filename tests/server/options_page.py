"""The tables of `docs/reference/options.md`: every row is a test."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "options.md"


def rows(section: str, table: int = 0) -> list[list[str]]:
    """The cells of the rows of one of a section's tables, its head left out."""
    page = PAGE.read_text(encoding="utf-8")
    [text] = re.findall(
        rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL
    )
    lines = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)[table].splitlines()
    assert re.fullmatch(r"[|\s-]+", lines[1]), "a table begins with its head"
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def words(cell: str) -> list[tuple[str, str]]:
    """The names and values of a cell such as `a: b`, `c: d`."""
    if cell.startswith("("):
        return []
    return [tuple(text.split(": ", 1)) for text in re.findall(r"`([^`]*)`", cell)]  # type: ignore[misc]


def sentence(cell: str) -> str | None:
    """The sentence that an answer is refused with; None for `done`."""
    if cell == "done":
        return None
    found = re.fullmatch(r"refused: `(.*)`", cell)
    assert found is not None, cell
    return found[1]
