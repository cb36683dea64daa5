"""The gateway of a node: methods and an ASGI application that stay, over backends that change.

A call is served by this node, forwarded to the one that owns, or held until one of the two can be
done: for a bounded time, in a bounded number. A forwarded call is sent again only if it never left
this node, or its receiver said that it did nothing with it.

Streams belong to a backend and end with it. Calls with one answer are let finish: those of this
node's own backend by whoever takes that down, those of another node for a short while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from fanlog import limits
from fanlog.cluster import bounds
from fanlog.cluster.forwarding import forward_stream
from fanlog.cluster.http_forwarding import HttpExchange, HttpRefusal, RequestGone
from fanlog.cluster.http_service import AsgiApp, AsgiReceive, AsgiSend, Message, serve_http
from fanlog.cluster.link import internal
from fanlog.cluster.link.call import NeverLeft
from fanlog.cluster.link.http_messages import HEAD_BYTES_MAX
from fanlog.cluster.link.link import Link
from fanlog.cluster.link.links import Card, Links
from fanlog.cluster.waiting import WaitingRoom
from fanlog.errors import FanlogError, TooLarge, Unavailable
from fanlog.model.attributes import LINK_UNSERVED
from fanlog.transport.calls import Call, Streaming, StreamingCall, Unary
from fanlog.transport.methods import MethodForm, RpcMethod
from fanlog.transport.server_call import ServerCall
from fanlog.transport.statuses import CallRefused

#: A call that its receiver did not take is sent there again after these times.
AGAIN_S: Final = (0.05, 0.1, 0.2, 0.4, 0.8)
#: How long calls with one answer may still be answered by a node that owns no longer.
FAREWELL_S: Final = 2.0
_NO_OWNER: Final = "no node of the cluster is known to own the log just now"
_NOT_OWNER: Final = "this node does not own the log; try again"
_CHANGED: Final = "another node owns the log now; open the stream again"

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, eq=False)
class Backend:
    """The serving of everything that belongs to the owner of a log, for as long as it owns."""

    methods: Iterable[RpcMethod]
    #: REST and its pages, without the door, which is every node's own.
    app: AsgiApp


@dataclass(slots=True)
class GatewayCounts:
    """For `/metrics`. Soft state."""

    #: Calls with one answer, streams and requests of HTTP that were forwarded.
    forwarded: int = 0
    #: Waits of calls for an owner, and calls that waited in vain or found no room to.
    held: int = 0
    given_up: int = 0
    #: Streams that ended since the backend changed.
    streams_ended: int = 0


@dataclass(slots=True, eq=False)
class _Slot:
    """A method of the gateway, and the verb of this node's backend while it owns."""

    form: MethodForm
    unary: Unary | None = None
    streaming: Streaming | None = None


@dataclass(slots=True)
class _Hold:
    """The waits of one call."""

    size_bytes: int = 0
    until: float | None = None
    #: Why it did not go to the owner that is known, and how often it did not.
    reason: str = ""
    attempts: int = 0


