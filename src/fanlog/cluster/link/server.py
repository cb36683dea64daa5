"""The server of links: a port for nodes alone, where a node serves what it owns.

It lives as long as the process, whoever owns. A call that comes while this node owns nothing is not
forwarded again: it is answered UNAVAILABLE with the mark that nothing was done.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from fanlog import limits
from fanlog.cluster import bounds
from fanlog.cluster.link import handshake, internal
from fanlog.cluster.link.credentials import Passport
from fanlog.cluster.link.handshake import Greeting, HandshakeRefused
from fanlog.cluster.link.incoming import LinkEnd
from fanlog.cluster.link.internal import NodeVerb
from fanlog.transport.budgets import Budgets
from fanlog.transport.calls import Call
from fanlog.transport.counts import TransportCounts
from fanlog.transport.grpc_server import GrpcServer
from fanlog.transport.lifetime import Lifetime
from fanlog.transport.methods import RpcMethod
from fanlog.transport.port import Ports
from fanlog.transport.statuses import (
    FAILED_PRECONDITION,
    UNAUTHENTICATED,
    CallRefused,
    Status,
)

# Of hostile peers: bounded as lines of the transport are.
log = logging.getLogger("fanlog.transport")

#: A peer has proven that it is a node within this time.
PROOF_S: Final = 10.0
#: A node that said nothing for so long is gone: nodes that are there ask each other all the time.
SILENCE_S: Final = 10.0
SWEEP_S: Final = 1.0
_HANDSHAKE_BYTES_MAX: Final = 4 * 1024

_BUDGETS: Final = Budgets(
    unfinished_bytes_max=limits.UNFINISHED_BYTES_MAX,
    credited_bytes_max=bounds.LINK_REQUEST_BYTES_MAX,
    # One connection stands for many callers.
    unread_bytes_max=limits.UNREAD_TOTAL_BYTES_MAX,
    unread_total_bytes_max=limits.UNREAD_TOTAL_BYTES_MAX,
)


class LinkServer:
    """`await listen()`, `close()` to take no more nodes, and `await stop()`."""

    def __init__(
        self,
        passport: Passport,
        methods: Iterable[RpcMethod],
        verbs: Mapping[str, NodeVerb],
        status_of: Callable[[Exception], Status],
    ) -> None:
        """`methods` are those that are forwarded, `verbs` those of nodes, by path.

        Raises:
            ConfigError: The certificate of this node cannot be used.
        """
        self._passport = passport
        self.internal_paths = frozenset((internal.GONE, *verbs))
        self.handshake_methods = {
            path.encode(): RpcMethod(path, _HANDSHAKE_BYTES_MAX, unary=verb)
            for path, verb in ((internal.GREET, self._greet), (internal.PROVE, self._prove))
        }
        bytes_max = bounds.LINK_INTERNAL_BYTES_MAX
        own = [RpcMethod(internal.GONE, bytes_max, unary=self._end_callers)]
        own += [
            RpcMethod(path, bytes_max, unary=partial(_ask, verb)) for path, verb in verbs.items()
        ]
        self.counts = TransportCounts()
        #: Handshakes that were refused.
        self.refused = 0
        self._server = GrpcServer([*methods, *own], status_of, _BUDGETS, self.counts)
        self._ports = Ports(
            self._server,
            None,
            connections_max=bounds.LINK_CONNECTIONS_MAX,
            tls=passport.credentials.server_tls(),
            serve=lambda server: LinkEnd(server, self),
        )
        self._ends: dict[Lifetime, LinkEnd] = {}
        self._sweeper: asyncio.TimerHandle | None = None

    # Life.

    async def listen(self, sock: socket.socket) -> int:
        """Serve a socket from now on; its port."""
        return await self._ports.listen(sock)

    def close(self) -> None:
        """Take no more nodes; those that are there go on."""
        self._ports.close()

    async def stop(self, patience_s: float) -> None:
        """Send all nodes away, give calls their time, then cut off the rest."""
        self.close()
        await self._server.stop(patience_s)
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None

    @property
    def node_count(self) -> int:
        """Connections of nodes."""
        return sum(end.is_proven for end in self._ends.values())

    @property
    def caller_count(self) -> int:
        """Connections of callers behind them."""
        return sum(end.caller_count for end in self._ends.values())

    # Connections.

    def enter(self, end: LinkEnd) -> None:
        self._ends[end.lifetime] = end
        if self._sweeper is None:
            self._sweep_later()

    def leave(self, end: LinkEnd) -> None:
        self._ends.pop(end.lifetime, None)

    def _sweep_later(self) -> None:
        self._sweeper = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        for end in list(self._ends.values()):
            now = end.now()
            if not end.is_proven and now - end.since > PROOF_S:
                self.counts.given_up["late"] += 1
                end.abort()
            elif now - end.last_heard > SILENCE_S:
                self.counts.given_up["silent"] += 1
                end.abort()
        if self._ends:
            self._sweep_later()

    # The methods of nodes.

    async def _greet(self, raw: bytes, call: Call) -> bytes:
        end = self._end_of(call)
        try:
            theirs = Greeting.read(raw)
            theirs.check(self._passport.cluster)
        except HandshakeRefused as refused:
            raise self._refusal(end, FAILED_PRECONDITION, refused) from None
        ours = Greeting(
            cluster=self._passport.cluster,
            node=self._passport.node,
            nonce=os.urandom(handshake.NONCE_BYTES),
        )
        end.greetings = theirs, ours
        return ours.write()

    async def _prove(self, raw: bytes, call: Call) -> bytes:
        end = self._end_of(call)
        # A nonce is good for one attempt.
        greetings, end.greetings = end.greetings, None
        try:
            if greetings is None:
                raise HandshakeRefused("a proof without a greeting")
            believed = self._passport.credentials.believed
            secret = handshake.find_secret(believed, raw, "caller", *greetings)
        except HandshakeRefused as refused:
            raise self._refusal(end, UNAUTHENTICATED, refused) from None
        end.prove()
        return handshake.prove(secret, "owner", *greetings)

    def _refusal(self, end: LinkEnd, code: int, refused: HandshakeRefused) -> CallRefused:
        self.refused += 1
        log.warning("action=node_refused peer=%s reason=%s", end.peer, refused)
        asyncio.get_running_loop().call_soon(end.part)
        return CallRefused(Status(code, str(refused)))

    async def _end_callers(self, raw: bytes, call: Call) -> bytes:
        self._end_of(call).forget_callers(internal.read_gone(raw))
        return b""

    def _end_of(self, call: Call) -> LinkEnd:
        assert call.connection is not None
        return self._ends[call.connection]


async def _ask(verb: NodeVerb, raw: bytes, _: Call) -> bytes:
    return await verb(raw)
