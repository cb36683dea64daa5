"""The pages that are made from the code say what the code says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGES = _generator().PAGES


@pytest.mark.parametrize("name", PAGES)
def test_page_is_fresh(name: str) -> None:
    assert (DOCS / name).read_text() == PAGES[name](), "stale: run `make docs`"


def test_every_reference_page_is_made_from_the_code() -> None:
    found = {f"reference/{path.name}" for path in (DOCS / "reference").iterdir()}
    # Its tables are read by the tests of what they say.
    found -= {"reference/options.md"}
    assert found == {name for name in PAGES if name.startswith("reference/")}
