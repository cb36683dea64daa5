"""One server for each test, or for each module."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from acceptance.served import Served

_projects = itertools.count(1)


@contextmanager
def _running(folder: Path) -> Iterator[Served]:
    server = Served(folder / "data", folder / "server.log")
    try:
        # Receivers of examples are on this machine, as those of `make run` are.
        server.start("--push-allow", "127.0.0.0/8")
        yield server
    finally:
        server.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A server of the test's own, to stop and to start."""
    with _running(tmp_path) as server:
        yield server


@pytest.fixture(scope="module")
def shared_served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One for a module, whose tests have names of their own."""
    with _running(tmp_path_factory.mktemp("served")) as server:
        yield server


@pytest.fixture
def shared(shared_served: Served) -> Iterator[Served]:
    """The same, with a project of the test's own: short names are those of nobody else."""
    shared_served.project = f"project-{next(_projects)}"
    yield shared_served
    shared_served.project = ""
