"""Frames of HTTP/2 by hand, for connections that no client would make."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 2, 3, 4, 6, 7
WINDOW_UPDATE, CONTINUATION = 8, 9
END_STREAM, END_HEADERS, PADDED, WITH_PRIORITY = 0x1, 0x4, 0x8, 0x20
CANCEL = struct.pack(">I", 8)

PROTOCOL_ERROR, FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR = 0x1, 0x3, 0x6
REFUSED_STREAM, COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 0x7, 0x9, 0xB


class Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    payload: bytes

    @property
    def code(self) -> int:
        """The error code of a GOAWAY or an RST_STREAM."""
        return int.from_bytes(self.payload[4:8] if self.kind == GOAWAY else self.payload)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name: bytes, value: bytes) -> bytes:
    """A header that enters no table; short ones only."""
    assert max(len(name), len(value)) < 127
    return b"\x00" + bytes((len(name),)) + name + bytes((len(value),)) + value


def call(path: bytes) -> bytes:
    """The headers of a call that any gRPC client could make."""
    return (
        b"\x83\x86"  # POST, http
        + literal(b":path", path)
        + literal(b":authority", b"localhost")
        + literal(b"content-type", b"application/grpc")
        + literal(b"te", b"trailers")
    )


CALL = call(b"/google.pubsub.v1.Publisher/ListTopics")
#: A request for all topics of the project `p`.
REQUEST = b"\0\0\0\0\x0c\x0a\x0aprojects/p"
START = PREFACE + frame(SETTINGS, 0, 0)


def send_all(connection: socket.socket, parts: Iterable[bytes]) -> int:
    """Send until all is sent or the server has had enough; nothing is read. The bytes sent."""
    sent = 0
    with suppress(OSError):
        for part in parts:
            connection.sendall(part)
            sent += len(part)
    return sent


def talk(
    connection: socket.socket, parts: Iterable[bytes], is_enough: Callable[[Frame], bool]
) -> list[Frame]:
    """Send everything and read meanwhile, until a frame is enough or the server hangs up."""
    sender = threading.Thread(target=send_all, args=(connection, parts), daemon=True)
    sender.start()
    found: list[Frame] = []
    rest = b""
    with suppress(ConnectionError):
        while not (found and is_enough(found[-1])) and (raw := connection.recv(1 << 16)):
            rest += raw
            while len(rest) >= 9 and len(rest) >= (end := 9 + int.from_bytes(rest[:3])):
                found.append(Frame(rest[3], rest[4], int.from_bytes(rest[5:9]), rest[9:end]))
                rest = rest[end:]
                if is_enough(found[-1]):
                    break
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    sender.join()
    return found
