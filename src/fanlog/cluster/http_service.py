"""The owner's side of HTTP over a link: a forwarded request is run by the ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any

from fanlog.cluster import bounds
from fanlog.cluster.link.http_messages import HttpAnswerHead, HttpRequest
from fanlog.errors import Unavailable
from fanlog.transport.http1 import CERTIFICATE, CONNECTION, CUT_OFF
from fanlog.transport.server_call import ServerCall
from fanlog.transport.statuses import INTERNAL, CallRefused, Status

Message = MutableMapping[str, Any]
AsgiReceive = Callable[[], Awaitable[Message]]
AsgiSend = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Message, AsgiReceive, AsgiSend], Awaitable[None]]


async def serve_http(app: AsgiApp, call: ServerCall) -> None:
    """Answer a forwarded request. A caller that goes away ends the application's work."""
    raw = await call.read()
    answer = _Answer(call)
    request = HttpRequest.read(raw or b"")
    await app(_scope(request, call), _receiver(request.body), answer.send)
    if not answer.is_whole:
        raise CallRefused(Status(INTERNAL, "the request was not answered"))


def _scope(request: HttpRequest, call: ServerCall) -> Message:
    extensions: dict[str, object] = {
        CONNECTION: call.connection,
        CUT_OFF: partial(call.end_with, Unavailable("the answer was not read")),
    }
    if call.certificate:
        extensions[CERTIFICATE] = call.certificate
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": request.path,
        "raw_path": request.raw_path,
        "root_path": "",
        "query_string": request.query_string,
        "headers": list(request.headers),
        "client": (call.address, 0) if call.address else None,
        "server": None,
        "state": {},
        "extensions": extensions,
    }


def _receiver(body: bytes) -> AsgiReceive:
    is_read = False

    async def receive() -> Message:
        nonlocal is_read
        if not is_read:
            is_read = True
            return {"type": "http.request", "body": body, "more_body": False}
        # A disconnect comes as the end of the task.
        await asyncio.get_running_loop().create_future()
        raise AssertionError("nothing wakes it")

    return receive


class _Answer:
    def __init__(self, call: ServerCall) -> None:
        self._call = call
        self._head: HttpAnswerHead | None = None
        self._has_begun = False
        self.is_whole = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [(bytes(name), bytes(value)) for name, value in message.get("headers", ())]
            self._head = HttpAnswerHead(status=message["status"], headers=headers)
            return
        assert message["type"] == "http.response.body", message["type"]
        body = message.get("body", b"")
        more = message.get("more_body", False)
        if body or not self._has_begun:
            await self._write(body)
        else:
            # As over HTTP/1.1: a piece of nothing waits until the one before has room.
            await self._call.written()
        self.is_whole = not more

    async def _write(self, body: bytes) -> None:
        position = 0
        if not self._has_begun:
            assert self._head is not None
            self._has_begun = True
            position = bounds.LINK_PIECE_BYTES
            await self._call.write(self._head.write(body[:position]))
        for start in range(position, len(body), bounds.LINK_PIECE_BYTES):
            await self._call.write(body[start : start + bounds.LINK_PIECE_BYTES])
