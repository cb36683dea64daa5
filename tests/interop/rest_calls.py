"""Calls of a server's REST API, plain or over TLS, that set a test up or look at the server."""

from __future__ import annotations

import ssl
import urllib.request

from acceptance.served import PATIENCE_S, Served


def ask(server: Served, method: str, path: str, content: bytes | None = None) -> bytes:
    """The body of a server's answer."""
    # Trust is tried by the clients, not here.
    context = ssl._create_unverified_context() if server.is_tls else None
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url(server, path), content, headers, method=method)
    with urllib.request.urlopen(request, timeout=PATIENCE_S, context=context) as answer:
        return bytes(answer.read())


def url(server: Served, path: str) -> str:
    return f"{'https' if server.is_tls else 'http'}://{server.http}{path}"
