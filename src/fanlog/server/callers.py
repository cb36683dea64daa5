"""The caller of one call on a server that authenticates: what it may do, and how much."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from fanlog.auth.authenticator import REFUSED
from fanlog.core.authority import ANONYMOUS, Grants
from fanlog.core.hard_state import HardState
from fanlog.core.iam import SERVER
from fanlog.errors import FanlogError, PermissionDenied, Unauthenticated
from fanlog.model.identity import Principal
from fanlog.model.names import shown
from fanlog.model.rates import Owner, owners_of
from fanlog.server.calls import Endable, StreamingCall
from fanlog.transport.lifetime import Lifetime


class AccessContext(Protocol):
    """The server, as far as a caller needs it."""

    @property
    def hard(self) -> HardState: ...

    def take(
        self,
        project: str,
        member: str,
        *,
        messages: int,
        size_bytes: int,
    ) -> None:
        """Count messages; raises RateExceeded."""

    def count(self, connection: Lifetime | None, project: str, member: str) -> None:
        """Count a call, and its connection; raises RateExceeded."""

    def watch(self, hold: Hold) -> None:
        """Look after a call that goes on, from now on."""

    def unwatch(self, hold: Hold) -> None: ...


class Hold:
    """A call that goes on, or waits, as long as its caller has a permission."""

    __slots__ = ("_call", "grants", "is_stream", "permission", "resource")

    def __init__(
        self, call: Endable, grants: Grants, permission: str, resource: str, *, is_stream: bool
    ) -> None:
        self._call = call
        self.grants = grants
        self.permission = permission
        self.resource = resource
        #: Whether it counts as a stream; a call with one answer does not.
        self.is_stream = is_stream

    @property
    def owners(self) -> list[Owner]:
        """Those that the call counts for."""
        return owners_of(_project(self.resource), self.grants.principal.member)

    def end(self, error: FanlogError) -> None:
        self._call.end_with(error)


class AuthorizedCaller:
    """See `calls.Caller`. Lives as long as its call.

    A call with one answer knows its caller and is not known by it: in a circle, both would stay in
    memory until the next collection, and a call would cost a third more.
    """

    __slots__ = (
        *("_connection", "_context", "_grants", "_is_counted", "_is_stream", "_stream"),
        *("lacking", "resource"),
    )

    def __init__(
        self,
        context: AccessContext,
        grants: Grants,
        connection: Lifetime | None,
        stream: StreamingCall | None = None,
    ) -> None:
        self._context = context
        self._grants = grants
        self._connection = connection
        self._stream = stream
        self._is_counted = False
        self._is_stream = False
        #: The first resource that was asked about, and the permission that lacked; for the record.
        self.resource = ""
        self.lacking = ""

    @property
    def principal(self) -> Principal:
        return self._grants.principal

    def check(self, permission: str, resource: str, told: str = "") -> None:
        if not self.resource:
            self.resource = resource
        if not self._grants.allow(self._context.hard, permission, resource):
            self.lacking = permission
            if not self._is_counted:
                # For the caller alone: it must not use up what others may do in the project.
                self.count()
            raise self.denial(permission, resource, told)
        if not self._is_counted:
            self.count(resource)

    def may(self, permission: str, resource: str) -> bool:
        return self._grants.allow(self._context.hard, permission, resource)

    def spend(self, resource: str, messages: int, size_bytes: int) -> None:
        self._context.take(
            _project(resource), self.principal.member, messages=messages, size_bytes=size_bytes
        )

    def count(self, resource: str = "") -> None:
        """Count the call itself against the rates, once."""
        self._is_counted = True
        self._context.count(self._connection, _project(resource), self.principal.member)

    @contextmanager
    def holding(
        self, permission: str, resource: str, waiting: Endable | None = None
    ) -> Iterator[None]:
        call = self._stream if waiting is None else waiting
        assert call is not None, "a call with one answer is held by its verb"
        # A stream that needs a right to each of many topics is one stream all the same.
        is_stream = waiting is None and not self._is_stream
        self._is_stream = self._is_stream or is_stream
        hold = Hold(call, self._grants, permission, resource, is_stream=is_stream)
        self._context.watch(hold)
        try:
            yield
        finally:
            self._context.unwatch(hold)

    def denial(
        self, permission: str, resource: str, told: str = ""
    ) -> PermissionDenied | Unauthenticated:
        """The same whether the resource exists or not; `told` stands for its name."""
        if self.principal is ANONYMOUS:
            return Unauthenticated(REFUSED)
        where = told or ("the server" if resource == SERVER else shown(resource))
        return PermissionDenied(
            f"{self.principal.member} lacks the permission {permission} on {where}"
        )


def _project(resource: str) -> str:
    """The id of the project of a resource; empty for the server."""
    parts = resource.split("/", 2)
    return parts[1] if len(parts) > 1 else ""
