"""Which web pages may reach the HTTP port, by the headers of a browser's request.

A server on loopback has no authentication, and every page opened in a browser on this machine may
send requests to it. Two headers tell pages from other programs, and no page can set them: `Host` is
the name the server was called by, which an attacker may let point to this machine (DNS rebinding),
and `Origin` is where the page came from.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from fanlog.errors import ForeignOrigin, HostNotAllowed
from fanlog.model import names

_DEFAULT_PORTS = {"http": 80, "https": 443}
_NAME = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*", re.ASCII)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*", re.ASCII)
_AUTHORITY = re.compile(r"(\[[^\[\]]*\]|[^\[\]:]*)(?::([0-9]{1,5}))?", re.ASCII)
#: Values of `Sec-Fetch-Site` for a request that no other site made.
_OWN_SITES = ("same-origin", "none")


def parse_host(text: str) -> tuple[str, int | None]:
    """The name and the port that `host`, `host:port` or `[address]:port` says.

    A name is in lower case and without a dot at its end; an address as it is usually written.

    Raises:
        ValueError: It is none of these.
    """
    found = _AUTHORITY.fullmatch(text)
    if found is None:
        raise ValueError("must be a host name or an address, with a port or without")
    name, port = found[1].lower(), found[2]
    if name.startswith("["):
        name = str(IPv6Address(name[1:-1].partition("%")[0]))
    else:
        name = name.removesuffix(".")
        if not _NAME.fullmatch(name):
            raise ValueError("must be a host name or an address, with a port or without")
    if port is not None and int(port) > 65_535:
        raise ValueError("has no port from 0 to 65535")
    return name, None if port is None else int(port)


def parse_origin(text: str) -> str:
    """An origin as browsers write it: `https://app.example`, with a port if it is not the usual.

    Raises:
        ValueError: It is not one; `null`, and `*`, are none.
    """
    scheme, separator, rest = text.partition("://")
    scheme = scheme.lower()
    if not separator or not _SCHEME.fullmatch(scheme):
        raise ValueError("must be an origin, such as https://app.example:3000")
    name, port = parse_host(rest)
    if port == _DEFAULT_PORTS.get(scheme):
        port = None
    shown = f"[{name}]" if ":" in name else name
    return f"{scheme}://{shown}" if port is None else f"{scheme}://{shown}:{port}"


def is_loopback(name: str) -> bool:
    """Whether a host name can only mean this machine: no DNS server gives it to another."""
    return name.endswith(".localhost") or is_loopback_listener(name)


def is_loopback_listener(host: str) -> bool:
    """Whether a listener there is reached from this machine only."""
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost"
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """The headers by which a request says where it comes from; None for one it does not have."""

    host: str | None = None
    origin: str | None = None
    #: `Sec-Fetch-Site`: browsers say it also where they leave `Origin` out.
    site: str | None = None
    #: Whether a user follows a link to a page, which changes nothing.
    is_look: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Doorkeeper:
    """The rule of one listener."""

    #: Whether only this machine reaches it.
    on_loopback: bool
    #: Host names it may be called by besides those of loopback, as `parse_host` gives them.
    hosts: frozenset[str] = frozenset()
    #: Origins whose pages may call it, as `parse_origin` gives them.
    origins: frozenset[str] = frozenset()

    def admit(self, visit: Visit) -> str | None:
        """The origin that is to be told that it may read the answer; None for none.

        Raises:
            HostNotAllowed: It is called by a name that it does not have.
            ForeignOrigin: A page of somewhere else sent this.
        """
        self._check_host(visit.host)
        if visit.origin is not None:
            return self._admit_origin(visit.origin, visit.host)
        if visit.site is not None and visit.site not in _OWN_SITES and not visit.is_look:
            raise ForeignOrigin(
                f"a page of another site sent this (Sec-Fetch-Site: {names.shown(visit.site)}) and "
                "does not say which; origins that may call are listed in cors_origins"
            )
        return None

    def _check_host(self, host: str | None) -> None:
        # Programs may leave it out (HTTP/1.0); a browser never does.
        if host is None or not (self.on_loopback or self.hosts):
            return
        name = _host_name(host)
        if name is None or not (name in self.hosts or is_loopback(name)):
            raise HostNotAllowed(
                f"host: this server is not called {names.shown(host)}; names besides those of "
                "loopback are listed in http_hosts"
            )

    def _admit_origin(self, origin: str, host: str | None) -> str | None:
        known = _origin(origin)
        if known is not None and known in self.origins:
            return origin
        if known is not None and host is not None and _is_own(known, host):
            return None
        raise ForeignOrigin(
            f"origin: pages of {names.shown(origin)} may not call this server; origins that may "
            "are listed in cors_origins"
        )


def is_own_origin(origin: str, host: str) -> bool:
    """Whether an origin is that of a server which was called `host`."""
    known = _origin(origin)
    return known is not None and _is_own(known, host)


@lru_cache(maxsize=256)
def _host_name(host: str) -> str | None:
    try:
        return parse_host(host)[0]
    except ValueError:
        return None


@lru_cache(maxsize=256)
def _origin(text: str) -> str | None:
    try:
        return parse_origin(text)
    except ValueError:
        return None


@lru_cache(maxsize=256)
def _is_own(origin: str, host: str) -> bool:
    """Whether an origin is the server's own, as it was called; a proxy may have taken TLS off."""
    scheme, _, rest = origin.partition("://")
    usual = _DEFAULT_PORTS.get(scheme)
    if usual is None:
        return False
    try:
        name, port = parse_host(rest)
        called, called_port = parse_host(host)
    except ValueError:
        return False
    return (name, port or usual) == (called, called_port or usual)