class Gateway:
    """Lives on the loop, as long as the process. It begins with holding."""

    def __init__(
        self,
        forms: Iterable[MethodForm],
        links: Links,
        refusal: HttpRefusal,
        *,
        http_bytes_max: int = limits.HTTP_BYTES_MAX,
        hold_s: float = bounds.HOLD_S,
    ) -> None:
        """`refusal` is the HTTP answer of an error."""
        self.counts = GatewayCounts()
        self._links = links
        self._refusal = refusal
        self._http_bytes_max = http_bytes_max
        self._hold_s = hold_s
        self._slots = {form.path: _Slot(form) for form in forms}
        #: Where new calls go: to this node, to another one, or into the room.
        self._local: Backend | None = None
        self._link: Link | None = None
        #: What the streams that are open belong to.
        self._current: Backend | Link | None = None
        self._streams: dict[ServerCall, None] = {}
        self._room = WaitingRoom()
        links.on_open(self._link_opened)

    # For the ports.

    @property
    def methods(self) -> Sequence[RpcMethod]:
        """For callers."""
        return [self._public(slot) for slot in self._slots.values()]

    @property
    def link_methods(self) -> Sequence[RpcMethod]:
        """For other nodes, which forward: served by this node alone."""
        bytes_max = self._http_bytes_max + HEAD_BYTES_MAX
        http = RpcMethod(internal.HTTP, bytes_max, streaming=_streaming(self._serve_http))
        return [*(self._forwarded(slot) for slot in self._slots.values()), http]

    async def app(self, scope: Message, receive: AsgiReceive, send: AsgiSend) -> None:
        """The ASGI application for callers; health and metrics are the node's own."""
        local = self._local
        if local is not None:
            await local.app(scope, receive, send)
        else:
            await self._answer_http(HttpExchange(scope, receive, send))

    @property
    def waiting(self) -> int:
        """Calls that are held."""
        return len(self._room)

    # The backend.

    def serve_locally(self, backend: Backend) -> None:
        """This node owns: its backend serves, and calls that were held go there."""
        found = {method.path: method for method in backend.methods}
        assert found.keys() == self._slots.keys(), found.keys() ^ self._slots.keys()
        for path, slot in self._slots.items():
            slot.unary, slot.streaming = found[path].unary, found[path].streaming
        self._local, self._link = backend, None
        self._change_to(backend)

    def forward_to(self, card: Card) -> None:
        """Another node owns."""
        self._stop_serving()
        self._link = self._links.to(card)
        self._link.keep()
        self._change_to(self._link)

    def hold(self, *, ends_streams: bool = False) -> None:
        """Let calls wait: no node is known to own the log, or the owner is not sure.

        Streams go on if the same backend serves again, or end at once with `ends_streams`.
        """
        self._stop_serving()
        self._link = None
        if ends_streams:
            self._change_to(None)

    def _stop_serving(self) -> None:
        self._local = None
        for slot in self._slots.values():
            slot.unary = slot.streaming = None

    def _change_to(self, backend: Backend | Link | None) -> None:
        before, self._current = self._current, backend
        if backend is not before:
            if isinstance(before, Link):
                before.let_go()
                asyncio.get_running_loop().call_later(FAREWELL_S, self._cut, before)
            streams, self._streams = self._streams, {}
            self.counts.streams_ended += len(streams)
            for call in streams:
                call.end_with(Unavailable(_CHANGED))
        self._room.call_all()

    def _cut(self, link: Link) -> None:
        if link is not self._current:
            link.cut()

    def _link_opened(self, link: Link) -> None:
        if link is self._link:
            self._room.call_all()

    # Calls of callers.

    def _public(self, slot: _Slot) -> RpcMethod:
        form = slot.form
        if form.is_unary:

            def unary(raw: bytes, call: Call) -> Awaitable[bytes]:
                # Not a coroutine: a call that this node serves costs one step more, and no frame.
                local = slot.unary
                return self._forward(slot, raw, call) if local is None else local(raw, call)

            return RpcMethod(form.path, form.request_bytes_max, unary=unary)

        async def streaming(call: ServerCall) -> None:
            await self._forward_stream(slot, call)

        return _row(form, streaming)

    async def _forward(self, slot: _Slot, raw: bytes, call: Call) -> bytes:
        def here(_: Backend) -> Awaitable[bytes]:
            assert slot.unary is not None
            return slot.unary(raw, call)

        def there(link: Link) -> Awaitable[bytes]:
            return link.unary(slot.form.path, raw, call)

        return await self._serve(_Hold(len(raw)), here, there)

    async def _forward_stream(self, slot: _Slot, call: ServerCall) -> None:
        def here(_: Backend) -> Awaitable[None]:
            assert slot.streaming is not None
            return self._belonging(call, slot.streaming(call))

        def there(link: Link) -> Awaitable[None]:
            many = slot.form.has_many_requests
            work = forward_stream(link, slot.form.path, call, has_many_requests=many)
            return self._belonging(call, work)

        await self._serve(_Hold(), here, there)

    async def _belonging(self, call: ServerCall, work: Awaitable[None]) -> None:
        """Serve a stream that ends with its backend."""
        self._streams[call] = None
        try:
            await work
        finally:
            self._streams.pop(call, None)

    async def _answer_http(self, exchange: HttpExchange) -> None:
        try:
            body = await exchange.read(self._http_bytes_max)
        except RequestGone:
            return
        except TooLarge as error:
            await exchange.refuse(*self._refusal(error))
            return
        loop = asyncio.get_running_loop()
        watching = loop.create_task(exchange.watch())
        work = loop.create_task(
            self._serve(_Hold(len(body)), lambda one: exchange.serve(one.app), exchange.forward)
        )
        try:
            await asyncio.wait((work, watching), return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                work.cancel()
            await work
        except asyncio.CancelledError:
            work.cancel()
            if not watching.done():
                raise
        except CallRefused as refused:
            await self._fail_http(exchange, Unavailable(refused.status.message))
        except FanlogError as error:
            await self._fail_http(exchange, error)
        finally:
            watching.cancel()

    async def _fail_http(self, exchange: HttpExchange, error: FanlogError) -> None:
        if not exchange.has_begun:
            await exchange.refuse(*self._refusal(error))
        # Else the connection ends: an answer that stops in the middle must not look whole.

    async def _serve(
        self,
        hold: _Hold,
        here: Callable[[Backend], Awaitable[Result]],
        there: Callable[[Link], Awaitable[Result]],
    ) -> Result:
        """Have a call served by this node or another one, as soon as one of them can."""
        while True:
            local, link = self._local, self._link
            if local is not None:
                return await here(local)
            if link is not None:
                self.counts.forwarded += 1
                try:
                    return await there(link)
                except NeverLeft as reason:
                    hold.reason = str(reason).removesuffix("; try again")
                    hold.attempts += 1
            await self._wait(hold)

    async def _wait(self, hold: _Hold) -> None:
        """Wait for a change, or for a moment where a node is there to be asked again.

        Raises:
            Unavailable: The call has waited long enough, or there is no room to wait.
        """
        now = asyncio.get_running_loop().time()
        if hold.until is None:
            hold.until = now + self._hold_s
            self.counts.held += 1
        left = hold.until - now
        why = _NO_OWNER if self._link is None else hold.reason
        try:
            if left <= 0:
                raise Unavailable(f"{why}; it was waited for {self._hold_s:g} s; try again")
            if self._link is not None and self._link.is_open:
                # It did not take the call, and does not tell when it will.
                left = min(left, AGAIN_S[min(hold.attempts, len(AGAIN_S)) - 1])
            await self._room.wait(hold.size_bytes, left, why)
        except Unavailable:
            self.counts.given_up += 1
            raise

    # Calls that other nodes forward.

    def _forwarded(self, slot: _Slot) -> RpcMethod:
        form = slot.form
        if form.is_unary:

            def unary(raw: bytes, call: Call) -> Awaitable[bytes]:
                local = slot.unary
                if local is None:
                    raise _unserved(call)
                return local(raw, call)

            return RpcMethod(form.path, form.request_bytes_max, unary=unary)

        async def streaming(call: ServerCall) -> None:
            if slot.streaming is None:
                raise _unserved(call)
            await self._belonging(call, slot.streaming(call))

        return _row(form, streaming)

    async def _serve_http(self, call: ServerCall) -> None:
        local = self._local
        if local is None:
            raise _unserved(call)
        await self._belonging(call, serve_http(local.app, call))


def _unserved(call: Call) -> Unavailable:
    call.set_trailing_metadata(((LINK_UNSERVED, "1"),))
    return Unavailable(_NOT_OWNER)


def _row(form: MethodForm, serve: Callable[[ServerCall], Awaitable[None]]) -> RpcMethod:
    return RpcMethod(
        form.path,
        form.request_bytes_max,
        streaming=_streaming(serve),
        has_many_requests=form.has_many_requests,
    )


def _streaming(serve: Callable[[ServerCall], Awaitable[None]]) -> Streaming:
    """The verb of a port's stream: calls of ports are `ServerCall`s."""

    async def streaming(call: StreamingCall) -> None:
        assert isinstance(call, ServerCall)
        await serve(call)

    return streaming
