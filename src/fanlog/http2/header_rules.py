"""Whether headers are a request, an answer or trailers (RFC 9113, 8.2 and 8.3)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

Header = tuple[bytes, bytes]

_OF_CONNECTION: Final = frozenset(
    (b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade")
)
_REQUEST: Final = frozenset((b":method", b":scheme", b":path", b":authority"))
_NEEDED: Final = frozenset((b":method", b":scheme", b":path"))
_NAME: Final = re.compile(rb":?[!#$%&'*+\-.^_`|~0-9a-z]+")
_BAD_VALUE: Final = re.compile(rb"[\0\r\n]|\A[ \t]|[ \t]\Z")
_NAME_BYTES_MAX: Final = 256


def wrong_with_field(name: bytes, value: bytes) -> str | None:
    """Say what keeps a pair from being a header, wherever it stands."""
    wrong = _wrong_with_name(name) if len(name) <= _NAME_BYTES_MAX else "a name that is too long"
    if wrong is not None:
        return wrong
    if _BAD_VALUE.search(value):
        return "a value with a character that none has"
    if name == b"te" and value != b"trailers":
        return "te with anything but trailers"
    return None


@lru_cache(maxsize=1_024)
def _wrong_with_name(name: bytes) -> str | None:
    if not _NAME.fullmatch(name):
        return "a name that is none"
    if name in _OF_CONNECTION:
        return "a header of the connection"
    return None


def wrong_with_request(headers: Sequence[Header]) -> str | None:
    """Say what keeps headers from opening a request; the fields are judged already."""
    found: dict[bytes, bytes] = {}
    regular = False
    for name, value in headers:
        if name[0] != 0x3A:
            regular = True
            continue
        if regular:
            return "a pseudo-header behind others"
        if name not in _REQUEST:
            return "a pseudo-header that no request has"
        if name in found:
            return "a pseudo-header twice"
        found[name] = value
    if found.get(b":method") == b"CONNECT":
        return "CONNECT, which nothing here serves"
    if not found.keys() >= _NEEDED:
        return "a pseudo-header is missing"
    return None if found[b":path"] else "an empty path"


def wrong_with_answer(headers: Sequence[Header]) -> str | None:
    """Say what keeps headers from beginning an answer."""
    if not headers or headers[0][0] != b":status" or not re.fullmatch(rb"\d{3}", headers[0][1]):
        return "an answer without a status"
    return wrong_with_trailers(headers[1:])


def wrong_with_trailers(headers: Sequence[Header]) -> str | None:
    """Say what keeps headers from being trailers; pseudo-headers do."""
    if any(name[0] == 0x3A for name, _ in headers):
        return "a pseudo-header where none may be"
    return None


def content_length(headers: Sequence[Header]) -> int | None:
    """The announced length of a body; None without one, -1 when it is no length."""
    found = {value for name, value in headers if name == b"content-length"}
    if not found:
        return None
    text = found.pop()
    is_length = not found and text.isdigit() and len(text) < 19
    return int(text) if is_length else -1
