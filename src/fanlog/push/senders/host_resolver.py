"""Host names to addresses that may be connected to: resolved, judged, and then used as they are.

A connection goes to the address that was judged: the name is not resolved again between the two, so
that a second answer cannot bring in another address. On every road to a connection, its address is
judged once more when the socket is made.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fanlog import limits
from fanlog.model.endpoints import WebEndpoint
from fanlog.push.rules.guard import Guard

_NAMES_MAX = 10_000

#: As `getaddrinfo` gives it: family, kind, protocol, canonical name, address.
AddressInfo = tuple[int, int, int, str, tuple[object, ...]]


class AddressRefused(OSError):
    """No address of the host may be connected to."""


class NameUnresolved(OSError):
    """The name has no address just now; it may have one later."""


@dataclass(slots=True)
class _Lookup:
    addresses: asyncio.Task[list[str]]
    until_s: float


async def lookup(host: str) -> list[str]:
    """Ask the machine's resolver."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class HostResolver:
    """Resolves for all transports; one answer serves all subscriptions of a host for a while."""

    def __init__(self, guard: Guard, now: Callable[[], float]) -> None:
        self._guard = guard
        self._now = now
        self._known: dict[str, _Lookup] = {}

    async def check(self, endpoint: WebEndpoint) -> None:
        """Judge the addresses of an endpoint.

        Raises:
            AddressRefused: None of them may be connected to.
            NameUnresolved: The name has no address just now.
            OSError: The host is not a name.
        """
        if endpoint.address is not None:
            self.check_literal(endpoint)
        else:
            await self.resolve_permitted(endpoint.host)

    def check_literal(self, endpoint: WebEndpoint) -> None:
        """Judge a host that is written as an address."""
        address = endpoint.address
        if address is not None and not self._guard.permits(address):
            raise AddressRefused(f"{address} may not be connected to")

    async def addresses_of(self, endpoint: WebEndpoint) -> list[str]:
        """The addresses to connect to, the best one first; raises as `check`."""
        if endpoint.address is not None:
            self.check_literal(endpoint)
            return [str(endpoint.address)]
        return await self.resolve_permitted(endpoint.host)

    async def resolve_permitted(self, host: str) -> list[str]:
        """The addresses of a name that may be connected to; at least one."""
        addresses = await self._resolve(host)
        permitted = [address for address in addresses if self._guard.permits_text(address)]
        if not permitted:
            raise AddressRefused(f"no address of {host!r} may be connected to")
        return permitted

    async def close(self) -> None:
        for found in self._known.values():
            found.addresses.cancel()

    def new_socket(self, address_info: AddressInfo) -> socket.socket:
        """Make a socket for an address, if it may be connected to."""
        family, kind, protocol, _, address = address_info
        if not self._guard.permits_text(str(address[0])):
            raise AddressRefused(f"{address[0]} may not be connected to")
        return socket.socket(family=family, type=kind, proto=protocol)

    async def _resolve(self, host: str) -> list[str]:
        now = self._now()
        found = self._known.get(host)
        if found is None or now >= found.until_s:
            if len(self._known) >= _NAMES_MAX:
                self._known.clear()
            task = asyncio.get_running_loop().create_task(_translate_errors(lookup(host)))
            found = self._known[host] = _Lookup(task, now + limits.PUSH_ADDRESS_AGE_S)
        try:
            addresses = await asyncio.shield(found.addresses)
        except OSError:
            # A failure is not remembered: the name is resolved again.
            if self._known.get(host) is found:
                del self._known[host]
            raise
        return addresses


async def _translate_errors(found: Awaitable[list[str]]) -> list[str]:
    try:
        return await found
    except UnicodeError as error:
        raise OSError(f"not a host name: {error}") from error
    except OSError as error:
        raise NameUnresolved(error.errno, error.strerror or str(error)) from error
