"""The cookie of a session, on requests that have no other credential: ASGI middleware.

A cookie comes by itself, whoever made the browser send the request; so it counts only where the
console's own origin sent it. `SameSite=Strict` keeps other sites from it, `Origin` and
`Sec-Fetch-Site` say so once more, and a request that changes anything must show the session's CSRF
token, which only a page of this origin can read. Over plain HTTP from another machine a cookie is
refused: everybody on the way could have read it.
"""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fanlog.errors import CsrfTokenMissing, FanlogError, ForeignOrigin, InsecureSession
from fanlog.model.origins import is_loopback_listener, is_own_origin
from fanlog.server.http_callers import SESSION, address_of, authorization_of
from fanlog.server.rest import errors
from fanlog.server.sessions import Session, Sessions

#: The prefix makes browsers keep the cookie to this host and path, over TLS alone.
COOKIE: Final = "fanlog_session"
SECURE_COOKIE: Final = f"__Host-{COOKIE}"
CSRF_HEADER: Final = b"x-csrf-token"
_SAFE: Final = ("GET", "HEAD", "OPTIONS")
#: The page of sessions itself is reached without its token by those who ask who they are.
_PATHS: Final = ("/v1/", "/metrics")


class SessionDoor:
    """Shows requests with a session's cookie as if they had its token."""

    def __init__(self, app: ASGIApp, sessions: Sessions) -> None:
        self._app = app
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(_PATHS):
            await self._app(scope, receive, send)
            return
        value = cookie_of(scope)
        if not value or authorization_of(scope["headers"]):
            await self._app(scope, receive, send)
            return
        session = self._sessions.find(value)
        if session is None:
            await self._app(scope, receive, send)
            return
        try:
            check_place(scope)
            _check_request(scope, session)
        except FanlogError as error:
            await _refuse(error, send)
            return
        header = (b"authorization", session.authorization.encode("latin-1", "replace"))
        extensions = {**scope.get("extensions", {}), SESSION: session}
        shown = {**scope, "headers": [*scope["headers"], header], "extensions": extensions}
        await self._app(shown, receive, self._noting(scope, value, send))

    def _noting(self, scope: Scope, value: str, send: Send) -> Send:
        """Have the session end when its token does."""

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 401:
                self._sessions.close(value)
                cleared = (b"set-cookie", set_cookie(scope, ""))
                message = {**message, "headers": [*message["headers"], cleared]}
            await send(message)

        return sent


def is_secure(scope: Scope) -> bool:
    """Whether nobody on the way can read a request."""
    return scope.get("scheme") == "https" or is_loopback_listener(address_of(scope))


def cookie_of(scope: Scope) -> str:
    """The value of the session's cookie; empty for none."""
    wanted = SECURE_COOKIE if scope.get("scheme") == "https" else COOKIE
    for name, header in scope["headers"]:
        if name == b"cookie":
            for one in header.decode("latin-1").split(";"):
                key, _, value = one.strip().partition("=")
                if key == wanted:
                    return str(value)
    return ""


def set_cookie(scope: Scope, value: str) -> bytes:
    """The header that gives a browser a cookie, or with no value takes it back."""
    is_tls = scope.get("scheme") == "https"
    parts = [f"{SECURE_COOKIE if is_tls else COOKIE}={value}", "Path=/", "HttpOnly"]
    parts += ["SameSite=Strict", *(["Secure"] if is_tls else [])]
    parts += [] if value else ["Max-Age=0"]
    return "; ".join(parts).encode()


def check_place(scope: Scope) -> None:
    """Refuse to sign in, or to be signed in, where others can listen.

    Raises:
        InsecureSession: The request came over plain HTTP, from another machine.
    """
    if not is_secure(scope):
        raise InsecureSession(
            "a session needs TLS: this request came over plain HTTP from another machine, and "
            "everybody on the way can read it"
        )


def check_origin(scope: Scope, *, changes: bool) -> None:
    """Refuse a request that a page of another origin made.

    Raises:
        ForeignOrigin: It did, or a request that changes something does not say who made it.
    """
    headers = dict(scope["headers"])
    origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site")
    host = headers.get(b"host", b"").decode("latin-1").strip()
    if origin is not None:
        said = origin.decode("latin-1").strip()
        # A page that came over plain HTTP may be anybody's, also by the same name.
        is_weaker = scope.get("scheme") == "https" and not said.lower().startswith("https://")
        if is_weaker or not is_own_origin(said, host):
            raise ForeignOrigin("origin: a session is only for pages of this server")
    elif site is not None and site != b"same-origin" and (changes or site != b"none"):
        raise ForeignOrigin("sec-fetch-site: a session is only for pages of this server")
    elif site is None and changes:
        raise ForeignOrigin("origin: missing; a session is only for pages of this server")


def _check_request(scope: Scope, session: Session) -> None:
    # A GET that pulls leases messages.
    is_pull = scope["path"].rpartition("/")[2].rpartition(":")[2] == "pull"
    changes = scope["method"] not in _SAFE or is_pull
    check_origin(scope, changes=changes)
    if changes:
        given = dict(scope["headers"]).get(CSRF_HEADER, b"").decode("latin-1")
        if not session.has(given):
            raise CsrfTokenMissing(
                f"{CSRF_HEADER.decode()}: must be the session's csrfToken, as GET /v1/session says"
            )


async def _refuse(error: FanlogError, send: Send) -> None:
    code, headers, body = errors.answer(error)
    answered = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        *headers,
    ]
    await send({"type": "http.response.start", "status": code, "headers": answered})
    await send({"type": "http.response.body", "body": body})
