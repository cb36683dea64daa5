"""The lean client of the benchmark, against a server that is a list of bytes."""

from __future__ import annotations

import socket
import struct
import threading

import hpack
import pytest
from bench.session import Stalled

from bench import lean


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload


def message(data: bytes) -> bytes:
    return struct.pack(">BI", 0, len(data)) + data


class Peer:
    """The server's end of one connection: reads frames, sends what a test tells it to."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def connect(self, settings: bytes = b"") -> lean.Lean:
        accepting = threading.Thread(target=self._accept, args=(settings,))
        accepting.start()
        connection = lean.Lean(self.endpoint)
        accepting.join(10)
        return connection

    def _accept(self, settings: bytes) -> None:
        self._socket, _ = self._listener.accept()
        self._socket.settimeout(10)
        self._file = self._socket.makefile("rb")
        assert self._file.read(len(lean.PREFACE)) == lean.PREFACE
        self.send(frame(lean.SETTINGS, 0, 0, settings))

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def frames(self, kind: int, count: int) -> list[tuple[int, bytes]]:
        """The next frames of a kind; others are passed over."""
        found = []
        while len(found) < count:
            first, _, stream = struct.unpack(">IBI", self._file.read(9))
            payload = self._file.read(first >> 8)
            if first & 255 == kind:
                found.append((stream, payload))
        return found

    def close(self) -> None:
        self._file.close()
        self._socket.close()
        self._listener.close()


@pytest.fixture
def peer():
    each = Peer()
    yield each
    each.close()


def trailers(encoder: hpack.Encoder, stream: int, status: str) -> bytes:
    flags = lean.END_HEADERS | lean.END_STREAM
    return frame(lean.HEADERS, flags, stream, encoder.encode([("grpc-status", status)]))


def test_later_requests_are_indexes_of_the_same_fields(peer):
    connection = peer.connect()
    for _ in range(3):
        connection.call("Publisher/Publish", b"x")
    connection.flush()
    blocks = [block for _, block in peer.frames(lean.HEADERS, 3)]
    decoder = hpack.Decoder()
    lists = [list(decoder.decode(block)) for block in blocks]
    assert lists[0] == lists[1] == lists[2]
    assert (":path", "/google.pubsub.v1.Publisher/Publish") in lists[0]
    assert len(blocks[0]) > 50 > len(blocks[1]) == len(blocks[2])
    connection.close()


def test_answers_are_messages_and_statuses(peer):
    connection, encoder = peer.connect(), hpack.Encoder()
    first, second = (connection.call("Publisher/Publish", b"x") for _ in range(2))
    connection.flush()
    whole = message(b"one") + message(b"two")
    # A message may be cut anywhere, and the second block is an index of the first.
    peer.send(frame(lean.DATA, 0, first, whole[:4]) + frame(lean.DATA, 0, first, whole[4:]))
    peer.send(trailers(encoder, first, "0") + trailers(encoder, second, "5"))
    messages, ends = [], []
    while len(ends) < 2:
        more = connection.receive()
        messages += more[0]
        ends += more[1]
    assert messages == [(first, b"one"), (first, b"two")]
    assert ends == [(first, "0"), (second, "5")]
    connection.close()


def test_a_stream_sends_no_more_than_its_credit(peer):
    connection = peer.connect(struct.pack(">HI", lean.INITIAL_WINDOW_SIZE, 20))
    stream = connection.open("Subscriber/StreamingPull")
    for data in (b"0123456789", b"abc", b"d"):
        connection.send(stream, data)
    connection.flush()
    assert peer.frames(lean.DATA, 1) == [(stream, message(b"0123456789"))]
    peer.send(frame(lean.WINDOW_UPDATE, 0, stream, struct.pack(">I", 100)))
    connection.receive()
    assert peer.frames(lean.DATA, 2) == [(stream, message(b"abc")), (stream, message(b"d"))]
    connection.close()


def test_a_call_that_fails_ends_the_chains(peer):
    connection, encoder = peer.connect(), hpack.Encoder()
    peer.send(trailers(encoder, 1, "7"))
    with pytest.raises(Stalled, match="status 7"):
        connection.chains([("Subscriber/Pull", b"x")], 8, lambda *_: None)
    connection.close()
