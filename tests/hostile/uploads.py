"""Uploads that stop in the middle: callers that keep to flow control, and to nothing else."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress

from hostile.http2 import (
    DATA,
    END_HEADERS,
    HEADERS,
    PREFACE,
    SETTINGS,
    WINDOW_UPDATE,
    call,
    frame,
)

INITIAL_WINDOW_SIZE = 4
WINDOW_DEFAULT = 65_535
#: Long enough for a server that would go on to do so.
QUIET_S = 1.0


class Upload:
    """One call whose requests are sent as far as its stream is credited; answers have no window."""

    def __init__(self, connection: socket.socket, path: bytes) -> None:
        self._connection = connection
        connection.settimeout(QUIET_S)
        self._credit = WINDOW_DEFAULT
        self._rest = b""
        self.sent_bytes = 0
        settings = struct.pack(">HI", INITIAL_WINDOW_SIZE, 0)
        connection.sendall(
            PREFACE + frame(SETTINGS, 0, 0, settings) + frame(HEADERS, END_HEADERS, 1, call(path))
        )

    def send(self, content: bytes) -> bool:
        """Send as data; False when the server takes no more, or has hung up."""
        view = memoryview(content)
        while view:
            if self._credit <= 0 and not self._read():
                return False
            part = bytes(view[: min(len(view), self._credit, 16_384)])
            try:
                self._connection.sendall(frame(DATA, 0, 1, part))
            except OSError:
                return False
            self._credit -= len(part)
            self.sent_bytes += len(part)
            view = view[len(part) :]
        return True

    def _read(self) -> bool:
        """Read frames until the stream is credited; False when nothing comes."""
        with suppress(OSError):
            while self._credit <= 0 and (raw := self._connection.recv(1 << 16)):
                self._rest += raw
                self._take()
        return self._credit > 0

    def _take(self) -> None:
        while len(self._rest) >= 9:
            end = 9 + int.from_bytes(self._rest[:3])
            if len(self._rest) < end:
                return
            kind, stream = self._rest[3], int.from_bytes(self._rest[5:9])
            if (kind, stream) == (WINDOW_UPDATE, 1):
                self._credit += int.from_bytes(self._rest[9:end])
            self._rest = self._rest[end:]


def half_bodies(connection: socket.socket, size: int, announced: int) -> None:
    """A publish over REST that never comes to its end."""
    head = (
        b"POST /v1/projects/p/topics/orders:publish HTTP/1.1\r\nhost: localhost\r\n"
        b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % announced
    )
    with suppress(OSError):
        connection.sendall(head + b" " * size)
