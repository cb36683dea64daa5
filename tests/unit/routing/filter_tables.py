"""Golden tables of filters: one line that is written, and under it, indented, what comes of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

INDENT = "    "


def rows(name: str) -> list[object]:
    """Give the rows of a table as parameters of a test; `#` begins a remark."""
    return [
        pytest.param(written, expected, id=f"{number}: {written[:60]}")
        for number, written, expected in _pairs(Path(__file__).parent / name)
    ]


def _pairs(path: Path) -> Iterator[tuple[int, str, str]]:
    written: str | None = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith(INDENT):
            assert written is not None, f"{path.name}:{number} belongs to no filter"
            yield number - 1, written, line.removeprefix(INDENT)
            written = None
        elif line and not line.startswith("#"):
            assert written is None, f"{path.name}:{number} follows a filter without its line"
            written = line
    assert written is None, f"{path.name} ends in the middle of a row"
