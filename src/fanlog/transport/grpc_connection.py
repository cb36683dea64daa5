"""The callers of one connection: events to calls, and answers to frames.

A call begins with its headers, runs as a task once its message is there, and ends with a status;
a caller that leaves ends it, too. `http2_socket.py` is below, `server_call.py` above.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from fanlog.http2 import events
from fanlog.http2.codes import WINDOW_DEFAULT, ErrorCode
from fanlog.http2.connection import Http2Connection
from fanlog.http2.header_blocks import KNOWN_BYTES_MAX
from fanlog.http2.header_list import HeaderList
from fanlog.http2.patience import COST_RESET, TOKENS
from fanlog.http2.settings import Http2Settings
from fanlog.transport import grpc_server, statuses
from fanlog.transport.calls import CallEnded
from fanlog.transport.grpc_server import GrpcServer
from fanlog.transport.http2_socket import Http2Socket
from fanlog.transport.lifetime import Lifetime
from fanlog.transport.messages import (
    FOLDED_BYTES_MIN,
    LONG_BYTES,
    MessageReader,
    MessageRefused,
    fold_message,
    frame_message,
    message_prefix,
)
from fanlog.transport.methods import CallHead, HeadAnswer, read_head
from fanlog.transport.request_credit import RequestCredit
from fanlog.transport.server_call import INBOX_BYTES_FREE, ServerCall, end_block
from fanlog.transport.unfinished import Unfinished

#: Time-outs below this have a timer of their own; longer ones end within a second of their time.
_EXACT_TIMEOUT_S: Final = 5.0
#: A thousand streaming pulls, and calls beside them.
STREAMS_MAX: Final = 1_100
_HEADER_LIST_BYTES_MAX: Final = 16 * 1024
#: Of data: as much as the window of a stream lets through at once.
FRAME_BYTES_MAX: Final = WINDOW_DEFAULT
#: The connection's receive window, credited as bytes arrive: it bounds nothing but a burst.
_WINDOW: Final = 4 * 1024 * 1024
#: The preface and the first settings are there within this time.
PREFACE_S: Final = 10.0
#: A client that closes may cancel all its calls at once.
assert STREAMS_MAX * COST_RESET < TOKENS


class GrpcConnection(Http2Socket):
    """The server's end of one HTTP/2 connection."""

    #: Streams at a time, bytes of the headers of one call, and of headers that are remembered.
    streams_max = STREAMS_MAX
    header_list_bytes_max = _HEADER_LIST_BYTES_MAX
    known_bytes_max = KNOWN_BYTES_MAX

    def __init__(self, server: GrpcServer) -> None:
        settings = Http2Settings(
            streams_max=self.streams_max,
            stream_window=WINDOW_DEFAULT,
            frame_bytes_max=FRAME_BYTES_MAX,
            header_list_bytes_max=self.header_list_bytes_max,
        )
        http2 = Http2Connection(
            "server",
            settings,
            window=_WINDOW,
            now=asyncio.get_running_loop().time(),
            known_bytes_max=self.known_bytes_max,
        )
        super().__init__(http2)
        self._server = server
        self.lifetime = Lifetime()
        self._calls: dict[int, ServerCall] = {}
        #: Streams that were answered by their headers alone, and whose request is not whole.
        self._answered: dict[int, None] = {}
        self._credit: RequestCredit[ServerCall] = RequestCredit(server.budgets.credited_bytes_max)
        #: Streams with answers that wait for their reader.
        self._unread: Unfinished[int] = Unfinished(server.budgets.unread_bytes_max)
        #: Looks at the preface, then at calls whose message has not come.
        self._watch: asyncio.TimerHandle | None = None
        #: No call's deadline is before it.
        self._late_at = math.inf

    # The loop calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._server.add(self)
        self._watch = self._loop.call_later(PREFACE_S, self._expect_preface)

    def _expect_preface(self) -> None:
        self._watch = None
        if not self._http2.has_begun:
            self._server.counts.given_up["late"] += 1
            self.abort()
        elif any(call.task is None for call in self._calls.values()):
            self._expect_messages(max(self._calls))

    def connection_lost(self, error: Exception | None) -> None:
        self._server.remove(self)
        self._drop_all()
        self.lifetime.end()
        super().connection_lost(error)
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _drop_all(self) -> None:
        for call in list(self._calls.values()):
            self._leave(call)
        for stream_id in list(self._unread):
            self._forget_unread(stream_id)

    # Events.

    def _take(self, found: Sequence[events.Event]) -> None:
        handlers = _HANDLERS
        for event in found:
            handler = handlers.get(type(event))
            if handler is not None:
                handler(self, event)

    def _on_headers(self, event: events.HeadersReceived) -> None:
        stream_id, headers, ends = event
        head = headers.memo
        if head is None:
            head = headers.memo = self._read_head(headers)
        if isinstance(head, HeadAnswer):
            self._refuse(stream_id, head, is_whole=ends)
            return
        assert isinstance(head, CallHead)
        call = self._new_call(stream_id, head)
        if call is None:
            return
        if head.takes_gzip and self._server.folds_answers:
            call.folds_answers = True
        self._calls[stream_id] = call
        self._server.counts.calls += 1
        if head.timeout_s is not None:
            self._expect_end(call, head.timeout_s)
        method = head.method
        if method.has_many_requests:
            call.reader = MessageReader(method.request_bytes_max, call.put)
            call.task = self._loop.create_task(self._run_streaming(call))
            if ends:
                call.half_close()
        elif ends:
            self._finish(call, _NO_MESSAGE)
        elif self._watch is None:
            self._expect_messages(stream_id)

    def _read_head(self, headers: HeaderList) -> CallHead | HeadAnswer:
        return read_head(headers, self._server.methods)

    def _new_call(self, stream_id: int, head: CallHead) -> ServerCall | None:
        """The call of a stream; None when the stream was ended instead."""
        return ServerCall(self, stream_id, head, self.peer)

    def _expect_messages(self, last_id: int) -> None:
        self._watch = self._loop.call_later(grpc_server.MESSAGE_S, self._end_waiting, last_id)

    def _end_waiting(self, last_id: int) -> None:
        """Give up calls up to an id whose one message has not even begun; look at later ones."""
        self._watch = None
        newest = 0
        for call in list(self._calls.values()):
            if call.task is not None:
                continue
            if call.stream_id > last_id:
                newest = call.stream_id
            else:
                self._server.counts.given_up["late"] += 1
                self._finish(call, _LATE_MESSAGE)
        if newest:
            self._expect_messages(newest)

    def _expect_end(self, call: ServerCall, timeout_s: float) -> None:
        if timeout_s < _EXACT_TIMEOUT_S:
            call.timer = self._loop.call_later(timeout_s, self._give_up, call)
        elif call.deadline is not None and call.deadline < self._late_at:
            self._late_at = call.deadline
            self._server.look_at(self, call.deadline)

    def _on_data(self, event: events.DataReceived) -> None:
        stream_id, data, ends = event
        call = self._calls.get(stream_id)
        if call is None:
            # A little may still be on its way; one that goes on has not read its answer.
            if ends:
                self._answered.pop(stream_id, None)
            elif self._http2.receive_window(stream_id) < WINDOW_DEFAULT // 2:
                self._reset_answered(stream_id)
            return
        try:
            if call.reader is None:
                if self._takes_whole(call, data, ends=ends):
                    return
                method = call.head.method
                call.reader = MessageReader(method.request_bytes_max, _Only(self, call))
            call.reader.feed(data)
        except MessageRefused as refused:
            self._finish(call, refused.status)
            return
        if ends:
            self._end_of_request(call)
        elif call.reader.is_inside:
            self._expect_more(call)
        else:
            self._count_inbox(call)

    def _takes_whole(self, call: ServerCall, data: bytes, *, ends: bool) -> bool:
        """A whole request in one frame, as most are."""
        unary = call.head.method.unary
        if not ends or unary is None or len(data) < 5 or data[0]:
            return False
        size = int.from_bytes(data[1:5])
        if size != len(data) - 5 or size > call.head.method.request_bytes_max:
            return False
        call.half_close()
        call.task = self._loop.create_task(self._run_unary(call, data[5:]))
        return True

    def _count_inbox(self, call: ServerCall) -> None:
        """Whole messages are in memory until their verb takes them; a few are not counted."""
        if call.inbox_bytes > INBOX_BYTES_FREE:
            self._server.hold_unfinished(self, call, call.inbox_bytes)
        else:
            self._server.forget_unfinished(call)

    def _end_of_request(self, call: ServerCall) -> None:
        self._count_inbox(call)
        assert call.reader is not None
        if call.reader.is_inside:
            self._finish(
                call, statuses.Status(statuses.INTERNAL, "the request ends inside a message")
            )
            return
        call.half_close()
        if call.task is None:
            self._finish(call, _NO_MESSAGE)

    def _expect_more(self, call: ServerCall) -> None:
        """A message is under way: it is counted until it is whole, and its stream credited."""
        reader = call.reader
        if reader is None or not reader.is_inside:
            return
        missing, window = reader.missing_bytes, self._http2.receive_window(call.stream_id)
        more = missing - window
        if more <= 0:
            self._credit.forget(call)
            is_credited = True
        elif call.inbox_bytes > INBOX_BYTES_FREE:
            # Its verb is behind: no more is asked for until it has taken what is here.
            is_credited = False
        else:
            is_credited = self._credit.take(call, more)
            if is_credited:
                call.credit_ahead(more)
        expected = missing if is_credited else window
        size = reader.held_bytes + expected + call.inbox_bytes
        self._server.count_unfinished(self, call, size)

    def inbox_read(self, call: ServerCall) -> None:
        if call.reader is not None and call.reader.is_inside:
            self._expect_more(call)
        else:
            self._server.forget_unfinished(call)

    def give_credit_back(self, size_bytes: int) -> None:
        self._credit.give_back(size_bytes, self._expect_more)

    def _on_trailers(self, event: events.TrailersReceived) -> None:
        call = self._calls.get(event.stream_id)
        if call is None:
            return
        if call.reader is None:
            self._finish(call, _NO_MESSAGE)
        else:
            self._end_of_request(call)

    def _on_reset(self, event: events.StreamReset) -> None:
        if not event.by_peer:
            self._server.counts.stream_faults[ErrorCode(event.code).name] += 1
        self._forget_unread(event.stream_id)
        call = self._calls.get(event.stream_id)
        if call is not None:
            self._leave(call)

    def _on_drained(self, event: events.StreamDrained) -> None:
        self._forget_unread(event.stream_id)
        call = self._calls.get(event.stream_id)
        if call is not None:
            call.drain()
        elif self._http2.is_open(event.stream_id):
            # Answered whole, while the request still comes: no more of it is wanted.
            self._http2.reset(event.stream_id, ErrorCode.NO_ERROR)

    def _on_refused(self, event: events.StreamRefused) -> None:
        self._server.counts.streams_refused += 1

    def _on_headers_refused(self, event: events.HeadersRefused) -> None:
        self._server.counts.given_up["too_long"] += 1
        self._refuse(event.stream_id, _too_many_headers(self.header_list_bytes_max), is_whole=False)

    def _on_ping_answered(self, _: events.PingAnswered) -> None:
        self.is_pinged = False
        self._server.ping_answered(self)

    def _on_ended(self, event: events.ConnectionEnded) -> None:
        self._server.note_fault(self.peer, event)
        self._drop_all()
        self.part()

    # Calls.

    async def _run_unary(self, call: ServerCall, raw: bytes, is_compressed: bool = False) -> None:
        unary = call.head.method.unary
        assert unary is not None
        try:
            if is_compressed:
                raw = call.unfold(raw)
            answer = await unary(raw, call)
        except CallEnded:
            return
        except Exception as error:
            self._finish(call, self._server.status_of(error))
            return
        if not call.is_over:
            call.head.method.ended[statuses.OK] += 1
            self._forget(call)
            trailing = call.trailing
            block = statuses.trailers(_OK, trailing) if trailing else statuses.OK_TRAILERS
            self._answer(call, answer, block)
            self._end_or_wait(call.stream_id)
            self._flush_soon()

    def _answer(self, call: ServerCall, message: bytes, trailers: bytes) -> None:
        stream_id = call.stream_id
        if call.folds_answers and len(message) >= FOLDED_BYTES_MIN:
            self._http2.answer(stream_id, statuses.GZIP_HEAD, fold_message(message), trailers)
        elif len(message) <= LONG_BYTES:
            self._http2.answer(stream_id, statuses.HEAD, frame_message(message), trailers)
        else:
            self._http2.send_headers(stream_id, statuses.HEAD)
            self._http2.send_data(stream_id, message_prefix(message))
            self._http2.send_data(stream_id, message)
            self._http2.send_trailers(stream_id, trailers)

    async def _run_streaming(self, call: ServerCall) -> None:
        streaming = call.head.method.streaming
        assert streaming is not None
        try:
            await streaming(call)
        except CallEnded:
            return
        except Exception as error:
            self._finish(call, self._server.status_of(error))
        else:
            self._finish(call, _OK)

    def begin(self, call: ServerCall, raw: bytes, is_compressed: bool) -> None:
        """The one message of a request is whole."""
        if call.head.method.unary is not None:
            call.task = self._loop.create_task(self._run_unary(call, raw, is_compressed))
        else:
            call.put(raw, is_compressed)
            call.task = self._loop.create_task(self._run_streaming(call))

    def _finish(self, call: ServerCall, status: statuses.Status) -> None:
        """End a call with a status; its verb, if it still runs, is cancelled."""
        if call.is_over:
            return
        call.head.method.ended[status.code] += 1
        block = end_block(call, status)
        self._drop(call)
        self._http2.send_trailers(call.stream_id, block)
        self._end_or_wait(call.stream_id)
        self._flush_soon()

    def _refuse(self, stream_id: int, refusal: HeadAnswer, *, is_whole: bool) -> None:
        if refusal.body:
            self._http2.send_headers(stream_id, refusal.block)
            self._http2.send_data(stream_id, refusal.body, ends=True)
        else:
            self._http2.send_headers(stream_id, refusal.block, ends=True)
        if not is_whole:
            self._answered[stream_id] = None
            self._server.look_at(self, self._loop.time())

    def _reset_answered(self, stream_id: int) -> None:
        """A request that was answered by its headers still comes: no more of it is wanted."""
        if stream_id in self._answered:
            del self._answered[stream_id]
            self._http2.reset(stream_id, ErrorCode.NO_ERROR)

    def _end_or_wait(self, stream_id: int) -> None:
        """A call is answered: no more of its request is wanted, once its answer has left."""
        if self._http2.has_queue(stream_id):
            self._count_unread(stream_id)
        else:
            self._http2.reset(stream_id, ErrorCode.NO_ERROR)

    def _count_unread(self, stream_id: int) -> None:
        """Data waits for its reader; where all of it is too much, the oldest is given up."""
        now = self._loop.time()
        self._unread.put(stream_id, self._http2.queued_bytes(stream_id), now)
        self._server.count_unread(self, self._unread.size_bytes)
        while (oldest := self._unread.excess()) is not None:
            self._give_up_unread(oldest)

    def _forget_unread(self, stream_id: int) -> None:
        if stream_id in self._unread:
            self._unread.remove(stream_id)
            self._server.count_unread(self, self._unread.size_bytes)

    def _give_up_unread(self, stream_id: int) -> None:
        self._server.counts.given_up["unread"] += 1
        self._forget_unread(stream_id)
        call = self._calls.get(stream_id)
        if call is not None:
            self._leave(call)
        self._http2.reset(stream_id, ErrorCode.ENHANCE_YOUR_CALM)
        self._flush_soon()

    def _leave(self, call: ServerCall) -> None:
        """A call is over without a status that its caller reads."""
        call.head.method.ended[statuses.CANCELLED] += 1
        self._drop(call)

    def _drop(self, call: ServerCall) -> None:
        """A call is over: its verb stops at its next step."""
        self._forget(call)
        task = call.task
        if task is not None and not task.done() and task is not asyncio.current_task(self._loop):
            task.cancel()

    def _forget(self, call: ServerCall) -> None:
        self._calls.pop(call.stream_id, None)
        if call.timer is not None:
            call.timer.cancel()
            call.timer = None
        self._server.forget_unfinished(call)
        self._credit.forget(call)
        call.end()
        if call.extra_credit:
            self._credit.give_back(call.extra_credit, self._expect_more)
            call.extra_credit = 0

    def _give_up(self, call: ServerCall) -> None:
        """The caller's time is over."""
        self._finish(call, statuses.Status(statuses.DEADLINE_EXCEEDED, "the deadline has passed"))

    # For the server, and for calls.

    @property
    def call_count(self) -> int:
        """Calls that are not over, and answers that wait for their reader: 0 for an idle one."""
        return len(self._calls) + len(self._answered) + len(self._unread)

    @property
    def is_idle(self) -> bool:
        return not self.call_count

    def end_late(self, now: float) -> float | None:
        """Give up calls whose deadline has passed, and requests that were answered before."""
        for stream_id in list(self._answered):
            self._reset_answered(stream_id)
        self._late_at = math.inf
        for call in list(self._calls.values()):
            if call.deadline is not None:
                if call.deadline <= now:
                    self._give_up(call)
                else:
                    self._late_at = min(self._late_at, call.deadline)
        return None if self._late_at == math.inf else self._late_at

    def refuse_call(self, call: ServerCall, status: statuses.Status) -> None:
        self._finish(call, status)

    def end_call(self, call: ServerCall, error: Exception) -> None:
        self._finish(call, self._server.status_of(error))

    def begin_answer(self, stream_id: int, head: bytes) -> None:
        self._http2.send_headers(stream_id, head)

    def send(self, stream_id: int, content: bytes) -> bool:
        self._http2.send_data(stream_id, content)
        self._flush_soon()
        if not self._http2.queued_bytes(stream_id):
            return True
        self._count_unread(stream_id)
        return False

    def give_up_oldest(self) -> None:
        """Make room: the answer that has waited longest for its reader is dropped."""
        oldest = self._unread.oldest()
        if oldest is not None:
            self._give_up_unread(oldest)

    def credit(self, stream_id: int, size_bytes: int) -> None:
        self._http2.credit(stream_id, size_bytes)
        self._flush_soon()


