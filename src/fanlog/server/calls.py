"""The ports between a verb and its caller: a call is bytes to bytes, over gRPC and over REST."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

from fanlog.model import attributes

#: Metadata of an update that the short form asks for, and the body of push requests in that form;
#: see `SubscriptionUpdate.short_body`.
SHORT_FORM_METADATA = attributes.SHORT_FORM
SHORT_BODY = "plain"

#: Name and value of one entry of metadata.
Entry = tuple[str, str | bytes]


class Call(Protocol):
    """The side of a call that is neither its request nor its answer."""

    def time_remaining(self) -> float | None:
        """Seconds until the caller gives up; None when it never does."""

    def invocation_metadata(self) -> Iterable[Entry] | None:
        """The metadata that came with the call."""

    def set_trailing_metadata(self, trailing_metadata: Sequence[Entry], /) -> None:
        """Give metadata beside the answer."""


class Stream(Protocol):
    """The requests and answers of a call that has many."""

    async def read(self) -> object:
        """The bytes of the next request; any other value after the last one."""

    async def write(self, message: bytes, /) -> None:
        """Send an answer; returns when the transport has taken it."""


Unary = Callable[[bytes, Call], Awaitable[bytes]]


def metadata_of(call: Call) -> dict[str, str | bytes]:
    """The metadata that came with a call, by name."""
    return dict(call.invocation_metadata() or ())
