"""A gRPC client that costs little: one connection, frames made and read by hand.

The load generator shares its cores with the server. An official client takes several times the
processor time of the call it makes, and then it is the client that a rate measures. This one
sends what such a client sends: fields that stay the same are indexed after the first request, so
a later one is a few bytes of headers and the message. It is blocking and not safe to share.
"""

from __future__ import annotations

import itertools
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator

import hpack

from bench.session import Stalled

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    0, 1, 3, 4, 6, 7, 8, 9,
)  # fmt: skip
ACK = END_STREAM = 1
END_HEADERS, PADDED, PRIORITY = 4, 8, 32
INITIAL_WINDOW_SIZE = 4
#: The most that HTTP/2 lets anybody ask for, and what there is without asking.
WINDOW_MAX, WINDOW_DEFAULT = (1 << 31) - 1, 65_535
FRAME_BYTES_MAX = 16_384
READ_BYTES = 1 << 18
WAIT_S = 60
SERVICE = "/google.pubsub.v1."
OK = "0"

_HEAD = struct.Struct(">IBI")
_PREFIX = struct.Struct(">BI")
_NUMBER = struct.Struct(">I")
#: HPACK's own table: the fields of ours that are in it, and the index of the first that is added.
_STATIC = {
    (":method", "POST"): 3,
    (":scheme", "http"): 6,
    (":scheme", "https"): 7,
}
_FIRST_ADDED = 62


#: A method and its request.
Call = tuple[str, bytes]
#: Takes the place of a chain's first call and an answer; the call that follows, if one does.
After = Callable[[int, bytes], Call | None]


