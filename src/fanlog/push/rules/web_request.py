"""The head of a request in HTTP/1.1, as bytes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import urlsplit

from fanlog.model.endpoints import WebEndpoint

_DEFAULT_PORTS = {"http": 80, "https": 443}


def write_head(endpoint: WebEndpoint, headers: Mapping[str, str], body_bytes: int) -> bytes:
    """The request line and all headers of a POST.

    Raises:
        ValueError: A header holds the end of a line.
    """
    lines = [f"{name}: {value}" for name, value in headers.items()]
    if "accept" not in map(str.lower, headers):
        lines.append("Accept: */*")
    lines.append(f"Content-Length: {body_bytes}\r\n\r\n")
    text = "\r\n".join(lines)
    # One for each line, one that ends the head; more would be a header of somebody else's.
    if text.count("\n") != len(lines) + 1 or text.count("\r") != len(lines) + 1 or "\0" in text:
        raise ValueError("a header with the end of a line in it")
    return _first_lines(endpoint) + text.encode()


@lru_cache(maxsize=16_384)
def _first_lines(endpoint: WebEndpoint) -> bytes:
    """The request line and `Host`: the same for all requests to an endpoint."""
    parts = urlsplit(endpoint.url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host.rstrip(".")
    if endpoint.port != _DEFAULT_PORTS[endpoint.scheme]:
        host += f":{endpoint.port}"
    return f"POST {target} HTTP/1.1\r\nHost: {host}\r\n".encode("ascii")
