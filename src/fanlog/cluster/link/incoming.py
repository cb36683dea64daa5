"""The owner's end of one connection of a link, and the calls that another node forwards on it.

Before its peer has proven that it is a node, a connection knows two small methods and hangs up on
anything else; no metadata of it is believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from fanlog.cluster import bounds
from fanlog.cluster.link.handshake import Greeting
from fanlog.cluster.link.origin import ForwardedOrigin, read_certificate
from fanlog.http2.codes import ErrorCode
from fanlog.http2.header_list import HeaderList
from fanlog.model.attributes import (
    LINK_ADDRESS,
    LINK_CALLER,
    LINK_CERTIFICATE,
    LINK_PREFIX,
)
from fanlog.transport.calls import Certificate, Entry
from fanlog.transport.grpc_connection import GrpcConnection
from fanlog.transport.grpc_server import GrpcServer
from fanlog.transport.lifetime import Lifetime
from fanlog.transport.methods import CallHead, HeadAnswer, RpcMethod, read_head
from fanlog.transport.server_call import CallPort, ServerCall
from fanlog.transport.statuses import (
    INVALID_ARGUMENT,
    UNAUTHENTICATED,
    Status,
    trailers_only,
)


class ForwardedCall(ServerCall):
    """A call that another node forwards: its evidence is that of the caller behind that node."""

    __slots__ = ("_origin",)

    def __init__(
        self, port: CallPort, stream_id: int, head: CallHead, peer: str, origin: ForwardedOrigin
    ) -> None:
        super().__init__(port, stream_id, head, peer)
        self._origin = origin

    @property
    def address(self) -> str:
        return self._origin.address

    @property
    def certificate(self) -> Certificate | None:
        return self._origin.certificate

    @property
    def connection(self) -> Lifetime | None:
        return self._origin.connection


@dataclass(frozen=True, slots=True)
class ForwardedHead(CallHead):
    """The head of a forwarded call: its metadata is the caller's again."""

    #: The number of the caller's connection; None for one that is not remembered.
    number: int | None = None
    #: Where the call comes from, if its head says so.
    address: str | None = None
    shown: Certificate | None = None


class LinkDoor(Protocol):
    """The server of links, as far as a connection needs it."""

    @property
    def handshake_methods(self) -> Mapping[bytes, RpcMethod]: ...
    @property
    def internal_paths(self) -> frozenset[str]:
        """Methods that nodes call for themselves."""

    def enter(self, end: LinkEnd) -> None: ...
    def leave(self, end: LinkEnd) -> None: ...


class LinkEnd(GrpcConnection):
    streams_max = bounds.LINK_STREAMS_MAX
    header_list_bytes_max = bounds.LINK_HEADER_BYTES_MAX
    known_bytes_max = bounds.LINK_KNOWN_BYTES_MAX

    def __init__(self, server: GrpcServer, door: LinkDoor) -> None:
        super().__init__(server)
        self._door = door
        #: Both greetings, between the two steps of the handshake.
        self.greetings: tuple[Greeting, Greeting] | None = None
        self.is_proven = False
        self.since = self.now()
        self._origins: dict[int, ForwardedOrigin] = {}
        door.enter(self)

    @property
    def is_idle(self) -> bool:
        # A node stays, whoever knocks.
        return not self.is_proven and super().is_idle

    @property
    def caller_count(self) -> int:
        """Connections of callers that the node has told of."""
        return len(self._origins)

    def prove(self) -> None:
        """The peer has shown that it is a node."""
        self.is_proven = True
        self._http2.trust(2 * bounds.LINK_STREAMS_MAX)

    def forget_callers(self, numbers: Iterable[int]) -> None:
        """The connections of callers have ended."""
        for number in numbers:
            origin = self._origins.pop(number, None)
            if origin is not None and origin.connection is not None:
                origin.connection.end()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self.forget_callers(list(self._origins))
        self._door.leave(self)

    # Calls.

    def _read_head(self, headers: HeaderList) -> CallHead | HeadAnswer:
        if not self.is_proven:
            head = read_head(headers, self._door.handshake_methods)
            if isinstance(head, HeadAnswer):
                self._loop.call_soon(self.part)
                return _STRANGER
            return head
        head = read_head(headers, self._server.methods, is_of_node=True)
        if isinstance(head, HeadAnswer) or head.method.path in self._door.internal_paths:
            return head
        return _forwarded_head(head)

    def _new_call(self, stream_id: int, head: CallHead) -> ServerCall | None:
        if not isinstance(head, ForwardedHead):
            return super()._new_call(stream_id, head)
        origin = None if head.number is None else self._origins.get(head.number)
        if origin is None:
            if head.address is None:
                # Its first call was refused before its head was read; the node will tell again.
                self._http2.reset(stream_id, ErrorCode.REFUSED_STREAM)
                return None
            lifetime = None if head.number is None else Lifetime()
            origin = ForwardedOrigin(head.address, head.shown, lifetime)
            if head.number is not None:
                self._origins[head.number] = origin
        return ForwardedCall(self, stream_id, head, self.peer, origin)


def _forwarded_head(head: CallHead) -> ForwardedHead | HeadAnswer:
    told: dict[str, str | bytes] = {}
    metadata: list[Entry] = []
    for name, value in head.metadata:
        if name.startswith(LINK_PREFIX):
            told[name] = value
        else:
            metadata.append((name, value))
    number, address = told.get(LINK_CALLER), told.get(LINK_ADDRESS)
    certificate = told.get(LINK_CERTIFICATE)
    try:
        return ForwardedHead(
            method=head.method,
            metadata=tuple(metadata),
            timeout_s=head.timeout_s,
            encoding=head.encoding,
            takes_gzip=head.takes_gzip,
            authorization=head.authorization,
            number=_number(number),
            address=address if isinstance(address, str) else None,
            shown=read_certificate(certificate) if isinstance(certificate, bytes) else None,
        )
    except ValueError:
        return _UNREADABLE


def _number(text: str | bytes | None) -> int | None:
    """Raises ValueError."""
    return None if text is None else int(text)


_STRANGER = HeadAnswer(
    trailers_only(Status(UNAUTHENTICATED, "this port is for nodes of a cluster alone"))
)
_UNREADABLE = HeadAnswer(
    trailers_only(Status(INVALID_ARGUMENT, "the call does not say for whom it is forwarded"))
)
