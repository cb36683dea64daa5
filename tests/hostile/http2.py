"""Frames of HTTP/2 by hand, for connections that no client would make."""

from __future__ import annotations

import socket
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 1, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS = 0x1, 0x4
CANCEL = struct.pack(">I", 8)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name: bytes, value: bytes) -> bytes:
    """A header that enters no table; short ones only."""
    assert max(len(name), len(value)) < 127
    return b"\x00" + bytes((len(name),)) + name + bytes((len(value),)) + value


#: A call that any gRPC client could make.
CALL = (
    b"\x83\x86"  # POST, http
    + literal(b":path", b"/google.pubsub.v1.Publisher/ListTopics")
    + literal(b":authority", b"localhost")
    + literal(b"content-type", b"application/grpc")
    + literal(b"te", b"trailers")
)


def send_all(connection: socket.socket, parts: list[bytes]) -> int:
    """Send until all is sent or the server has had enough; nothing is read. The bytes sent."""
    sent = 0
    try:
        for part in parts:
            connection.sendall(part)
            sent += len(part)
    except (OSError, TimeoutError):
        pass
    return sent
