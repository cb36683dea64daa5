"""Frames as bytes: one function for each frame that is sent."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from fanlog.http2 import codes
from fanlog.http2.codes import ErrorCode

_HEAD = struct.Struct(">HBBBL")
_PAIR = struct.Struct(">HL")


def head(length: int, kind: int, flags: int, stream_id: int) -> bytes:
    return _HEAD.pack(length >> 8, length & 0xFF, kind, flags, stream_id)


def data(
    stream_id: int, content: bytes | memoryview, *, ends: bool
) -> tuple[bytes, bytes | memoryview]:
    """Head and content, not joined: large content is not copied."""
    return head(len(content), codes.DATA, codes.END_STREAM if ends else 0, stream_id), content


def headers(stream_id: int, block: bytes, *, ends: bool, size_max: int) -> bytes:
    """HEADERS, and CONTINUATION as long as the block does not fit."""
    flags = codes.END_STREAM if ends else 0
    if len(block) <= size_max:
        return head(len(block), codes.HEADERS, flags | codes.END_HEADERS, stream_id) + block
    parts = [head(size_max, codes.HEADERS, flags, stream_id), block[:size_max]]
    for start in range(size_max, len(block), size_max):
        part = block[start : start + size_max]
        is_last = start + size_max >= len(block)
        parts += (
            head(len(part), codes.CONTINUATION, codes.END_HEADERS if is_last else 0, stream_id),
            part,
        )
    return b"".join(parts)


def rst_stream(stream_id: int, code: ErrorCode) -> bytes:
    return head(4, codes.RST_STREAM, 0, stream_id) + code.to_bytes(4)


def settings(pairs: Iterable[tuple[int, int]]) -> bytes:
    payload = b"".join(_PAIR.pack(number, value) for number, value in pairs)
    return head(len(payload), codes.SETTINGS, 0, 0) + payload


SETTINGS_ACK = head(0, codes.SETTINGS, codes.ACK, 0)


def ping(payload: bytes, *, is_ack: bool) -> bytes:
    return head(8, codes.PING, codes.ACK if is_ack else 0, 0) + payload


def go_away(last_id: int, code: ErrorCode, reason: str) -> bytes:
    text = reason.encode()[:256]
    payload = last_id.to_bytes(4) + code.to_bytes(4) + text
    return head(len(payload), codes.GOAWAY, 0, 0) + payload


def window_update(stream_id: int, increment: int) -> bytes:
    return head(4, codes.WINDOW_UPDATE, 0, stream_id) + increment.to_bytes(4)
