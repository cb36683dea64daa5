"""The answers that come on one connection of HTTP/1.1: bytes in, a `WebAnswer` out.

The status decides, so little else is kept: few headers, and the first bytes of a refusal. The
head of an answer is bounded, informational answers (1xx) before it included; a body is read as far
as it is short, so that its connection can be used again.

`httptools` does the parsing. It is as lenient as the clients of others: framing that is merely
untidy is read, framing that can be read in two ways is refused.
"""

from __future__ import annotations

from typing import NamedTuple

import httptools

from fanlog import limits
from fanlog.model.attributes import PREFIX

_SWITCHING_PROTOCOLS = 101
_OWN = PREFIX.encode()


class BadAnswer(Exception):
    """The answer is not HTTP, or its head is too long."""


class WebAnswer(NamedTuple):
    status: int
    retry_after: str | None
    content_type: str
    content_encoding: str
    #: The first bytes of the body; none of a 2xx.
    first: bytes
    #: The words of a nack among the headers.
    words: tuple[tuple[str, str], ...] = ()


class AnswerParser:
    """Parses one answer after another; `begin` before each.

    The methods whose names begin with `on_` are called by httptools.
    """

    __slots__ = (
        "_body_bytes", "_first", "_head_bytes", "_headers", "_keeps_alive", "_parser", "_words",
        "has_bytes", "has_head", "is_complete", "status",
    )  # fmt: skip

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self.begin()

    def begin(self) -> None:
        """Expect the next answer: a request is about to be sent."""
        #: Whether any byte of it came.
        self.has_bytes = False
        #: Whether its status and headers are there.
        self.has_head = False
        #: Whether no more of it is needed.
        self.is_complete = False
        self.status = 0
        self._keeps_alive = False
        self._head_bytes = 0
        self._body_bytes = 0
        self._headers: dict[bytes, bytes] = {}
        self._words: list[tuple[str, str]] = []
        self._first = b""

    @property
    def keeps_alive(self) -> bool:
        """Whether the connection can be used again: the answer ended, and nothing came after it."""
        return self._keeps_alive

    def feed(self, data: bytes) -> None:
        """Take bytes that came.

        Raises:
            BadAnswer: No status can be had of them.
        """
        self.has_bytes = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self.has_head:
                raise BadAnswer(str(error)) from error
            self.end()
        if not self.has_head:
            self._head_bytes += len(data)
            if self._head_bytes > limits.PUSH_ANSWER_HEAD_BYTES_MAX:
                raise BadAnswer("the head of the answer is too long")

    def end(self) -> None:
        """No more of a body is read: the connection is not used again."""
        self.is_complete = True
        self._keeps_alive = False

    def answer(self) -> WebAnswer:
        """The answer, as soon as it has its head."""
        headers = self._headers
        retry_after = headers.get(b"retry-after")
        return WebAnswer(
            self.status,
            None if retry_after is None else retry_after.decode("latin-1"),
            headers.get(b"content-type", b"").decode("latin-1"),
            headers.get(b"content-encoding", b"").decode("latin-1"),
            self._first,
            tuple(self._words),
        )

    def on_message_begin(self) -> None:
        if self.is_complete:
            # Bytes that nobody asked for: they would be taken for the next request's answer.
            self._keeps_alive = False
        else:
            self._headers.clear()
            self._words.clear()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.has_head:
            name = name.lower()
            if name in (b"retry-after", b"content-type", b"content-encoding"):
                self._headers.setdefault(name, value)
            elif name.startswith(_OWN):
                self._words.append((name.decode("latin-1"), value.decode(errors="replace")))

    def on_headers_complete(self) -> None:
        if self.is_complete:
            return
        status = self._parser.get_status_code()
        if not 100 <= status < 200 or status == _SWITCHING_PROTOCOLS:
            self.status = status
            self.has_head = True

    def on_body(self, body: bytes) -> None:
        if self.is_complete:
            return
        self._body_bytes += len(body)
        if not 200 <= self.status < 300 and len(self._first) < limits.PUSH_ANSWER_KEPT_BYTES:
            self._first = (self._first + body)[: limits.PUSH_ANSWER_KEPT_BYTES]
        if self._body_bytes > limits.PUSH_ANSWER_BYTES_MAX:
            self.end()

    def on_message_complete(self) -> None:
        if self.has_head and not self.is_complete:
            self.is_complete = True
            is_switching = self.status == _SWITCHING_PROTOCOLS
            self._keeps_alive = self._parser.should_keep_alive() and not is_switching
