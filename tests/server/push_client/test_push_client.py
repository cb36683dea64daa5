"""The HTTP/1.1 client of push against endpoints that answer by the byte, on both kinds of loop."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_network

import pytest

from fanlog.broker.clock import SystemClock
from fanlog.model.endpoints import parse_web
from fanlog.push.rules.guard import Guard
from fanlog.push.rules.packing import Request
from fanlog.push.senders import host_resolver, web_connections
from fanlog.push.senders.host_resolver import HostResolver
from fanlog.push.senders.web_transport import WebTransport
from server.conftest import PATIENCE_S
from transport.certificates import Authority

NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"
LONG_S = 30.0


class Connection:
    """One connection as the endpoint sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def request(self) -> bytes:
        """The next request: its head; its body is read."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await self.reader.readexactly(length)
        return head

    async def answer(self, *parts: bytes) -> None:
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()

    async def ended(self) -> None:
        """Wait until the client closes."""
        while await self.reader.read(65_536):
            pass


class Endpoint:
    """Serves each connection by `serve(connection, number)`, counted from 1."""

    def __init__(self, serve: Callable[[Connection, int], Awaitable[None]]) -> None:
        self._serve = serve
        self.port = 0
        self.connections = 0
        self.closed = asyncio.Semaphore(0)

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await self._serve(Connection(reader, writer), self.connections)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            self.closed.release()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"


@asynccontextmanager
async def endpoint(
    serve: Callable[[Connection, int], Awaitable[None]], tls: ssl.SSLContext | None = None
) -> AsyncIterator[Endpoint]:
    made = Endpoint(serve)
    server = await asyncio.start_server(made, "127.0.0.1", 0, ssl=tls)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()


@asynccontextmanager
async def client(connections: int = 100) -> AsyncIterator[WebTransport]:
    clock = SystemClock()
    resolver = HostResolver(Guard([ip_network("127.0.0.0/8")]), clock.now)
    made = WebTransport(resolver, clock, connections)
    try:
        yield made
    finally:
        await made.close()
        await resolver.close()


async def send(made: WebTransport, url: str, body: bytes = b"x", timeout_s: float = LONG_S) -> str:
    async with asyncio.timeout(PATIENCE_S):
        outcome = await made.send(Request(parse_web(url), (), body, {"X-A": "b"}, timeout_s))
    return outcome.nack.reason or outcome.kind


async def always(connection: Connection, _: int) -> None:
    while True:
        await connection.request()
        await connection.answer(NO_CONTENT)


async def test_one_connection_serves_many_requests():
    async with endpoint(always) as there, client() as made:
        assert [await send(made, there.url) for _ in range(5)] == ["2xx"] * 5
        assert there.connections == 1


async def test_requests_at_once_have_a_connection_each_and_both_are_kept():
    async with endpoint(always) as there, client() as made:
        for _ in range(3):
            assert (
                await asyncio.gather(*[send(made, there.url)] * 1, send(made, there.url))
                == ["2xx"] * 2
            )
        assert there.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        NO_CONTENT + NO_CONTENT,
    ],
)
async def test_a_connection_is_not_used_again(answer):
    async def serve(connection: Connection, _: int) -> None:
        await connection.request()
        await connection.answer(answer)
        await connection.ended()

    async with endpoint(serve) as there, client() as made:
        for _ in range(2):
            assert await send(made, there.url) == "2xx"
            await there.closed.acquire()
        assert there.connections == 2


async def test_bytes_that_nobody_asked_for_are_no_answer_to_the_next_request():
    async def serve(connection: Connection, number: int) -> None:
        await connection.request()
        await connection.answer(NO_CONTENT)
        if number == 1:
            await connection.answer(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
        await connection.ended()

    async with endpoint(serve) as there, client() as made:
        assert await send(made, there.url) == "2xx"
        await there.closed.acquire()
        assert await send(made, there.url) == "2xx"
        assert there.connections == 2


async def test_a_kept_connection_that_is_closed_costs_nothing():
    """Closed while the request is on its way: it is sent once more, on another connection."""

    async def serve(connection: Connection, number: int) -> None:
        await connection.request()
        await connection.answer(NO_CONTENT)
        await connection.request()
        if number > 1:
            await connection.answer(NO_CONTENT)
            await connection.ended()

    async with endpoint(serve) as there, client() as made:
        assert await send(made, there.url) == "2xx"
        assert await send(made, there.url) == "2xx"
        assert there.connections == 2


async def test_an_answer_that_has_begun_is_not_asked_for_again():
    async def serve(connection: Connection, number: int) -> None:
        await connection.request()
        await connection.answer(NO_CONTENT if number > 1 else b"HTTP/1.1 20")

    async with endpoint(serve) as there, client() as made:
        assert await send(made, there.url) == "Disconnected"
        assert there.connections == 1


async def test_the_status_counts_when_the_body_does_not_end():
    async def serve(connection: Connection, number: int) -> None:
        await connection.request()
        length = b"" if number == 1 else b"Content-Length: 100\r\n"
        await connection.answer(b"HTTP/1.1 422 No\r\n" + length + b"\r\n", b"no ", b"way")
        if number > 2:
            await connection.ended()

    async with endpoint(serve) as there, client() as made:
        # Ended by the connection; broken off; and neither of them.
        for _ in range(3):
            assert await send(made, there.url) == "HTTP 422: no way"
        await there.closed.acquire()
        assert there.connections == 3


@pytest.mark.parametrize("is_late", ["silent", "headless"])
async def test_an_endpoint_that_does_not_answer_in_time_is_left(is_late):
    async def serve(connection: Connection, _: int) -> None:
        await connection.request()
        if is_late == "headless":
            await connection.answer(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")
        await connection.ended()

    async with endpoint(serve) as there, client() as made:
        assert await send(made, there.url, timeout_s=0.05) == "no answer within 0.05 s"
        # The connection is closed: a late answer would be taken for that of another request.
        await there.closed.acquire()


async def test_a_request_that_is_cancelled_closes_its_connection():
    asked = asyncio.Event()

    async def serve(connection: Connection, _: int) -> None:
        await connection.request()
        asked.set()
        await connection.ended()

    async with endpoint(serve) as there, client() as made:
        sending = asyncio.create_task(send(made, there.url))
        await asked.wait()
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await there.closed.acquire()


async def test_a_large_body_is_sent_whole_and_its_connection_used_again():
    async with endpoint(always) as there, client() as made:
        assert await send(made, there.url, bytes(9_000_000)) == "2xx"
        assert await send(made, there.url, b"") == "2xx"
        assert there.connections == 1


async def test_an_answer_before_the_end_of_the_body_counts():
    async def serve(connection: Connection, _: int) -> None:
        await connection.reader.readuntil(b"\r\n\r\n")
        await connection.answer(b"HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n")
        await connection.ended()

    async with endpoint(serve) as there, client() as made:
        assert await send(made, there.url, bytes(30_000_000)) == "HTTP 413"
        await there.closed.acquire()


async def test_nobody_listens():
    async with endpoint(always) as there:
        pass
    async with client() as made:
        assert await send(made, there.url) == "ConnectionRefusedError"


async def test_connections_are_no_more_than_they_may():
    async with endpoint(always) as one, endpoint(always) as two, client(1) as made:
        assert await send(made, one.url) == "2xx"
        assert await send(made, two.url) == "2xx"
        # The place of the first was needed.
        await one.closed.acquire()
        assert await send(made, two.url) == "2xx"
        assert (one.connections, two.connections) == (1, 1)


async def test_free_connections_are_closed_after_a_while(monkeypatch):
    monkeypatch.setattr(web_connections, "_KEEP_ALIVE_S", 0.02)
    async with endpoint(always) as there, client() as made:
        for count in (1, 2):
            assert await send(made, there.url) == "2xx"
            await there.closed.acquire()
            assert there.connections == count


async def test_the_next_address_is_tried(monkeypatch):
    async def lookup(_: str) -> list[str]:
        # Nobody listens at the first, and the second may not be connected to.
        return ["127.0.0.2", "10.0.0.1", "127.0.0.1"]

    monkeypatch.setattr(host_resolver, "lookup", lookup)
    async with endpoint(always) as there, client() as made:
        assert await send(made, f"http://many.org:{there.port}/") == "2xx"
        assert there.connections == 1


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.make("push")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "elsewhere.org", "unknown"])
async def test_tls_is_verified_by_the_name_of_the_host(monkeypatch, tmp_path, authority, host):
    async def lookup(_: str) -> list[str]:
        return ["127.0.0.1"]

    monkeypatch.setattr(host_resolver, "lookup", lookup)
    trusted = Authority.make("other") if host == "unknown" else authority
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted.write(tmp_path / "ca.pem")))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*authority.issue("here", tmp_path))
    names: list[str | None] = []
    tls.sni_callback = lambda _, name, __: names.append(name)
    heads: list[bytes] = []

    async def serve(connection: Connection, _: int) -> None:
        while True:
            heads.append(await connection.request())
            await connection.answer(NO_CONTENT)

    async with endpoint(serve, tls) as there, client() as made:
        at = "localhost" if host == "unknown" else host
        url = f"https://{at}:{there.port}/hook"
        if host in ("elsewhere.org", "unknown"):
            assert await send(made, url) == "SSLCertVerificationError"
            assert heads == []
            return
        assert await send(made, url, bytes(2_000_000)) == "2xx"
        assert await send(made, url) == "2xx"
        assert there.connections == 1
        assert f"Host: {host}:{there.port}\r\n".encode() in heads[0]
        # An address is not sent as a name.
        assert names == [host if host == "localhost" else None]
