"""The connections of push over HTTP: opened to addresses that were judged, and kept for a while."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Sequence

from fanlog.model.endpoints import WebEndpoint
from fanlog.push.senders.host_resolver import HostResolver
from fanlog.push.senders.web_connection import Host, WebConnection

#: A connection without a request for so long is closed.
_KEEP_ALIVE_S = 30.0
#: The next address of a name is tried when those before it have not answered for so long
#: (RFC 8305 recommends it).
_NEXT_ADDRESS_S = 0.25
_CLOSE_S = 1.0


class WebConnections:
    """All connections, those under way included, are no more than `most`. Lives on one loop.

    The senders limit those under way; of the free ones, that which is free for longest goes first.
    """

    def __init__(self, resolver: HostResolver, most: int) -> None:
        self._resolver = resolver
        self._most = most
        self._all: set[WebConnection] = set()
        # Of each host, the one that was used last is last.
        self._free: dict[Host, list[WebConnection]] = {}
        # Since when they are free, in that order.
        self._free_since: dict[WebConnection, float] = {}
        self._sweeping: asyncio.TimerHandle | None = None
        self._tls: asyncio.Task[ssl.SSLContext] | None = None
        self._emptied: asyncio.Event | None = None

    async def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._emptied = asyncio.Event()
        for connection in list(self._all):
            connection.abort()
        if self._all:
            # Transports end in a later turn of the loop.
            async with asyncio.timeout(_CLOSE_S):
                await self._emptied.wait()

    def take(self, host: Host) -> WebConnection | None:
        """A free connection to a host, if there is one."""
        found = self._free.get(host)
        if found is None:
            return None
        connection = found[-1]
        self._forget(connection)
        return connection

    def keep(self, connection: WebConnection) -> None:
        """Keep a connection for the next request, if it can be used again."""
        if not connection.is_free:
            return
        loop = asyncio.get_running_loop()
        self._free.setdefault(connection.host, []).append(connection)
        self._free_since[connection] = loop.time()
        if self._sweeping is None:
            self._sweeping = loop.call_later(_KEEP_ALIVE_S, self._sweep)

    async def open(self, endpoint: WebEndpoint) -> WebConnection:
        """Open a connection to an endpoint; raises OSError, also as `HostResolver.check` does."""
        addresses = await self._resolver.addresses_of(endpoint)
        tls = await self._tls_context() if endpoint.scheme == "https" else None
        while len(self._all) >= self._most and self._free_since:
            oldest = next(iter(self._free_since))
            self._lose(oldest)
            oldest.abort()
        if len(addresses) == 1:
            return await self._connect(endpoint, addresses[0], tls)
        return await self._race(endpoint, addresses, tls)

    async def _race(
        self, endpoint: WebEndpoint, addresses: Sequence[str], tls: ssl.SSLContext | None
    ) -> WebConnection:
        """Try the addresses in turn, each while the ones before it still try; the first counts."""
        trying: set[asyncio.Task[WebConnection]] = set()
        failure: BaseException | None = None
        left = list(reversed(addresses))
        try:
            while left or trying:
                if left:
                    address = left.pop()
                    trying.add(asyncio.create_task(self._connect(endpoint, address, tls)))
                done, _ = await asyncio.wait(
                    trying,
                    timeout=_NEXT_ADDRESS_S if left else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for task in done:
                    trying.discard(task)
                    failure = task.exception()
                    if failure is None:
                        return task.result()
            assert failure is not None
            raise failure
        finally:
            # Others may have succeeded in the same moment.
            for task in trying:
                task.cancel()
                task.add_done_callback(_abort_late)

    async def _connect(
        self, endpoint: WebEndpoint, address: str, tls: ssl.SSLContext | None
    ) -> WebConnection:
        loop = asyncio.get_running_loop()
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        to = (address, endpoint.port)
        found = self._resolver.new_socket((family, socket.SOCK_STREAM, 0, "", to))
        try:
            found.setblocking(False)
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(found, to)
            host = (endpoint.scheme, endpoint.host, endpoint.port)
            _, connection = await loop.create_connection(
                lambda: WebConnection(host, self._lose),
                sock=found,
                ssl=tls,
                # The certificate must be the host's, not the address's.
                server_hostname=endpoint.host.rstrip(".") if tls is not None else None,
            )
        except BaseException:
            found.close()
            raise
        if connection.is_free:
            self._all.add(connection)
        return connection

    async def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            # The authorities of the machine take a while to read.
            self._tls = asyncio.create_task(asyncio.to_thread(_new_tls_context))
        return await asyncio.shield(self._tls)

    def _lose(self, connection: WebConnection) -> None:
        """A connection is closed."""
        self._all.discard(connection)
        if connection in self._free_since:
            self._forget(connection)
        if self._emptied is not None and not self._all:
            self._emptied.set()

    def _forget(self, connection: WebConnection) -> None:
        """A connection is no longer free."""
        del self._free_since[connection]
        found = self._free[connection.host]
        # Mostly the last one.
        if found[-1] is connection:
            found.pop()
        else:
            found.remove(connection)
        if not found:
            del self._free[connection.host]

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweeping = None
        oldest_s = loop.time() - _KEEP_ALIVE_S
        for connection, since_s in list(self._free_since.items()):
            if since_s > oldest_s:
                self._sweeping = loop.call_at(since_s + _KEEP_ALIVE_S, self._sweep)
                return
            connection.abort()
            self._forget(connection)


def _abort_late(task: asyncio.Task[WebConnection]) -> None:
    """A connection that came after another was taken."""
    if not task.cancelled() and task.exception() is None:
        task.result().abort()


def _new_tls_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context
