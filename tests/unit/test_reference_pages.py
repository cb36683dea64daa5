"""The reference pages say what the code says."""

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


@pytest.mark.parametrize("name", ["errors.md", "limits.md", "settings.md", "cli.md", "metrics.md"])
def test_page_is_fresh(name: str) -> None:
    written = (DOCS / "reference" / name).read_text()
    assert written == _generator().PAGES[name](), "stale: run `make docs`"
