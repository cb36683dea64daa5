"""HTTP/1.1 for REST and pages: uvicorn's protocol, with bounds on what a caller leaves unfinished.

Uvicorn parses and runs the application. Here is what it leaves open: how long a head may take and
how long it may be, how long a body may take, how many bytes all bodies under way may hold together,
and that a caller's next requests wait in its socket while one is answered.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import islice
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from fanlog.transport.budgets import Budgets
from fanlog.transport.counts import TransportCounts
from fanlog.transport.lifetime import Lifetime
from fanlog.transport.unfinished import Unfinished

SWEEP_S: Final = 1.0
#: A head that has begun, or a connection that says nothing, is given up after this time.
HEAD_S: Final = 15.0
#: A body that has begun is whole within this time.
BODY_S: Final = 60.0
#: An answer of which nothing is read for this time is given up.
ANSWER_S: Final = 60.0
#: Bytes of the request line and of all headers.
HEAD_BYTES_MAX: Final = 64 * 1024
#: Bytes that are parsed at a time: what follows a request that is being answered waits.
_PORTION_BYTES: Final = 4 * 1024

#: The extensions of a request's scope: the certificate of the caller, if it has shown one; and the
#: lifetime of its connection.
CERTIFICATE: Final = "fanlog.certificate"
CONNECTION: Final = "fanlog.connection"
#: A function that cuts the connection off, for an answer that is not read.
CUT_OFF: Final = "fanlog.cut_off"

#: Connections looked at for one that has nothing to do, whenever a new one finds no room.
LOOKED_AT_MAX: Final = 100

_STATUS: Final = {
    408: b"HTTP/1.1 408 Request Timeout\r\n",
    413: b"HTTP/1.1 413 Content Too Large\r\n",
    431: b"HTTP/1.1 431 Request Header Fields Too Large\r\n",
    503: b"HTTP/1.1 503 Service Unavailable\r\n",
}


class Http1Server:
    """All HTTP/1.1 connections of a server, and their budget."""

    def __init__(self, config: uvicorn.Config, budgets: Budgets, counts: TransportCounts) -> None:
        config.load()
        self.config = config
        self.budgets = budgets
        self.counts = counts
        self.state = ServerState()
        self.unfinished: Unfinished[Http1Connection] = Unfinished(
            budgets.unfinished_bytes_max, self._fall
        )
        self.connections: dict[Http1Connection, None] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        #: Set while there is no connection.
        self._gone = asyncio.Event()
        self._gone.set()

    def add(self, connection: Http1Connection) -> None:
        self.connections[connection] = None
        self.counts.connections["http"] += 1
        self._gone.clear()
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def remove(self, connection: Http1Connection) -> None:
        if connection in self.connections:
            del self.connections[connection]
            self.counts.connections["http"] -= 1
        if not self.connections:
            self._gone.set()
        self.unfinished.remove(connection)

    def count_body(self, connection: Http1Connection, size_bytes: int, now: float) -> None:
        """Count a body under way; where all are too many, the oldest is given up."""
        self.unfinished.put(connection, size_bytes, now)
        while (oldest := self.unfinished.excess()) is not None:
            self.unfinished.remove(oldest)
            self.counts.given_up["too_many"] += 1
            oldest.refuse(503, "the server has too many unfinished requests; try again")

    def send_idle_away(self) -> bool:
        """Make room: end a connection that waits for its next request."""
        for one in list(islice(self.connections, LOOKED_AT_MAX)):
            if one.is_idle:
                one.transport.close()
                self.remove(one)
                self.counts.sent_away += 1
                return True
            del self.connections[one]
            self.connections[one] = None
        return False

    def _fall(self) -> None:
        asyncio.get_running_loop().call_later(SWEEP_S, self.budgets.on_fall)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in list(self.connections):
            connection.look_at_clock(now)
        self._sweeper = loop.call_later(SWEEP_S, self._sweep) if self.connections else None

    async def stop(self, patience_s: float) -> None:
        """Let requests be answered, then hang up."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + patience_s
        for connection in list(self.connections):
            connection.shutdown()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(end_s):
                await self._gone.wait()
        for connection in list(self.connections):
            connection.transport.abort()
        for task in list(self.state.tasks):
            task.cancel()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None


