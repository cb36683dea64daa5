"""Endpoints that answer with harm: little is read of an answer, and nothing is followed."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from fanlog import limits
from server.receiver import receiving

#: What lies between the two in buffers of sockets, and is taken by nobody.
BUFFERS_BYTES = 16 * 1024 * 1024
CHUNK = b"x" * 65_536


class Endpoint:
    """Answers the first request with whatever bytes it is told to, and the others with 204."""

    def __init__(self, attack: Callable[[socket.socket], int]) -> None:
        self._attack = attack
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        #: Bytes of the first answer that could be sent.
        self.sent = -1
        self.requests = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(5.0)
            connection.recv(65_536)
            self.requests += 1
            if self.requests == 1:
                self.sent = 0
                self.sent = self._attack(connection)
            else:
                connection.sendall(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")

    def close(self) -> None:
        self._listener.close()


@contextmanager
def endpoint(attack: Callable[[socket.socket], int]) -> Iterator[Endpoint]:
    made = Endpoint(attack)
    try:
        yield made
    finally:
        made.close()


def pour(connection: socket.socket, head: bytes, part: bytes, parts: int) -> int:
    """Send a head, and parts as long as they are taken; the bytes that were."""
    sent = 0
    try:
        connection.sendall(head)
        for _ in range(parts):
            connection.sendall(part)
            sent += len(part)
    except OSError:
        pass
    return sent


OK = b"HTTP/1.1 200 OK\r\n"
FAILED = b"HTTP/1.1 500 No\r\n"
ATTACKS = {
    "gigabytes": lambda c: pour(c, OK + b"Content-Length: 99999999999\r\n\r\n", CHUNK, 4_000),
    "gigabytes of a failure": lambda c: pour(
        c, FAILED + b"Content-Length: 99999999999\r\n\r\n", CHUNK, 4_000
    ),
    "chunks without end": lambda c: pour(
        c, OK + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + CHUNK + b"\r\n", 4_000
    ),
    "headers without end": lambda c: pour(c, OK, b"X-A: " + b"a" * 1_000 + b"\r\n", 200_000),
    "one header without end": lambda c: pour(c, OK + b"X-A: ", CHUNK, 4_000),
    "a status line without end": lambda c: pour(c, b"HTTP/1.1 200 ", CHUNK, 4_000),
    "bad chunks": lambda c: pour(c, OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", CHUNK, 4_000),
    "gzip that is none": lambda c: pour(
        c, OK + b"Content-Encoding: gzip\r\nContent-Length: 65536\r\n\r\n", CHUNK, 1
    ),
    "no HTTP": lambda c: pour(c, b"\x16\x03\x01" * 100, CHUNK, 4_000),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_little_of_an_answer_is_read(server, name: str) -> None:
    with endpoint(ATTACKS[name]) as hostile, receiving() as other:
        topic = server.topic()
        hurt = server.subscription(
            topic, push_config={"push_endpoint": f"http://127.0.0.1:{hostile.port}/"}
        )
        well = server.subscription(topic, push_config={"push_endpoint": other.url()})
        server.publish(topic, b"x")
        other.wait(1)
        server.await_drained(well)
        server.await_drained(hurt)
        assert hostile.sent <= limits.PUSH_ANSWER_BYTES_MAX + BUFFERS_BYTES
        server.subscriber.delete_subscription(subscription=hurt)
        server.subscriber.delete_subscription(subscription=well)


def test_an_answer_that_never_begins_ends_with_its_request(server) -> None:
    """Each of these says that the answer is still to come: they end with the ack deadline."""
    informed = b"HTTP/1.1 100 Continue\r\n\r\n" * 10
    with endpoint(lambda c: pour(c, b"", informed, 20_000)) as hostile:
        topic, name = server.topic_and_subscription(
            push_config={"push_endpoint": f"http://127.0.0.1:{hostile.port}/"}
        )
        server.publish(topic, b"x")
        server.await_drained(name)
        assert hostile.requests >= 2


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_an_answer_leads_nowhere(server, status: int) -> None:
    """Not even to where the endpoint itself may be: only what was checked is called."""
    with receiving() as inner:
        to = inner.url("/v1/projects/p/topics/x").encode()
        head = b"HTTP/1.1 %d No\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % (status, to)
        with endpoint(lambda c: pour(c, head, b"", 0)) as hostile:
            topic, name = server.topic_and_subscription(
                push_config={"push_endpoint": f"http://127.0.0.1:{hostile.port}/"}
            )
            server.publish(topic, b"x")
            server.await_drained(name)
            assert hostile.requests >= 2
        assert inner.received == []
