"""The gRPC server: its methods, its connections, its budgets, and how it ends.

A drain is gentle: a first GOAWAY tells clients to go elsewhere while calls on their way are still
served; once a client has read it (a ping comes back), a second one names the last call that is.
Then calls have their time, and what is left is cut off.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, Protocol

from fanlog.http2.events import ConnectionEnded
from fanlog.transport import statuses
from fanlog.transport.budgets import Budgets
from fanlog.transport.counts import TransportCounts
from fanlog.transport.looks import Looks
from fanlog.transport.methods import RpcMethod
from fanlog.transport.server_call import ServerCall
from fanlog.transport.statuses import Status
from fanlog.transport.unfinished import Unfinished

log = logging.getLogger("fanlog.transport")

#: How often connections and calls are looked at.
SWEEP_S: Final = 1.0
#: A connection that said nothing for so long is asked whether it is there, and cut off if it stays
#: silent that long again.
PING_AFTER_S: Final = 60.0
PING_WAIT_S: Final = 20.0
#: A message that has begun is whole within this time.
MESSAGE_S: Final = 60.0
#: Longest wait for a client to have read the first GOAWAY.
GO_AWAY_WAIT_S: Final = 1.0
#: Connections looked at for one that has nothing to do, whenever a new one finds no room.
LOOKED_AT_MAX: Final = 100


class Served(Protocol):
    """A connection, as the server knows it."""

    last_heard: float
    is_pinged: bool

    @property
    def call_count(self) -> int: ...
    @property
    def is_idle(self) -> bool:
        """Whether it may be sent away to make room for another one."""

    def end_late(self, now: float) -> float | None:
        """Give up what is late; when the next of its calls will be."""

    def refuse_call(self, call: ServerCall, status: Status) -> None: ...
    def ping(self, payload: bytes) -> None: ...
    def announce_end(self) -> None: ...
    def refuse_new(self) -> None: ...
    def give_up_oldest(self) -> None: ...
    def close(self) -> None: ...
    def part(self) -> None: ...
    def abort(self) -> None: ...


class GrpcServer:
    def __init__(
        self,
        methods: Iterable[RpcMethod],
        status_of: Callable[[Exception], Status],
        budgets: Budgets,
        counts: TransportCounts,
        *,
        folds_answers: bool = False,
    ) -> None:
        """`folds_answers`: they are compressed for callers that take that."""
        self.methods = {method.path.encode(): method for method in methods}
        counts.ended = {method.path: method.ended for method in self.methods.values()}
        self.status_of = status_of
        self.budgets = budgets
        self.counts = counts
        self.folds_answers = folds_answers
        self._unfinished: Unfinished[ServerCall] = Unfinished(
            budgets.unfinished_bytes_max, self._fall
        )
        self._unread: Unfinished[Served] = Unfinished(budgets.unread_total_bytes_max, self._fall)
        self._owners: dict[ServerCall, Served] = {}
        self._connections: dict[Served, None] = {}
        #: When each connection, or one of its calls, may be late: idle ones cost nothing.
        self._looks: Looks[Served] = Looks()
        self._is_draining = False
        self._sweeper: asyncio.TimerHandle | None = None
        self._gone = asyncio.Event()
        self._gone.set()

    # Connections.

    def add(self, connection: Served) -> None:
        self._connections[connection] = None
        self.counts.connections["grpc"] += 1
        self._gone.clear()
        self._looks.put(connection, connection.last_heard + PING_AFTER_S)
        if self._sweeper is None:
            self._sweep_later()
        if self._is_draining:
            connection.announce_end()

    def remove(self, connection: Served) -> None:
        if connection in self._connections:
            del self._connections[connection]
            self._looks.remove(connection)
            self.counts.connections["grpc"] -= 1
        if not self._connections:
            self._gone.set()

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def send_idle_away(self) -> bool:
        """Make room: end a connection that has no call, the first of those looked at."""
        for one in list(islice(self._connections, LOOKED_AT_MAX)):
            if one.is_idle:
                one.refuse_new()
                one.close()
                self.remove(one)
                self.counts.sent_away += 1
                return True
            # It is busy: the next search begins behind it.
            del self._connections[one]
            self._connections[one] = None
        return False

    def note_fault(self, peer: str, fault: ConnectionEnded) -> None:
        name = fault.code.name
        self.counts.faults[name] += 1
        log.warning("action=connection_ended peer=%s code=%s reason=%s", peer, name, fault.reason)

    def ping_answered(self, connection: Served) -> None:
        if self._is_draining:
            # It has read the first GOAWAY, and opens nothing more.
            connection.refuse_new()
            if not connection.call_count:
                connection.part()

    # Messages under way.

    def count_unfinished(self, connection: Served, call: ServerCall, size_bytes: int) -> None:
        """Count a message under way; where all are too many, the oldest is given up."""
        self._owners[call] = connection
        self._unfinished.put(call, size_bytes, asyncio.get_running_loop().time())
        while (oldest := self._unfinished.excess()) is not None:
            self.counts.given_up["too_many"] += 1
            self._give_up(oldest, "the server has too many unfinished requests; try again")

    def hold_unfinished(self, connection: Served, call: ServerCall, size_bytes: int) -> None:
        """Count a call's messages that are whole, and wait for their verb: they are never late."""
        self.count_unfinished(connection, call, size_bytes)
        self._unfinished.whole(call, size_bytes)

    def forget_unfinished(self, call: ServerCall) -> None:
        if self._owners.pop(call, None) is not None:
            self._unfinished.remove(call)

    def _give_up(self, call: ServerCall, why: str) -> None:
        owner = self._owners[call]
        owner.refuse_call(call, Status(statuses.RESOURCE_EXHAUSTED, why))
        self.forget_unfinished(call)

    # Answers that are not read.

    def count_unread(self, connection: Served, size_bytes: int) -> None:
        """Count what waits for a connection's reader; where all is too much, the oldest goes."""
        if not size_bytes:
            self._unread.remove(connection)
            return
        self._unread.put(connection, size_bytes, asyncio.get_running_loop().time())
        while (oldest := self._unread.excess()) is not None:
            oldest.give_up_oldest()

    # Time.

    def _fall(self) -> None:
        # Its objects are let go in the steps to come.
        asyncio.get_running_loop().call_later(SWEEP_S, self.budgets.on_fall)

    def _sweep_later(self) -> None:
        self._sweeper = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        now = asyncio.get_running_loop().time()
        for call in self._unfinished.late(now - MESSAGE_S):
            self.counts.given_up["late"] += 1
            self._give_up(call, f"a message was not whole within {MESSAGE_S:g} s")
        for connection in self._looks.due(now):
            self._look(connection, now)
        if self._connections:
            self._sweep_later()

    def look_at(self, connection: Served, time: float) -> None:
        """Look at a connection at a time: a call of it may be late by then."""
        if connection in self._connections:
            self._looks.put(connection, time)

    def _look(self, connection: Served, now: float) -> None:
        late_at = connection.end_late(now)
        silent_at = connection.last_heard + PING_AFTER_S
        if silent_at <= now and not connection.is_pinged:
            connection.ping(b"are you?")
        if connection.is_pinged:
            silent_at += PING_WAIT_S
            if silent_at <= now:
                self.counts.given_up["silent"] += 1
                connection.abort()
                return
        self.look_at(connection, silent_at if late_at is None else min(silent_at, late_at))

    # The end.

    async def stop(self, patience_s: float) -> None:
        """Send everybody away, give calls their time, then cut off the rest."""
        self._is_draining = True
        for connection in list(self._connections):
            connection.announce_end()
        loop = asyncio.get_running_loop()
        end_s = loop.time() + patience_s
        go_away_s = loop.time() + min(GO_AWAY_WAIT_S, patience_s)
        refused = False
        while self._connections and loop.time() < end_s:
            if not refused and loop.time() >= go_away_s:
                refused = True
                for connection in list(self._connections):
                    connection.refuse_new()
            for connection in list(self._connections):
                if refused and not connection.call_count:
                    connection.part()
            try:
                await asyncio.wait_for(self._gone.wait(), 0.05)
            except TimeoutError:
                continue
        for connection in list(self._connections):
            connection.abort()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