class Http1Connection(HttpToolsProtocol):
    def __init__(self, server: Http1Server) -> None:
        super().__init__(server.config, server.state, {}, asyncio.get_running_loop())
        self._server = server
        self._rest = b""
        #: Bytes of the head or the body as they came, and of the fields that were parsed.
        self._head_bytes = 0
        self._body_bytes = 0
        self._fields_bytes = 0
        #: When the head or the body that is not whole began; None between requests.
        self._head_since: float | None = self.loop.time()
        self._body_since: float | None = None
        self._is_refused = False
        #: Bytes of an answer that were not read, and since when there are so many.
        self._unread = (0, 0.0)
        self._certificate: dict[object, object] | None = None
        self._lifetime = Lifetime()

    @property
    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    @property
    def is_idle(self) -> bool:
        """Whether no request is under way in either direction."""
        return self._head_since is None and self._body_since is None and not self._is_answering

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._certificate = transport.get_extra_info("peercert")
        self._server.add(self)

    def _unsupported_upgrade_warning(self) -> None:
        """An offer of another protocol, HTTP/2 mostly, is passed over: it is no mistake."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.remove(self)
        self._lifetime.end()
        self._rest = b""
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._head_since is None and self._body_since is None:
            self._head_since = self.loop.time()
        self._rest += data
        self._parse()

    def _parse(self) -> None:
        """Parse what came, until a request waits for its turn: then the rest does, too."""
        rest, position = self._rest, 0
        self._rest = b""
        while position < len(rest) and not self.pipeline and not self._is_refused:
            portion = rest[position : position + _PORTION_BYTES]
            position += len(portion)
            if not self._count(len(portion)):
                return
            super().data_received(portion)
            if self.transport.is_closing():
                return
        if not self._is_refused:
            self._rest = rest[position:]
        if self.pipeline:
            self.flow.pause_reading()

    def _count(self, size_bytes: int) -> bool:
        """Count bytes as they come; False when they are too many.

        The parser gathers a line that does not end, and tells of it only when it does.
        """
        if self._body_since is None:
            self._head_bytes += size_bytes
            if self._head_bytes > HEAD_BYTES_MAX + _PORTION_BYTES:
                self._refuse_head()
                return False
            return True
        self._body_bytes += size_bytes
        if self._body_bytes > self._server.budgets.credited_bytes_max:
            self._server.counts.given_up["too_long"] += 1
            self.refuse(413, "the request's body is too long")
            return False
        self._server.count_body(self, self._body_bytes, self.loop.time())
        return not self._is_refused

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._rest and not self.transport.is_closing():
            self.loop.call_soon(self._parse)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._fields_bytes = 0
        extensions: dict[str, Any] = {CONNECTION: self._lifetime, CUT_OFF: self._cut_off}
        if self._certificate:
            extensions[CERTIFICATE] = self._certificate
        self.scope["extensions"] = extensions

    def on_header(self, name: bytes, value: bytes) -> None:
        # Of trailers, too: they come here behind the body.
        self._fields_bytes += len(name) + len(value) + 4
        if self._fields_bytes > HEAD_BYTES_MAX:
            self._refuse_head()
        if not self._is_refused:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head_since = None
        self._head_bytes = self._body_bytes = 0
        self._body_since = self.loop.time()
        if not self._is_refused:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._body_since = None
        self._server.unfinished.remove(self)
        if not self._is_refused:
            super().on_message_complete()

    def _refuse_head(self) -> None:
        if not self._is_refused:
            self._server.counts.given_up["too_long"] += 1
            self.refuse(431, f"the request has more than {HEAD_BYTES_MAX} bytes of headers")

    def look_at_clock(self, now: float) -> None:
        """Give up a request that takes too long to come, and an answer that is not read."""
        size = self.transport.get_write_buffer_size()
        if size != self._unread[0]:
            self._unread = (size, now)
        if size and now - self._unread[1] > ANSWER_S:
            self._server.counts.given_up["unread"] += 1
            self.transport.abort()
        elif self._is_answering and self._body_since is None:
            # The next request may wait for its turn as long as this one takes.
            if self._head_since is not None:
                self._head_since = now
        elif self._head_since is not None and now - self._head_since > HEAD_S:
            self._server.counts.given_up["late"] += 1
            self.refuse(408, f"the request's head was not whole within {HEAD_S:g} s")
        elif self._body_since is not None and now - self._body_since > BODY_S:
            self._server.counts.given_up["late"] += 1
            self.refuse(408, f"the request's body was not whole within {BODY_S:g} s")

    def _cut_off(self) -> None:
        self._server.counts.given_up["unread"] += 1
        self.transport.abort()

    def refuse(self, status: int, why: str) -> None:
        """Answer, unless an answer has begun, and hang up."""
        if self._is_refused:
            return
        self._is_refused = True
        self._rest = b""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete or not cycle.response_started:
            text = why.encode() + b"\n"
            self.transport.write(
                _STATUS[status]
                + b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
                + b"content-length: %d\r\n\r\n" % len(text)
                + text
            )
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.close()
