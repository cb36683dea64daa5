"""Counts of the transport, for `/metrics`: connections, and everything that was not served."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class TransportCounts:
    """Of one server, all its ports together. Soft state."""

    #: Open connections by protocol: `grpc`, `http`.
    connections: Counter[str] = field(default_factory=Counter)
    #: gRPC calls that came.
    calls: int = 0
    #: Those that ended, by path of the method and number of the status; calls that their caller
    #: left are CANCELLED.
    ended: dict[str, Sequence[int]] = field(default_factory=dict)
    #: Requests of REST that were answered, by method and HTTP code; 499 for a caller that left.
    answered: Counter[tuple[str, int]] = field(default_factory=Counter)
    #: Connections ended for a broken rule of HTTP/2, by error code.
    faults: Counter[str] = field(default_factory=Counter)
    #: Streams reset for a broken rule, by error code.
    stream_faults: Counter[str] = field(default_factory=Counter)
    #: Streams above the limit of a connection.
    streams_refused: int = 0
    #: Connections without room, and idle ones that made room.
    turned_away: int = 0
    sent_away: int = 0
    #: Requests and answers given up, by reason: see `GIVEN_UP`.
    given_up: Counter[str] = field(default_factory=Counter)


#: Reasons: a head or a body that took too long or was too long, one of too many unfinished
#: requests, an answer that was not read, a connection that said nothing, or whose first bytes are
#: those of no protocol that its port serves.
GIVEN_UP = ("late", "too_long", "too_many", "unread", "silent", "unknown")
