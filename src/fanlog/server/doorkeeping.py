"""The door of the HTTP port: how `fanlog.model.origins` judges a request, on every route."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fanlog.errors import FanlogError, ForeignOrigin, HostNotAllowed
from fanlog.model.origins import Doorkeeper, Visit
from fanlog.server.rest import errors

_METHODS = b"GET, POST, PUT, PATCH, DELETE"
#: How long a browser may remember the answer to a preflight, in seconds.
_MAX_AGE_S = b"600"
_ONCE: dict[bytes, type[FanlogError]] = {b"host": HostNotAllowed, b"origin": ForeignOrigin}
_VARY = (b"vary", b"origin")
_PREFLIGHT_VARY = (
    b"vary",
    b"origin, access-control-request-headers, access-control-request-private-network",
)


class Door:
    """ASGI middleware: lets requests in, or answers them with 403; answers preflights."""

    def __init__(self, app: ASGIApp, keeper: Doorkeeper) -> None:
        self._app = app
        self._keeper = keeper

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            headers = _once(scope)
            admitted = self._keeper.admit(_visit(scope, headers))
        except FanlogError as error:
            await _refuse(error, send)
            return
        if admitted is not None and _is_preflight(scope, headers):
            await _answer_preflight(admitted, headers, send)
        elif self._keeper.origins:
            await self._app(scope, receive, _add_headers(admitted, send))
        else:
            await self._app(scope, receive, send)


def _once(scope: Scope) -> dict[bytes, bytes]:
    """The headers.

    Raises:
        HostNotAllowed, ForeignOrigin: The request says twice where it comes from.
    """
    found: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in found and name in _ONCE:
            raise _ONCE[name](f"{name.decode()}: is given more than once")
        found[name] = value
    return found


def _visit(scope: Scope, headers: dict[bytes, bytes]) -> Visit:
    def text(name: bytes) -> str | None:
        value = headers.get(name)
        return None if value is None else value.decode("latin-1").strip()

    is_link = text(b"sec-fetch-mode") == "navigate" and scope["method"] in ("GET", "HEAD")
    return Visit(
        host=text(b"host"),
        origin=text(b"origin"),
        site=text(b"sec-fetch-site"),
        # Under /v1 a GET may do something: a pull leases.
        is_look=is_link and not scope["path"].startswith("/v1/"),
    )


def _is_preflight(scope: Scope, headers: dict[bytes, bytes]) -> bool:
    return scope["method"] == "OPTIONS" and b"access-control-request-method" in headers


async def _answer_preflight(origin: str, headers: dict[bytes, bytes], send: Send) -> None:
    answered = [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-allow-methods", _METHODS),
        (b"access-control-max-age", _MAX_AGE_S),
        _PREFLIGHT_VARY,
    ]
    if wanted := headers.get(b"access-control-request-headers"):
        answered.append((b"access-control-allow-headers", wanted))
    if headers.get(b"access-control-request-private-network") == b"true":
        answered.append((b"access-control-allow-private-network", b"true"))
    await send({"type": "http.response.start", "status": 204, "headers": answered})
    await send({"type": "http.response.body", "body": b""})


def _add_headers(origin: str | None, send: Send) -> Send:
    """Add headers to answers: the origin that may read them, and that it depends on the request."""
    answered = [_VARY]
    if origin is not None:
        answered.append((b"access-control-allow-origin", origin.encode("latin-1")))
        answered.append((b"access-control-expose-headers", b"*"))

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *answered]}
        await send(message)

    return sent


async def _refuse(error: FanlogError, send: Send) -> None:
    code, headers, body = errors.answer(error)
    answered = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        _VARY,
        *headers,
    ]
    await send({"type": "http.response.start", "status": code, "headers": answered})
    await send({"type": "http.response.body", "body": body})
