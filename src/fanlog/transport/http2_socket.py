"""The socket of one HTTP/2 connection: bytes in are events, and output leaves in its time.

Everything that is written in one turn of the loop leaves in one `write`. A socket that is full
holds data back in its streams, so that a peer that never reads costs a bounded buffer; reading goes
on, or two sides that send much would wait for each other for ever. It stops where answers to frames
of control pile up.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, cast

from fanlog.http2.connection import Http2Connection
from fanlog.http2.events import Event
from fanlog.transport.calls import Certificate

#: Output that is joined into one buffer; larger ones go as they are.
_JOIN_BYTES_MAX: Final = 64 * 1024
#: Output that a full socket may have waiting before nothing more is read.
_HELD_BYTES_MAX: Final = 256 * 1024
#: How long a peer may read why it is hung up on, or its last answers, before it is cut off.
LINGER_S: Final = 1.0
CLOSE_S: Final = 5.0


class Http2Socket(asyncio.Protocol, ABC):
    """One end of a connection on the loop. A subclass takes its events."""

    def __init__(self, http2: Http2Connection) -> None:
        self._http2 = http2
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self.peer = ""
        #: When something came last, and whether a ping of ours waits for its answer.
        self.last_heard = self._loop.time()
        self.is_pinged = False
        self._is_flushing = False
        self._is_closing = False
        self._is_held = False
        self._is_deaf = False

    @abstractmethod
    def _take(self, found: Sequence[Event]) -> None:
        """Take events, in their order."""

    def now(self) -> float:
        return self._loop.time()

    @property
    def certificate(self) -> Certificate | None:
        """The certificate that the peer has shown; None without mutual TLS."""
        if self._transport is None:
            return None
        found: Certificate | None = self._transport.get_extra_info("peercert")
        return found or None

    # The loop calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's is none by its type, and one by what it does.
        self._transport = cast(asyncio.Transport, transport)
        name = transport.get_extra_info("peername")
        self.peer = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name or "")
        self._flush_soon()

    def data_received(self, data: bytes) -> None:
        self.last_heard = self._loop.time()
        self._take(self._http2.receive(data, self.last_heard))
        if self._http2.has_output:
            self._flush_soon()
        if self._is_held and not self._is_deaf and self._transport is not None:
            self._is_deaf = self._transport.get_write_buffer_size() > _HELD_BYTES_MAX
            if self._is_deaf:
                self._transport.pause_reading()

    def pause_writing(self) -> None:
        self._is_held = True
        self._http2.hold(is_held=True)

    def resume_writing(self) -> None:
        self._is_held = False
        self._take(self._http2.hold(is_held=False))
        if self._is_deaf and self._transport is not None and not self._is_closing:
            self._is_deaf = False
            self._transport.resume_reading()
        self._flush_soon()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None

    # Output.

    def _flush_soon(self) -> None:
        if not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        output = self._http2.take_output()
        if not output or self._transport is None:
            return
        if self._is_closing or self._transport.is_closing():
            return
        if len(output) == 1:
            self._transport.write(output[0])
        elif sum(map(len, output)) <= _JOIN_BYTES_MAX:
            self._transport.write(b"".join(output))
        else:
            self._transport.writelines(output)
        if self._http2.can_go_on:
            self._take(self._http2.go_on())
            self._flush_soon()

    def ping(self, payload: bytes) -> None:
        self.is_pinged = True
        self._http2.ping(payload)
        self._flush_soon()

    # The end.

    def announce_end(self) -> None:
        """The first GOAWAY of a drain, and a ping whose answer says that it was read."""
        self._http2.announce_end()
        self.ping(b"draining")

    def refuse_new(self) -> None:
        """The last GOAWAY of a drain."""
        self._http2.refuse_new()
        self._flush_soon()

    def close(self) -> None:
        """Send what is to be sent, and hang up."""
        if self._transport is not None and not self._is_closing:
            self._flush()
            self._is_closing = True
            self._transport.close()
            # One that does not read its last answers would stay.
            self._loop.call_later(CLOSE_S, self._transport.abort)

    def part(self) -> None:
        """Send what is to be sent, and leave it to the peer to hang up, for a while.

        Closed at once, a socket with something unread would be reset, and the last answers, or the
        GOAWAY that says why, lost with it.
        """
        transport = self._transport
        if transport is None or self._is_closing:
            return
        self._flush()
        self._is_closing = True
        if transport.can_write_eof():
            transport.write_eof()
            self._loop.call_later(LINGER_S, transport.abort)
        else:
            self._loop.call_later(LINGER_S, transport.close)
            self._loop.call_later(CLOSE_S, transport.abort)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
