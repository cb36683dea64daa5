"""A caller by hand for tests of REST."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from server.conftest import RunningServer
from server.rest.http import Http


@pytest.fixture
def call(server: RunningServer) -> Iterator[Http]:
    speaker = Http(server)
    yield speaker
    speaker.close()
