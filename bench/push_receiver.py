"""A webhook receiver for the benchmarks, in a process of its own: it answers 204, and notes when.

`python -m bench.push_receiver` prints its port. POST keeps when a request came and the eight bytes
that its body begins with; GET gives all of that and forgets it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import cast

import uvloop

_OK = b"HTTP/1.1 204 No Content\r\n\r\n"


class _Receiver(asyncio.Protocol):
    """Reads requests that have a Content-Length, as ours do."""

    def __init__(self, came: list[tuple[int, int]]) -> None:
        self._came = came
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Uvloop's is one, though not by its class.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end].lower()
            if head.startswith(b"get "):
                self._buffer = self._buffer[end + 4 :]
                self._report()
                continue
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
            if len(self._buffer) < end + 4 + length:
                return
            stamp = int.from_bytes(self._buffer[end + 4 : end + 12], "big")
            self._came.append((stamp, time.monotonic_ns()))
            self._buffer = self._buffer[end + 4 + length :]
            assert self._transport is not None
            self._transport.write(_OK)

    def _report(self) -> None:
        body = json.dumps(self._came).encode()
        self._came.clear()
        assert self._transport is not None
        self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


async def main() -> None:
    came: list[tuple[int, int]] = []
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Receiver(came), "127.0.0.1", 0, backlog=4096)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
