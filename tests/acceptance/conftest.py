"""One server for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptance.served import Served


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    server = Served(tmp_path / "data", tmp_path / "server.log")
    # Receivers of examples are on this machine, as those of `make run` are.
    server.start("--push-allow", "127.0.0.0/8")
    yield server
    server.close()
