"""The methods of a port, and the head of a call: everything its first headers say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from fanlog.http2.header_blocks import encode
from fanlog.http2.header_list import HeaderList
from fanlog.model import attributes
from fanlog.transport.calls import Entry, Streaming, Unary
from fanlog.transport.messages import ACCEPTED, MessageRefused, check_encoding
from fanlog.transport.statuses import (
    INVALID_ARGUMENT,
    NAMES,
    UNIMPLEMENTED,
    Status,
    metadata_pair,
    trailers_only,
)
from fanlog.transport.timeouts import parse_timeout

Metadata = tuple[Entry, ...]


def _none_ended() -> list[int]:
    return [0] * len(NAMES)


@dataclass(frozen=True, slots=True)
class RpcMethod:
    """A method: `unary` takes one message and gives one; `streaming` reads and writes by itself.

    A streaming method is called with the first headers when it takes many messages, else when its
    one message is there.
    """

    path: str
    #: Bytes of one message of a request.
    request_bytes_max: int
    unary: Unary | None = None
    streaming: Streaming | None = None
    has_many_requests: bool = False
    #: How many calls ended, by the number of their status.
    ended: list[int] = field(default_factory=_none_ended, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class MethodForm:
    """A method without its verb."""

    path: str
    request_bytes_max: int
    is_unary: bool
    has_many_requests: bool = False

    @classmethod
    def of(cls, method: RpcMethod) -> MethodForm:
        bound, many = method.request_bytes_max, method.has_many_requests
        return cls(method.path, bound, method.unary is not None, many)


@dataclass(frozen=True, slots=True)
class CallHead:
    """A call that can be served."""

    method: RpcMethod
    metadata: Metadata
    timeout_s: float | None
    encoding: bytes
    #: Whether the caller reads answers that are compressed with gzip.
    takes_gzip: bool
    #: The header that says who calls; empty for none. See `read_authorization`.
    authorization: str = ""


@dataclass(frozen=True, slots=True)
class HeadAnswer:
    """A request that is answered by its headers alone: a block, and a body that may be empty."""

    block: bytes
    body: bytes = b""


#: Stands for a header that says who calls, and cannot be read: nobody's credential.
UNREADABLE: Final = "unreadable"
#: Names of this beginning are said by nodes to nodes: of a caller they would be a lie.
_OF_NODES: Final = attributes.LINK_PREFIX.encode()
#: Headers that are gRPC's or HTTP's own, and no metadata.
_NOT_METADATA = frozenset(
    # The last is for the server alone: no verb is to see a credential.
    (b"te", b"content-type", b"grpc-timeout", b"grpc-encoding", b"authorization")
)


def read_head(
    headers: HeaderList, methods: Mapping[bytes, RpcMethod], *, is_of_node: bool = False
) -> CallHead | HeadAnswer:
    """The call that the first headers of a request ask for, or the answer that they get at once.

    `is_of_node`: they come from a node of the cluster, which may say for whom it forwards.
    """
    found = dict(headers.fields)
    content_type = found.get(b"content-type", b"")
    if not _is_grpc(content_type):
        return _unsupported(b"415", "this port speaks gRPC over HTTP/2, and HTTP over HTTP/1.1")
    if found[b":method"] != b"POST":
        return _unsupported(b"405", "gRPC calls are POST")
    method = methods.get(found[b":path"])
    if method is None:
        path = found[b":path"].decode("ascii", "replace")[:256]
        return HeadAnswer(trailers_only(Status(UNIMPLEMENTED, f"unknown method {path}")))
    encoding = found.get(b"grpc-encoding", b"")
    try:
        check_encoding(encoding)
    except MessageRefused as refused:
        return HeadAnswer(trailers_only(refused.status, more=[(b"grpc-accept-encoding", ACCEPTED)]))
    if not is_of_node and any(name.startswith(_OF_NODES) for name in found):
        return HeadAnswer(trailers_only(_NOT_A_NODE))
    timeout = found.get(b"grpc-timeout")
    return CallHead(
        method,
        tuple(
            metadata_pair(name, value)
            for name, value in headers.fields
            if name[0] != 0x3A and name not in _NOT_METADATA
        ),
        None if timeout is None else parse_timeout(timeout),
        encoding,
        b"gzip" in map(bytes.strip, found.get(b"grpc-accept-encoding", b"").split(b",")),
        _authorization(headers) if b"authorization" in found else "",
    )


def _authorization(headers: HeaderList) -> str:
    return read_authorization([v for name, v in headers.fields if name == b"authorization"])


def read_authorization(values: Sequence[bytes]) -> str:
    """The header that says who calls, of all that came.

    Two of them, or one that is no text, are a credential that is wrong, which is worse than none:
    another program on the way may have looked at the other one.
    """
    if len(values) > 1 or not values[0].isascii():
        return UNREADABLE
    return values[0].decode()


def _is_grpc(content_type: bytes) -> bool:
    base = content_type.partition(b";")[0].strip()
    return base == b"application/grpc" or base == b"application/grpc+proto"


def _unsupported(status: bytes, text: str) -> HeadAnswer:
    body = text.encode() + b"\n"
    fields = [
        (b":status", status),
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"%d" % len(body)),
    ]
    return HeadAnswer(encode(fields), body)


_NOT_A_NODE: Final = Status(
    INVALID_ARGUMENT,
    f"metadata that begins with {attributes.LINK_PREFIX} is said by nodes of a cluster alone",
)
