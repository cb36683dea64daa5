"""The gate of a server that authenticates: every call goes through it, on every surface.

A call is admitted (who calls?), its needs are checked (may it?), it is counted (how often?), and it
is written down. Calls that go on are looked after: one whose credential ends, or whose permission
is taken away, is ended within a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Final, Protocol

from google.protobuf.message import Message

from fanlog.auth.authenticator import REFUSED
from fanlog.auth.damper import Damper
from fanlog.broker.broker import Broker
from fanlog.broker.clock import Clock
from fanlog.core.authority import ANONYMOUS, Grants
from fanlog.core.hard_state import HardState
from fanlog.errors import FanlogError, Internal, PermissionDenied, Unauthenticated, Unavailable
from fanlog.model.identity import Principal, Standing
from fanlog.model.rates import Allowance, Owner, owners_of
from fanlog.server.callers import AuthorizedCaller, Hold
from fanlog.server.calls import Call, Certificate, Evidence, StreamingCall, Unary
from fanlog.server.needs import Rule
from fanlog.server.permissions import DATA_ACCESS, INSIDE, PERMISSIONS
from fanlog.server.subjects import subject_of
from fanlog.transport.lifetime import Lifetime
from fanlog.wire import fields

log = logging.getLogger("fanlog.auth")

#: How often calls that go on are looked after.
WATCH_S: Final = 0.5
_PRINCIPALS_MAX: Final = 10_000


class Authenticating(Protocol):
    """Tells who calls; see `fanlog.auth`."""

    @property
    def believes_certificates(self) -> bool: ...

    def known(self, authorization: str, address: str) -> Principal | None:
        """A principal that was authenticated by the same header before."""

    async def authenticate(
        self, authorization: str, address: str, certificate: Certificate | None
    ) -> Principal:
        """Raises Unauthenticated."""

    def standing(self, principal: Principal) -> Standing:
        """How the credential stands now."""


class Recording(Protocol):
    """The audit log."""

    data_access: bool

    def write(
        self,
        *,
        principal: Principal,
        address: str,
        method: str,
        resource: str,
        result: str,
        lacking: str,
        detail: str,
    ) -> None: ...


class Gate:
    """Lives on the loop. `start()` and `stop()` it with the server."""

    def __init__(
        self,
        broker: Broker,
        authenticator: Authenticating,
        clock: Clock,
        *,
        allowance: Allowance | None = None,
        record: Recording | None = None,
    ) -> None:
        self._broker = broker
        self._authenticator = authenticator
        self._clock = clock
        self._allowance = allowance
        self._record = record
        self._damper = Damper()
        self._grants: dict[Principal, Grants] = {}
        self._anonymous = Grants(ANONYMOUS)
        self._holds: set[Hold] = set()
        self._counts_connections = allowance is not None and allowance.bounds("connections")
        #: Those that call on each open connection, where connections are counted.
        self._connections: dict[Lifetime, set[Owner]] = {}
        self._watcher: asyncio.TimerHandle | None = None

    # Callers.

    @property
    def hard(self) -> HardState:
        return self._broker.hard

    async def admit(self, call: Evidence, stream: StreamingCall | None = None) -> AuthorizedCaller:
        """Find out who calls; raises Unauthenticated. `stream` is the call, if it goes on."""
        connection = call.connection if self._counts_connections else None
        authorization, address = call.authorization, call.address
        principal = self._authenticator.known(authorization, address) if authorization else None
        if principal is None:
            certificate = call.certificate if self._authenticator.believes_certificates else None
            if not authorization and certificate is None:
                caller = AuthorizedCaller(self, self._anonymous, connection, stream)
                call.caller = caller
                return caller
            principal = await self._authenticator.authenticate(authorization, address, certificate)
        caller = AuthorizedCaller(self, self._grants_of(principal), connection, stream)
        call.caller = caller
        return caller

    async def identify(self, call: Evidence, method: str) -> None:
        """Find out who calls before the many parts of a request are looked at.

        Raises:
            Unauthenticated: The credential is wrong; a caller may show none.
        """
        try:
            await self.admit(call)
        except FanlogError as error:
            self._note(None, call, method, error)
            raise

    def _grants_of(self, principal: Principal) -> Grants:
        found = self._grants.get(principal)
        if found is None:
            if len(self._grants) >= _PRINCIPALS_MAX:
                self._grants.clear()
            found = self._grants[principal] = Grants(principal)
        return found

    def take(
        self,
        project: str,
        member: str,
        *,
        messages: int,
        size_bytes: int,
    ) -> None:
        if self._allowance is not None:
            self._allowance.take(
                *(self._clock.now(), project, member), messages=messages, size_bytes=size_bytes
            )

    def count(self, connection: Lifetime | None, project: str, member: str) -> None:
        if self._allowance is not None:
            self._allowance.take(self._clock.now(), project, member, requests=1)
            if connection is not None:
                self._enter_connection(connection, owners_of(project, member))

    def _enter_connection(self, connection: Lifetime, owners: Collection[Owner]) -> None:
        """Count a connection for those that call on it and did not before."""
        assert self._allowance is not None
        present = self._connections.get(connection, set())
        new = set(owners) - present
        if not new:
            return
        self._allowance.enter("connections", new)
        if not present:
            self._connections[connection] = present
            connection.at_end(partial(self._leave_connection, connection))
        present |= new

    def _leave_connection(self, connection: Lifetime) -> None:
        assert self._allowance is not None
        self._allowance.leave("connections", self._connections.pop(connection))

    # Calls.

    def guard(self, method: str, verb: Unary, request: type[Message]) -> Unary:
        """The verb of a method with one request and one answer, behind the gate."""
        rules = _rules_of(method)
        is_inside = method in INSIDE
        is_noted = self._is_noted(method)

        def subject(caller: AuthorizedCaller | None, raw: bytes) -> tuple[str, str]:
            # Requests of strangers are not parsed; those with messages have their check's name.
            if self._record is None or caller is None or method in DATA_ACCESS:
                return "", ""
            return subject_of(method, request, raw)

        async def call(raw: bytes, context: Call) -> bytes:
            caller: AuthorizedCaller | None = None
            try:
                caller = await self.admit(context)
                if not is_inside:
                    self._check(caller, rules, request, raw)
                answer = await verb(raw, context)
            except FanlogError as error:
                if is_noted or isinstance(error, PermissionDenied | Unauthenticated):
                    self._note(caller, context, method, error, subject(caller, raw))
                raise
            if is_noted:
                self._note(caller, context, method, None, subject(caller, raw))
            return answer

        return call

    def guard_stream(
        self, method: str, serve: Callable[[StreamingCall], Awaitable[None]]
    ) -> Callable[[StreamingCall], Awaitable[None]]:
        """The verb of a streaming method, behind the gate; it checks the permission itself."""
        rules = _rules_of(method)
        assert not rules or method in INSIDE, method
        is_noted = self._is_noted(method)

        async def call(stream: StreamingCall) -> None:
            caller: AuthorizedCaller | None = None
            try:
                caller = await self.admit(stream, stream)
                if not rules:
                    _refuse_anonymous(caller)
                    caller.count()
                await serve(stream)
            except FanlogError as error:
                if is_noted or isinstance(error, PermissionDenied | Unauthenticated):
                    self._note(caller, stream, method, error)
                raise
            if is_noted:
                self._note(caller, stream, method, None)

        return call

    async def check_page(
        self, request: Evidence, page: str, permission: str, resource: str
    ) -> None:
        """Let a request for a page in, or not."""
        caller: AuthorizedCaller | None = None
        try:
            caller = await self.admit(request)
            caller.check(permission, resource)
        except FanlogError as error:
            self._note(caller, request, page, error)
            raise

    async def sign_in(self, request: Evidence, page: str) -> AuthorizedCaller:
        """Find out who signs in, and write it down.

        Raises:
            Unauthenticated: The credential is wrong.
        """
        caller: AuthorizedCaller | None = None
        try:
            caller = await self.admit(request)
            _refuse_anonymous(caller)
            caller.count()
        except FanlogError as error:
            self._note(caller, request, page, error)
            raise
        self._note(caller, request, page, None)
        return caller

    def _check(
        self, caller: AuthorizedCaller, rules: tuple[Rule, ...], request: type[Message], raw: bytes
    ) -> None:
        if not rules:
            _refuse_anonymous(caller)
            caller.count()
            return
        message = fields.parse(request, raw)
        for rule in rules:
            for need in rule.find(message, self.hard):
                caller.check(*need)

    # The record.

    def _is_noted(self, method: str) -> bool:
        if self._record is None:
            return False
        return self._record.data_access or method not in DATA_ACCESS

    def _note(
        self,
        caller: AuthorizedCaller | None,
        call: Evidence,
        method: str,
        error: FanlogError | None,
        subject: tuple[str, str] = ("", ""),
    ) -> None:
        if self._record is not None:
            named, detail = subject
            if isinstance(error, Unauthenticated):
                left_out = self._damper.take(self._clock.now())
                if left_out is None:
                    return
                detail = f"{left_out} more were left out" if left_out else detail
            self._record.write(
                principal=ANONYMOUS if caller is None else caller.principal,
                address=call.address,
                method=method,
                resource=named or ("" if caller is None else caller.resource),
                result="OK" if error is None else error.grpc_status,
                lacking="" if caller is None else caller.lacking,
                detail=detail,
            )

    # Calls that go on.

    def watch(self, hold: Hold) -> None:
        if self._allowance is not None and hold.is_stream:
            self._allowance.enter("streams", hold.owners)
        self._holds.add(hold)
        if self._watcher is None:
            self._watch_later()

    def unwatch(self, hold: Hold) -> None:
        if hold in self._holds:
            self._holds.discard(hold)
            if self._allowance is not None and hold.is_stream:
                self._allowance.leave("streams", hold.owners)

    def _watch_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._watcher = loop.call_later(WATCH_S, self._look)

    def _look(self) -> None:
        # First: whatever is wrong with one of them, the others are looked after.
        self._watch_later()
        standings: dict[Principal, Standing] = {ANONYMOUS: "good"}
        for hold in list(self._holds):
            principal = hold.grants.principal
            if principal not in standings:
                standings[principal] = self._authenticator.standing(principal)
            if standings[principal] == "revoked":
                self._end(hold, Unauthenticated(REFUSED))
            elif standings[principal] == "over":
                # Official clients open such a stream again, with the next token of their key; after
                # any other status they would give up.
                self._end(hold, Unavailable("the token of this call is over; call with a new one"))
            elif not hold.grants.allow(self.hard, hold.permission, hold.resource):
                self._end(
                    hold,
                    PermissionDenied(
                        f"{principal.member} lacks the permission {hold.permission} on "
                        f"{hold.resource!r} now"
                    ),
                )
        if not self._holds:
            self.stop()

    def _end(self, hold: Hold, error: FanlogError) -> None:
        self.unwatch(hold)
        hold.end(error)

    def stop(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None


def _rules_of(method: str) -> tuple[Rule, ...]:
    rules = PERMISSIONS.get(method)
    if rules is None:
        raise Internal(f"no permission is declared for {method}; it cannot be served")
    return rules


def _refuse_anonymous(caller: AuthorizedCaller) -> None:
    if caller.principal is ANONYMOUS:
        raise Unauthenticated(REFUSED)
