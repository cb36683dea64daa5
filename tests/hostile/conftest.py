"""A server as hostile callers find it: a process of its own, whose memory can be looked at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptance.served import Served
from hostile.victim import Victim
from server.conftest import LoopThread, RunningServer, _config


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    """One server for a module: what an attack leaves behind, the next test would find."""
    folder = tmp_path_factory.mktemp("victim")
    served = Served(folder / "data", folder / "server.log")
    try:
        served.start("--push-allow", "127.0.0.0/8")
        yield Victim(served)
    finally:
        served.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server in this process, for tests that look into it."""
    loop = LoopThread()
    running = RunningServer(loop, _config("memory", Path(tmp_path_factory.mktemp("data"))), None)
    yield running
    running.stop()
    loop.close()
