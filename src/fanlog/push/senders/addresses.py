"""Names to addresses that may be connected to: resolved, judged, and then used as they are.

What is judged is what is connected to: a name is not asked again between the two, so that a second
answer cannot bring in another address. Whatever the road to a connection, its address is judged
once more when the socket is made.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from fanlog import limits
from fanlog.model.endpoints import WebEndpoint
from fanlog.push.rules import Guard

_NAMES_MAX = 10_000


class AddressRefused(OSError):
    """No address of the host may be connected to."""


class NameUnresolved(OSError):
    """The name has no address just now; it may have one later."""


@dataclass(slots=True)
class _Found:
    addresses: asyncio.Task[list[str]]
    until_s: float


async def lookup(host: str) -> list[str]:
    """Ask the machine's resolver."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class Addresses:
    """Resolves for the HTTP client; one answer serves all subscriptions of a host for a while.

    It has the methods of aiohttp's `AbstractResolver`, without importing it.
    """

    def __init__(self, guard: Guard, now: Callable[[], float]) -> None:
        self._guard = guard
        self._now = now
        self._known: dict[str, _Found] = {}

    async def check(self, endpoint: WebEndpoint) -> None:
        """Judge where an endpoint is.

        Raises:
            AddressRefused: Nothing there may be connected to.
            NameUnresolved: The name has no address just now.
            OSError: It is no name.
        """
        if endpoint.address is not None:
            self.check_literal(endpoint)
        else:
            await self.permitted(endpoint.host)

    def check_literal(self, endpoint: WebEndpoint) -> None:
        """Judge a host that is written as an address: for those the client asks nobody."""
        address = endpoint.address
        if address is not None and not self._guard.permits(address):
            raise AddressRefused(f"{address} may not be connected to")

    async def of(self, endpoint: WebEndpoint) -> list[str]:
        """The addresses to connect to, always in the same order; raises as `check`."""
        if endpoint.address is not None:
            self.check_literal(endpoint)
            return [str(endpoint.address)]
        return sorted(await self.permitted(endpoint.host))

    async def permitted(self, host: str) -> list[str]:
        """The addresses of a name that may be connected to; at least one."""
        addresses = await self._resolved(host)
        permitted = [address for address in addresses if self._guard.permits_text(address)]
        if not permitted:
            raise AddressRefused(f"no address of {host!r} may be connected to")
        return permitted

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[dict[str, Any]]:
        return [
            {
                "hostname": host,
                "host": address,
                "port": port,
                "family": socket.AF_INET6 if ":" in address else socket.AF_INET,
                "proto": 0,
                "flags": socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            }
            for address in await self.permitted(host)
        ]

    async def close(self) -> None:
        for found in self._known.values():
            found.addresses.cancel()

    def new_socket(self, address_info: Any) -> socket.socket:
        """Make a socket for an address, if it may be connected to."""
        family, kind, protocol, _, address = address_info
        if not self._guard.permits_text(str(address[0])):
            raise AddressRefused(f"{address[0]} may not be connected to")
        return socket.socket(family=family, type=kind, proto=protocol)

    async def _resolved(self, host: str) -> list[str]:
        now = self._now()
        found = self._known.get(host)
        if found is None or now >= found.until_s:
            if len(self._known) >= _NAMES_MAX:
                self._known.clear()
            task = asyncio.get_running_loop().create_task(_quiet(lookup(host)))
            found = self._known[host] = _Found(task, now + limits.PUSH_ADDRESS_AGE_S)
        try:
            addresses = await asyncio.shield(found.addresses)
        except OSError:
            # A name that does not resolve is asked about again, not remembered.
            if self._known.get(host) is found:
                del self._known[host]
            raise
        return addresses


async def _quiet(looking: Awaitable[list[str]]) -> list[str]:
    try:
        return await looking
    except UnicodeError as error:
        raise OSError(f"not a host name: {error}") from error
    except OSError as error:
        raise NameUnresolved(error.errno, error.strerror or str(error)) from error