class _Only:
    """Takes the one message of a request that came in several frames."""

    __slots__ = ("_call", "_connection", "_is_done")

    def __init__(self, connection: GrpcConnection, call: ServerCall) -> None:
        self._connection = connection
        self._call = call
        self._is_done = False

    def __call__(self, message: bytes, is_compressed: bool) -> None:
        if self._is_done:
            raise MessageRefused(
                statuses.Status(statuses.INTERNAL, "more than one message in a request of one")
            )
        self._is_done = True
        self._connection.begin(self._call, message, is_compressed)


_HANDLERS: Final[dict[type, Callable[[GrpcConnection, Any], None]]] = {
    events.HeadersReceived: GrpcConnection._on_headers,
    events.DataReceived: GrpcConnection._on_data,
    events.TrailersReceived: GrpcConnection._on_trailers,
    events.StreamReset: GrpcConnection._on_reset,
    events.StreamDrained: GrpcConnection._on_drained,
    events.StreamRefused: GrpcConnection._on_refused,
    events.HeadersRefused: GrpcConnection._on_headers_refused,
    events.PingAnswered: GrpcConnection._on_ping_answered,
    events.ConnectionEnded: GrpcConnection._on_ended,
}
_OK: Final = statuses.Status(statuses.OK)
_NO_MESSAGE: Final = statuses.Status(statuses.INTERNAL, "a call without a message")
_LATE_MESSAGE: Final = statuses.Status(
    statuses.RESOURCE_EXHAUSTED,
    f"the call's message did not come within {grpc_server.MESSAGE_S:g} s",
)


def _too_many_headers(bytes_max: int) -> HeadAnswer:
    # For HTTP and for gRPC: a client of the latter believes the status it knows.
    status = statuses.Status(
        statuses.RESOURCE_EXHAUSTED, f"the call has more than {bytes_max} bytes of headers"
    )
    return HeadAnswer(statuses.trailers_only(status, http_status=b"431"))
