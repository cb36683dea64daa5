"""A port with a few methods of our own, and clients for it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from fanlog.transport.budgets import Budgets
from fanlog.transport.counts import TransportCounts
from fanlog.transport.grpc_server import GrpcServer
from fanlog.transport.http1 import Http1Server
from fanlog.transport.methods import RpcMethod
from fanlog.transport.port import Ports
from fanlog.transport.server_call import ServerCall
from fanlog.transport.statuses import Status
from fanlog.transport.tls import Tls

REQUEST_BYTES_MAX = 4 * 1024 * 1024
UNFINISHED_BYTES_MAX = 16 * 1024 * 1024
CREDITED_BYTES_MAX = 8 * 1024 * 1024
UNREAD_BYTES_MAX = 8 * 1024 * 1024
BUDGETS = Budgets(
    unfinished_bytes_max=UNFINISHED_BYTES_MAX,
    credited_bytes_max=CREDITED_BYTES_MAX,
    unread_bytes_max=UNREAD_BYTES_MAX,
    unread_total_bytes_max=2 * UNREAD_BYTES_MAX,
)


class Refused(Exception):
    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


def status_of(error: Exception) -> Status:
    return error.status if isinstance(error, Refused) else Status(13, repr(error))


class World:
    """A running port."""

    def __init__(self, ports: Ports, port: int) -> None:
        self.ports = ports
        self.grpc = ports.grpc
        self.counts = ports.counts
        self.port = port
        #: What the method `Told` was told, and what became of calls of `Wait`.
        self.told: list[ServerCall] = []
        self.cancelled = asyncio.Event()
        self.waiting = asyncio.Event()

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"


def methods(world: Callable[[], World]) -> list[RpcMethod]:
    async def echo(raw: bytes, call: ServerCall) -> bytes:
        return raw

    async def tell(raw: bytes, call: ServerCall) -> bytes:
        world().told.append(call)
        call.set_trailing_metadata([("x-said", "so"), ("x-raw-bin", b"\0\xff")])
        return raw

    async def fail(raw: bytes, call: ServerCall) -> bytes:
        raise Refused(Status(9, "no: 100 % ünmöglich\n", raw))

    async def wait(raw: bytes, call: ServerCall) -> bytes:
        world().waiting.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            world().cancelled.set()
            raise
        return raw

    async def both(call: ServerCall) -> None:
        while (message := await call.read()) is not None:
            await call.write(message)

    async def count(call: ServerCall) -> None:
        total = 0
        while (message := await call.read()) is not None:
            total += len(message)
        await call.write(b"%d" % total)

    async def flood(call: ServerCall) -> None:
        request = await call.read()
        assert request is not None
        for _ in range(int(request)):
            await call.write(bytes(100_000))

    async def deaf(call: ServerCall) -> None:
        world().waiting.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            world().cancelled.set()
            raise

    unary = {"Echo": echo, "Tell": tell, "Fail": fail, "Wait": wait}
    streams = {"Both": both, "Count": count, "Deaf": deaf}
    found = [
        RpcMethod(path=f"/t.T/{name}", request_bytes_max=REQUEST_BYTES_MAX, unary=verb)
        for name, verb in unary.items()
    ]
    found += [
        RpcMethod(
            path=f"/t.T/{name}",
            request_bytes_max=REQUEST_BYTES_MAX,
            streaming=verb,
            has_many_requests=True,
        )
        for name, verb in streams.items()
    ]
    found.append(RpcMethod(path="/t.T/Small", request_bytes_max=1_000, unary=echo))
    found.append(RpcMethod(path="/t.T/Flood", request_bytes_max=REQUEST_BYTES_MAX, streaming=flood))
    return found


async def _say(request: Request) -> PlainTextResponse:
    body = await request.body()
    return PlainTextResponse(f"{request.url.scheme} {request.method} {len(body)}\n")


@asynccontextmanager
async def serving(
    tls: Tls | None = None, connections_max: int = 10_000, *, folds_answers: bool = False
) -> AsyncIterator[World]:
    world: World | None = None

    def this() -> World:
        assert world is not None
        return world

    counts = TransportCounts()
    server = GrpcServer(methods(this), status_of, BUDGETS, counts, folds_answers=folds_answers)
    routes = [Route("/", _say, methods=["GET", "POST"])]
    config = uvicorn.Config(
        Starlette(routes=routes), log_config=None, access_log=False, lifespan="off", ws="none"
    )
    http1 = Http1Server(config, BUDGETS, counts)
    ports = Ports(server, http1, connections_max=connections_max, tls=tls)
    listener = socket.create_server(("127.0.0.1", 0), backlog=2_048)
    port = await ports.listen(listener)
    world = World(ports, port)
    try:
        yield world
    finally:
        ports.close()
        await asyncio.gather(server.stop(0.0), http1.stop(0.0))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with serving() as one:
        yield one


@pytest.fixture
async def channel(world: World) -> AsyncIterator[Any]:
    options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(world.endpoint, options=options) as one:
        yield one
