"""HTTP through a node that does not own: requests, answers in one piece and in many."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from fanlog.cluster import gateway as gateways
from fanlog.transport.http1 import CONNECTION, CUT_OFF
from links.conftest import Owned, status_of
from links.nodes import Node, backend, running_nodes, until

BYTES_MAX = 1_000_000


@dataclass
class World:
    owner: Node
    other: Node
    owned: Owned
    app: Any = None
    #: Scopes that the application was given.
    scopes: list[Any] = field(default_factory=list)
    pieces: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    written: int = 0

    def begin(self) -> None:
        self.owner.gateway.serve_locally(backend(self.owned.methods, self.app))
        self.other.gateway.forward_to(self.owner.card)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    owned = Owned()
    settings = {"status_of": status_of, "http_bytes_max": BYTES_MAX}
    owner, other = (Node(name, owned.forms, **settings) for name in ("owner", "other"))
    one = World(owner, other, owned)

    async def echo(request: Request) -> Response:
        one.scopes.append(request.scope)
        body = await request.body()
        told = {
            "method": request.method,
            "path": request.url.path,
            "query": request.scope["query_string"].decode(),
            "kind": request.headers.get("content-type", ""),
            "size": len(body),
            "client": request.client.host if request.client else None,
        }
        return JSONResponse(told, 207, {"x-said": "so"})

    async def large(request: Request) -> Response:
        return Response(bytes(int(request.query_params["size"])))

    async def events(_: Request) -> Response:
        async def told() -> AsyncIterator[bytes]:
            try:
                while (piece := await one.pieces.get()) is not None:
                    yield piece
            finally:
                one.cancelled.set()

        return StreamingResponse(told(), media_type="text/event-stream")

    async def paced(_: Request) -> Response:
        async def told() -> AsyncIterator[bytes]:
            while True:
                yield bytes(500_000)
                yield b""
                one.written += 500_000

        return StreamingResponse(told())

    async def unread(request: Request) -> Response:
        async def told() -> AsyncIterator[bytes]:
            yield b"x"
            request.scope["extensions"][CUT_OFF]()
            await asyncio.sleep(60)

        return StreamingResponse(told())

    async def flood(_: Request) -> Response:
        async def told() -> AsyncIterator[bytes]:
            while True:
                one.written += 100_000
                yield bytes(100_000)

        return StreamingResponse(told())

    async def slow(_: Request) -> Response:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            one.cancelled.set()
            raise
        return Response()

    async def broken(_: Request) -> Response:
        raise ValueError("a mistake")

    verbs = (echo, large, events, paced, unread, flood, slow, broken)
    routes = [Route(f"/{verb.__name__}", verb, methods=["GET", "POST"]) for verb in verbs]
    one.app = Starlette(routes=[*routes, Route("/a%2Fb/{rest:path}", echo)])
    async with running_nodes(owner, other):
        one.begin()
        yield one


async def ask(world: World, path: str, body: bytes | None = None, **headers: str) -> Any:
    """Status, headers and body of an answer by the node that forwards."""
    request = urllib.request.Request(world.other.url(path), body, headers)
    return await asyncio.to_thread(_ask, request)


def _ask(request: urllib.request.Request) -> Any:
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.headers, refusal.read()


async def test_a_request_comes_as_it_was_sent(world):
    kind = {"content-type": "text/odd"}
    status, headers, body = await ask(world, "/echo?a=1&b=%2F", b"hello", **kind)
    assert (status, headers["x-said"], headers["content-type"]) == (207, "so", "application/json")
    assert json.loads(body) == {
        "method": "POST",
        "path": "/echo",
        "query": "a=1&b=%2F",
        "kind": "text/odd",
        "size": 5,
        "client": "127.0.0.1",
    }
    [scope] = world.scopes
    assert scope["raw_path"] == b"/echo"
    assert scope["extensions"][CONNECTION] is not None


@pytest.mark.parametrize("size", [0, 1, 100_000, 256 * 1024, 5_000_000])
async def test_an_answer_of_any_size(world, size):
    status, headers, body = await ask(world, f"/large?size={size}")
    assert (status, headers["content-length"], len(body)) == (200, str(size), size)


async def test_a_body_of_any_size_up_to_the_bound(world):
    assert json.loads((await ask(world, "/echo", bytes(BYTES_MAX)))[2])["size"] == BYTES_MAX
    status, headers, body = await ask(world, "/echo", bytes(BYTES_MAX + 1))
    assert (status, headers["content-type"]) == (413, "application/json")
    assert "http_max_bytes" in json.loads(body)["error"]["message"]
    assert len(world.scopes) == 1


async def test_a_mistake_of_the_owner(world):
    status, _, _ = await ask(world, "/broken")
    assert status in (500, 503)


async def connection(world: World, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", world.other.port, limit=1 << 20)
    writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
    return reader, writer


async def test_an_answer_goes_on_for_as_long_as_it_likes(world):
    reader, writer = await connection(world, "/events")
    for number in range(3):
        world.pieces.put_nowait(b"data: %d\n\n" % number)
        async with asyncio.timeout(10):
            await reader.readuntil(b"data: %d\n\n" % number)
    world.pieces.put_nowait(None)
    async with asyncio.timeout(10):
        await reader.readuntil(b"0\r\n\r\n")
    writer.close()


async def test_it_ends_when_its_caller_leaves(world):
    reader, writer = await connection(world, "/events")
    world.pieces.put_nowait(b"data: x\n\n")
    await reader.readuntil(b"data: x\n\n")
    writer.close()
    async with asyncio.timeout(10):
        await world.cancelled.wait()
    await until(lambda: world.other.link_to(world.owner).call_count == 0)


async def test_a_caller_that_leaves_before_its_answer(world):
    _, writer = await connection(world, "/slow")
    await until(lambda: world.other.link_to(world.owner).call_count == 1)
    writer.close()
    async with asyncio.timeout(10):
        await world.cancelled.wait()


async def test_an_answer_that_is_not_read_is_not_asked_for(world):
    reader, writer = await connection(world, "/flood")
    await until(lambda: world.written > 0)
    before = -1
    while world.written != before:
        before = world.written
        await asyncio.sleep(0.2)
    # Buffers of three sockets and a window, and no more.
    assert world.written < 20_000_000
    writer.close()
    assert reader


async def test_a_piece_of_nothing_waits_for_the_one_before(world):
    reader, writer = await connection(world, "/paced")
    await until(lambda: world.written > 0)
    before = -1
    while world.written != before:
        before = world.written
        await asyncio.sleep(0.2)
    # An application knows that its reader is behind.
    assert world.written < 20_000_000
    assert await reader.read(1_000)
    writer.close()


async def test_an_application_cuts_off_an_answer(world):
    reader, writer = await connection(world, "/unread")
    async with asyncio.timeout(10):
        rest = await reader.read()
    assert not rest.endswith(b"0\r\n\r\n")
    writer.close()


async def test_it_does_not_look_whole_when_the_owner_is_lost(world, monkeypatch):
    monkeypatch.setattr(gateways, "FAREWELL_S", 0.1)
    reader, writer = await connection(world, "/events")
    world.pieces.put_nowait(b"data: x\n\n")
    await reader.readuntil(b"data: x\n\n")
    world.other.gateway.serve_locally(backend(world.owned.methods, world.app))
    async with asyncio.timeout(10):
        rest = await reader.read()
    assert not rest.endswith(b"0\r\n\r\n")
    writer.close()


async def test_a_request_waits_for_an_owner(world):
    world.other.gateway.hold()
    asked = asyncio.ensure_future(ask(world, "/echo", b"x"))
    await until(lambda: world.other.gateway.waiting == 1)
    world.other.gateway.forward_to(world.owner.card)
    assert (await asked)[0] == 207
    world.other.gateway.hold()
    asked = asyncio.ensure_future(ask(world, "/echo", b"xyz"))
    await until(lambda: world.other.gateway.waiting == 1)
    world.other.gateway.serve_locally(backend(world.owned.methods, world.app))
    assert json.loads((await asked)[2])["size"] == 3


async def test_a_request_that_waits_in_vain(world):
    world.other.gateway._hold_s = 0.1
    world.other.gateway.hold()
    status, headers, body = await ask(world, "/echo", b"x")
    assert (status, headers["retry-after"]) == (503, "1")
    assert "no node of the cluster is known to own" in json.loads(body)["error"]["message"]
    world.other.gateway.forward_to(world.owner.card)
    world.owner.gateway.hold()
    status, _, body = await ask(world, "/echo", b"x")
    assert status == 503
    assert "does not own" in json.loads(body)["error"]["message"]
