"""The ids of a connection's streams: which were opened, which are over, and by which side.

A frame of a stream that is over is either on its way since before this side's reset, and ignored,
or a mistake. Ids are remembered for a while; those that this side reset apart from the others, so
that many short calls do not make the connection forget a reset whose data is still on its way.
"""

from __future__ import annotations

from typing import Final

from fanlog.http2 import patience
from fanlog.http2.codes import WINDOW_MAX, ErrorCode, Fault
from fanlog.http2.patience import Patience

#: Ids remembered of each kind.
KEPT: Final = 1_024


class StreamIds:
    __slots__ = (
        "_ended",
        "_is_server",
        "_kept",
        "_patience",
        "_reset",
        "last_remote",
        "last_served",
        "next_local",
    )

    def __init__(self, budget: Patience, *, is_server: bool) -> None:
        self._is_server = is_server
        self._patience = budget
        self.last_remote = 0
        #: Streams of the peer above it are not processed: our last GOAWAY said so.
        self.last_served = WINDOW_MAX
        self.next_local = 2 if is_server else 1
        self._ended: dict[int, None] = {}
        self._reset: dict[int, None] = {}
        self._kept = KEPT

    def keep(self, count: int) -> None:
        """Remember so many ids of each kind from now on."""
        self._kept = count

    def is_local(self, stream_id: int) -> bool:
        return bool(stream_id & 1) != self._is_server

    def opens(self, stream_id: int) -> bool:
        """Whether the peer may open a stream with this id: clients do, by odd and growing ids."""
        return self._is_server and bool(stream_id & 1) and stream_id > self.last_remote

    def note_end(self, stream_id: int, *, is_reset: bool) -> None:
        """A stream is over; `is_reset` when this side ended it early."""
        kept = self._reset if is_reset else self._ended
        kept[stream_id] = None
        if len(kept) > self._kept:
            del kept[next(iter(kept))]

    def check_not_idle(self, stream_id: int, what: str) -> None:
        """Raises Fault: A frame of a stream that was never opened."""
        is_idle = (
            stream_id >= self.next_local
            if self.is_local(stream_id)
            else stream_id > self.last_remote
        )
        if stream_id == 0 or is_idle:
            raise Fault(ErrorCode.PROTOCOL_ERROR, f"{what} on a stream that was never opened")

    def serve_no_more(self) -> int:
        """Streams from here on are not processed; the last one that is. It never rises."""
        self.last_served = min(self.last_served, self.last_remote)
        return self.last_served

    def take_late(self, stream_id: int, what: str, size_bytes: int = 0) -> None:
        """Take a frame of a stream that is over, if it may be; raises Fault."""
        self.check_not_idle(stream_id, what)
        is_unserved = stream_id > self.last_served and not self.is_local(stream_id)
        if stream_id in self._reset or is_unserved:
            # Under way when this side reset the stream: RFC 9113, 5.1 has it ignored.
            if size_bytes < patience.LATE_BYTES:
                self._patience.spend(patience.COST_LATE, "frames of streams that are over")
        elif what == "HEADERS" and stream_id not in self._ended:
            raise Fault(ErrorCode.PROTOCOL_ERROR, "a stream id that is smaller than the last")
        else:
            raise Fault(ErrorCode.STREAM_CLOSED, f"{what} on a stream that is over")
