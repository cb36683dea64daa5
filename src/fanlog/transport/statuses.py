"""gRPC statuses as header blocks: trailers, and answers that are nothing but trailers."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from fanlog.http2.header_blocks import encode
from fanlog.http2.header_rules import Header

#: What a message may have as it is; everything else is percent-encoded.
_PLAIN: Final = " !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"
#: Bytes of a status message that are sent; clients refuse headers that are too long.
MESSAGE_BYTES_MAX: Final = 4_096

OK: Final = 0
CANCELLED: Final = 1
UNKNOWN: Final = 2
INVALID_ARGUMENT: Final = 3
DEADLINE_EXCEEDED: Final = 4
NOT_FOUND: Final = 5
RESOURCE_EXHAUSTED: Final = 8
FAILED_PRECONDITION: Final = 9
UNIMPLEMENTED: Final = 12
INTERNAL: Final = 13
UNAVAILABLE: Final = 14
UNAUTHENTICATED: Final = 16
#: The name of each code; the index is the code.
NAMES: Final = (
    *("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND"),
    *("ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION"),
    *("ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"),
    "UNAUTHENTICATED",
)


@dataclass(frozen=True, slots=True)
class Status:
    """How a call ended; `details` is a serialised google.rpc.Status, or empty."""

    code: int
    message: str = ""
    details: bytes = b""


class CallRefused(Exception):
    """Ends a call with a status of its own."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


_CONTENT: Final[tuple[Header, ...]] = (
    (b":status", b"200"),
    (b"content-type", b"application/grpc"),
)
#: The head of every answer, and of one whose messages may be compressed.
HEAD: Final = encode(_CONTENT)
GZIP_HEAD: Final = encode([*_CONTENT, (b"grpc-encoding", b"gzip")])
OK_TRAILERS: Final = encode([(b"grpc-status", b"0")])


def trailers(status: Status, metadata: Iterable[tuple[str, str | bytes]] = ()) -> bytes:
    """The block that ends an answer."""
    return encode([*_fields(status), *map(metadata_field, metadata)])


def trailers_only(
    status: Status,
    metadata: Iterable[tuple[str, str | bytes]] = (),
    more: Iterable[Header] = (),
    http_status: bytes = b"200",
) -> bytes:
    """An answer without a message, in one block."""
    content = ((b":status", http_status), *_CONTENT[1:])
    return encode([*content, *_fields(status), *map(metadata_field, metadata), *more])


def _fields(status: Status) -> list[Header]:
    fields = [(b"grpc-status", b"%d" % status.code)]
    if status.message:
        fields.append((b"grpc-message", encode_message(status.message)))
    if status.details:
        fields.append((b"grpc-status-details-bin", _base64(status.details)))
    return fields


def encode_message(text: str) -> bytes:
    """Percent-encoded; cut between characters where it is too long."""
    encoded = quote(text, safe=_PLAIN).encode()
    if len(encoded) <= MESSAGE_BYTES_MAX:
        return encoded
    cut = encoded[:MESSAGE_BYTES_MAX]
    percent = cut.rfind(b"%", -2)
    return cut if percent < 0 else cut[:percent]


def decode_message(text: bytes) -> str:
    return unquote_to_bytes(text).decode("utf-8", "replace")


def metadata_field(pair: tuple[str, str | bytes]) -> Header:
    """Metadata as a header: `-bin` values in base64."""
    name, value = pair
    if name.endswith("-bin"):
        return name.encode(), _base64(value if isinstance(value, bytes) else value.encode())
    return name.encode(), value if isinstance(value, bytes) else value.encode()


def metadata_pair(name: bytes, value: bytes) -> tuple[str, str | bytes]:
    """A header as metadata: `-bin` values as bytes, others as text."""
    if name.endswith(b"-bin"):
        try:
            return name.decode(), base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
        except (binascii.Error, ValueError):
            return name.decode(), b""
    return name.decode(), value.decode("ascii", "replace")


def _base64(content: bytes) -> bytes:
    return base64.b64encode(content).rstrip(b"=")
