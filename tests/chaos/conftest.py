"""What the chaos tests share: servers that end with their test, and tools that may be missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from acceptance.served import Served


def missing(what: str) -> None:
    """Skip on a laptop, fail in CI: `make test` runs scripts/test_tools.sh, which installs it."""
    if os.environ.get("CI"):
        pytest.fail(f"{what}; scripts/test_tools.sh installs what these tests need")
    pytest.skip(f"{what}; scripts/test_tools.sh says how to get it")


@pytest.fixture(scope="session")
def strace() -> None:
    """Needs a strace that may trace."""
    if shutil.which("strace") is None:
        missing("strace is not installed")
    tried = subprocess.run(["strace", "-qq", "-e", "none", "true"], capture_output=True, text=True)
    if tried.returncode != 0:
        missing(f"strace cannot trace here: {tried.stderr.strip()}")


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Make servers that are killed when the test ends; each is started by the test."""
    servers: list[Served] = []

    def make(name: str = "data", **options: object) -> Served:
        server = Served(tmp_path / name, tmp_path / f"{name}.log", **options)  # type: ignore[arg-type]
        servers.append(server)
        return server

    yield make
    for server in servers:
        server.close()
