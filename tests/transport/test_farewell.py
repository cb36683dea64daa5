"""The end of a connection: what was sent before it arrives, whatever the client still says."""

from __future__ import annotations

import asyncio

from fanlog.http2 import codes, frames
from fanlog.http2.codes import ErrorCode
from fanlog.http2.header_blocks import encode
from fanlog.http2.settings import INITIAL_WINDOW_SIZE
from fanlog.transport.messages import frame_message
from transport.conftest import World

START = codes.PREFACE + frames.settings([])
#: Of a kind that no peer knows, and that is passed over.
UNKNOWN = frames.head(16_384, 0xFA, 0, 0) + bytes(16_384)
#: More than one read of a socket takes.
UNREAD = UNKNOWN * 60


async def test_a_drain_resets_no_connection(world: World):
    """A socket that is closed with something unread is reset: answers on their way are lost."""
    reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
    writer.write(START)
    await reader.readexactly(9)
    stopping = asyncio.create_task(world.grpc.stop(5))
    await reader.readuntil(b"draining")
    writer.write(frames.ping(b"draining", is_ack=True) + UNREAD)
    # Ends without a ConnectionResetError.
    farewell = await asyncio.wait_for(reader.read(), 10)
    assert frames.go_away(0, ErrorCode.NO_ERROR, "draining") in farewell
    await asyncio.wait_for(writer.drain(), 10)
    writer.close()
    await writer.wait_closed()
    await asyncio.wait_for(stopping, 10)
    assert world.grpc.connection_count == 0


async def test_a_drain_waits_for_an_answer_that_is_read_slowly(world: World):
    """The verb is done, and most of its answer waits for the client's window."""
    block = encode(
        [
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", b"/t.T/Echo"),
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
        ]
    )
    message = frame_message(b"x" * 1_000)
    reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
    writer.write(codes.PREFACE + frames.settings([(INITIAL_WINDOW_SIZE, 10)]))
    writer.write(frames.headers(1, block, ends=False, size_max=codes.FRAME_BYTES_MIN))
    writer.write(b"".join(frames.data(1, message, ends=True)))
    await reader.readuntil(message[:10])
    stopping = asyncio.create_task(world.grpc.stop(5))
    await reader.readuntil(b"draining")
    writer.write(frames.ping(b"draining", is_ack=True))
    await reader.readuntil(frames.go_away(1, ErrorCode.NO_ERROR, "draining"))
    writer.write(frames.window_update(1, 5_000))
    rest = await asyncio.wait_for(reader.read(), 10)
    assert message[10:] in rest
    assert encode([(b"grpc-status", b"0")]) in rest
    writer.close()
    await asyncio.wait_for(stopping, 10)
