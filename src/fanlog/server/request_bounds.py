"""How large a request may be, method by method, looked at before anything is parsed.

A few kilobytes of gzip unfold to the most that gRPC takes, and parsing that costs seconds and
gigabytes. So every method has a bound of its own: the few that carry messages or ack ids a large
one, all others the same small one. Answers have their own limits.
"""

from __future__ import annotations

from collections.abc import Mapping

from fanlog import limits
from fanlog.errors import TooLarge
from fanlog.server.calls import Call, Unary

#: Methods whose requests may be larger than `limits.REQUEST_BYTES_MAX`. A publish is looked at by
#: `fanlog.wire.publish`, which refuses it with a sentence of its own.
LARGE: Mapping[str, int] = {
    "Publisher.Publish": limits.GRPC_RECEIVE_BYTES_MAX,
    "Events.Publish": limits.GRPC_RECEIVE_BYTES_MAX,
    "Subscriber.Acknowledge": limits.ACK_BYTES_MAX,
    "Subscriber.ModifyAckDeadline": limits.ACK_BYTES_MAX,
    "Sink.CommitEpoch": limits.EPOCH_BYTES_MAX,
}


def bound_of(method: str) -> int:
    """The most bytes that a request of `method` (Service.Method) may have."""
    return LARGE.get(method, limits.REQUEST_BYTES_MAX)


def check_size(raw: bytes, most: int) -> None:
    """Raises TooLarge: The request has more than `most` bytes."""
    if len(raw) > most:
        raise TooLarge(
            f"the request has {len(raw)} bytes, unfolded; at most {most} are allowed for this "
            "method"
        )


def bounded(method: str, verb: Unary) -> Unary:
    """The verb, refusing requests that are too large before they are parsed."""
    most = bound_of(method)

    async def call(raw: bytes, context: Call) -> bytes:
        check_size(raw, most)
        return await verb(raw, context)

    return call if most < limits.GRPC_RECEIVE_BYTES_MAX else verb
