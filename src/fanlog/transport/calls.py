"""The ports between a verb and its caller: a call is bytes to bytes, over gRPC and over REST."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

#: Name and value of one entry of metadata; `-bin` values are bytes.
Entry = tuple[str, str | bytes]


class Call(Protocol):
    """The side of a call that is neither its request nor its answer."""

    def time_remaining(self) -> float | None:
        """Seconds until the caller gives up; None when it never does."""

    def invocation_metadata(self) -> Iterable[Entry] | None:
        """The metadata that came with the call."""

    def set_trailing_metadata(self, trailing_metadata: Sequence[Entry], /) -> None:
        """Give metadata beside the answer."""


class CallStream(Protocol):
    """The requests and answers of a call that has many."""

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


class CallEnded(Exception):
    """A call is over: its caller is gone, or was answered."""


Unary = Callable[[bytes, Call], Awaitable[bytes]]
Streaming = Callable[[CallStream], Awaitable[None]]
