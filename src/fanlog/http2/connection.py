"""One HTTP/2 connection: `receive` bytes for events, act, and `take_output` for bytes.

The rules are tables (`states.py`, `header_rules.py`) and a budget (`patience.py`); here is the
order of things. A peer that breaks a rule of the connection ends it, with GOAWAY; one that breaks a
rule of a stream ends that stream, with RST_STREAM, and the others go on.

Windows. The connection's receive window is credited as bytes arrive, whatever becomes of them, so a
stream that is not read does not stop the others. A stream's own window is credited by `credit`
alone: the memory that a peer can fill is the sum of its streams' credits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

from fanlog.http2 import codes, frames, header_blocks, patience
from fanlog.http2.codes import ErrorCode, Fault, StreamFault
from fanlog.http2.events import (
    ConnectionEnded,
    DataReceived,
    Event,
    GoAwayReceived,
    HeadersReceived,
    HeadersRefused,
    PingAnswered,
    SettingsAgreed,
    StreamDrained,
    StreamRefused,
    StreamReset,
    TrailersReceived,
)
from fanlog.http2.frame_reader import FrameReader, unpad
from fanlog.http2.header_blocks import HeaderDecoder, TooManyHeaders
from fanlog.http2.header_list import HeaderList
from fanlog.http2.header_rules import Header
from fanlog.http2.patience import Patience
from fanlog.http2.send_queue import SendQueue
from fanlog.http2.settings import Http2Settings
from fanlog.http2.states import Step, StreamState
from fanlog.http2.stream import Http2Stream
from fanlog.http2.stream_ids import StreamIds

Role = Literal["server", "client"]


class Http2Connection:
    """One side of a connection. Not safe to use from two threads."""

    def __init__(
        self,
        role: Role,
        settings: Http2Settings,
        *,
        window: int,
        now: float,
        known_bytes_max: int = header_blocks.KNOWN_BYTES_MAX,
    ) -> None:
        """`settings` are announced; `window` is the connection's receive window.

        `known_bytes_max` is for header blocks: see `header_blocks`.
        """
        self._is_server = role == "server"
        self.settings = settings
        self.peer = Http2Settings()
        self._decoder = HeaderDecoder(
            settings.header_list_bytes_max, settings.table_bytes, known_bytes_max
        )
        self._patience = Patience(now)
        preface = codes.PREFACE if self._is_server else b""
        self._reader = FrameReader(preface, settings.frame_bytes_max, self._patience)
        self._ids = StreamIds(self._patience, is_server=self._is_server)
        self._streams: dict[int, Http2Stream] = {}
        self._remote_open = 0
        self._window = window
        self._received_bytes = 0
        self._outgoing = SendQueue(self.peer)
        self._events: list[Event] = []
        self.is_ended = False
        #: The peer has sent GOAWAY: nothing is opened any more.
        self._is_left = False
        if not self._is_server:
            self._outgoing.put(codes.PREFACE)
        self._outgoing.put(frames.settings(settings.pairs()))
        if window > codes.WINDOW_DEFAULT:
            self._outgoing.put(frames.window_update(0, window - codes.WINDOW_DEFAULT))

    # Frames of the peer.

    def receive(self, data: bytes, now: float) -> list[Event]:
        """Take bytes of the peer. Once the connection has ended, none have a meaning."""
        if self.is_ended:
            return []
        self._patience.pass_time(now)
        if self._outgoing.sent_bytes:
            # A peer that gets data updates its windows, and probes the bandwidth.
            self._patience.gain(self._outgoing.sent_bytes / patience.GAIN_BYTES)
            self._outgoing.sent_bytes = 0
        self._events = []
        found, fault = self._reader.read(data)
        try:
            self._take_frames(found)
            if fault is not None:
                raise fault
        except Fault as broken:
            self.is_ended = True
            last_id = self._ids.serve_no_more()
            self._outgoing.put(frames.go_away(last_id, broken.code, broken.reason))
            self._events.append(ConnectionEnded(broken.code, broken.reason))
        return self._events

    def _take_frames(self, found: Sequence[tuple[int, int, int, bytes]]) -> None:
        handlers = _HANDLERS
        for kind, flags, stream_id, payload in found:
            try:
                if kind < len(handlers):
                    handlers[kind](self, flags, stream_id, payload)
                else:
                    self._patience.spend(patience.COST_UNKNOWN, "frames of unknown types")
            except StreamFault as fault:
                self._reset_wrong(fault)

    def _on_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        length, ends = len(payload), bool(flags & codes.END_STREAM)
        self._take_window(length)
        stream = self._streams.get(stream_id)
        if stream is None:
            self._ids.take_late(stream_id, "DATA", length)
            return
        stream.receive_window -= length
        if stream.receive_window < 0:
            raise StreamFault(
                stream_id, ErrorCode.FLOW_CONTROL_ERROR, "more data than was credited"
            )
        stream.step(Step.GET_DATA_END if ends else Step.GET_DATA)
        if not stream.got_headers:
            raise StreamFault(stream_id, ErrorCode.PROTOCOL_ERROR, "DATA before HEADERS")
        if flags & codes.PADDED:
            payload = unpad(payload)
            # Padding is gone already: the layer above does not see it, and cannot credit it.
            self.credit(stream_id, length - len(payload))
        stream.take_content(len(payload), ends=ends)
        if not ends:
            self._judge_size(len(payload))
        self._events.append(DataReceived(stream_id, payload, ends))
        if stream.is_closed:
            self._forget(stream)

    def _judge_size(self, length: int) -> None:
        """Data that is worth its frame fills the bucket again; a body in crumbs empties it."""
        if length >= patience.CRUMB_BYTES:
            self._patience.gain(min(patience.GAIN_DATA, length / patience.GAIN_BYTES))
        elif length:
            self._patience.spend(patience.COST_CRUMB, "DATA frames of a few bytes")
        else:
            self._patience.spend(patience.COST_EMPTY_DATA, "empty DATA frames")

    def _take_window(self, length: int) -> None:
        """Count data against the connection's window, and give it back in portions."""
        self._received_bytes += length
        if self._received_bytes > self._window:
            raise Fault(ErrorCode.FLOW_CONTROL_ERROR, "more data than the connection was credited")
        if self._received_bytes * 2 > self._window:
            self._outgoing.put(frames.window_update(0, self._received_bytes))
            self._received_bytes = 0

    def _on_headers(self, flags: int, stream_id: int, block: bytes) -> None:
        # Decoded whatever becomes of it: the table must stay that of the peer.
        headers: HeaderList | None
        try:
            headers = self._decoder.decode(block)
        except TooManyHeaders:
            headers = None
            self._patience.spend(patience.COST_HEADERS, "blocks of too many headers")
        ends = bool(flags & codes.END_STREAM)
        stream = self._streams.get(stream_id)
        if stream is not None:
            self._take_more(stream, headers, ends=ends)
        elif self._ids.opens(stream_id):
            self._take_request(stream_id, headers, ends=ends)
        else:
            self._ids.take_late(stream_id, "HEADERS")

    def _take_request(self, stream_id: int, headers: HeaderList | None, *, ends: bool) -> None:
        self._ids.last_remote = stream_id
        if stream_id > self._ids.last_served:
            # Our GOAWAY said that it will not be processed: its sender asks another server.
            self._patience.spend(patience.COST_LATE, "streams after GOAWAY")
            return
        if self._remote_open >= self.settings.streams_max:
            self._patience.spend(patience.COST_REFUSED, "streams above the limit")
            self._outgoing.put(frames.rst_stream(stream_id, ErrorCode.REFUSED_STREAM))
            self._ids.note_end(stream_id, is_reset=True)
            self._events.append(StreamRefused(stream_id))
            return
        stream = self._begin(stream_id)
        self._remote_open += 1
        stream.step(Step.GET_HEADERS_END if ends else Step.GET_HEADERS)
        if headers is None:
            stream.got_headers = True
            self._events.append(HeadersRefused(stream_id))
            return
        fault = headers.request_fault()
        if fault is not None:
            raise StreamFault(stream_id, ErrorCode.PROTOCOL_ERROR, fault)
        self._expect_content(stream, headers, ends=ends)
        stream.got_headers = True
        self._events.append(HeadersReceived(stream_id, headers, ends))

    def _take_more(self, stream: Http2Stream, headers: HeaderList | None, *, ends: bool) -> None:
        """The headers of an answer (client), or trailers."""
        stream.step(Step.GET_HEADERS_END if ends else Step.GET_HEADERS)
        if headers is None:
            raise StreamFault(stream.id, ErrorCode.PROTOCOL_ERROR, "too many headers")
        if stream.got_headers:
            fault = headers.trailers_fault() if ends else "headers in a body"
            if fault is not None:
                raise StreamFault(stream.id, ErrorCode.PROTOCOL_ERROR, fault)
            stream.take_content(0, ends=True)
            self._events.append(TrailersReceived(stream.id, headers))
        else:
            fault = headers.answer_fault()
            if fault is not None:
                raise StreamFault(stream.id, ErrorCode.PROTOCOL_ERROR, fault)
            if headers.fields[0][1][:1] == b"1" and not ends:
                # Informational: the answer is still to come.
                return
            self._expect_content(stream, headers, ends=ends)
            stream.got_headers = True
            self._events.append(HeadersReceived(stream.id, headers, ends))
        if stream.is_closed:
            self._forget(stream)

    def _expect_content(self, stream: Http2Stream, headers: HeaderList, *, ends: bool) -> None:
        length = headers.content_length()
        if length is not None:
            if length < 0:
                raise StreamFault(stream.id, ErrorCode.PROTOCOL_ERROR, "no content-length")
            stream.content_left = length
            stream.take_content(0, ends=ends)

    def _on_priority(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id == 0:
            raise Fault(ErrorCode.PROTOCOL_ERROR, "PRIORITY on stream 0")
        self._patience.spend(patience.COST_PRIORITY, "PRIORITY frames")
        if len(payload) != 5:
            raise StreamFault(stream_id, ErrorCode.FRAME_SIZE_ERROR, "PRIORITY of another size")
        if int.from_bytes(payload[:4]) & codes.WINDOW_MAX == stream_id:
            raise StreamFault(
                stream_id, ErrorCode.PROTOCOL_ERROR, "a stream that depends on itself"
            )

    def _on_reset(self, flags: int, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Fault(ErrorCode.FRAME_SIZE_ERROR, "RST_STREAM of another size")
        self._ids.check_not_idle(stream_id, "RST_STREAM")
        self._patience.spend(patience.COST_RESET, "resets")
        stream = self._streams.get(stream_id)
        if stream is not None:
            stream.step(Step.GET_RESET)
            self._forget(stream)
            self._events.append(StreamReset(stream_id, int.from_bytes(payload), by_peer=True))

    def _on_settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise Fault(ErrorCode.PROTOCOL_ERROR, "SETTINGS on a stream")
        if flags & codes.ACK:
            if payload:
                raise Fault(ErrorCode.FRAME_SIZE_ERROR, "an acknowledgement with settings")
            self._patience.spend(patience.COST_PING, "acknowledgements of settings")
            self._events.append(SettingsAgreed())
            return
        if len(payload) % 6:
            raise Fault(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS of another size")
        self._patience.spend(patience.COST_SETTINGS, "SETTINGS frames")
        growth = self.peer.change(payload)
        self._outgoing.put(frames.SETTINGS_ACK)
        if growth:
            for stream in self._streams.values():
                stream.send_window += growth
                if stream.send_window > codes.WINDOW_MAX:
                    raise Fault(ErrorCode.FLOW_CONTROL_ERROR, "a window beyond its largest")
            self._note_drained(self._outgoing.widen_all(list(self._streams.values())))

    def _on_push_promise(self, flags: int, stream_id: int, payload: bytes) -> None:
        raise Fault(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE, which our settings refuse")

    def _on_ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise Fault(ErrorCode.PROTOCOL_ERROR, "PING on a stream")
        if len(payload) != 8:
            raise Fault(ErrorCode.FRAME_SIZE_ERROR, "PING of another size")
        self._patience.spend(patience.COST_PING, "PING frames")
        if flags & codes.ACK:
            self._events.append(PingAnswered(payload))
        else:
            self._outgoing.put(frames.ping(payload, is_ack=True))

    def _on_go_away(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise Fault(ErrorCode.PROTOCOL_ERROR, "GOAWAY on a stream")
        if len(payload) < 8:
            raise Fault(ErrorCode.FRAME_SIZE_ERROR, "GOAWAY of another size")
        self._patience.spend(patience.COST_SETTINGS, "GOAWAY frames")
        self._is_left = True
        last_id = int.from_bytes(payload[:4]) & codes.WINDOW_MAX
        self._events.append(GoAwayReceived(last_id, int.from_bytes(payload[4:8])))
        for stream in list(self._streams.values()):
            if self._ids.is_local(stream.id) and stream.id > last_id:
                self._forget(stream)
                self._events.append(StreamReset(stream.id, ErrorCode.REFUSED_STREAM, by_peer=True))

    def _on_window_update(self, flags: int, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Fault(ErrorCode.FRAME_SIZE_ERROR, "WINDOW_UPDATE of another size")
        increment = int.from_bytes(payload) & codes.WINDOW_MAX
        self._patience.spend(patience.COST_WINDOW_UPDATE, "WINDOW_UPDATE frames")
        if stream_id == 0:
            if not increment:
                raise Fault(ErrorCode.PROTOCOL_ERROR, "an increment of 0")
            self._note_drained(self._outgoing.widen(increment))
            return
        stream = self._streams.get(stream_id)
        if stream is None:
            self._ids.check_not_idle(stream_id, "WINDOW_UPDATE")
        if not increment:
            raise StreamFault(stream_id, ErrorCode.PROTOCOL_ERROR, "an increment of 0")
        if stream is None:
            return
        stream.send_window += increment
        if stream.send_window > codes.WINDOW_MAX:
            raise StreamFault(
                stream_id, ErrorCode.FLOW_CONTROL_ERROR, "a window beyond its largest"
            )
        if self._outgoing.widen_stream(stream):
            self._note_drained([stream])

    # Frames of ours. A stream that is over takes nothing: its peer may have reset it just now.

    def take_output(self) -> list[bytes | memoryview]:
        """The bytes that are to be sent now; they are the caller's from here on."""
        return self._outgoing.take()

    @property
    def is_usable(self) -> bool:
        """Whether a client may ever open another stream here; if not, it needs a new connection."""
        is_left = self._is_left or self.is_ended
        return not is_left and self._ids.next_local <= codes.WINDOW_MAX

    @property
    def has_begun(self) -> bool:
        """Whether the peer's preface and first settings have come."""
        return self._reader.has_begun

    @property
    def has_output(self) -> bool:
        return self._outgoing.has_some

    @property
    def open_streams(self) -> int:
        return len(self._streams)

    def is_open(self, stream_id: int) -> bool:
        return stream_id in self._streams

    def queued_bytes(self, stream_id: int) -> int:
        """Data of a stream that waits for the peer's windows or for the socket."""
        stream = self._streams.get(stream_id)
        return 0 if stream is None else stream.queued_bytes

    def has_queue(self, stream_id: int) -> bool:
        """Whether data of a stream waits, or its end."""
        stream = self._streams.get(stream_id)
        return stream is not None and stream.has_queue

    def receive_window(self, stream_id: int) -> int:
        """How much the peer may still send on a stream."""
        stream = self._streams.get(stream_id)
        return 0 if stream is None else stream.receive_window

    def request(self, headers: Sequence[Header], *, ends: bool) -> int | None:
        """Open a stream (client); None when the peer takes no more, just now or for good."""
        return self.open_stream(header_blocks.encode(headers), ends=ends)

    def open_stream(self, block: bytes, *, ends: bool = False) -> int | None:
        """As `request`, with a header block that is encoded already."""
        assert not self._is_server
        is_full = len(self._streams) >= self.peer.streams_max
        if is_full or not self.is_usable:
            return None
        stream = self._begin(self._ids.next_local)
        self._ids.next_local += 2
        self._outgoing.headers(stream, block, ends=ends)
        return stream.id

    def send_headers(self, stream_id: int, block: bytes, *, ends: bool = False) -> None:
        """Begin an answer."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            self._outgoing.headers(stream, block, ends=ends)
            self._finish_if_closed(stream)

    def send_data(self, stream_id: int, content: bytes | memoryview, *, ends: bool = False) -> None:
        """Send a part of a body, or have it wait for its windows."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            self._outgoing.data(stream, content, ends=ends)
            self._finish_if_closed(stream)

    def send_trailers(self, stream_id: int, block: bytes) -> None:
        """End a stream with headers, behind whatever waits."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            self._outgoing.trailers(stream, block)
            self._finish_if_closed(stream)

    def answer(self, stream_id: int, head: bytes, content: bytes, trailers: bytes) -> None:
        """A whole answer: headers, data and trailers, in one piece where that fits."""
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        if not self._outgoing.answer(stream, head, content, trailers):
            self._outgoing.headers(stream, head, ends=False)
            self._outgoing.data(stream, content, ends=False)
            self._outgoing.trailers(stream, trailers)
        self._finish_if_closed(stream)

    def credit(self, stream_id: int, size_bytes: int) -> None:
        """Let the peer send so much more on a stream."""
        stream = self._streams.get(stream_id)
        if stream is not None and size_bytes > 0 and stream.may_receive:
            stream.receive_window += size_bytes
            self._outgoing.put(frames.window_update(stream_id, size_bytes))

    def reset(self, stream_id: int, code: ErrorCode) -> None:
        """End a stream at once; data that waits is dropped, and late frames are ignored."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            if stream.state is StreamState.HALF_CLOSED_LOCAL:
                # Answered whole, before the peer had sent everything.
                self._patience.gain(patience.GAIN_REQUEST)
            stream.step(Step.PUT_RESET)
            self._outgoing.put(frames.rst_stream(stream_id, code))
            self._forget(stream, is_reset=True)

    def trust(self, streams: int) -> None:
        """The peer is one of ours: it is not counted what it costs.

        `streams` are all that may be ended at once; their ids are remembered.
        """
        self._patience.trust()
        self._ids.keep(streams)

    def ping(self, payload: bytes) -> None:
        self._outgoing.put(frames.ping(payload, is_ack=False))

    def announce_end(self) -> None:
        """The first GOAWAY of a drain: streams on their way to us are still processed."""
        self._outgoing.put(frames.go_away(codes.WINDOW_MAX, ErrorCode.NO_ERROR, "draining"))

    def refuse_new(self, reason: str = "draining", code: ErrorCode = ErrorCode.NO_ERROR) -> None:
        """The last GOAWAY: streams that come from here on are not processed."""
        self._outgoing.put(frames.go_away(self._ids.serve_no_more(), code, reason))

    def hold(self, *, is_held: bool) -> list[Event]:
        """Whether the socket is full: then data waits, and only frames of control go out."""
        self._events = []
        self._note_drained(self._outgoing.hold(is_held=is_held))
        return self._events

    @property
    def can_go_on(self) -> bool:
        """Whether data waits only because enough of it was in the output that was taken."""
        return self._outgoing.can_go_on

    def go_on(self) -> list[Event]:
        """Let out more data, after the output was taken and written."""
        self._events = []
        self._note_drained(self._outgoing.let_out())
        return self._events

    # Streams.

    def _begin(self, stream_id: int) -> Http2Stream:
        stream = Http2Stream(stream_id, self.peer.stream_window, self.settings.stream_window)
        self._streams[stream_id] = stream
        return stream

    def _note_drained(self, streams: Sequence[Http2Stream]) -> None:
        for stream in streams:
            self._events.append(StreamDrained(stream.id))
            self._finish_if_closed(stream)

    def _finish_if_closed(self, stream: Http2Stream) -> None:
        if stream.state is StreamState.CLOSED:
            self._patience.gain(patience.GAIN_REQUEST)
            self._forget(stream)

    def _forget(self, stream: Http2Stream, *, is_reset: bool = False) -> None:
        if self._streams.pop(stream.id, None) is None:
            return
        self._outgoing.forget(stream)
        if not self._ids.is_local(stream.id):
            self._remote_open -= 1
        self._ids.note_end(stream.id, is_reset=is_reset)

    def _reset_wrong(self, fault: StreamFault) -> None:
        """The peer broke a rule of a stream."""
        self._patience.spend(patience.COST_RESET, "streams that break the rules")
        self._outgoing.put(frames.rst_stream(fault.stream_id, fault.code))
        stream = self._streams.get(fault.stream_id)
        if stream is not None:
            self._forget(stream, is_reset=True)
        self._events.append(StreamReset(fault.stream_id, fault.code, by_peer=False))


#: By type of frame; CONTINUATION is joined to its HEADERS before.
_HANDLERS: Final[tuple[Callable[[Http2Connection, int, int, bytes], None], ...]] = (
    Http2Connection._on_data,
    Http2Connection._on_headers,
    Http2Connection._on_priority,
    Http2Connection._on_reset,
    Http2Connection._on_settings,
    Http2Connection._on_push_promise,
    Http2Connection._on_ping,
    Http2Connection._on_go_away,
    Http2Connection._on_window_update,
)
