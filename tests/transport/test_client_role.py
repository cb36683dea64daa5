"""The client's role of a connection: against our own server, and against gRPC's."""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc
import pytest

from transport.conftest import World
from transport.raw_client import RawClient, message_of

SIZES = (0, 1, 10_000, 100_000, 3_000_000)


@pytest.fixture
async def grpc_port() -> AsyncIterator[int]:
    """An echo by gRPC's own server."""

    async def echo(request: bytes, context: object) -> bytes:
        return request

    server = grpc.aio.server()
    methods = {"Echo": grpc.unary_unary_rpc_method_handler(echo)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.T", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield port
    await server.stop(None)


async def echo_all(port: int) -> None:
    client = await RawClient.open(port)
    for size in SIZES:
        data, last = await client.call("/t.T/Echo", b"x" * size)
        assert message_of(data) == b"x" * size
        assert last[b"grpc-status"] == b"0"
    _, last = await client.call("/t.T/Nothing", b"")
    assert last[b"grpc-status"] == b"12"
    client.close()


async def test_against_our_own_server(world: World):
    await echo_all(world.port)


async def test_against_grpcs_server(grpc_port: int):
    await echo_all(grpc_port)


async def test_an_unknown_encoding_is_told_those_that_are_known(world: World):
    client = await RawClient.open(world.port)
    _, last = await client.call("/t.T/Echo", b"", [(b"grpc-encoding", b"snappy")])
    assert last[b"grpc-status"] == b"12"
    assert last[b"grpc-accept-encoding"] == b"identity,deflate,gzip"
    client.close()
