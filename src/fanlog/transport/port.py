"""Ports: sockets that listen, and the first bytes of a connection, which say what it speaks.

HTTP/2 begins with a preface that no HTTP/1.1 request begins with; over TLS the two sides agree by
ALPN. So one port serves gRPC and REST.

Connections are few, and some are kept: when the others are taken, one that has nothing to do is
sent away for a new one. Where all are busy, a new one is a visitor: it has time for a call or two,
and goes when another needs its place. So health, metrics and administration are always reachable.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final, cast

from fanlog.http2.codes import PREFACE
from fanlog.transport.begun import Begun
from fanlog.transport.grpc_connection import GrpcConnection
from fanlog.transport.grpc_server import GrpcServer
from fanlog.transport.http1 import Http1Connection, Http1Server
from fanlog.transport.tls import LOOK_S, Tls

log = logging.getLogger("fanlog.transport")

#: A connection says what it speaks within this time, its TLS handshake included.
FIRST_BYTES_S: Final = 10.0
#: Bytes that tell HTTP/2 from every method of HTTP/1.1: POST, PUT and PATCH begin as it does.
_TELLING_BYTES: Final = 3
#: How requests of HTTP/1.1 begin.
_METHODS: Final = frozenset(
    name[:_TELLING_BYTES]
    for name in (
        b"GET ",
        b"HEAD",
        b"POST",
        b"PUT ",
        b"PATCH",
        b"DELETE",
        b"OPTIONS",
        b"TRACE",
        b"CONNECT",
    )
)
BACKLOG: Final = 2_048
#: Connections that are kept for short visits, at most a quarter of all, and how long one lasts.
VISITORS_MAX: Final = 16
VISIT_S: Final = 5.0


class Ports:
    """Listening sockets of one server."""

    def __init__(
        self,
        grpc: GrpcServer,
        http1: Http1Server | None,
        *,
        connections_max: int,
        tls: Tls | None = None,
        serve: Callable[[GrpcServer], GrpcConnection] = GrpcConnection,
    ) -> None:
        """Without `http1`, HTTP/1.1 is not spoken. `serve` makes a server's end of a connection."""
        self.grpc = grpc
        self.http1 = http1
        self.serve = serve
        self.tls = tls
        self.counts = grpc.counts
        self._visitors_max = min(VISITORS_MAX, connections_max // 4)
        self._connections_max = connections_max - self._visitors_max
        self._servers: list[asyncio.Server] = []
        self._undecided: dict[FirstBytes, None] = {}
        self._looker: asyncio.TimerHandle | None = None
        #: Short visits, the oldest first.
        self._visitors: dict[FirstBytes, None] = {}

    async def listen(self, sock: socket.socket, *, serves_grpc: bool = True) -> int:
        """Serve a socket from now on; its port."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: FirstBytes(self, serves_grpc=serves_grpc), sock=sock, backlog=BACKLOG
        )
        self._servers.append(server)
        if self.tls is not None and self._looker is None:
            self._looker = loop.call_later(LOOK_S, self._look)
        return int(sock.getsockname()[1])

    def close(self) -> None:
        """Take no more connections; those that are there go on."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        if self._looker is not None:
            self._looker.cancel()
            self._looker = None
        for connection in list(self._undecided):
            connection.abort()

    @property
    def connection_count(self) -> int:
        decided = self.grpc.connection_count + len(self._undecided)
        return decided if self.http1 is None else decided + len(self.http1.connections)

    def enter(self, connection: FirstBytes) -> bool:
        """Count a new connection; whether there is room for it."""
        if self._visitors:
            self._visitors = {one: None for one in self._visitors if not one.is_gone}
        if self.connection_count - len(self._visitors) >= self._connections_max and not (
            self.grpc.send_idle_away() or (self.http1 is not None and self.http1.send_idle_away())
        ):
            if not self._visitors_max:
                self.counts.turned_away += 1
                return False
            self._enter_for_a_while(connection)
        self._undecided[connection] = None
        return True

    def _enter_for_a_while(self, connection: FirstBytes) -> None:
        if len(self._visitors) >= self._visitors_max:
            oldest = next(iter(self._visitors))
            self.counts.turned_away += 1
            oldest.abort()
            self._visitors.pop(oldest, None)
        self._visitors[connection] = None
        asyncio.get_running_loop().call_later(VISIT_S, self._end_visit, connection)

    def _end_visit(self, connection: FirstBytes) -> None:
        if connection in self._visitors:
            del self._visitors[connection]
            connection.abort()

    def leave(self, connection: FirstBytes) -> None:
        self._undecided.pop(connection, None)

    def _look(self) -> None:
        assert self.tls is not None
        self.tls.look()
        self._looker = asyncio.get_running_loop().call_later(LOOK_S, self._look)


class FirstBytes(asyncio.Protocol):
    """A connection before it is known what it speaks."""

    def __init__(self, ports: Ports, *, serves_grpc: bool) -> None:
        self._ports = ports
        self._serves_grpc = serves_grpc
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._handshake: asyncio.Task[None] | None = None
        self._is_shaking = False
        self._seen = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's is none by its type, and one by what it does.
        self._transport = cast(asyncio.Transport, transport)
        if not self._ports.enter(self):
            self._transport.abort()
            return
        self._timer = self._loop.call_later(FIRST_BYTES_S, self._give_up, "late")
        if self._ports.tls is not None:
            self._is_shaking = True
            shaking = self._loop.start_tls(
                self._transport,
                self,
                self._ports.tls.context,
                server_side=True,
                ssl_handshake_timeout=FIRST_BYTES_S,
            )
            # Begun in this very step: uvloop reads before a task begins, and the client's first
            # bytes would come here instead of to the handshake.
            self._handshake = self._loop.create_task(self._shake_hands(Begun(shaking)))

    async def _shake_hands(self, shaking: Begun[asyncio.Transport | None]) -> None:
        assert self._transport is not None
        try:
            transport = await shaking
        except (OSError, ssl.SSLError) as error:
            log.info("action=handshake_failed error=%s", error)
            self.abort()
            return
        if transport is None or self._transport is None:
            self.abort()
            return
        self._transport = transport
        self._is_shaking = False
        session = transport.get_extra_info("ssl_object")
        if session is None:
            # The client was gone before its handshake was told of.
            self.abort()
            return
        spoken = session.selected_alpn_protocol()
        if spoken is not None:
            self._decide(is_http2=spoken == "h2")
        else:
            self._look_at_bytes()

    def data_received(self, data: bytes) -> None:
        self._seen += data
        # The first data may come before the handshake's own end is told.
        if not self._is_shaking:
            self._look_at_bytes()

    def _look_at_bytes(self) -> None:
        if len(self._seen) < _TELLING_BYTES:
            return
        first = self._seen[:_TELLING_BYTES]
        if first == PREFACE[:_TELLING_BYTES]:
            self._decide(is_http2=True)
        elif first in _METHODS:
            self._decide(is_http2=False)
        else:
            # Neither: an answer in either protocol would mean nothing to it.
            self._give_up("unknown")

    def _decide(self, *, is_http2: bool) -> None:
        assert self._transport is not None
        self._settle()
        protocol: asyncio.Protocol
        if is_http2:
            if not self._serves_grpc:
                self._give_up("unknown")
                return
            protocol = self._ports.serve(self._ports.grpc)
        elif self._ports.http1 is None:
            self._give_up("unknown")
            return
        else:
            protocol = Http1Connection(self._ports.http1)
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        if self._seen:
            protocol.data_received(self._seen)

    def _give_up(self, reason: str) -> None:
        self._ports.counts.given_up[reason] += 1
        self.abort()

    @property
    def is_gone(self) -> bool:
        """Whether the connection is over, whatever it spoke."""
        return self._transport is None or self._transport.is_closing()

    def abort(self) -> None:
        self._settle()
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._settle()
        self._transport = None

    def _settle(self) -> None:
        self._ports.leave(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
