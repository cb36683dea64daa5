"""A peer by hand: frames out, frames in, and no rule kept that is not kept by its test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from fanlog.http2 import codes, frames
from fanlog.http2.header_blocks import HeaderDecoder, encode
from fanlog.http2.header_rules import Header

START = codes.PREFACE + frames.settings([])
PATIENCE_S = 20.0


class Frame(NamedTuple):
    kind: int
    flags: int
    stream_id: int
    payload: bytes

    @property
    def code(self) -> int:
        """The error code of a GOAWAY or an RST_STREAM."""
        return int.from_bytes(self.payload[4:8] if self.kind == codes.GOAWAY else self.payload)


def call(path: str = "/t.T/Echo", *more: Header) -> list[Header]:
    return [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", path.encode()),
        (b":authority", b"localhost"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
        *more,
    ]


def headers(stream_id: int, fields: list[Header], *, ends: bool = False) -> bytes:
    return frames.headers(stream_id, encode(fields), ends=ends, size_max=codes.FRAME_BYTES_MIN)


def data(stream_id: int, content: bytes, *, ends: bool = False) -> bytes:
    return b"".join(frames.data(stream_id, content, ends=ends))


class Peer:
    """One connection; everything that came is in `frames`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer
        self._rest = b""
        self._decoder = HeaderDecoder(1 << 20)
        self.frames: list[Frame] = []
        #: The fields of every header block that came, by stream.
        self.fields: dict[int, dict[bytes, bytes]] = {}
        self.is_over = False

    @classmethod
    async def open(cls, port: int, raw: bytes = START) -> Peer:
        peer = cls(*await asyncio.open_connection("127.0.0.1", port))
        peer.writer.write(raw)
        return peer

    def send(self, *raw: bytes) -> None:
        self.writer.write(b"".join(raw))

    async def until(self, is_enough: Callable[[Peer], bool]) -> None:
        """Read until something is so, or the other side has hung up."""
        async with asyncio.timeout(PATIENCE_S):
            while not is_enough(self) and not self.is_over:
                try:
                    raw = await self._reader.read(1 << 16)
                except ConnectionError:
                    raw = b""
                self.is_over = not raw
                self._take(raw)

    async def until_answered(self, stream_id: int) -> dict[bytes, bytes]:
        """Read until a call has ended; all headers of its answer."""
        await self.until(
            lambda _: (
                self.of(codes.HEADERS, stream_id)[-1:] != []
                and bool(self.of(codes.HEADERS, stream_id)[-1].flags & codes.END_STREAM)
            )
        )
        return self.fields[stream_id]

    async def until_over(self) -> Frame:
        """Read until the other side hangs up; its GOAWAY."""
        await self.until(lambda _: False)
        return next(one for one in reversed(self.frames) if one.kind == codes.GOAWAY)

    def of(self, kind: int, stream_id: int = 0) -> list[Frame]:
        return [one for one in self.frames if (one.kind, one.stream_id) == (kind, stream_id)]

    def close(self) -> None:
        self.writer.close()

    def _take(self, raw: bytes) -> None:
        self._rest += raw
        while len(self._rest) >= codes.FRAME_HEAD_BYTES:
            end = codes.FRAME_HEAD_BYTES + int.from_bytes(self._rest[:3])
            if len(self._rest) < end:
                return
            kind, flags, stream_id = self._rest[3], self._rest[4], int.from_bytes(self._rest[5:9])
            one = Frame(kind, flags, stream_id, self._rest[codes.FRAME_HEAD_BYTES : end])
            self._rest = self._rest[end:]
            self.frames.append(one)
            if kind == codes.HEADERS:
                found = self._decoder.decode(one.payload).fields
                self.fields.setdefault(stream_id, {}).update(found)
