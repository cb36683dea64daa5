"""A caller on our own HTTP/2 connection in its client's role, with plain sockets below."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fanlog.http2 import events
from fanlog.http2.connection import Http2Connection
from fanlog.http2.header_rules import Header
from fanlog.http2.settings import Http2Settings
from fanlog.transport.messages import PREFIX_BYTES, frame_message
from fanlog.transport.timeouts import format_timeout

WINDOW = 1 << 20


class RawClient:
    """One connection; calls one after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._http2 = Http2Connection(
            "client", Http2Settings(stream_window=WINDOW), window=WINDOW, now=self._loop.time()
        )

    @classmethod
    async def open(cls, port: int) -> RawClient:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def close(self) -> None:
        self._writer.close()

    async def call(
        self, path: str, message: bytes, more: Sequence[Header] = ()
    ) -> tuple[bytes, dict[bytes, bytes]]:
        """The data of the answer, and the headers that ended it."""
        headers = [
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", path.encode()),
            (b":authority", b"localhost"),
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
            (b"grpc-timeout", format_timeout(30)),
            *more,
        ]
        stream_id = self._http2.request(headers, ends=False)
        assert stream_id is not None
        self._http2.send_data(stream_id, frame_message(message), ends=True)
        data, last = b"", {}
        while True:
            self._writer.writelines(map(bytes, self._http2.take_output()))
            await self._writer.drain()
            if self._http2.can_go_on:
                self._http2.go_on()
                continue
            raw = await asyncio.wait_for(self._reader.read(1 << 16), 30)
            assert raw, "the other side hung up"
            for event in self._http2.receive(raw, self._loop.time()):
                if isinstance(event, events.DataReceived):
                    data += event.data
                    self._http2.credit(stream_id, len(event.data))
                elif isinstance(event, events.TrailersReceived):
                    return data, dict(event.headers.fields)
                elif isinstance(event, events.HeadersReceived):
                    last = dict(event.headers.fields)
                    if event.ends:
                        return data, last
                elif isinstance(event, events.StreamReset | events.ConnectionEnded):
                    raise AssertionError(event)


def message_of(data: bytes) -> bytes:
    assert int.from_bytes(data[1:PREFIX_BYTES]) == len(data) - PREFIX_BYTES
    return data[PREFIX_BYTES:]
