"""One stream: its state, its two windows, and data that waits for the peer's window."""

from __future__ import annotations

from collections import deque

from fanlog.http2.codes import ErrorCode, StreamFault
from fanlog.http2.states import TABLE, WHEN_WRONG, Step, StreamState


class Http2Stream:
    __slots__ = (
        "content_left",
        "ends_after_queue",
        "got_headers",
        "id",
        "queue",
        "queued_bytes",
        "receive_window",
        "send_window",
        "state",
        "trailers",
    )

    def __init__(self, stream_id: int, send_window: int, receive_window: int) -> None:
        self.id = stream_id
        self.state = StreamState.IDLE
        self.send_window = send_window
        self.receive_window = receive_window
        #: Data that the windows, or the socket, do not let out yet.
        self.queue: deque[memoryview] = deque()
        self.queued_bytes = 0
        self.ends_after_queue = False
        #: A header block that follows the queue and ends the stream.
        self.trailers: bytes | None = None
        #: Bytes of the announced body that are still to come; None without an announcement.
        self.content_left: int | None = None
        #: Whether the peer's first headers came: the next ones are trailers.
        self.got_headers = False

    def step(self, step: Step) -> None:
        """Go on as the table says.

        Raises:
            StreamFault: The table has no such step; for a step of this side that is a bug.
        """
        after = TABLE.get((self.state, step))
        if after is None:
            assert step.name.startswith("GET"), f"{step.name} in {self.state.name}"
            code = WHEN_WRONG.get(self.state, ErrorCode.PROTOCOL_ERROR)
            raise StreamFault(self.id, code, f"{step.name} in {self.state.name}")
        self.state = after

    @property
    def is_closed(self) -> bool:
        return self.state is StreamState.CLOSED

    @property
    def may_send(self) -> bool:
        return self.state in (StreamState.OPEN, StreamState.HALF_CLOSED_REMOTE)

    @property
    def may_receive(self) -> bool:
        return self.state in (StreamState.OPEN, StreamState.HALF_CLOSED_LOCAL)

    @property
    def has_queue(self) -> bool:
        return bool(self.queue) or self.trailers is not None or self.ends_after_queue

    def take_content(self, length: int, *, ends: bool) -> None:
        """Count a frame of the body against its announced length.

        Raises:
            StreamFault: The body is longer or shorter.
        """
        if self.content_left is None:
            return
        self.content_left -= length
        if self.content_left < 0 or (ends and self.content_left):
            raise StreamFault(self.id, ErrorCode.PROTOCOL_ERROR, "a body of another length")
