"""Settings that are addresses: networks, hosts, origins, issuers. Each raises ValueError."""

from __future__ import annotations

import ipaddress

from fanlog.model import origins

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def read_networks(value: object) -> tuple[Network, ...]:
    texts = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(texts, list | tuple):
        raise ValueError("must be networks, such as 127.0.0.0/8")
    try:
        return tuple(ipaddress.ip_network(str(text)) for text in texts)
    except ValueError as error:
        raise ValueError("must be networks, such as 127.0.0.0/8") from error


def read_hosts(value: object) -> tuple[str, ...]:
    texts = value.replace(",", " ").split() if isinstance(value, str) else value
    wanted = "must be host names or addresses without a port, such as fanlog.internal"
    if not isinstance(texts, list | tuple):
        raise ValueError(wanted)
    found: list[str] = []
    for text in texts:
        # An address of IPv6 may stand without its brackets, as nothing follows it.
        written = f"[{text}]" if str(text).count(":") > 1 and "[" not in str(text) else str(text)
        try:
            name, port = origins.parse_host(written)
        except ValueError as error:
            raise ValueError(wanted) from error
        if port is not None:
            raise ValueError(wanted)
        found.append(name)
    return tuple(found)


def read_origins(value: object) -> tuple[str, ...]:
    texts = value.replace(",", " ").split() if isinstance(value, str) else value
    wanted = "must be origins, each by its name, such as https://app.example:3000"
    if not isinstance(texts, list | tuple):
        raise ValueError(wanted)
    try:
        return tuple(origins.parse_origin(str(text)) for text in texts)
    except ValueError as error:
        raise ValueError(wanted) from error


def read_issuer(value: object) -> str:
    if not isinstance(value, str) or not value.startswith(("https://", "http://")):
        raise ValueError("must be an http or https address")
    try:
        origins.parse_host(value.split("/")[2])
    except ValueError as error:
        raise ValueError("must be an http or https address") from error
    return value.rstrip("/")
