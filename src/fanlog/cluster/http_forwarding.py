"""A node's side of HTTP over a link: a request is read whole, its answer comes in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from fanlog.cluster.http_service import AsgiApp, AsgiReceive, AsgiSend, Message
from fanlog.cluster.link import internal
from fanlog.cluster.link.http_messages import HttpAnswerHead, HttpHeaders, HttpRequest
from fanlog.cluster.link.link import Link
from fanlog.errors import TooLarge
from fanlog.transport.calls import EVERYBODY, Caller, Certificate, Entry
from fanlog.transport.http1 import CERTIFICATE, CONNECTION
from fanlog.transport.lifetime import Lifetime

#: The answer to a request that failed: status, headers, and a body in JSON.
HttpRefusal = Callable[[Exception], tuple[int, HttpHeaders, bytes]]
_LENGTH_DIGITS_MAX: Final = 20


class RequestGone(Exception):
    """The caller went away before its request was read."""


class HttpCall:
    """A request of HTTP as a link forwards it; see `calls.Call`.

    Its credential travels among its headers, where the owner's application looks for it.
    """

    authorization = ""

    def __init__(self, scope: Message) -> None:
        self._scope = scope
        self.caller: Caller = EVERYBODY

    @property
    def address(self) -> str:
        client = self._scope.get("client")
        return str(client[0]) if client else ""

    @property
    def certificate(self) -> Certificate | None:
        found: Certificate | None = self._extensions.get(CERTIFICATE)
        return found

    @property
    def connection(self) -> Lifetime | None:
        found: Lifetime | None = self._extensions.get(CONNECTION)
        return found

    @property
    def _extensions(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._scope.get("extensions", {})
        return found

    def time_remaining(self) -> float | None:
        # It is said in a header, which the owner's application reads.
        return None

    def invocation_metadata(self) -> Iterable[Entry]:
        return ()

    def set_trailing_metadata(self, trailing_metadata: Sequence[Entry], /) -> None:
        """Answers of HTTP have none; a link's own say nothing to a caller."""

    def end_with(self, error: Exception) -> None:
        raise AssertionError("the gateway ends no request of HTTP")


class HttpExchange:
    """One request that this node may have to forward, and its answer."""

    def __init__(self, scope: Message, receive: AsgiReceive, send: AsgiSend) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._body = b""
        self._is_taken = False
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        #: Whether something of an answer was sent.
        self.has_begun = False

    async def read(self, bytes_max: int) -> bytes:
        """The whole body.

        Raises:
            RequestGone: The caller went away.
            TooLarge: It has more bytes.
        """
        length = dict(self._scope["headers"]).get(b"content-length", b"0")
        # More digits than any number of bytes has: `int` would fail on very many.
        if length.isdigit() and (len(length) > _LENGTH_DIGITS_MAX or int(length) > bytes_max):
            raise _too_large(bytes_max)
        parts: list[bytes] = []
        size = 0
        while True:
            event = await self._receive()
            if event["type"] == "http.disconnect":
                raise RequestGone
            part = event.get("body", b"")
            size += len(part)
            if size > bytes_max:
                raise _too_large(bytes_max)
            parts.append(part)
            if not event.get("more_body", False):
                self._body = parts[0] if len(parts) == 1 else b"".join(parts)
                return self._body

    async def watch(self) -> None:
        """Return once the caller is gone."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if not self._gone.done():
            self._gone.set_result(None)

    async def serve(self, app: AsgiApp) -> None:
        """Have it answered by an application of this node."""
        self.has_begun = True
        await app(self._scope, self._receive_again, self._send)

    async def forward(self, link: Link) -> None:
        """Have it answered by the owner; raises as `Link.stream`."""
        scope = self._scope
        request = HttpRequest(
            method=scope["method"],
            scheme=scope.get("scheme", "http"),
            raw_path=scope["raw_path"],
            path=scope["path"],
            query_string=scope["query_string"],
            headers=list(scope["headers"]),
            body=self._body,
        )
        onward = await link.stream(internal.HTTP, HttpCall(scope), request.write())
        try:
            while (raw := await onward.read()) is not None:
                piece = raw if self.has_begun else await self._begin(raw)
                if piece:
                    await self._send(
                        {"type": "http.response.body", "body": piece, "more_body": True}
                    )
            await self._send({"type": "http.response.body", "body": b""})
        finally:
            onward.cancel()

    async def refuse(self, code: int, headers: HttpHeaders, body: bytes) -> None:
        """Answer that it failed."""
        self.has_begun = True
        told = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            *headers,
        ]
        await self._send({"type": "http.response.start", "status": code, "headers": told})
        await self._send({"type": "http.response.body", "body": body})

    async def _begin(self, raw: bytes) -> bytes:
        head, piece = HttpAnswerHead.read(raw)
        self.has_begun = True
        headers = list(head.headers)
        await self._send({"type": "http.response.start", "status": head.status, "headers": headers})
        return piece

    async def _receive_again(self) -> Message:
        if not self._is_taken:
            self._is_taken = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await asyncio.shield(self._gone)
        return {"type": "http.disconnect"}


def _too_large(bytes_max: int) -> TooLarge:
    return TooLarge(
        f"the body has more than {bytes_max} bytes, the most this server takes (http_max_bytes)"
    )
