"""The guide's tables of clients and cases say what the tests do, no more and no less."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

from interop.builds import ROOT
from interop.cases import CASES, Case

GUIDE = ROOT / "docs" / "guides" / "clients.md"
_NONE = "\N{EN DASH}"


def told() -> list[Case]:
    """The cases in the tables of the guide's section."""
    section = GUIDE.read_text(encoding="utf-8").split("\n## What is tried\n")[1].split("\n## ")[0]
    found: list[Case] = []
    for table in re.findall(r"(?:^\|.*\|\n)+", section, re.MULTILINE):
        head, _, *rows = [_cells(line) for line in table.splitlines()]
        clients = [name.strip("`") for name in head[1:]]
        for what, *cells in rows:
            for client, cell in zip(clients, cells, strict=True):
                if cell != _NONE:
                    found += [Case(client, what, transport) for transport in cell.split(", ")]
    return found


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_guide_says_what_is_tried():
    for path in Path(__file__).parent.glob("test_*.py"):
        importlib.import_module(f"interop.{path.stem}")
    found = told()
    assert len(found) == len(set(found))
    assert sorted(found) == sorted(CASES)
