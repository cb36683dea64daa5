"""A request of HTTP and its answer as messages of a link's method: a head in JSON, and bytes.

The first message of an answer has its head and the first piece of its body, each further one a
piece. So an answer may go on for as long as it likes. No I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from fanlog.transport.statuses import INTERNAL, CallRefused, Status

#: As ASGI has them: lower-case names.
HttpHeaders = Sequence[tuple[bytes, bytes]]
_LENGTH_BYTES = 4
#: A request's head beside its body: as much as the HTTP port takes, quoted.
HEAD_BYTES_MAX = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    method: str
    scheme: str
    raw_path: bytes
    path: str
    query_string: bytes
    headers: HttpHeaders
    body: bytes

    def write(self) -> bytes:
        head = {
            "method": self.method,
            "scheme": self.scheme,
            "raw_path": self.raw_path.decode("latin-1"),
            "path": self.path,
            "query": self.query_string.decode("latin-1"),
            "headers": _texts(self.headers),
        }
        return _join(head, self.body)

    @classmethod
    def read(cls, raw: bytes) -> HttpRequest:
        """Raises CallRefused: It is none."""
        head, body = _split(raw)
        try:
            return cls(
                method=str(head["method"]),
                scheme=str(head["scheme"]),
                raw_path=str(head["raw_path"]).encode("latin-1"),
                path=str(head["path"]),
                query_string=str(head["query"]).encode("latin-1"),
                headers=_pairs(head["headers"]),
                body=body,
            )
        except (KeyError, TypeError, ValueError):
            raise _unreadable() from None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswerHead:
    status: int
    headers: HttpHeaders

    def write(self, piece: bytes) -> bytes:
        return _join({"status": self.status, "headers": _texts(self.headers)}, piece)

    @classmethod
    def read(cls, raw: bytes) -> tuple[HttpAnswerHead, bytes]:
        """The head, and the first piece of the body; raises CallRefused."""
        head, piece = _split(raw)
        try:
            return cls(status=int(str(head["status"])), headers=_pairs(head["headers"])), piece
        except (KeyError, TypeError, ValueError):
            raise _unreadable() from None


def _join(head: object, body: bytes) -> bytes:
    raw = orjson.dumps(head)
    return b"".join((len(raw).to_bytes(_LENGTH_BYTES), raw, body))


def _split(raw: bytes) -> tuple[dict[str, object], bytes]:
    end = _LENGTH_BYTES + int.from_bytes(raw[:_LENGTH_BYTES])
    try:
        head = orjson.loads(raw[_LENGTH_BYTES:end])
    except ValueError:
        raise _unreadable() from None
    if not isinstance(head, dict):
        raise _unreadable()
    return head, raw[end:]


def _texts(headers: HttpHeaders) -> list[tuple[str, str]]:
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]


def _pairs(texts: object) -> list[tuple[bytes, bytes]]:
    if not isinstance(texts, list):
        raise TypeError("headers are a list")
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in texts]


def _unreadable() -> CallRefused:
    return CallRefused(Status(INTERNAL, "a message of HTTP on a link that cannot be read"))
