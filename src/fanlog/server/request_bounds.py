"""How large a request may be, method by method, looked at before it is parsed.

A few kilobytes of gzip unfold to the most that gRPC takes, and parsing that costs seconds and
gigabytes. So every method has a bound of its own: the few that carry messages or ack ids a large
one (`Method.request_bytes_max`), all others the same small one. Answers have their own limits. A
publish is not looked at here: `fanlog.wire.publish` refuses it with a sentence of its own.
"""

from __future__ import annotations

from fanlog.errors import TooLarge
from fanlog.server.calls import Call, Unary


def check_size(raw: bytes, most: int) -> None:
    """Raises TooLarge: The request has more than `most` bytes."""
    if len(raw) > most:
        raise TooLarge(
            f"the request has {len(raw)} bytes, unfolded; at most {most} are allowed for this "
            "method"
        )


def limit(verb: Unary, most: int) -> Unary:
    """The verb, refusing requests of more than `most` bytes."""

    async def call(raw: bytes, context: Call) -> bytes:
        check_size(raw, most)
        return await verb(raw, context)

    return call
