"""Which client is tried with what, over which transport: the tests say it, the guide tells it.

`docs/guides/clients.md` has the same as tables; `test_table.py` holds the two together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pytest

from interop.builds import BUILD_S

LANGUAGES = ("Python", "Go", "Node", "Java")
TRANSPORTS = ("plain", "TLS")
#: Longest that a test itself may take.
TEST_S = 300


class Case(NamedTuple):
    client: str
    what: str
    transport: str


#: Filled as the test modules are imported.
CASES: set[Case] = set()


def tries(what: str, *clients: str, transports: Iterable[str] = TRANSPORTS) -> Callable[[Any], Any]:
    """Run a test with each client over each transport; it takes `client` and `transport`.

    A client's tests run one after the other, and so do those of all tools: they share programs and
    servers.
    """
    found = [Case(client, what, transport) for client in clients for transport in transports]
    CASES.update(found)
    return pytest.mark.parametrize(
        ("client", "transport"),
        [
            pytest.param(
                case.client,
                case.transport,
                id=f"{case.client}-{case.transport}",
                # The first test of a client waits for its program to be built.
                marks=[
                    pytest.mark.xdist_group(_group(case.client)),
                    pytest.mark.timeout(BUILD_S + TEST_S),
                ],
            )
            for case in found
        ],
    )


def _group(client: str) -> str:
    return f"interop-{client}" if client in LANGUAGES else "interop-tools"
