"""What Hypothesis tries is the same in every run (`tests/conftest.py`)."""

from __future__ import annotations

import importlib.util
import os
import sys

from hypothesis import given, settings
from hypothesis import strategies as st


def tried() -> list[int]:
    seen: list[int] = []

    @settings(max_examples=300, derandomize=True, database=None)
    @given(st.integers(0, 2**40))
    def note(number: int) -> None:
        seen.append(number)

    note()
    return seen


def test_examples_do_not_follow_from_chance_unless_that_is_asked_for():
    assert settings.default.derandomize == (os.environ.get("FANLOG_HYPOTHESIS") != "search")
    assert settings.default.deadline is None


def test_examples_do_not_follow_from_the_modules_that_were_imported_before(tmp_path, monkeypatch):
    before = tried()
    path = tmp_path / "figures_of_a_program.py"
    numbers = range(123_456_789, 123_456_989)
    path.write_text("\n".join(f"_{number} = {number}" for number in numbers))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    spec.loader.exec_module(module)
    assert tried() == before
