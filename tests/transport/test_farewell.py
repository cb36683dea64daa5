"""The end of a connection: what was sent before it arrives, whatever the client still says."""

from __future__ import annotations

import asyncio

from fanlog.http2 import codes, frames
from fanlog.http2.codes import ErrorCode
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
