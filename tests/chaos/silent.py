"""Connections that open a stream with all the credit there is, and never read.

By hand on plain sockets: every gRPC library reads, whatever its user does.
"""

from __future__ import annotations

import socket
import struct

import google.pubsub_v1 as gapic

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS, WINDOW_UPDATE = 0, 1, 4, 8
ACK, END_HEADERS = 1, 4
INITIAL_WINDOW_SIZE = 4
#: The most that HTTP/2 lets anybody ask for, and what there is without asking.
WINDOW_MAX, WINDOW_DEFAULT = (1 << 31) - 1, 65_535
#: As little as the kernel grants: what is sent soon stays with the sender.
RECEIVE_BYTES = 4_096


def open_silent_stream(endpoint: str, subscription: str) -> socket.socket:
    """A StreamingPull with unlimited credit; close the socket to end it."""
    request = gapic.StreamingPullRequest(subscription=subscription, stream_ack_deadline_seconds=600)
    body = gapic.StreamingPullRequest.serialize(request)
    host, port = endpoint.rsplit(":", 1)
    silent = socket.socket()
    silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
    silent.connect((host, int(port)))
    silent.sendall(
        PREFACE
        + _frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW_SIZE, WINDOW_MAX))
        + _frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", WINDOW_MAX - WINDOW_DEFAULT))
        # Of settings that we shall never read: who does not answer is sent away.
        + _frame(SETTINGS, ACK, 0, b"")
        + _frame(HEADERS, END_HEADERS, 1, _headers(endpoint))
        + _frame(DATA, 0, 1, struct.pack(">BI", 0, len(body)) + body)
    )
    return silent


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    length = struct.pack(">I", len(payload))[1:]
    return length + struct.pack(">BBI", kind, flags, stream) + payload


def _headers(endpoint: str) -> bytes:
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/google.pubsub.v1.Subscriber/StreamingPull",
        ":authority": endpoint,
        "te": "trailers",
        "content-type": "application/grpc",
    }
    # HPACK: a literal that is not to be remembered, name and text as they are.
    return b"".join(
        b"\0" + bytes([len(name)]) + name.encode() + bytes([len(text)]) + text.encode()
        for name, text in fields.items()
    )
