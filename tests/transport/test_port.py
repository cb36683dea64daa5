"""One port for two protocols, and connections that leave things unfinished."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from fanlog.http2 import codes, frames
from fanlog.http2.codes import ErrorCode
from fanlog.http2.header_blocks import encode
from fanlog.transport import grpc_server, http1, port
from transport.conftest import UNFINISHED_BYTES_MAX, World, serving

START = codes.PREFACE + frames.settings([])
CALL = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/t.T/Echo"),
    (b":authority", b"localhost"),
    (b"content-type", b"application/grpc"),
    (b"te", b"trailers"),
]


async def ask(world: World, raw: bytes, *, ends: bool = False) -> bytes:
    """Send bytes; everything that comes until the other side hangs up, or for a moment."""
    reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
    writer.write(raw)
    if ends:
        writer.write_eof()
    try:
        return await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()


def headers(stream_id: int, fields: list[tuple[bytes, bytes]], *, ends: bool = False) -> bytes:
    return frames.headers(stream_id, encode(fields), ends=ends, size_max=16_384)


async def test_http_on_the_same_port(world: World, channel):
    found = await ask(world, b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    assert found.endswith(b"http GET 0\n")
    found = await ask(
        world,
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\nconnection: close\r\n\r\nabc",
    )
    assert found.endswith(b"http POST 3\n")
    assert await channel.unary_unary("/t.T/Echo")(b"here") == b"here"


async def test_first_bytes_may_come_one_by_one(world: World):
    reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
    for byte in b"PUT / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n":
        writer.write(bytes((byte,)))
        await asyncio.sleep(0)
    assert b"405" in await reader.read()
    writer.close()


async def test_an_upgrade_to_http2_is_ignored(world: World, caplog):
    found = await ask(
        world,
        b"GET / HTTP/1.1\r\nhost: x\r\nconnection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\n"
        b"http2-settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n"
        b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    )
    assert found.startswith(b"HTTP/1.1 200 OK")
    assert not caplog.records


async def test_another_content_type_is_415_and_another_method_405(world: World):
    for fields, status in (
        ([*CALL[:4], (b"content-type", b"application/json")], b"415"),
        ([(b":method", b"GET"), *CALL[1:]], b"405"),
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        writer.write(START + headers(1, fields, ends=True))
        found = b""
        while b"speaks gRPC" not in found and b"are POST" not in found:
            found += await asyncio.wait_for(reader.read(10_000), 10)
        assert encode([(b":status", status)]) in found
        writer.close()


async def test_a_connection_that_never_says_anything(world: World, monkeypatch):
    monkeypatch.setattr(port, "FIRST_BYTES_S", 0.05)
    for raw in (b"", b"P"):
        assert await ask(world, raw) == b""
    assert world.ports.connection_count == 0


async def test_a_head_that_does_not_end(world: World, monkeypatch):
    monkeypatch.setattr(http1, "SWEEP_S", 0.02)
    monkeypatch.setattr(http1, "HEAD_S", 0.1)
    found = await ask(world, b"GET / HTTP/1.1\r\nhost: x\r\nx-slow: ")
    assert found.startswith(b"HTTP/1.1 408 ")
    found = await ask(world, b"GET / HTTP/1.1\r\nhost: x\r\n" + b"x-many: y\r\n" * 10_000)
    assert found.startswith(b"HTTP/1.1 431 ")


async def test_a_body_that_does_not_end(world: World, monkeypatch):
    monkeypatch.setattr(http1, "SWEEP_S", 0.02)
    monkeypatch.setattr(http1, "BODY_S", 0.1)
    found = await ask(world, b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc")
    assert found.startswith(b"HTTP/1.1 408 ")


async def test_half_bodies_are_bounded_and_the_oldest_goes(world: World):
    size = UNFINISHED_BYTES_MAX // 4
    writers = []
    for _ in range(6):
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (2 * size))
        writer.write(bytes(size))
        await writer.drain()
        writers.append((reader, writer))
    assert (await asyncio.wait_for(writers[0][0].read(), 10)).startswith(b"HTTP/1.1 503 ")
    assert world.ports.http1.unfinished.size_bytes <= UNFINISHED_BYTES_MAX
    reader, writer = writers[-1]
    writer.write(bytes(size))
    assert b"200 OK" in await asyncio.wait_for(reader.read(100), 10)
    for _, writer in writers:
        writer.close()


async def test_half_messages_are_bounded_and_the_oldest_goes(world: World, channel):
    """Announced and not sent counts as well: credit was given for it."""
    size = UNFINISHED_BYTES_MAX // 4
    connections = []
    # Two on each connection: it credits no more at a time.
    for _ in range(3):
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        writer.write(START)
        for stream_id in (1, 3):
            writer.write(headers(stream_id, CALL))
            writer.write(b"".join(frames.data(stream_id, b"\0" + size.to_bytes(4), ends=False)))
        await reader.read(1)
        connections.append((reader, writer))
    # With its prefix, each is a little more than a quarter: three stay.
    for (reader, _), count in zip(connections, (2, 1), strict=False):
        found = b""
        while found.count(b"too many unfinished") < count:
            found += await asyncio.wait_for(reader.read(10_000), 10)
    assert world.grpc._unfinished.size_bytes <= UNFINISHED_BYTES_MAX
    assert world.counts.given_up["too_many"] == 3
    assert await channel.unary_unary("/t.T/Echo")(b"others are served") == b"others are served"
    for _, writer in connections:
        writer.close()


async def test_a_message_that_is_never_whole(world: World, monkeypatch):
    monkeypatch.setattr(grpc_server, "SWEEP_S", 0.02)
    monkeypatch.setattr(grpc_server, "MESSAGE_S", 0.1)
    reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
    writer.write(START + headers(1, CALL) + b"".join(frames.data(1, b"\0\0\0", ends=False)))
    found = b""
    while b"not whole within" not in found:
        found += await asyncio.wait_for(reader.read(10_000), 10)
    writer.close()


async def test_pipelined_requests_wait_in_the_socket(world: World):
    request = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
    writer.write(request * 20_000)
    found = 0
    while found < 20_000:
        found += (await asyncio.wait_for(reader.read(100_000), 10)).count(b"HTTP/1.1 200")
        [connection] = world.ports.http1.connections
        assert len(connection.pipeline) < 500
    writer.close()


async def test_a_silent_peer_is_asked_and_then_cut_off(world: World, monkeypatch):
    monkeypatch.setattr(grpc_server, "SWEEP_S", 0.02)
    monkeypatch.setattr(grpc_server, "PING_AFTER_S", 0.1)
    monkeypatch.setattr(grpc_server, "PING_WAIT_S", 0.1)
    async with grpc.aio.insecure_channel(world.endpoint) as alive:
        await alive.unary_unary("/t.T/Echo")(b"")
        found = await ask(world, START)
        assert frames.ping(b"are you?", is_ack=False) in found
        # Clients answer by themselves.
        assert world.grpc.connection_count == 1


async def test_when_connections_run_out_an_idle_one_goes():
    async with serving(connections_max=3) as world:
        busy = grpc.aio.insecure_channel(world.endpoint)
        call = busy.unary_unary("/t.T/Wait")(b"")
        await asyncio.wait_for(world.waiting.wait(), 5)
        idle = []
        for _ in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
            writer.write(START)
            await reader.read(10)
            idle.append((reader, writer))
        found = await ask(world, b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert b"200 OK" in found
        farewell = await asyncio.wait_for(idle[0][0].read(), 10)
        assert frames.go_away(0, ErrorCode.NO_ERROR, "draining") in farewell
        assert not call.done()
        await busy.close()
        for _, writer in idle:
            writer.close()


async def test_a_drain_answers_what_is_there_and_sends_the_rest_away(world: World, channel):
    both = channel.stream_stream("/t.T/Both")()
    await both.write(b"1")
    assert await both.read() == b"1"
    stopping = asyncio.create_task(world.grpc.stop(5))
    await asyncio.sleep(0.05)
    await both.write(b"2")
    assert await both.read() == b"2"
    await both.done_writing()
    assert await both.code() == grpc.StatusCode.OK
    await asyncio.wait_for(stopping, 5)
    assert world.grpc.connection_count == 0


async def test_a_drain_ends_after_its_time(world: World, channel):
    call = channel.unary_unary("/t.T/Wait")(b"")
    await asyncio.wait_for(world.waiting.wait(), 5)
    await asyncio.wait_for(world.grpc.stop(0.1), 5)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
