"""The loop that servers on golden folders live on; the rest is as in `tests/server`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from server.conftest import LoopThread


@pytest.fixture(scope="session")
def loop_thread() -> Iterator[LoopThread]:
    loop = LoopThread()
    yield loop
    loop.close()
