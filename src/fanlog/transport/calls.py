"""The ports between a verb and its caller: a call is bytes to bytes, over gRPC and over REST."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, runtime_checkable

from fanlog.model.identity import Principal
from fanlog.transport.lifetime import Lifetime

#: Name and value of one entry of metadata; `-bin` values are bytes.
Entry = tuple[str, str | bytes]


#: The certificate that a peer has shown, as `ssl.SSLSocket.getpeercert` gives it.
Certificate = Mapping[str, object]


class Caller(Protocol):
    """The maker of a call: what it may do, and how much."""

    @property
    def principal(self) -> Principal | None:
        """The caller that was authenticated; None where callers are not."""

    def check(self, permission: str, resource: str) -> None:
        """Raises PermissionDenied: The caller does not have a permission on a resource."""

    def may(self, permission: str, resource: str) -> bool:
        """Whether the caller has a permission on a resource."""

    def spend(self, resource: str, messages: int, size_bytes: int) -> None:
        """Count messages against the rates of the caller and of the resource's project.

        Raises:
            RateExceeded: There were too many of late.
        """

    def holding(
        self, permission: str, resource: str, waiting: Endable | None = None
    ) -> AbstractContextManager[None]:
        """Within it, the call is ended as soon as the caller loses the permission.

        A call with one answer gives itself as `waiting`.
        """


class Endable(Protocol):
    """A call that can be ended from outside."""

    def end_with(self, error: Exception) -> None:
        """End the call now, whatever its verb is doing."""


class _Everybody:
    """The caller of a server that does not authenticate: it may do everything."""

    principal = None

    def check(self, permission: str, resource: str) -> None:
        pass

    def may(self, permission: str, resource: str) -> bool:
        return True

    def spend(self, resource: str, messages: int, size_bytes: int) -> None:
        pass

    def holding(
        self, permission: str, resource: str, waiting: Endable | None = None
    ) -> AbstractContextManager[None]:
        return nullcontext()


EVERYBODY: Caller = _Everybody()


class Evidence(Protocol):
    """What a call shows of its caller."""

    caller: Caller

    @property
    def authorization(self) -> str:
        """The header of that name; empty for none."""

    @property
    def address(self) -> str:
        """The address that the call comes from, without a port."""

    @property
    def certificate(self) -> Certificate | None:
        """The certificate of the connection's other side; None without mutual TLS."""

    @property
    def connection(self) -> Lifetime | None:
        """The connection that the call came on; None where that is not known."""


class Call(Evidence, Endable, Protocol):
    """The side of a call that is neither its request nor its answer."""

    def time_remaining(self) -> float | None:
        """Seconds until the caller gives up; None when it never does."""

    def invocation_metadata(self) -> Iterable[Entry] | None:
        """The metadata that came with the call."""

    def set_trailing_metadata(self, trailing_metadata: Sequence[Entry], /) -> None:
        """Give metadata beside the answer."""


class CallStream(Protocol):
    """The requests and answers of a call that has many."""

    caller: Caller

    def invocation_metadata(self) -> Iterable[Entry] | None:
        """The metadata that came with the call."""

    async def read(self) -> object:
        """The bytes of the next request; any other value after the last one.

        Raises:
            CallEnded: The caller is gone.
        """

    async def write(self, message: bytes, /) -> None:
        """Send an answer; returns when the caller has room for another.

        Raises:
            CallEnded: The caller is gone.
        """


@runtime_checkable
class StreamingCall(CallStream, Evidence, Endable, Protocol):
    """A call that has many requests or answers, with what it shows of its caller."""


class CallEnded(Exception):
    """A call is over: its caller is gone, or was answered."""


Unary = Callable[[bytes, Call], Awaitable[bytes]]
Streaming = Callable[[StreamingCall], Awaitable[None]]
