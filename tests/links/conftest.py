"""Two nodes: one that owns the small methods of the transport's tests, and one that forwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fanlog.server import grpc_api
from fanlog.transport.methods import MethodForm
from fanlog.transport.server_call import ServerCall
from fanlog.transport.statuses import Status
from links.nodes import Node, backend, channel_to, running_nodes
from transport.conftest import Refused, methods


class Owned:
    """What the methods of an owner were told; see `transport.conftest`."""

    def __init__(self) -> None:
        self.told: list[ServerCall] = []
        self.cancelled = asyncio.Event()
        self.waiting = asyncio.Event()
        self.methods = methods(lambda: self)  # type: ignore[arg-type,return-value]

    @property
    def forms(self) -> list[MethodForm]:
        return [MethodForm.of(one) for one in self.methods]


def status_of(error: Exception) -> Status:
    return error.status if isinstance(error, Refused) else grpc_api.status_of(error)


class Pair:
    """An owner and a node that forwards to it."""

    def __init__(self) -> None:
        self.owned = Owned()
        self.owner = Node("owner", self.owned.forms, status_of=status_of)
        self.other = Node("other", self.owned.forms, status_of=status_of)

    def begin(self) -> None:
        self.owner.gateway.serve_locally(backend(self.owned.methods))
        self.other.gateway.forward_to(self.owner.card)


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    one = Pair()
    async with running_nodes(one.owner, one.other):
        one.begin()
        yield one


@pytest.fixture
async def channel(pair: Pair) -> AsyncIterator[Any]:
    """To the node that forwards."""
    async with channel_to(pair.other) as one:
        yield one
