"""The entrance of a server: ports, TLS, counts and health. It lives as long as the process.

Behind it is a shard, or the gateway of a node; the entrance knows methods and an ASGI application.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator

import uvicorn
from starlette.types import ASGIApp

from fanlog import limits
from fanlog.config import Config
from fanlog.errors import Unavailable
from fanlog.server import grpc_api
from fanlog.server.allocator import release_freed_memory
from fanlog.server.file_limit import caller_connections
from fanlog.transport.budgets import Budgets
from fanlog.transport.counts import TransportCounts
from fanlog.transport.grpc_server import GrpcServer
from fanlog.transport.http1 import Http1Server
from fanlog.transport.methods import RpcMethod
from fanlog.transport.port import BACKLOG, Ports
from fanlog.transport.tls import Tls, TlsFiles

#: How long a stop waits for HTTP requests, in seconds; gRPC calls have had their time before.
HTTP_DRAIN_S = 1
#: How long an idle HTTP connection is kept: longer than clients' pools keep theirs, in seconds.
HTTP_KEEP_ALIVE_S = 75

BUDGETS = Budgets(
    unfinished_bytes_max=limits.UNFINISHED_BYTES_MAX,
    credited_bytes_max=limits.CREDITED_BYTES_MAX,
    unread_bytes_max=limits.UNREAD_BYTES_MAX,
    unread_total_bytes_max=limits.UNREAD_TOTAL_BYTES_MAX,
    on_fall=release_freed_memory,
)


class Sockets:
    """The listening sockets of a server: had before either is served, or none is."""

    def __init__(self, config: Config) -> None:
        """Raises Unavailable: A port cannot be had."""
        self._host = config.host
        self._sockets = [listen("port", config.host, config.port)]
        try:
            if config.http_port is not None:
                self._sockets.append(listen("http_port", config.host, config.http_port))
        except Unavailable:
            self.close()
            raise
        #: Of both; the second is the first where there is none.
        ports = [port_of(one) for one in self._sockets]
        self.port, self.http_port = ports[0], ports[-1]

    def __iter__(self) -> Iterator[socket.socket]:
        return iter(self._sockets)

    @property
    def endpoint(self) -> str:
        return address(self._host, self.port)

    @property
    def http_endpoint(self) -> str:
        return address(self._host, self.http_port)

    def url(self, *, is_tls: bool) -> str:
        """The address of the HTTP port as others may write it."""
        return f"{'https' if is_tls else 'http'}://{self.http_endpoint}"

    def close(self) -> None:
        """For sockets that are not served; does nothing to others."""
        for one in self._sockets:
            one.close()


class Entrance:
    """The ports of a server. `await open()` them, and end with `close` and `stop`."""

    def __init__(
        self,
        config: Config,
        methods: Iterable[RpcMethod],
        app: ASGIApp,
        counts: TransportCounts,
    ) -> None:
        """Raises ConfigError: The certificate cannot be read."""
        self._grpc = GrpcServer(
            methods,
            grpc_api.status_of,
            BUDGETS,
            counts,
            folds_answers=config.grpc_compression == "gzip",
        )
        self._http = Http1Server(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                lifespan="off",
                ws="none",
                timeout_keep_alive=HTTP_KEEP_ALIVE_S,
            ),
            BUDGETS,
            counts,
        )
        tls = _tls(config)
        self._ports = Ports(self._grpc, self._http, connections_max=caller_connections(), tls=tls)
        self.is_tls = tls is not None

    async def open(self, sockets: Sockets) -> None:
        """Serve from now on."""
        for one in sockets:
            await self._ports.listen(one)

    def close(self) -> None:
        """Take no more connections; those that are there go on."""
        self._ports.close()

    async def send_away(self, patience_s: float) -> None:
        """Let calls of gRPC have their time, then cut off the rest."""
        await self._grpc.stop(patience_s)

    async def stop(self) -> None:
        """Cut off what is left, after requests of HTTP had a moment."""
        await self._grpc.stop(0)
        await self._http.stop(HTTP_DRAIN_S)


def listen(setting: str, host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        Unavailable: The port cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise Unavailable(
            f"cannot listen on {address(host, port)} ({setting}): another program may be using it, "
            "or the address is not of this machine"
        ) from error


def port_of(sock: socket.socket) -> int:
    return int(sock.getsockname()[1])


def address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _tls(config: Config) -> Tls | None:
    """Raises ConfigError."""
    if config.tls_cert is None or config.tls_key is None:
        return None
    return Tls(TlsFiles(config.tls_cert, config.tls_key, config.tls_client_ca))
