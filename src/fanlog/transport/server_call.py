"""One call as its verb sees it: messages to read, messages to write, and metadata."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Protocol

from fanlog.http2.codes import WINDOW_DEFAULT
from fanlog.transport import statuses
from fanlog.transport.calls import EVERYBODY, CallEnded, Caller, Certificate
from fanlog.transport.lifetime import Lifetime
from fanlog.transport.messages import (
    LONG_BYTES,
    PREFIX_BYTES,
    MessageReader,
    MessageRefused,
    fold_message,
    frame_message,
    message_prefix,
    unfold,
)
from fanlog.transport.methods import CallHead, Metadata

#: What a message in memory takes beside its bytes: a window of empty ones is a megabyte.
_ENTRY_BYTES = 64
#: Messages that a verb has not taken are counted against the server's budget beyond this.
INBOX_BYTES_FREE = 16 * 1024


class CallPort(Protocol):
    """The connection, as far as a call needs it."""

    def begin_answer(self, stream_id: int, head: bytes) -> None: ...

    def send(self, stream_id: int, content: bytes) -> bool:
        """Send data; whether it all left, so that more may follow at once."""

    def credit(self, stream_id: int, size_bytes: int) -> None: ...

    def refuse_call(self, call: ServerCall, status: statuses.Status) -> None: ...

    def give_credit_back(self, size_bytes: int) -> None:
        """So much of the credit that a call was given ahead is used up."""

    @property
    def certificate(self) -> Certificate | None: ...

    @property
    def lifetime(self) -> Lifetime: ...

    def end_call(self, call: ServerCall, error: Exception) -> None: ...

    def inbox_read(self, call: ServerCall) -> None:
        """A call has few messages left that its verb has not taken."""

    def now(self) -> float: ...


class ServerCall:
    """A call. Lives on the loop; all methods are its verb's, but those of the last section."""

    __slots__ = (
        "_drained",
        "_has_head",
        "_inbox",
        "_is_behind",
        "_is_half_closed",
        "_port",
        "_reader_waiter",
        "_taken_bytes",
        "caller",
        "deadline",
        "extra_credit",
        "folds_answers",
        "head",
        "inbox_bytes",
        "is_over",
        "peer",
        "reader",
        "stream_id",
        "task",
        "timer",
        "trailing",
    )

    def __init__(self, port: CallPort, stream_id: int, head: CallHead, peer: str) -> None:
        self._port = port
        self.stream_id = stream_id
        self.head = head
        self.peer = peer
        self.caller: Caller = EVERYBODY
        self.deadline = None if head.timeout_s is None else port.now() + head.timeout_s
        self.reader: MessageReader | None = None
        self.task: asyncio.Task[None] | None = None
        self.trailing: Metadata = ()
        self.is_over = False
        self._has_head = False
        #: Messages as they came, and whether they are compressed.
        self._inbox: deque[tuple[bytes, bool]] = deque()
        self._is_half_closed = False
        self._reader_waiter: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        #: Whether a part of the last message still waits for its reader.
        self._is_behind = False
        #: Bytes of messages that the verb has taken, and that the stream was not credited yet.
        self._taken_bytes = 0
        #: Credit that was given ahead for a message longer than the window.
        self.extra_credit = 0
        #: Whether answers of a stream are compressed.
        self.folds_answers = False
        #: Memory of whole messages that the verb has not taken.
        self.inbox_bytes = 0
        #: Ends the call at its deadline, if that is near.
        self.timer: asyncio.TimerHandle | None = None

    # For verbs.

    def invocation_metadata(self) -> Metadata:
        """Pairs of name and value that came with the call; `-bin` values are bytes."""
        return self.head.metadata

    def time_remaining(self) -> float | None:
        """Seconds until the caller gives up; None when it never does."""
        return None if self.deadline is None else max(0.0, self.deadline - self._port.now())

    def set_trailing_metadata(self, pairs: Iterable[tuple[str, str | bytes]], /) -> None:
        """Say something behind the answer."""
        self.trailing = tuple(pairs)

    @property
    def authorization(self) -> str:
        return self.head.authorization

    @property
    def address(self) -> str:
        return self.peer.rpartition(":")[0]

    @property
    def certificate(self) -> Certificate | None:
        return self._port.certificate

    @property
    def connection(self) -> Lifetime | None:
        return self._port.lifetime

    def end_with(self, error: Exception) -> None:
        """End the call with an error, whatever its verb is doing."""
        if not self.is_over:
            self._port.end_call(self, error)

    async def read(self) -> bytes | None:
        """The next message; None once the caller has sent its last.

        Raises:
            CallEnded: The caller is gone.
        """
        while not self._inbox:
            if self.is_over:
                raise CallEnded
            if self._is_half_closed:
                return None
            self._reader_waiter = asyncio.get_running_loop().create_future()
            try:
                await self._reader_waiter
            finally:
                self._reader_waiter = None
        message, is_compressed = self._inbox.popleft()
        size = len(message)
        self._give_back(size + PREFIX_BYTES)
        before = self.inbox_bytes
        self.inbox_bytes = before - size - _ENTRY_BYTES
        if before > INBOX_BYTES_FREE >= self.inbox_bytes:
            self._port.inbox_read(self)
        return self.unfold(message) if is_compressed else message

    async def write(self, message: bytes) -> None:
        """Send a message, once the one before has left: a verb makes its next one meanwhile.

        Raises:
            CallEnded: The caller is gone.
        """
        if self._is_behind or self.is_over:
            await self.written()
        if not self._has_head:
            self._has_head = True
            head = statuses.GZIP_HEAD if self.folds_answers else statuses.HEAD
            self._port.begin_answer(self.stream_id, head)
        if self.folds_answers:
            has_left = self._port.send(self.stream_id, fold_message(message))
        elif len(message) <= LONG_BYTES:
            has_left = self._port.send(self.stream_id, frame_message(message))
        else:
            self._port.send(self.stream_id, message_prefix(message))
            has_left = self._port.send(self.stream_id, message)
        self._is_behind = not has_left

    async def written(self) -> None:
        """Wait until everything that was written has left.

        Raises:
            CallEnded: The caller is gone.
        """
        while self._is_behind and not self.is_over:
            self._drained = asyncio.get_running_loop().create_future()
            try:
                await self._drained
            finally:
                self._drained = None
        if self.is_over:
            raise CallEnded

    # For the connection.

    @property
    def has_head(self) -> bool:
        """Whether the answer has begun: then it ends with trailers behind it."""
        return self._has_head

    def put(self, message: bytes, is_compressed: bool = False) -> None:
        """A message is whole."""
        self._inbox.append((message, is_compressed))
        self.inbox_bytes += len(message) + _ENTRY_BYTES
        self._wake_reader()

    def unfold(self, message: bytes) -> bytes:
        """A compressed message as it was.

        Raises:
            CallEnded: It cannot be, or is too long: the call is answered so.
        """
        try:
            return unfold(message, self.head.encoding, self.head.method.request_bytes_max)
        except MessageRefused as refused:
            self._port.refuse_call(self, refused.status)
            raise CallEnded from None

    def half_close(self) -> None:
        """The caller has sent its last message."""
        self._is_half_closed = True
        self._wake_reader()

    @property
    def is_half_closed(self) -> bool:
        return self._is_half_closed

    def drain(self) -> None:
        """The last message that was written has left."""
        self._is_behind = False
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def end(self) -> None:
        """The call is over, whatever its verb is doing."""
        self.is_over = True
        # The two know each other: what it holds goes now, not with the next collection.
        self.reader = None
        self._inbox.clear()
        self.inbox_bytes = 0
        self._wake_reader()
        self.drain()

    def credit_ahead(self, size_bytes: int) -> None:
        """Let a message that is longer than the window arrive whole."""
        self.extra_credit += size_bytes
        self._port.credit(self.stream_id, size_bytes)

    def _give_back(self, size_bytes: int) -> None:
        """Credit what the verb took, in portions; what was credited ahead is not credited again."""
        ahead = min(self.extra_credit, size_bytes)
        self.extra_credit -= ahead
        self._taken_bytes += size_bytes - ahead
        if ahead:
            self._port.give_credit_back(ahead)
        if self._taken_bytes * 2 > WINDOW_DEFAULT and not self._is_half_closed:
            self._port.credit(self.stream_id, self._taken_bytes)
            self._taken_bytes = 0

    def _wake_reader(self) -> None:
        if self._reader_waiter is not None and not self._reader_waiter.done():
            self._reader_waiter.set_result(None)


def end_block(call: ServerCall, status: statuses.Status) -> bytes:
    """The headers that end a call: trailers, or the whole answer when none has begun."""
    if call.has_head:
        return statuses.trailers(status, call.trailing)
    return statuses.trailers_only(status, call.trailing)
