"""The guard of an owner's calls: nothing is answered while it is not sure that it still owns.

A call waits before its verb, so that no work is done in vain, and an answer waits behind it: an
owner that is sure then was the only one when the verb looked at hard state. Errors are answers,
too. A stream is let in; its messages are looked after by the feeds, which ask the same tenure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from fanlog.cluster.tenure import OwnerTenure
from fanlog.errors import FanlogError
from fanlog.transport.calls import Call, Streaming, StreamingCall, Unary
from fanlog.transport.methods import RpcMethod

Message = MutableMapping[str, Any]
AsgiReceive = Callable[[], Awaitable[Message]]
AsgiSend = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Message, AsgiReceive, AsgiSend], Awaitable[None]]


#: The answer to a request that failed: status, headers, and a body.
HttpRefusal = Callable[[FanlogError], tuple[int, Iterable[tuple[bytes, bytes]], bytes]]


class TenureGuard:
    """Of one term. Lives on the loop."""

    def __init__(self, tenure: OwnerTenure, refusal: HttpRefusal) -> None:
        """`refusal` is the HTTP answer of an error."""
        self._tenure = tenure
        self._refusal = refusal
        #: Calls with one answer, and requests of HTTP, that are under way.
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def settle(self, patience_s: float) -> None:
        """Return when no call with one answer is under way, or after a time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await self._idle.wait()

    def methods(
        self, methods: Iterable[RpcMethod], unguarded: Sequence[str] = ()
    ) -> list[RpcMethod]:
        """The methods behind the guard, but those whose path begins with one of `unguarded`."""
        beginnings = tuple(unguarded)
        return [one if one.path.startswith(beginnings) else self._method(one) for one in methods]

    def app(self, app: AsgiApp, unguarded: Sequence[str] = ()) -> AsgiApp:
        """An application behind the guard, but paths that begin with one of `unguarded`."""
        beginnings = tuple(unguarded)

        async def guarded(scope: Message, receive: AsgiReceive, send: AsgiSend) -> None:
            if scope["type"] != "http" or scope["path"].startswith(beginnings):
                await app(scope, receive, send)
                return
            self._enter()
            try:
                answer = _Answer(self._tenure, self._refusal, send)
                if await answer.may_begin():
                    await app(scope, receive, answer.send)
            finally:
                self._leave()

        return guarded

    def _method(self, method: RpcMethod) -> RpcMethod:
        if method.unary is not None:
            return replace(method, unary=self._unary(method.unary))
        assert method.streaming is not None
        return replace(method, streaming=self._streaming(method.streaming))

    def _unary(self, verb: Unary) -> Unary:
        tenure = self._tenure

        async def guarded(raw: bytes, call: Call) -> bytes:
            self._enter()
            try:
                if not tenure.is_sure:
                    await tenure.sure()
                try:
                    answer = await verb(raw, call)
                except Exception:
                    # Also a mistake: what a verb finds in the state of a lost log may be one.
                    if not tenure.is_sure:
                        await tenure.sure()
                    raise
                if not tenure.is_sure:
                    await tenure.sure()
                return answer
            finally:
                self._leave()

        return guarded

    def _streaming(self, serve: Streaming) -> Streaming:
        async def guarded(call: StreamingCall) -> None:
            if not self._tenure.is_sure:
                await self._tenure.sure()
            await serve(call)

        return guarded

    def _enter(self) -> None:
        self._under_way += 1
        self._idle.clear()

    def _leave(self) -> None:
        self._under_way -= 1
        if not self._under_way:
            self._idle.set()


class _Answer:
    """The answer to one request of HTTP."""

    def __init__(self, tenure: OwnerTenure, refusal: HttpRefusal, send: AsgiSend) -> None:
        self._tenure = tenure
        self._refusal = refusal
        self._send = send
        self._is_refused = False

    async def may_begin(self) -> bool:
        """Wait until the owner is sure; False when the request was refused instead."""
        if not self._tenure.is_sure:
            try:
                await self._tenure.sure()
            except FanlogError as error:
                self._is_refused = True
                await self._refuse(error)
        return not self._is_refused

    async def send(self, message: Message) -> None:
        is_head = message["type"] == "http.response.start"
        if self._is_refused or (is_head and not await self.may_begin()):
            return
        await self._send(message)

    async def _refuse(self, error: FanlogError) -> None:
        status, headers, body = self._refusal(error)
        told = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            *headers,
        ]
        await self._send({"type": "http.response.start", "status": status, "headers": told})
        await self._send({"type": "http.response.body", "body": body})
