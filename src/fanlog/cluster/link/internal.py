"""The methods that nodes call on each other, beside those that they forward.

Most are bytes to bytes: a new one is a name here, a verb given to the server, and `Link.ask`.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from fanlog.transport.statuses import INVALID_ARGUMENT, CallRefused, Status

_SERVICE: Final = "/fanlog.link.v1.Node/"
#: The two steps of the handshake; see `handshake.py`.
GREET: Final = _SERVICE + "Greet"
PROVE: Final = _SERVICE + "Prove"
#: Callers whose connections have ended, by their numbers.
GONE: Final = _SERVICE + "Gone"
#: A request of HTTP; see `http_messages.py`.
HTTP: Final = _SERVICE + "Http"
#: A node that follows tells the owner of itself, and how far it is.
ANNOUNCE: Final = _SERVICE + "Announce"

#: A verb of a node: is given a request, and answers.
NodeVerb = Callable[[bytes], Awaitable[bytes]]
#: Is given the card of a node and its applied offset; its answer goes back as it is.
OnAnnounce = Callable[[bytes, int], bytes]

_OFFSET: Final = struct.Struct(">q")


def internal_path(name: str) -> str:
    """The path of a method that is not among the ones above."""
    return _SERVICE + name


def write_gone(numbers: Sequence[int]) -> bytes:
    return struct.pack(f">{len(numbers)}Q", *numbers)


def read_gone(raw: bytes) -> tuple[int, ...]:
    if len(raw) % 8:
        raise CallRefused(Status(INVALID_ARGUMENT, "numbers of callers have 8 bytes each"))
    return struct.unpack(f">{len(raw) // 8}Q", raw)


def write_announcement(card: bytes, applied_offset: int) -> bytes:
    return _OFFSET.pack(applied_offset) + card


def announce_verb(on_announce: OnAnnounce) -> NodeVerb:
    async def announce(raw: bytes) -> bytes:
        if len(raw) < _OFFSET.size:
            raise CallRefused(Status(INVALID_ARGUMENT, "an announcement without an offset"))
        [applied_offset] = _OFFSET.unpack_from(raw)
        return on_announce(raw[_OFFSET.size :], applied_offset)

    return announce
