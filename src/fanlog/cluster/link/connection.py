"""The caller's end of one connection of a link: events to calls, and calls to frames.

Answers that do not fit the window of their stream are credited in turn, those of streams only while
their reader waits: what is in memory of a stream that is read slowly is its window.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from fanlog import limits
from fanlog.cluster import bounds
from fanlog.cluster.link.call import LinkCall, NeverLeft, read_trailers
from fanlog.cluster.link.callers import Callers
from fanlog.cluster.link.heads import HeadBlocks, introduce, write_head
from fanlog.cluster.link.origin import Origin, write_certificate
from fanlog.errors import Unavailable
from fanlog.http2 import events
from fanlog.http2.codes import WINDOW_DEFAULT, ErrorCode
from fanlog.http2.connection import Http2Connection
from fanlog.http2.settings import Http2Settings
from fanlog.transport import statuses
from fanlog.transport.calls import Entry
from fanlog.transport.http2_socket import Http2Socket
from fanlog.transport.messages import (
    LONG_BYTES,
    MessageRefused,
    frame_message,
    message_prefix,
)
from fanlog.transport.request_credit import RequestCredit

_WINDOW: Final = 4 * 1024 * 1024
#: How often the other side is asked whether it is there, and how long it may be silent then: the
#: calls of an owner that is gone must end while their callers still wait. By it the owner hears
#: that this node is there, too.
PING_AFTER_S: Final = 2.0
PING_WAIT_S: Final = 4.0


class LinkConnection(Http2Socket):
    """Calls go out on it until `is_usable` is false; those that are under way go on."""

    def __init__(
        self,
        node: str,
        *,
        on_over: Callable[[LinkCall], None],
        on_change: Callable[[LinkConnection], None],
        tell_gone: Callable[[LinkConnection, Sequence[int]], bool],
    ) -> None:
        """`on_over` is called when a call is over, `on_change` when the connection is not usable
        any more, and `tell_gone` with the numbers of callers that are gone."""
        settings = Http2Settings(
            stream_window=WINDOW_DEFAULT,
            frame_bytes_max=WINDOW_DEFAULT,
            header_list_bytes_max=bounds.LINK_HEADER_BYTES_MAX,
        )
        now = asyncio.get_running_loop().time()
        super().__init__(Http2Connection("client", settings, window=_WINDOW, now=now))
        self._node = node
        self._on_over = on_over
        self._on_change = on_change
        self._calls: dict[int, LinkCall] = {}
        self._blocks = HeadBlocks()
        self._callers = Callers(lambda numbers: tell_gone(self, numbers))
        self._credit: RequestCredit[LinkCall] = RequestCredit(limits.CREDITED_BYTES_MAX)
        self._is_lost = False
        self._pinged_at = 0.0

    # Of the connection.

    @property
    def is_usable(self) -> bool:
        return not self._is_lost and not self._is_closing and self._http2.is_usable

    @property
    def call_count(self) -> int:
        return len(self._calls)

    @property
    def is_there(self) -> bool:
        """Whether calls that are under way go on."""
        return not self._is_lost and not self._http2.is_ended

    def has_room(self, *, is_stream: bool) -> bool:
        """Whether the other side takes one more call of a caller.

        Some are kept for calls with one answer, and a few for those of the node itself.
        """
        most = self._http2.peer.streams_max
        if is_stream:
            most -= min(bounds.LINK_UNARY_MIN, most // 8)
        else:
            most -= min(bounds.LINK_OWN_MIN, most // 16)
        return self._http2.open_streams < most

    def trust(self) -> None:
        """The other side has shown that it is a node."""
        self._http2.trust(2 * bounds.LINK_STREAMS_MAX)

    def look(self, now: float) -> None:
        """Ask the other side whether it is there; give up one that stays silent."""
        if self.is_pinged:
            if now - max(self.last_heard, self._pinged_at) > PING_WAIT_S:
                self.abort()
        elif now - self._pinged_at >= PING_AFTER_S:
            self._pinged_at = now
            self.ping(b"are you?")

    def connection_lost(self, error: Exception | None) -> None:
        self._is_lost = True
        super().connection_lost(error)
        self._fail_all(f"the link to node {self._node!r} was lost; try again")
        self._callers.end()
        self._on_change(self)

    def leave(self) -> None:
        """Hang up once everything that is under way is over."""
        if not self._calls:
            self.close()

    def _fail_all(self, sentence: str) -> None:
        for call in list(self._calls.values()):
            self._over(call, Unavailable(sentence))

    # Calls.

    def start(
        self,
        call: LinkCall,
        path: str,
        message: bytes | None,
        *,
        origin: Origin | None = None,
        metadata: Iterable[Entry] = (),
        authorization: str = "",
        timeout: bytes = b"",
    ) -> None:
        """Send the head of a call, and its only request if it has one.

        Raises:
            NeverLeft: The connection takes no more calls.
            FanlogError: The caller cannot be forwarded.
        """
        if origin is None:
            block = write_head(path, metadata, authorization, timeout)
        else:
            block = self._block_of(origin, path, metadata, authorization, timeout)
        stream_id = self._http2.open_stream(block) if self.is_usable else None
        if stream_id is None:
            self._callers.forget(call.lifetime)
            raise NeverLeft(f"node {self._node!r} takes no more calls on this connection")
        call.stream_id = stream_id
        self._calls[stream_id] = call
        if message is not None:
            self._send(stream_id, message, ends=True)
        self._flush_soon()

    def _block_of(
        self,
        origin: Origin,
        path: str,
        metadata: Iterable[Entry],
        authorization: str,
        timeout: bytes,
    ) -> bytes:
        lifetime = origin.connection
        number = self._callers.find(lifetime)
        if number is not None:
            return self._blocks.block(path, metadata, authorization, timeout, number)
        shown = origin.certificate
        certificate = None if shown is None else write_certificate(shown)
        more = introduce(self._callers.number(lifetime), origin.address, certificate)
        return write_head(path, metadata, authorization, timeout, more)

    def _send(self, stream_id: int, message: bytes, *, ends: bool) -> None:
        if len(message) <= LONG_BYTES:
            self._http2.send_data(stream_id, frame_message(message), ends=ends)
        else:
            self._http2.send_data(stream_id, message_prefix(message))
            self._http2.send_data(stream_id, message, ends=ends)

    def send(self, call: LinkCall, message: bytes) -> bool:
        self._send(call.stream_id, message, ends=False)
        self._flush_soon()
        return not self._http2.queued_bytes(call.stream_id)

    def end_requests(self, call: LinkCall) -> None:
        self._http2.send_data(call.stream_id, b"", ends=True)
        self._flush_soon()

    def cancel(self, call: LinkCall) -> None:
        self._http2.reset(call.stream_id, ErrorCode.CANCEL)
        self._over(call, statuses.Status(statuses.CANCELLED, "the caller is gone"))
        self._flush_soon()

    def _over(
        self,
        call: LinkCall,
        outcome: statuses.Status | Exception,
        trailing: tuple[Entry, ...] = (),
    ) -> None:
        del self._calls[call.stream_id]
        self._credit.forget(call)
        if call.extra_credit:
            ahead, call.extra_credit = call.extra_credit, 0
            self._credit.give_back(ahead, self.expect_more)
        call.end(outcome, trailing)
        self._on_over(call)

    # Credit.

    def expect_more(self, call: LinkCall) -> None:
        reader = call.reader
        if reader is None or not call.is_wanted:
            self._credit.forget(call)
            return
        more = reader.missing_bytes - self._http2.receive_window(call.stream_id)
        if more > 0 and self._credit.take(call, more):
            call.extra_credit += more
            self.give_credit(call, more)

    def give_credit(self, call: LinkCall, size_bytes: int) -> None:
        self._http2.credit(call.stream_id, size_bytes)
        self._flush_soon()

    def give_credit_back(self, size_bytes: int) -> None:
        self._credit.give_back(size_bytes, self.expect_more)

    # Events.

    def _take(self, found: Sequence[events.Event]) -> None:
        handlers = _HANDLERS
        for event in found:
            handler = handlers.get(type(event))
            if handler is not None:
                handler(self, event)

    def _on_headers(self, event: events.HeadersReceived) -> None:
        if event.ends:
            self._on_trailers(events.TrailersReceived(event.stream_id, event.headers))

    def _on_data(self, event: events.DataReceived) -> None:
        call = self._calls.get(event.stream_id)
        if call is None:
            return
        assert call.reader is not None
        try:
            call.reader.feed(event.data)
        except MessageRefused as refused:
            self._http2.reset(event.stream_id, ErrorCode.CANCEL)
            self._over(call, refused.status)
            return
        if event.ends:
            self._over(call, Unavailable("the owner's answer ends without a status"))
        elif call.reader.is_inside:
            self.expect_more(call)

    def _on_trailers(self, event: events.TrailersReceived) -> None:
        call = self._calls.get(event.stream_id)
        if call is None:
            return
        status, trailing = read_trailers(event.headers)
        if call.reader is not None and call.reader.is_inside and status.code == statuses.OK:
            status = statuses.Status(statuses.UNAVAILABLE, "the owner's answer is not whole")
        # Of requests, it wants no more.
        self._http2.reset(event.stream_id, ErrorCode.NO_ERROR)
        self._over(call, status, trailing)

    def _on_reset(self, event: events.StreamReset) -> None:
        call = self._calls.get(event.stream_id)
        if call is None:
            return
        if event.by_peer and event.code == ErrorCode.REFUSED_STREAM:
            # It may not have read for whom the call is.
            self._callers.forget(call.lifetime)
            self._over(call, NeverLeft(f"node {self._node!r} did not take the call"))
            return
        code = ErrorCode(event.code).name if event.code in list(ErrorCode) else event.code
        self._over(call, Unavailable(f"node {self._node!r} ended the call ({code}); try again"))

    def _on_drained(self, event: events.StreamDrained) -> None:
        call = self._calls.get(event.stream_id)
        if call is not None:
            call.drain()

    def _on_ping_answered(self, _: events.PingAnswered) -> None:
        self.is_pinged = False

    def _on_go_away(self, _: events.GoAwayReceived) -> None:
        self._on_change(self)

    def _on_ended(self, event: events.ConnectionEnded) -> None:
        self._fail_all(f"node {self._node!r} broke a rule of HTTP/2: {event.reason}")
        self.part()
        self._on_change(self)


_HANDLERS: Final[dict[type, Callable[[LinkConnection, Any], None]]] = {
    events.HeadersReceived: LinkConnection._on_headers,
    events.DataReceived: LinkConnection._on_data,
    events.TrailersReceived: LinkConnection._on_trailers,
    events.StreamReset: LinkConnection._on_reset,
    events.StreamDrained: LinkConnection._on_drained,
    events.PingAnswered: LinkConnection._on_ping_answered,
    events.GoAwayReceived: LinkConnection._on_go_away,
    events.ConnectionEnded: LinkConnection._on_ended,
}
