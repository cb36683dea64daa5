"""The sending half of a connection: frames that go now, and data that waits for windows.

Data waits in its stream while the peer's windows, or the socket (`hold`), do not let it out, and
while enough of it is in the output that was not taken yet: the socket must have its say. Streams
take turns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fanlog.http2 import codes, frames
from fanlog.http2.codes import ErrorCode, Fault
from fanlog.http2.settings import Http2Settings
from fanlog.http2.states import Step, StreamState
from fanlog.http2.stream import Http2Stream

_EMPTY: Final = memoryview(b"")
_LAST_HEADERS: Final = codes.END_HEADERS | codes.END_STREAM
#: Data in the output that is not taken: more waits until the socket has shown whether it is full.
OUTPUT_BYTES_MAX: Final = 128 * 1024


class SendQueue:
    def __init__(self, peer: Http2Settings) -> None:
        self._peer = peer
        #: How much data the peer still takes on the connection.
        self._window = codes.WINDOW_DEFAULT
        #: Streams whose data waits for the connection, in their turn. One that waits for its own
        #: window is not among them: a flood of updates would walk over it again and again.
        self._waiting: dict[int, Http2Stream] = {}
        #: Streams that wait for the socket alone, with nothing but their end.
        self._ending: dict[int, Http2Stream] = {}
        self._is_held = False
        self._output: list[bytes | memoryview] = []
        self._room_bytes = OUTPUT_BYTES_MAX
        #: Data that left since the connection last asked.
        self.sent_bytes = 0

    def take(self) -> list[bytes | memoryview]:
        output, self._output = self._output, []
        self.sent_bytes += OUTPUT_BYTES_MAX - self._room_bytes
        self._room_bytes = OUTPUT_BYTES_MAX
        return output

    @property
    def can_go_on(self) -> bool:
        return bool(self._waiting) and not self._is_held and self._window > 0

    @property
    def has_some(self) -> bool:
        return bool(self._output)

    def put(self, frame: bytes) -> None:
        """A frame of control: no window holds it back."""
        self._output.append(frame)

    def headers(self, stream: Http2Stream, block: bytes, *, ends: bool) -> None:
        stream.step(Step.PUT_HEADERS_END if ends else Step.PUT_HEADERS)
        most = self._peer.frame_bytes_max
        self._output.append(frames.headers(stream.id, block, ends=ends, size_max=most))

    def data(self, stream: Http2Stream, content: bytes | memoryview, *, ends: bool) -> None:
        if content:
            stream.queue.append(memoryview(content))
            stream.queued_bytes += len(content)
        stream.ends_after_queue = ends
        self._let_out_of(stream)

    def trailers(self, stream: Http2Stream, block: bytes) -> None:
        """Headers that end a stream, behind whatever waits."""
        stream.trailers = block
        self._let_out_of(stream)

    def answer(self, stream: Http2Stream, head: bytes, content: bytes, trailers: bytes) -> bool:
        """A whole answer in one piece; False when it does not fit, and nothing was done."""
        size = len(content)
        if (
            stream.state is not StreamState.HALF_CLOSED_REMOTE
            or size > stream.send_window
            or size > self._window
            or size > codes.FRAME_BYTES_MIN
            or self._is_held
            or self._room_bytes <= 0
        ):
            return False
        self._window -= size
        self._room_bytes -= size
        stream.step(Step.PUT_HEADERS_END)
        pack, stream_id = frames.head, stream.id
        parts = (
            pack(len(head), codes.HEADERS, codes.END_HEADERS, stream_id),
            head,
            pack(size, codes.DATA, 0, stream_id),
            content,
            pack(len(trailers), codes.HEADERS, _LAST_HEADERS, stream_id),
            trailers,
        )
        self._output.append(b"".join(parts))
        return True

    def forget(self, stream: Http2Stream) -> None:
        """A stream is over: what waits of it is dropped."""
        self._waiting.pop(stream.id, None)
        self._ending.pop(stream.id, None)

    def widen(self, increment: int) -> list[Http2Stream]:
        """The peer takes more on the connection; the streams that have nothing left to wait."""
        self._window += increment
        if self._window > codes.WINDOW_MAX:
            raise Fault(ErrorCode.FLOW_CONTROL_ERROR, "a window beyond its largest")
        return self.let_out()

    def widen_stream(self, stream: Http2Stream) -> bool:
        """The peer takes more of a stream; whether it had something waiting, and has no longer."""
        return stream.has_queue and self._let_out_of(stream)

    def widen_all(self, streams: Iterable[Http2Stream]) -> list[Http2Stream]:
        """The windows of all streams changed; those that have nothing left to wait."""
        return [stream for stream in streams if self.widen_stream(stream)]

    def hold(self, *, is_held: bool) -> list[Http2Stream]:
        """Whether the socket is full: then data waits. The streams that wait no longer."""
        self._is_held = is_held
        if is_held:
            return []
        ending, self._ending = self._ending, {}
        return [stream for stream in ending.values() if self._let_out_of(stream)] + self.let_out()

    def let_out(self) -> list[Http2Stream]:
        """Let streams send what their windows allow, in turn; those with nothing left to wait."""
        drained: list[Http2Stream] = []
        for stream in list(self._waiting.values()):
            if self._is_held or self._room_bytes <= 0 or self._window <= 0:
                break
            if self._let_out_of(stream):
                drained.append(stream)
        return drained

    def _let_out_of(self, stream: Http2Stream) -> bool:
        queue = stream.queue
        while queue and not self._is_held and self._room_bytes > 0:
            room = min(stream.send_window, self._window, self._peer.frame_bytes_max)
            if room <= 0:
                break
            part = queue[0]
            if len(part) > room:
                queue[0] = part[room:]
                part = part[:room]
            else:
                queue.popleft()
            self._put_data(stream, part, ends=stream.ends_after_queue and not queue)
        self._waiting.pop(stream.id, None)
        if queue:
            # To the end of the row: the others have their turn.
            if stream.send_window > 0:
                self._waiting[stream.id] = stream
            return False
        if self._is_held and stream.has_queue:
            self._ending[stream.id] = stream
            return False
        if stream.trailers is not None:
            block, stream.trailers = stream.trailers, None
            self.headers(stream, block, ends=True)
        elif stream.ends_after_queue and stream.may_send:
            self._put_data(stream, _EMPTY, ends=True)
        return True

    def _put_data(self, stream: Http2Stream, part: memoryview, *, ends: bool) -> None:
        size = len(part)
        stream.send_window -= size
        self._window -= size
        self._room_bytes -= size
        stream.queued_bytes -= size
        stream.step(Step.PUT_DATA_END if ends else Step.PUT_DATA)
        self._output += frames.data(stream.id, part, ends=ends)
