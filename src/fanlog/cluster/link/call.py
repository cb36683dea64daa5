"""A call to another node, as this side sees it: messages to write, messages to read, its end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from fanlog.http2.codes import WINDOW_DEFAULT
from fanlog.http2.header_list import HeaderList
from fanlog.http2.header_rules import Header
from fanlog.model.attributes import LINK_UNSERVED
from fanlog.transport import statuses
from fanlog.transport.calls import CallEnded
from fanlog.transport.lifetime import Lifetime
from fanlog.transport.messages import PREFIX_BYTES, MessageReader, MessageRefused
from fanlog.transport.methods import Metadata
from fanlog.transport.statuses import CallRefused, Status

_STATUS: Final = b"grpc-status"
_MESSAGE: Final = b"grpc-message"
_DETAILS: Final = b"grpc-status-details-bin"
_OF_STATUS: Final = frozenset((_STATUS, _MESSAGE, _DETAILS))


class NeverLeft(Exception):
    """Nothing was done with a call, for certain: it may be sent again. The sentence says why."""


class LinkPort(Protocol):
    """The connection, as far as a call needs it."""

    def send(self, call: LinkCall, message: bytes) -> bool:
        """Send a message; whether it all left."""

    def end_requests(self, call: LinkCall) -> None: ...
    def give_credit(self, call: LinkCall, size_bytes: int) -> None: ...
    def give_credit_back(self, size_bytes: int) -> None: ...
    def expect_more(self, call: LinkCall) -> None:
        """Have the message under way come whole, when there is credit for it."""

    def cancel(self, call: LinkCall) -> None: ...


class LinkCall:
    """Lives on the loop. One reader and one writer at a time."""

    __slots__ = (
        "_drained",
        "_inbox",
        "_is_behind",
        "_port",
        "_taken_bytes",
        "_waiter",
        "extra_credit",
        "is_stream",
        "is_wanted",
        "lifetime",
        "outcome",
        "reader",
        "size_bytes",
        "stream_id",
        "trailing",
    )

    def __init__(
        self,
        port: LinkPort,
        *,
        answer_bytes_max: int,
        size_bytes: int = 0,
        is_stream: bool = False,
        lifetime: Lifetime | None = None,
    ) -> None:
        """`size_bytes` are those of the request, `lifetime` that of the caller's connection."""
        self._port = port
        self.size_bytes = size_bytes
        self.is_stream = is_stream
        #: Whether the message under way should come whole: its reader waits for it.
        self.is_wanted = not is_stream
        self.lifetime = lifetime
        self.stream_id = 0
        self.reader: MessageReader | None = MessageReader(answer_bytes_max, self._put)
        self._inbox: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._is_behind = False
        self._taken_bytes = 0
        #: Credited for a message that is longer than the window, and not used up.
        self.extra_credit = 0
        #: How it ended: the status that came, or the reason why none did; None before.
        self.outcome: Status | Exception | None = None
        #: Metadata behind the answer.
        self.trailing: Metadata = ()

    # For the caller.

    async def answer(self) -> bytes:
        """The one message of a call that has one, once the call has ended.

        Raises:
            CallRefused: The other side answered so.
            NeverLeft: Nothing was done.
            FanlogError: It is not known what was done.
        """
        if self.outcome is None:
            await self._wait()
        self._raise_failure()
        if len(self._inbox) != 1:
            raise CallRefused(
                Status(statuses.INTERNAL, f"the owner gave {len(self._inbox)} answers, not one")
            )
        return self._inbox.popleft()

    async def read(self) -> bytes | None:
        """The next message; None once the call has ended well. Raises as `answer`."""
        while not self._inbox:
            if self.outcome is not None:
                self._raise_failure()
                return None
            self.is_wanted = True
            self._port.expect_more(self)
            try:
                await self._wait()
            finally:
                self.is_wanted = False
        message = self._inbox.popleft()
        self._give_back(len(message) + PREFIX_BYTES)
        return message

    async def write(self, message: bytes) -> None:
        """Send a message, once the one before has left.

        Raises:
            CallEnded: The call is over; `read` says how it ended.
        """
        while self._is_behind and self.outcome is None:
            self._drained = asyncio.get_running_loop().create_future()
            try:
                await self._drained
            finally:
                self._drained = None
        if self.outcome is not None:
            raise CallEnded
        self._is_behind = not self._port.send(self, message)

    def half_close(self) -> None:
        """There are no more requests."""
        if self.outcome is None:
            self._port.end_requests(self)

    def cancel(self) -> None:
        """The caller is gone. Does nothing to a call that is over."""
        if self.outcome is None:
            self._port.cancel(self)

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _raise_failure(self) -> None:
        if isinstance(self.outcome, Exception):
            # The same error may end many calls: each has a trace of its own.
            raise type(self.outcome)(*self.outcome.args) from None
        assert self.outcome is not None
        if self.outcome.code != statuses.OK:
            if any(name == LINK_UNSERVED for name, _ in self.trailing):
                # Between nodes alone.
                self.trailing = ()
                raise NeverLeft(self.outcome.message)
            raise CallRefused(self.outcome)

    def _give_back(self, size_bytes: int) -> None:
        ahead = min(self.extra_credit, size_bytes)
        if ahead:
            self.extra_credit -= ahead
            self._port.give_credit_back(ahead)
        self._taken_bytes += size_bytes - ahead
        if self._taken_bytes * 2 > WINDOW_DEFAULT and self.outcome is None:
            self._port.give_credit(self, self._taken_bytes)
            self._taken_bytes = 0

    # For the connection.

    def _put(self, message: bytes, is_compressed: bool) -> None:
        if is_compressed:
            raise MessageRefused(Status(statuses.INTERNAL, "a compressed answer on a link"))
        self._inbox.append(message)
        if self.is_stream:
            self.is_wanted = False
            self._wake()

    def drain(self) -> None:
        self._is_behind = False
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def end(self, outcome: Status | Exception, trailing: Metadata = ()) -> None:
        if self.outcome is None:
            self.outcome = outcome
            self.trailing = trailing
            self.reader = None
            self._wake()
            self.drain()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def read_trailers(headers: HeaderList) -> tuple[Status, Metadata]:
    """Status and metadata of the headers that ended a call; read once for the same headers."""
    memo = headers.memo
    if memo is None:
        memo = headers.memo = _read_trailers(headers.fields)
    assert isinstance(memo, tuple)
    return memo


def _read_trailers(fields: Sequence[Header]) -> tuple[Status, Metadata]:
    found = dict(fields)
    text = found.get(_STATUS, b"")
    if not text.isdigit():
        http = found.get(b":status", b"none").decode("ascii", "replace")
        sentence = f"the owner's answer has no status (HTTP {http})"
        return Status(statuses.UNAVAILABLE, sentence), ()
    metadata = tuple(
        statuses.metadata_pair(name, value)
        for name, value in fields
        if name not in _OF_STATUS and name[0] != 0x3A and name != b"content-type"
    )
    _, details = statuses.metadata_pair(_DETAILS, found.get(_DETAILS, b""))
    assert isinstance(details, bytes)
    message = statuses.decode_message(found.get(_MESSAGE, b""))
    code = int(text)
    # One that this version does not know is none that it can tell.
    return Status(
        code if code < len(statuses.NAMES) else statuses.UNKNOWN, message, details
    ), metadata
