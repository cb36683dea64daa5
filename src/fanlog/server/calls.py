"""What a call is to the verb that answers it, over gRPC or over REST: bytes to bytes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import grpc

from fanlog.model import attributes
from fanlog.wire import fields

#: Metadata of an update that the short form asks for, and the body of push requests in that form;
#: see `SubscriptionUpdate.short_body`.
SHORT_FORM_METADATA = attributes.SHORT_FORM
SHORT_BODY = "plain"

Context = grpc.aio.ServicerContext[bytes, bytes]


class Call(Protocol):
    """What a verb wants to know of the call it answers, over gRPC or over REST."""

    def time_remaining(self) -> Any:
        """Seconds until the caller gives up; None when it never does."""

    def invocation_metadata(self) -> Any:
        """Pairs of name and value that came with the call."""

    def set_trailing_metadata(self, trailing_metadata: Any, /) -> None:
        """Say something besides the answer."""


Unary = Callable[[bytes, Call], Awaitable[bytes]]


def parsed(request_type: Any, verb: Callable[[Any], Awaitable[Any]]) -> Unary:
    """A verb that takes a message and gives one, for any surface."""

    async def call(raw: bytes, _: Call) -> bytes:
        response = await verb(fields.parse(request_type, raw))
        return bytes(response.SerializeToString())

    return call
