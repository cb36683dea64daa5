"""Which client is tried with what, over which transport: the tests say it, the guide tells it.

`docs/guides/clients.md` has the same as tables; `test_table.py` holds the two together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pytest

LANGUAGES = ("Python", "Go", "Node", "Java")
TRANSPORTS = ("plain", "TLS")


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
                marks=pytest.mark.xdist_group(_group(case.client)),
            )
            for case in found
        ],
    )


def _group(client: str) -> str:
    return f"interop-{client}" if client in LANGUAGES else "interop-tools"
