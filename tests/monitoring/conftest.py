"""The tool of a real Prometheus."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

#: Runs promtool: its exit status, and all that it said.
Promtool = Callable[..., tuple[int, str]]


@pytest.fixture(scope="session")
def promtool() -> Promtool:
    """Skips on a laptop without it, fails in CI: `make test` runs scripts/test_tools.sh."""
    if shutil.which("promtool") is None:
        what = "promtool is not installed (the package prometheus of Debian)"
        if os.environ.get("CI"):
            pytest.fail(f"{what}; scripts/test_tools.sh installs what these tests need")
        pytest.skip(f"{what}; scripts/test_tools.sh says how to get it")

    def run(*arguments: str | Path) -> tuple[int, str]:
        done = subprocess.run(
            ["promtool", *map(str, arguments)], capture_output=True, text=True, timeout=120
        )
        return done.returncode, done.stdout + done.stderr

    return run
