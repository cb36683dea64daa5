"""One connection to an endpoint of HTTP/1.1, and the request under way on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from fanlog.push.rules.answer_parser import AnswerParser, BadAnswer, WebAnswer

#: Scheme, name and port.
Host = tuple[str, str, int]

#: How long an answer's body may hold up the next request on its connection.
_READ_S = 1.0
#: Larger bodies are sent in parts, so that the loop has other things done meanwhile.
_PART_BYTES = 512 * 1024


class Disconnected(ConnectionError):
    """The endpoint closed the connection before it answered."""


class WebConnection(asyncio.Protocol):
    """Carries one request at a time: `post`, await its future, and `post` again if it `is_free`.

    Closed by itself when it cannot be used again. Lives on one loop.
    """

    def __init__(self, host: Host, on_lost: Callable[[WebConnection], None]) -> None:
        self.host = host
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = AnswerParser()
        self._answered: asyncio.Future[WebAnswer] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._until_s = 0.0
        self._is_reading_body = False
        # Of a large body: the part that is not written yet.
        self._rest = memoryview(b"")
        self._is_paused = False
        self._is_closed = False

    @property
    def is_free(self) -> bool:
        """Whether a request can be sent on it."""
        return self._answered is None and not self._is_closed

    @property
    def is_silent(self) -> bool:
        """Whether nothing of the answer to the last request came."""
        return not self._parser.has_bytes

    def post(self, head: bytes, body: bytes, until_s: float) -> asyncio.Future[WebAnswer]:
        """Send a request; the answer is there, or TimeoutError raised, by `until_s` of the loop.

        The future raises OSError or BadAnswer as well. Abort the connection when it is cancelled.
        """
        assert self._transport is not None
        self._parser.begin()
        self._is_reading_body = False
        self._until_s = until_s
        self._timer = self._loop.call_at(until_s, self._time_out)
        answered = self._answered = self._loop.create_future()
        if self._is_closed:
            # It was lost between being taken and now.
            self._fail(Disconnected("closed"))
        elif len(body) <= _PART_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._rest = memoryview(body)
            self._write_part()
        return answered

    def abort(self) -> None:
        """Close it at once; a request under way fails."""
        self._is_closed = True
        if self._transport is not None:
            self._transport.abort()

    # Events of the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Uvloop's is one, though not by its class.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._answered is None:
            # Nothing was asked. It must not be taken for the answer to the next request.
            self.abort()
            return
        try:
            self._parser.feed(data)
        except BadAnswer as error:
            self._fail(error)
            return
        if self._parser.is_complete:
            self._finish()
        elif self._parser.has_head and not self._is_reading_body:
            self._is_reading_body = True
            self._set_timer(min(self._until_s, self._loop.time() + _READ_S))

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closed = True
        if self._answered is not None:
            if self._parser.has_head:
                self._parser.end()
                self._finish()
            else:
                self._fail(exc or Disconnected("closed before it answered"))
        self._on_lost(self)

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._write_part()

    # Private.

    def _write_part(self) -> None:
        if self._rest and not self._is_paused and not self._is_closed:
            assert self._transport is not None
            part, self._rest = self._rest[:_PART_BYTES], self._rest[_PART_BYTES:]
            self._transport.write(part)
            if not self._is_paused:
                self._loop.call_soon(self._write_part)

    def _set_timer(self, until_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(until_s, self._time_out)

    def _time_out(self) -> None:
        if self._parser.has_head:
            # Only the body is late, and the status says all.
            self._parser.end()
            self._finish()
        else:
            self._fail(TimeoutError())

    def _finish(self) -> None:
        """The answer is there."""
        answered = self._end()
        if not self._parser.keeps_alive or self._rest:
            self.abort()
        if not answered.done():
            answered.set_result(self._parser.answer())

    def _fail(self, error: Exception) -> None:
        answered = self._end()
        self.abort()
        if not answered.done():
            answered.set_exception(error)

    def _end(self) -> asyncio.Future[WebAnswer]:
        """The request is over."""
        answered, self._answered = self._answered, None
        assert answered is not None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return answered
