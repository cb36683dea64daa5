"""Bytes of a peer of HTTP/2, in both roles; header blocks; and the messages of a gRPC stream."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import suppress

import hpack

from fanlog.http2 import codes, frames
from fanlog.http2.codes import ErrorCode, Fault
from fanlog.http2.connection import Http2Connection, Role
from fanlog.http2.events import ConnectionEnded, DataReceived, Event, HeadersReceived
from fanlog.http2.header_blocks import HeaderDecoder, TooManyHeaders, encode
from fanlog.http2.header_list import HeaderList
from fanlog.http2.header_rules import Header
from fanlog.http2.settings import Http2Settings
from fanlog.transport.messages import PREFIX_BYTES, MessageReader, MessageRefused, unfold
from fanlog.transport.methods import CallHead, HeadAnswer, RpcMethod, read_head
from fuzz.bounds import Target
from fuzz.draw import Draw

WINDOW = 70_000
STREAM_WINDOW = 200
STREAMS_MAX = 4
REQUEST: list[Header] = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/t.T/Echo"),
    (b":authority", b"here"),
    (b"content-type", b"application/grpc"),
]
HEAD = encode([(b":status", b"200")])
LAST = encode([(b"grpc-status", b"0")])
LIST_BYTES_MAX = 4_096
MESSAGE_BYTES_MAX = 1_000


class _Side:
    """A connection, what it was told, and what it may still be sent."""

    def __init__(self, role: Role) -> None:
        settings = Http2Settings(
            streams_max=STREAMS_MAX,
            stream_window=STREAM_WINDOW,
            header_list_bytes_max=LIST_BYTES_MAX,
        )
        self.role = role
        self.connection = Http2Connection(role, settings, window=WINDOW, now=0.0)
        self.events: list[Event] = []
        self.output = b""
        self._answered: set[int] = set()
        self._ended: set[int] = set()

    def receive(self, raw: bytes, now: float) -> None:
        was_ended = self.connection.is_ended
        found = list(self.connection.receive(raw, now))
        assert not (was_ended and found)
        ends = [one for one in found if isinstance(one, ConnectionEnded)]
        assert bool(ends) == (self.connection.is_ended and not was_ended)
        assert not ends or found[-1] is ends[0]
        self.events += found
        if self.role == "server":
            assert self.connection.open_streams <= STREAMS_MAX

    def act(self, what: int, stream_id: int, size: int) -> None:
        """Something that the layer above may do at any time."""
        connection = self.connection
        if what == 0 and self.role == "client":
            opened = connection.request(REQUEST, ends=bool(size & 1))
            if opened is not None and size & 1:
                self._ended.add(opened)
        elif what <= 1:
            self._answer(stream_id, size)
        elif what == 2:
            connection.credit(stream_id, size)
        elif what == 3:
            connection.reset(stream_id, ErrorCode.CANCEL)
        elif what == 4:
            self.events += connection.hold(is_held=bool(size & 1))
        elif what == 5:
            connection.refuse_new()
        elif what == 6:
            connection.ping(bytes(8))
        self.output += b"".join(map(bytes, connection.take_output()))
        self.events += connection.go_on()

    def _answer(self, stream_id: int, size: int) -> None:
        """Once for each stream that has begun, in one way or another."""
        begun = any(
            isinstance(one, HeadersReceived) and one.stream_id == stream_id for one in self.events
        )
        connection = self.connection
        if self.role == "client":
            if connection.is_open(stream_id) and stream_id not in self._ended:
                if size & 1:
                    self._ended.add(stream_id)
                connection.send_data(stream_id, bytes(size), ends=bool(size & 1))
        elif begun and stream_id not in self._answered:
            self._answered.add(stream_id)
            connection.answer(stream_id, HEAD, bytes(size), LAST)


def _talk(role: Role, data: bytes) -> None:
    """Any bytes, in any portions, between any actions: events or an end, the same ones."""
    whole, split = _Side(role), _Side(role)
    draw = Draw(data)
    start = frames.settings([])
    for side in (whole, split):
        side.receive(codes.PREFACE + start if role == "server" else start, 0.0)
    now = 0.0
    while not draw.is_empty:
        step = draw.number()
        if step < 96:
            stream_id, size = draw.below(12), draw.number()
            for side in (whole, split):
                side.act(step % 8, stream_id, size)
            continue
        raw = draw.chunk() if step < 112 else _frame(draw)
        now += step % 4
        whole.receive(raw, now)
        place = draw.below(len(raw) + 1)
        split.receive(raw[:place], now)
        split.receive(raw[place:], now)
    assert whole.events == split.events or _values(whole) == _values(split)
    for side in (whole, split):
        side.act(7, 0, 0)
        _check_frames(side.output, codes.PREFACE if role == "client" else b"")
    _check_credit(whole)


def _frame(draw: Draw) -> bytes:
    kind, flags, stream_id = draw.below(11), draw.number(), draw.below(12)
    match draw.below(4):
        case 0 if kind == codes.HEADERS:
            payload = encode(REQUEST if draw.flag() else [(b":status", b"200")])
            flags = codes.END_HEADERS | flags & codes.END_STREAM
        case 1:
            payload = draw.number(4).to_bytes(4)
        case 2:
            payload = bytes(draw.below(300, 2))
        case _:
            payload = draw.chunk()
    return frames.head(len(payload), kind, flags, stream_id) + payload


def _values(side: _Side) -> list[object]:
    """Events without the identity of their header lists."""
    return [
        tuple(part.fields if isinstance(part, HeaderList) else part for part in one)
        for one in side.events
    ]


def _check_frames(output: bytes, preface: bytes) -> None:
    """Every frame of ours is whole, and not longer than any peer takes."""
    assert output.startswith(preface)
    position = len(preface)
    while position < len(output):
        length = int.from_bytes(output[position : position + 3])
        assert length <= codes.FRAME_BYTES_MIN
        assert output[position + 3] <= codes.CONTINUATION
        position += codes.FRAME_HEAD_BYTES + length
    assert position == len(output)


def _check_credit(side: _Side) -> None:
    """No stream brings more data than its first window and what it was credited since."""
    credited: dict[int, int] = {}
    position = len(codes.PREFACE) if side.role == "client" else 0
    while position < len(side.output):
        end = position + codes.FRAME_HEAD_BYTES + int.from_bytes(side.output[position:][:3])
        stream_id = int.from_bytes(side.output[position + 5 : position + 9])
        if side.output[position + 3] == codes.WINDOW_UPDATE:
            credited[stream_id] = credited.get(stream_id, 0) + int.from_bytes(
                side.output[end - 4 : end]
            )
        position = end
    got: dict[int, int] = {}
    for one in side.events:
        if isinstance(one, DataReceived):
            got[one.stream_id] = got.get(one.stream_id, 0) + len(one.data)
    for stream_id, size in got.items():
        assert size <= STREAM_WINDOW + credited.get(stream_id, 0)


def http2_server(data: bytes) -> None:
    _talk("server", data)


def http2_client(data: bytes) -> None:
    _talk("client", data)


def header_blocks(data: bytes) -> None:
    """Blocks of one connection: refused, or the list that the library reads."""
    draw = Draw(data)
    ours, library = HeaderDecoder(LIST_BYTES_MAX), hpack.Decoder(LIST_BYTES_MAX)
    library.max_allowed_table_size = codes.TABLE_BYTES_DEFAULT
    while not draw.is_empty:
        block = draw.chunk()
        try:
            found = ours.decode(block)
        except TooManyHeaders:
            # Read to its end all the same; the library stops where it is too much.
            return
        except Fault as fault:
            _check_fault(fault)
            return
        fields = list(found.fields)
        assert fields == [(bytes(n), bytes(v)) for n, v in library.decode(block, raw=True)]
        assert list(HeaderDecoder(LIST_BYTES_MAX).decode(encode(fields)).fields) == fields
        for judge in (found.request_fault, found.answer_fault, found.trailers_fault):
            assert judge() is None or judge()
        if found.request_fault() is None:
            _check_head(found)


def _check_fault(fault: Fault) -> None:
    assert fault.code == ErrorCode.COMPRESSION_ERROR


def _check_head(headers: HeaderList) -> None:
    async def echo(raw: bytes, _: object) -> bytes:
        return raw

    method = RpcMethod(path="/t.T/Echo", request_bytes_max=1, unary=echo)
    head = read_head(headers, {b"/t.T/Echo": method})
    if isinstance(head, HeadAnswer):
        answer = HeaderDecoder(1 << 16).decode(head.block)
        assert answer.answer_fault() is None
        assert len(head.block) < 2_000
    else:
        assert isinstance(head, CallHead)
        assert head.timeout_s is None or 0 <= head.timeout_s < 3600.0 * 10**8


def grpc_messages(data: bytes) -> None:
    """Data in any portions: the same messages, or the same refusal; none is longer than it may."""
    draw = Draw(data)
    portions = [draw.chunk() for _ in range(draw.below(8) + 1)]
    found = _read(portions)
    assert found == _read([b"".join(portions)])
    for message, is_compressed in found[0]:
        assert len(message) <= MESSAGE_BYTES_MAX
        if is_compressed:
            for encoding, bits in ((b"gzip", 31), (b"deflate", 15), (b"", 0)):
                _check_unfolded(message, encoding, bits)


def _read(portions: list[bytes]) -> tuple[list[tuple[bytes, bool]], str, int]:
    messages: list[tuple[bytes, bool]] = []
    reader = MessageReader(MESSAGE_BYTES_MAX, lambda *one: messages.append(one))
    for portion in portions:
        try:
            reader.feed(portion)
        except MessageRefused as refused:
            return messages, refused.status.message, 0
        assert reader.is_inside == (reader.held_bytes > 0)
        assert 0 <= reader.held_bytes < PREFIX_BYTES + MESSAGE_BYTES_MAX
    return messages, "", reader.held_bytes


def _check_unfolded(message: bytes, encoding: bytes, bits: int) -> None:
    try:
        found = unfold(message, encoding, MESSAGE_BYTES_MAX)
    except MessageRefused:
        if bits:
            library = zlib.decompressobj(bits)
            with suppress(zlib.error):
                size = len(library.decompress(message))
                is_whole = library.eof and not library.unused_data
                assert not is_whole or size > MESSAGE_BYTES_MAX
        return
    assert found == zlib.decompress(message, bits)
    assert len(found) <= MESSAGE_BYTES_MAX


_RUNS: tuple[Callable[[bytes], None], ...] = (
    http2_server,
    http2_client,
    header_blocks,
    grpc_messages,
)
TARGETS = [Target(name=run.__name__, run=run) for run in _RUNS]
