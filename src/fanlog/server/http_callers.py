"""What an HTTP request shows of its caller."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from starlette.types import Scope

from fanlog.server.calls import EVERYBODY, Caller, Certificate
from fanlog.transport.http1 import CERTIFICATE, CONNECTION
from fanlog.transport.lifetime import Lifetime
from fanlog.transport.methods import read_authorization

#: The extension of a request's scope that is the session it was made in.
SESSION: Final = "fanlog.session"


def authorization_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The header that says who calls; empty for none. See `transport.methods`."""
    values = [value for name, value in headers if name == b"authorization"]
    return read_authorization(values) if values else ""


def address_of(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def certificate_of(scope: Scope) -> Certificate | None:
    found: Certificate | None = scope.get("extensions", {}).get(CERTIFICATE)
    return found


def connection_of(scope: Scope) -> Lifetime | None:
    found: Lifetime | None = scope.get("extensions", {}).get(CONNECTION)
    return found


class PageRequest:
    """A request for a page that is no verb; see `calls.Evidence`.

    With `authorization`, judged by that instead of its headers.
    """

    def __init__(self, scope: Scope, authorization: str | None = None) -> None:
        self._scope = scope
        self._authorization = authorization
        self.caller: Caller = EVERYBODY

    @property
    def authorization(self) -> str:
        if self._authorization is not None:
            return self._authorization
        return authorization_of(self._scope["headers"])

    @property
    def address(self) -> str:
        return address_of(self._scope)

    @property
    def certificate(self) -> Certificate | None:
        return certificate_of(self._scope)

    @property
    def connection(self) -> Lifetime | None:
        return connection_of(self._scope)