class Lean:
    """An open connection. `call` and `send` collect frames; `flush` sends what was collected."""

    def __init__(self, endpoint: str, tls: ssl.SSLContext | None = None, token: str = "") -> None:
        host, port = endpoint.rsplit(":", 1)
        self._fields = _Fields(endpoint, "https" if tls else "http", token)
        self._socket = socket.create_connection((host, int(port)), timeout=WAIT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self._socket = tls.wrap_socket(self._socket, server_hostname=host)
        self._next_stream = 1
        self._out = bytearray()
        self._in = bytearray()
        self._decoder = hpack.Decoder()
        self._statuses: dict[bytes, str | None] = {}
        self._parts: dict[int, bytearray] = {}
        self._credit = WINDOW_DEFAULT
        self._stream_credit = WINDOW_DEFAULT
        #: Of the streams that are kept open; a call's only message is below what a stream starts
        #: with.
        self._credits: dict[int, int] = {}
        self._held: deque[tuple[int, bytes, int]] = deque()
        self._has_settings = False
        self._out += PREFACE
        self._frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW_SIZE, WINDOW_MAX))
        self._frame(WINDOW_UPDATE, 0, 0, _NUMBER.pack(WINDOW_MAX - WINDOW_DEFAULT))
        self.flush()
        while not self._has_settings:
            self.receive()

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def call(self, method: str, message: bytes) -> int:
        """Begin a unary call; its stream."""
        stream = self._open(method, is_unary=True)
        self._data(stream, _PREFIX.pack(0, len(message)) + message, END_STREAM)
        return stream

    def open(self, method: str) -> int:
        """Begin a call that takes messages until the connection ends; its stream."""
        stream = self._open(method, is_unary=False)
        self._credits[stream] = self._stream_credit
        return stream

    def send(self, stream: int, message: bytes) -> None:
        self._data(stream, _PREFIX.pack(0, len(message)) + message, 0)

    def flush(self) -> None:
        if self._out:
            self._socket.sendall(self._out)
            self._out.clear()

    def chains(self, firsts: Iterable[Call], in_flight: int, after: After) -> None:
        """Make unary calls, and after each the one that its answer asks for, so many at a time.

        Raises:
            Stalled: A call failed; the message has its status.
        """
        waiting, key_of, answers = iter(enumerate(firsts)), dict[int, int](), dict[int, bytes]()

        def begin_next(count: int) -> None:
            for key, first in itertools.islice(waiting, count):
                key_of[self.call(*first)] = key

        begin_next(in_flight)
        while key_of:
            self.flush()
            messages, ends = self.receive()
            answers.update(messages)
            for stream, status in ends:
                if status != OK:
                    raise Stalled(f"a call ended with status {status}")
                key = key_of.pop(stream)
                if following := after(key, answers.pop(stream, b"")):
                    key_of[self.call(*following)] = key
                else:
                    begin_next(1)

    def receive(self) -> tuple[list[tuple[int, bytes]], list[tuple[int, str]]]:
        """Wait for bytes; the messages that are whole now, and the streams that ended.

        Both name the stream; an end has its gRPC status.

        Raises:
            Stalled: Nothing came for a minute, or the server ended the connection.
        """
        try:
            self._in += (received := self._socket.recv(READ_BYTES))
        except TimeoutError as error:
            raise Stalled(f"nothing came for {WAIT_S} s") from error
        if not received:
            raise Stalled("the server closed the connection")
        messages: list[tuple[int, bytes]] = []
        ends: list[tuple[int, str]] = []
        for kind, flags, stream, payload in self._frames():
            if kind == DATA:
                messages.extend((stream, each) for each in self._messages(stream, payload))
                if flags & END_STREAM:
                    ends.append((stream, "none"))
            elif kind == HEADERS:
                status = self._status(payload, flags)
                if flags & END_STREAM:
                    ends.append((stream, status or "none"))
                    self._parts.pop(stream, None)
            elif kind == RST_STREAM:
                ends.append((stream, f"reset {_NUMBER.unpack(payload)[0]}"))
                self._parts.pop(stream, None)
            else:
                self._answer(kind, flags, stream, payload)
        self.flush()
        return messages, ends

    def _open(self, method: str, *, is_unary: bool) -> int:
        stream = self._next_stream
        self._next_stream += 2
        self._frame(HEADERS, END_HEADERS, stream, self._fields.block(method, is_unary))
        return stream

    def _data(self, stream: int, payload: bytes, flags: int) -> None:
        assert len(payload) <= FRAME_BYTES_MAX
        if self._held or not self._has_credit(stream, len(payload)):
            self._held.append((stream, payload, flags))
            return
        self._credit -= len(payload)
        if stream in self._credits:
            self._credits[stream] -= len(payload)
        self._frame(DATA, flags, stream, payload)

    def _has_credit(self, stream: int, size_bytes: int) -> bool:
        return size_bytes <= min(self._credit, self._credits.get(stream, self._stream_credit))

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        # The length has three bytes: it is packed together with the kind.
        self._out += _HEAD.pack(len(payload) << 8 | kind, flags, stream)
        self._out += payload

    def _frames(self) -> Iterator[tuple[int, int, int, bytes]]:
        at, size_bytes = 0, len(self._in)
        while at + 9 <= size_bytes:
            first, flags, stream = _HEAD.unpack_from(self._in, at)
            end = at + 9 + (first >> 8)
            if end > size_bytes:
                break
            yield first & 255, flags, stream, bytes(self._in[at + 9 : end])
            at = end
        del self._in[:at]

    def _messages(self, stream: int, payload: bytes) -> Iterable[bytes]:
        part = self._parts.get(stream)
        if part is None:
            # Nearly always a frame is one message.
            if len(payload) >= 5 and int.from_bytes(payload[1:5], "big") == len(payload) - 5:
                return (payload[5:],)
            part = self._parts[stream] = bytearray()
        part += payload
        whole = []
        while len(part) >= 5 and len(part) >= (end := 5 + int.from_bytes(part[1:5], "big")):
            whole.append(bytes(part[5:end]))
            del part[:end]
        if not part:
            del self._parts[stream]
        return whole

    def _status(self, block: bytes, flags: int) -> str | None:
        if not flags & END_HEADERS or flags & PADDED:
            raise Stalled("the server sent headers that this client does not read")
        if flags & PRIORITY:
            block = block[5:]
        try:
            return self._statuses[block]
        except KeyError:
            fields = self._decoder.decode(block, raw=True)
        status = next((text.decode() for name, text in fields if name == b"grpc-status"), None)
        # A block of indexes alone changes no table; after any other they mean something else.
        if min(block) >= 128:
            self._statuses[block] = status
        else:
            self._statuses.clear()
        return status

    def _answer(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == SETTINGS and not flags & ACK:
            for at in range(0, len(payload), 6):
                name, number = struct.unpack_from(">HI", payload, at)
                if name == INITIAL_WINDOW_SIZE:
                    self._stream_credit = number
            self._has_settings = True
            self._frame(SETTINGS, ACK, 0, b"")
        elif kind == PING and not flags & ACK:
            self._frame(PING, ACK, 0, payload)
        elif kind == WINDOW_UPDATE:
            self._grant(stream, _NUMBER.unpack(payload)[0])
        elif kind == GOAWAY:
            raise Stalled(f"the server sent the client away: {payload[4:].hex()}")

    def _grant(self, stream: int, size_bytes: int) -> None:
        if not stream:
            self._credit += size_bytes
        elif stream in self._credits:
            self._credits[stream] += size_bytes
        held, self._held = self._held, deque()
        for each in held:
            self._data(*each)


class _Fields:
    """The header blocks of requests, with the table that the server keeps of earlier ones."""

    def __init__(self, authority: str, scheme: str, token: str) -> None:
        self._authority, self._scheme = authority, scheme
        self._token = [("authorization", f"Bearer {token}")] if token else []
        self._added: list[tuple[str, str]] = []
        self._blocks: dict[tuple[str, bool], bytes] = {}

    def block(self, method: str, is_unary: bool) -> bytes:
        key = method, is_unary
        if key not in self._blocks:
            known = len(self._added)
            block = b"".join(map(self._field, self._list(method, is_unary)))
            if len(self._added) > known:
                # An added field moves the others on: every block is made anew.
                self._blocks.clear()
                return block
            self._blocks[key] = block
        return self._blocks[key]

    def _list(self, method: str, is_unary: bool) -> list[tuple[str, str]]:
        timeout = [("grpc-timeout", "60S")] if is_unary else []
        return [
            (":method", "POST"),
            (":scheme", self._scheme),
            (":path", SERVICE + method),
            (":authority", self._authority),
            *timeout,
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", "fanlog-bench"),
            *self._token,
        ]

    def _field(self, field: tuple[str, str]) -> bytes:
        if field in _STATIC:
            return bytes([128 | _STATIC[field]])
        if field in self._added:
            return bytes([128 | _FIRST_ADDED + self._added.index(field)])
        self._added.insert(0, field)
        name, text = field
        return b"\x40" + bytes([len(name)]) + name.encode() + bytes([len(text)]) + text.encode()
