"""A decoded list of headers, judged at most once."""

from __future__ import annotations

from fanlog.http2 import header_rules
from fanlog.http2.header_rules import Header

_UNKNOWN = object()


class HeaderList:
    """Headers in their order; the same object for a block that is known by its bytes."""

    __slots__ = ("_content_length", "_request_fault", "fault", "fields", "memo")

    def __init__(self, fields: tuple[Header, ...], fault: str | None) -> None:
        self.fields = fields
        #: The first name or value that no header has.
        self.fault = fault
        self._request_fault: str | object | None = _UNKNOWN
        self._content_length: int | object | None = _UNKNOWN
        #: Whatever the layer above has made of these headers; it need not be made again.
        self.memo: object = None

    def request_fault(self) -> str | None:
        """Why these headers open no request; None when they do."""
        if self._request_fault is _UNKNOWN:
            self._request_fault = self.fault or header_rules.wrong_with_request(self.fields)
        assert self._request_fault is None or isinstance(self._request_fault, str)
        return self._request_fault

    def content_length(self) -> int | None:
        """The announced length of a body; None without one, -1 when it is no length."""
        if self._content_length is _UNKNOWN:
            self._content_length = header_rules.content_length(self.fields)
        assert self._content_length is None or isinstance(self._content_length, int)
        return self._content_length

    def answer_fault(self) -> str | None:
        return self.fault or header_rules.wrong_with_answer(self.fields)

    def trailers_fault(self) -> str | None:
        return self.fault or header_rules.wrong_with_trailers(self.fields)
