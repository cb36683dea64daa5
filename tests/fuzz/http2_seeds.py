"""Seeds of the targets for HTTP/2, header blocks and messages of gRPC; see `fuzz.seeds`."""

from __future__ import annotations

import gzip
import zlib

import hpack

from fanlog.http2 import codes
from fuzz.draw import chunk
from fuzz.targets.http2 import REQUEST

#: A step that sends a frame, as `fuzz.targets.http2` draws it.
_FRAME = 112


def _frame(kind: int, flags: int, stream: int, payload: bytes, place: int = 3) -> bytes:
    return bytes((_FRAME, kind, flags, stream, 3)) + chunk(payload) + bytes((place,))


def _headers(stream: int, *, is_request: bool, ends: bool = False) -> bytes:
    flags = codes.END_STREAM if ends else 0
    return bytes((_FRAME, codes.HEADERS, flags, stream, 0, int(is_request), 5))


def _act(what: int, stream: int, size: int) -> bytes:
    return bytes((what, stream, size))


def _server_stories() -> list[bytes]:
    request = _headers(1, is_request=True)
    data = _frame(codes.DATA, codes.END_STREAM, 1, b"\0\0\0\0\5hello")
    priority = b"\0\0\0\3\7"
    return [
        request + data + _act(1, 1, 40) + _frame(codes.WINDOW_UPDATE, 0, 1, b"\0\0\0\x64"),
        b"".join(_headers(stream, is_request=True) for stream in (1, 3, 5, 7, 9)) + _act(3, 3, 0),
        request + _frame(codes.HEADERS, codes.END_HEADERS | codes.END_STREAM, 1, b"\0\1x\1y"),
        _frame(codes.HEADERS, 0, 1, b"\x83\x86") + _frame(codes.CONTINUATION, 4, 1, b"\x84"),
        _frame(codes.HEADERS, 0x2C, 1, b"\2" + priority + b"\x83\x86\x84\0\0"),
        request + _frame(codes.DATA, codes.PADDED, 1, b"\4data\0\0\0\0") + _act(2, 1, 90),
        _frame(codes.SETTINGS, 0, 0, b"\0\4\0\0\0\5") + request + data + _act(1, 1, 90),
        _act(4, 0, 1) + request + data + _act(1, 1, 9) + _act(4, 0, 0),
        request + _act(5, 0, 0) + _headers(3, is_request=True) + _frame(codes.PING, 0, 0, bytes(8)),
        _frame(codes.GOAWAY, 0, 0, bytes(8)) + _frame(codes.RST_STREAM, 0, 1, bytes(4)),
        _frame(codes.PRIORITY, 0, 3, priority) + _frame(10, 0, 0, b"unknown"),
    ]


def _client_stories() -> list[bytes]:
    ask = _act(0, 0, 0) + _act(1, 1, 7)
    answer = _headers(1, is_request=False)
    return [
        ask + answer + _frame(codes.DATA, 0, 1, b"\0\0\0\0\2hi") + _frame(1, 5, 1, b"\0\1x\1y"),
        ask + _headers(1, is_request=False, ends=True),
        ask + _act(0, 0, 1) + _frame(codes.GOAWAY, 0, 0, b"\0\0\0\1\0\0\0\0"),
        ask + _frame(codes.RST_STREAM, 0, 1, b"\0\0\0\7") + _frame(codes.PUSH_PROMISE, 4, 1, b"x"),
        _act(0, 0, 0) + _act(1, 1, 254) * 3 + _frame(codes.WINDOW_UPDATE, 0, 1, b"\0\0\4\0"),
    ]


def _blocks() -> list[bytes]:
    found = []
    for huffman in (False, True):
        encoder = hpack.Encoder()
        lists = [REQUEST, [*REQUEST, (b"grpc-timeout", b"99m")], [(b"x-a-bin", b"AAE")], REQUEST]
        found.append(b"".join(chunk(encoder.encode(one, huffman=huffman)) for one in lists))
    resized = chunk(b"\x20\x3f\xe1\x1f\x82")
    return [*found, resized, chunk(b"\x40\1x\1y") + chunk(b"\xbe" * 9), chunk(b"\x80")]


def _messages() -> list[bytes]:
    def framed(content: bytes, flag: int = 0) -> bytes:
        return bytes((flag,)) + len(content).to_bytes(4) + content

    two = framed(b"first") + framed(b"")
    return [
        b"\0" + chunk(two),
        b"\3" + chunk(two[:3]) + chunk(two[3:7]) + chunk(two[7:]) + chunk(b"\0\0"),
        b"\0" + chunk(framed(gzip.compress(b"again" * 99, mtime=0), 1)),
        b"\0" + chunk(framed(zlib.compress(bytes(5_000)), 1)),
        b"\1" + chunk(b"\0\0\1\0\0") + chunk(b"x" * 50),
        b"\0" + chunk(b"\2\0\0\0\1x"),
    ]


def seeds() -> dict[str, list[bytes]]:
    return {
        "http2_server": _server_stories(),
        "http2_client": _client_stories(),
        "header_blocks": _blocks(),
        "grpc_messages": _messages(),
    }
