"""Server-sent events: a verb with many answers over HTTP/1.1, one event for each.

The verb is the one of gRPC, behind the same gate. An error before the first answer is an HTTP
answer as of any route; after it, it is the last event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Final

import orjson
from google.protobuf import json_format
from google.protobuf.message import Message as Protobuf
from starlette.types import Receive, Scope, Send

from fanlog.errors import FanlogError, MethodNotAllowed
from fanlog.server.calls import EVERYBODY, CallEnded, Caller, Certificate
from fanlog.server.http_callers import (
    SESSION,
    address_of,
    authorization_of,
    certificate_of,
    connection_of,
)
from fanlog.server.rest import errors
from fanlog.server.rest.app import failed
from fanlog.server.sessions import Session
from fanlog.transport.calls import Streaming
from fanlog.transport.http1 import CUT_OFF
from fanlog.transport.lifetime import Lifetime

#: How long the last event may take to leave.
_LAST_S: Final = 0.5
_HEAD: Final = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    # Proxies that gather answers would keep events back.
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
)
#: A browser that is sent away comes again after so many milliseconds.
_FIRST: Final = b"retry: 2000\n\n"

#: Makes the verb's request, serialised, of the query parameters. Raises InvalidArgument.
ReadQuery = Callable[[bytes], bytes]


class EventStream:
    """A page whose answers are those of a streaming verb. An ASGI application."""

    def __init__(self, serve: Streaming, read: ReadQuery, answer: type[Protobuf]) -> None:
        self._serve = serve
        self._read = read
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["method"] != "GET":
                raise MethodNotAllowed(f"{scope['path']} takes GET", "GET")
            request = self._read(scope["query_string"])
        except FanlogError as error:
            await _fail(error, send)
            return
        call = EventCall(scope, request, self._answer, send)
        session: Session | None = scope.get("extensions", {}).get(SESSION)
        with nullcontext() if session is None else session.holding(call):
            await self._run(call, receive)

    async def _run(self, call: EventCall, receive: Receive) -> None:
        task = asyncio.ensure_future(self._serve(call))
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait((task, gone, call.ended), return_when=asyncio.FIRST_COMPLETED)
            error = _error_of(task, call)
        finally:
            gone.cancel()
            task.cancel()
            await asyncio.gather(task, gone, return_exceptions=True)
        if error is not None and call.is_behind:
            call.cut_off()
            # Until that is told, the answer would pass for one that was left unfinished.
            await _gone(receive)
        elif error is not None:
            await call.fail(error)


class EventCall:
    """The call of a streaming verb over HTTP/1.1; see `calls.StreamingCall`."""

    def __init__(self, scope: Scope, request: bytes, answer: type[Protobuf], send: Send) -> None:
        self._scope = scope
        self._request: bytes | None = request
        self._answer = answer
        self._send = send
        self._has_begun = False
        self._is_writing = False
        self.caller: Caller = EVERYBODY
        #: The error that ends the call from outside.
        self.ended: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

    def end_with(self, error: Exception) -> None:
        if not self.ended.done():
            self.ended.set_result(error)

    @property
    def authorization(self) -> str:
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

    def invocation_metadata(self) -> list[tuple[str, str | bytes]]:
        return []

    async def read(self) -> bytes | None:
        request, self._request = self._request, None
        return request

    async def write(self, message: bytes) -> None:
        if self.ended.done():
            raise CallEnded
        self._is_writing = True
        if not self._has_begun:
            self._has_begun = True
            start = {"type": "http.response.start", "status": 200, "headers": list(_HEAD)}
            await self._send(start)
            await self._send({"type": "http.response.body", "body": _FIRST, "more_body": True})
        shown = json_format.MessageToDict(
            self._answer.FromString(message), always_print_fields_with_no_presence=True
        )
        event = b"event: sample\ndata: " + orjson.dumps(shown) + b"\n\n"
        await self._send({"type": "http.response.body", "body": event, "more_body": True})
        # An event of nothing waits until the one before has room: then the reader is behind.
        await self._send({"type": "http.response.body", "body": b"", "more_body": True})
        self._is_writing = False

    @property
    def is_behind(self) -> bool:
        """Whether the reader has no room for what was written last."""
        return self._is_writing

    def cut_off(self) -> None:
        self._scope["extensions"][CUT_OFF]()

    async def fail(self, error: Exception) -> None:
        """Say why there are no more answers, and end."""
        if not self._has_begun:
            await _fail(error, self._send)
            return
        _, _, body = failed(error)
        event = b"event: end\ndata: " + body + b"\n\n"
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_S):
                await self._send({"type": "http.response.body", "body": event})


def _error_of(task: asyncio.Future[None], call: EventCall) -> Exception | None:
    """Why a call is over; None when its caller is gone."""
    if call.ended.done():
        return call.ended.result()
    if not task.done() or task.cancelled():
        return None
    error = task.exception()
    return error if isinstance(error, Exception) and not isinstance(error, CallEnded) else None


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _fail(error: Exception, send: Send) -> None:
    code, headers, body = failed(error)
    answered: errors.Headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        *headers,
    ]
    await send({"type": "http.response.start", "status": code, "headers": answered})
    await send({"type": "http.response.body", "body": body})
