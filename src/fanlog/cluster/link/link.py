"""A link: the way from this node to another one, over one connection that is made again when lost.

A call is started on the connection at once, or waits for room on it. One that finds no connection
has never left, and its caller decides what to do with it; so has one that the other side refused
unread. Of any other call without an answer it is not known what was done.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from fanlog.cluster import bounds
from fanlog.cluster.link import handshake, internal
from fanlog.cluster.link.call import LinkCall, NeverLeft
from fanlog.cluster.link.connection import LinkConnection
from fanlog.cluster.link.credentials import Passport
from fanlog.cluster.link.handshake import Greeting, HandshakeRefused
from fanlog.cluster.link.heads import write_timeout
from fanlog.cluster.link.queue import LinkQueue
from fanlog.errors import FanlogError
from fanlog.transport.calls import Call
from fanlog.transport.statuses import CallRefused

log = logging.getLogger("fanlog.link")

#: A connection is made, with both handshakes, within this time.
CONNECT_S: Final = 3.0
#: Between two attempts: a node that starts again is found soon, one that is gone costs little.
BACK_OFF_S: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
LOOK_S: Final = 1.0


class Link:
    """Lives on the loop. `keep()` it open, `let_go()` of it, `close()` it for good."""

    def __init__(
        self,
        node: str,
        address: str,
        passport: Passport,
        *,
        on_open: Callable[[Link], None] = lambda link: None,
    ) -> None:
        """`address` is that of the node's link port; `on_open` is called whenever it is open."""
        self.node = node
        self.address = address
        self._passport = passport
        self._on_open = on_open
        self._connection: LinkConnection | None = None
        #: Not usable for more calls, but with some under way.
        self._leaving: set[LinkConnection] = set()
        self._connecting: asyncio.Task[None] | None = None
        self._looker: asyncio.TimerHandle | None = None
        self._is_kept = False
        self._is_closed = False
        self._queue = LinkQueue()
        #: Of requests that were started and are not over.
        self._request_bytes = 0
        #: Why it is not open; empty before the first attempt.
        self.trouble = ""
        #: Connections that were made.
        self.opened = 0

    # Life.

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    @property
    def call_count(self) -> int:
        """Calls under way."""
        open_one = () if self._connection is None else (self._connection,)
        return sum(one.call_count for one in (*open_one, *self._leaving))

    def keep(self) -> None:
        """Connect now, and again whenever the connection is lost."""
        self._is_kept = True
        self._connect_soon()

    def let_go(self) -> None:
        """Connect no more unless something is to be said; calls under way go on."""
        self._is_kept = False

    def cut(self) -> None:
        """End all calls that are under way: it is not known what was done of them."""
        connection, self._connection = self._connection, None
        for one in (connection, *self._leaving):
            if one is not None:
                one.abort()
        if self._connecting is None:
            self._queue.fail_all(NeverLeft(f"the link to node {self.node!r} was cut"))

    def close(self) -> None:
        """Cut it for good."""
        self._is_closed = True
        self._is_kept = False
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        if self._looker is not None:
            self._looker.cancel()
            self._looker = None
        self.cut()

    # Calls.

    async def unary(self, path: str, raw: bytes, call: Call) -> bytes:
        """Forward a call with one answer; its trailing metadata is given to `call`.

        Raises:
            CallRefused: The owner answered so.
            NeverLeft: Nothing was done.
            FanlogError: It is not known what was done.
        """
        started = self._try_start(path, raw, call, is_stream=False)
        if not isinstance(started, LinkCall):
            started = await self._start_later(started, len(raw), is_stream=False)
        try:
            return await started.answer()
        finally:
            # Does nothing to a call that is over.
            started.cancel()
            if started.trailing:
                call.set_trailing_metadata(started.trailing)

    async def stream(self, path: str, call: Call, raw: bytes | None = None) -> LinkCall:
        """Begin to forward a call with many answers, and with many requests unless `raw` is all.

        Raises as `unary`; so does the call that is returned.
        """
        started = self._try_start(path, raw, call, is_stream=True)
        if not isinstance(started, LinkCall):
            size_bytes = 0 if raw is None else len(raw)
            started = await self._start_later(started, size_bytes, is_stream=True)
        return started

    async def ask(self, path: str, raw: bytes, *, timeout_s: float = CONNECT_S) -> bytes:
        """Call an internal method, connecting first if need be. It waits behind no caller.

        Raises:
            CallRefused: The other side answered so.
            NeverLeft: Nothing was done; the node cannot be reached, say.
            FanlogError: It is not known what was done.
            TimeoutError: It took too long.
        """
        async with asyncio.timeout(timeout_s):
            while self._connection is None:
                if (connecting := self._connect_soon()) is None:
                    raise NeverLeft(f"the link to node {self.node!r} is closed")
                await asyncio.wait((connecting,))
                if self._connection is None:
                    raise NeverLeft(self.trouble)
            return await _ask(self._connection, path, raw, bounds.LINK_INTERNAL_BYTES_MAX)

    async def announce(self, card: bytes, applied_offset: int) -> bytes:
        """Tell the other node of this one, and how far it is; raises as `ask`."""
        said = internal.write_announcement(card, applied_offset)
        return await self.ask(internal.ANNOUNCE, said)

    def _try_start(
        self, path: str, raw: bytes | None, call: Call, *, is_stream: bool
    ) -> LinkCall | Callable[[], LinkCall]:
        """A call that was started, or what starts it when there is room."""
        size_bytes = 0 if raw is None else len(raw)
        start = partial(self._start, path, raw, call, size_bytes, is_stream=is_stream)
        if self._connection is None:
            self._connect_soon()
            raise NeverLeft(self.trouble or f"the link to node {self.node!r} is not open yet")
        if self._queue.has_any(is_stream=is_stream) or not self._has_room(size_bytes, is_stream):
            return start
        return start()

    async def _start_later(
        self, start: Callable[[], LinkCall], size_bytes: int, *, is_stream: bool
    ) -> LinkCall:
        return await self._queue.wait(
            start, size_bytes, is_stream=is_stream, patience_s=bounds.HOLD_S
        )

    def _start(
        self,
        path: str,
        raw: bytes | None,
        call: Call,
        size_bytes: int,
        *,
        is_stream: bool,
    ) -> LinkCall:
        connection = self._connection
        assert connection is not None
        started = LinkCall(
            connection,
            answer_bytes_max=bounds.LINK_ANSWER_BYTES_MAX,
            size_bytes=size_bytes,
            is_stream=is_stream,
            lifetime=call.connection,
        )
        metadata = call.invocation_metadata()
        connection.start(
            started,
            path,
            raw,
            origin=call,
            metadata=() if metadata is None else metadata,
            authorization=call.authorization,
            timeout=write_timeout(call.time_remaining()),
        )
        self._request_bytes += size_bytes
        return started

    def _has_room(self, size_bytes: int, is_stream: bool) -> bool:
        connection = self._connection
        if connection is None or not connection.has_room(is_stream=is_stream):
            return False
        bytes_max = bounds.LINK_REQUEST_BYTES_MAX
        return not self._request_bytes or self._request_bytes + size_bytes <= bytes_max

    def _call_over(self, call: LinkCall) -> None:
        self._request_bytes -= call.size_bytes
        if self._queue:
            self._queue.start_some(self._has_room)
        if self._leaving:
            for one in list(self._leaving):
                one.leave()

    def _tell_gone(self, connection: LinkConnection, numbers: Sequence[int]) -> bool:
        call = LinkCall(connection, answer_bytes_max=bounds.LINK_INTERNAL_BYTES_MAX)
        try:
            connection.start(call, internal.GONE, internal.write_gone(numbers))
        except NeverLeft:
            return False
        return True

    # The connection.

    def _connection_changed(self, connection: LinkConnection) -> None:
        """A connection takes no more calls, or is lost."""
        if self._connection is connection:
            self._connection = None
            self.trouble = f"the link to node {self.node!r} was lost"
            if connection.is_there:
                self._leaving.add(connection)
                connection.leave()
            if self._is_kept or self._queue:
                self._connect_soon()
        elif not connection.is_there:
            self._leaving.discard(connection)

    def _connect_soon(self) -> asyncio.Task[None] | None:
        if self._connecting is None and self._connection is None and not self._is_closed:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
        return self._connecting

    async def _connect(self) -> None:
        attempt = 0
        try:
            while True:
                try:
                    async with asyncio.timeout(CONNECT_S):
                        self._open(await self._open_connection())
                    return
                except (
                    # A wrong address is a `ValueError`.
                    *(OSError, TimeoutError, ssl.SSLError, ValueError),
                    *(HandshakeRefused, CallRefused, NeverLeft, FanlogError),
                ) as error:
                    told = str(error) or f"it did not answer within {CONNECT_S:g} s"
                    self._tell_trouble(told)
                self._queue.fail_all(NeverLeft(self.trouble))
                if not self._is_kept:
                    return
                await asyncio.sleep(BACK_OFF_S[min(attempt, len(BACK_OFF_S) - 1)])
                attempt += 1
        finally:
            self._connecting = None

    def _tell_trouble(self, told: str) -> None:
        trouble = f"node {self.node!r} cannot be reached at {self.address}: {told}"
        if trouble != self.trouble:
            log.warning("action=link_failed node=%s address=%s reason=%s", *self._names, told)
        self.trouble = trouble

    @property
    def _names(self) -> tuple[str, str]:
        return self.node, self.address

    async def _open_connection(self) -> LinkConnection:
        context = await asyncio.to_thread(self._passport.credentials.client_context)
        host, _, port = self.address.rpartition(":")
        make = partial(
            LinkConnection,
            self.node,
            on_over=self._call_over,
            on_change=self._connection_changed,
            tell_gone=self._tell_gone,
        )
        _, connection = await asyncio.get_running_loop().create_connection(
            make, host.strip("[]"), int(port), ssl=context
        )
        try:
            await self._shake_hands(connection)
        except BaseException:
            connection.abort()
            raise
        return connection

    async def _shake_hands(self, connection: LinkConnection) -> None:
        passport = self._passport
        nonce = os.urandom(handshake.NONCE_BYTES)
        ours = Greeting(cluster=passport.cluster, node=passport.node, nonce=nonce)
        bytes_max = bounds.LINK_INTERNAL_BYTES_MAX
        theirs = Greeting.read(await _ask(connection, internal.GREET, ours.write(), bytes_max))
        theirs.check(passport.cluster)
        secret = passport.credentials.believed[0]
        proof = handshake.prove(secret, "caller", ours, theirs)
        shown = await _ask(connection, internal.PROVE, proof, bytes_max)
        handshake.find_secret((secret,), shown, "owner", ours, theirs)
        connection.trust()

    def _open(self, connection: LinkConnection) -> None:
        if not connection.is_usable:
            raise NeverLeft("the connection was lost again")
        self._connection = connection
        self.opened += 1
        self.trouble = ""
        log.info("action=link_opened node=%s address=%s", *self._names)
        self._look_later()
        self._queue.start_some(self._has_room)
        self._on_open(self)

    def _look_later(self) -> None:
        if self._looker is None:
            self._looker = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _look(self) -> None:
        self._looker = None
        now = asyncio.get_running_loop().time()
        connections = [*self._leaving]
        if self._connection is not None:
            connections.append(self._connection)
        for one in connections:
            one.look(now)
        if connections:
            self._look_later()


async def _ask(connection: LinkConnection, path: str, raw: bytes, bytes_max: int) -> bytes:
    call = LinkCall(connection, answer_bytes_max=bytes_max)
    connection.start(call, path, raw)
    try:
        return await call.answer()
    finally:
        call.cancel()
