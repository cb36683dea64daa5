"""Nodes of a cluster in one process: each with a port for callers, a port for nodes, a gateway."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import uvicorn

from fanlog import limits
from fanlog.cluster.gateway import Backend, Gateway
from fanlog.cluster.link.credentials import NodeCredentials, Passport
from fanlog.cluster.link.internal import ANNOUNCE, NodeVerb, announce_verb
from fanlog.cluster.link.links import Links
from fanlog.cluster.link.server import LinkServer
from fanlog.server import grpc_api
from fanlog.server.rest.app import failed
from fanlog.transport.budgets import Budgets
from fanlog.transport.counts import TransportCounts
from fanlog.transport.grpc_server import GrpcServer
from fanlog.transport.http1 import Http1Server
from fanlog.transport.methods import MethodForm, RpcMethod
from fanlog.transport.port import Ports
from fanlog.transport.statuses import Status
from fanlog.transport.tls import Tls

SECRET = b"a secret of nodes that is long enough"
CREDENTIALS = NodeCredentials(secrets=(SECRET,))
PATIENCE_S = 20.0
BUDGETS = Budgets(
    unfinished_bytes_max=limits.UNFINISHED_BYTES_MAX,
    credited_bytes_max=limits.CREDITED_BYTES_MAX,
    unread_bytes_max=limits.UNREAD_BYTES_MAX,
    unread_total_bytes_max=limits.UNREAD_TOTAL_BYTES_MAX,
)


def passport(node: str, credentials: NodeCredentials = CREDENTIALS) -> Passport:
    return Passport(cluster="shop", node=node, credentials=credentials)


@dataclass(frozen=True)
class TestCard:
    """A `Card`."""

    __test__ = False

    name: str
    link_address: str


async def no_app(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("nothing is asked over HTTP")


class Node:
    """A node, holding; its neighbours are told by `forward_to`."""

    def __init__(
        self,
        name: str,
        forms: Iterable[MethodForm],
        *,
        status_of: Callable[[Exception], Status] = grpc_api.status_of,
        credentials: NodeCredentials = CREDENTIALS,
        verbs: Mapping[str, NodeVerb] | None = None,
        tls: Tls | None = None,
        **settings: Any,
    ) -> None:
        self.name = name
        #: Cards and offsets that were announced to it.
        self.announced: list[tuple[bytes, int]] = []
        self.links = Links(passport(name, credentials))
        self.gateway = Gateway(forms, self.links, failed, **settings)
        self.counts = TransportCounts()
        self._grpc = GrpcServer(self.gateway.methods, status_of, BUDGETS, self.counts)
        config = uvicorn.Config(
            self.gateway.app,
            interface="asgi3",
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
        )
        self._http = Http1Server(config, BUDGETS, self.counts)
        self.ports = Ports(self._grpc, self._http, connections_max=1_000, tls=tls)
        told = {ANNOUNCE: announce_verb(self._note)}
        self.link_server = LinkServer(
            passport(name, credentials),
            self.gateway.link_methods,
            told | dict(verbs or {}),
            status_of,
        )
        self.port = self.link_port = 0

    def _note(self, card: bytes, applied_offset: int) -> bytes:
        self.announced.append((card, applied_offset))
        return b"noted"

    async def start(self) -> None:
        self.port = await self.ports.listen(_listen())
        self.link_port = await self.link_server.listen(_listen(self.link_port))

    async def stop(self, patience_s: float = 0.0) -> None:
        self.ports.close()
        await asyncio.gather(
            self._grpc.stop(patience_s),
            self._http.stop(patience_s),
            self.link_server.stop(patience_s),
        )
        self.links.close()

    @property
    def card(self) -> TestCard:
        return TestCard(self.name, f"127.0.0.1:{self.link_port}")

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, path: str) -> str:
        return f"http://{self.endpoint}{path}"

    def link_to(self, other: Node) -> Any:
        return self.links.to(other.card)

    async def until_linked(self, other: Node) -> None:
        await until(lambda: self.link_to(other).is_open)


def _listen(port: int = 0) -> socket.socket:
    return socket.create_server(("127.0.0.1", port), backlog=2_048)


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            await asyncio.sleep(0.002)


@asynccontextmanager
async def running_nodes(*nodes: Node) -> AsyncIterator[None]:
    for node in nodes:
        await node.start()
    try:
        yield
    finally:
        await asyncio.gather(*(node.stop() for node in nodes))


def backend(methods: Iterable[RpcMethod], app: Any = no_app) -> Backend:
    return Backend(list(methods), app)


@asynccontextmanager
async def channel_to(node: Node) -> AsyncIterator[grpc.aio.Channel]:
    options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(node.endpoint, options=options) as channel:
        yield channel
