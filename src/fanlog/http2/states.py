"""The states of a stream and the frames that may come and go in each: RFC 9113, 5.1, as a table.

The connection is driven by it: a frame that has no row is answered as `WHEN_WRONG` says. Push
promises do not exist here, so the two reserved states do not either.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from fanlog.http2.codes import ErrorCode


class StreamState(Enum):
    # By identity, in C: each frame looks a step up.
    __hash__ = object.__hash__

    IDLE = auto()
    OPEN = auto()
    #: This side has sent its end.
    HALF_CLOSED_LOCAL = auto()
    #: The peer has sent its end.
    HALF_CLOSED_REMOTE = auto()
    CLOSED = auto()


class Step(Enum):
    """A frame that comes from the peer, or goes to it; `END` for one with END_STREAM."""

    __hash__ = object.__hash__

    GET_HEADERS = auto()
    GET_HEADERS_END = auto()
    GET_DATA = auto()
    GET_DATA_END = auto()
    GET_RESET = auto()
    GET_WINDOW = auto()
    PUT_HEADERS = auto()
    PUT_HEADERS_END = auto()
    PUT_DATA = auto()
    PUT_DATA_END = auto()
    PUT_RESET = auto()


_I, _O, _L, _R, _C = StreamState

TABLE: Final[dict[tuple[StreamState, Step], StreamState]] = {
    (_I, Step.GET_HEADERS): _O,
    (_I, Step.GET_HEADERS_END): _R,
    (_I, Step.PUT_HEADERS): _O,
    (_I, Step.PUT_HEADERS_END): _L,
    (_O, Step.GET_HEADERS): _O,
    (_O, Step.GET_HEADERS_END): _R,
    (_O, Step.GET_DATA): _O,
    (_O, Step.GET_DATA_END): _R,
    (_O, Step.GET_RESET): _C,
    (_O, Step.GET_WINDOW): _O,
    (_O, Step.PUT_HEADERS): _O,
    (_O, Step.PUT_HEADERS_END): _L,
    (_O, Step.PUT_DATA): _O,
    (_O, Step.PUT_DATA_END): _L,
    (_O, Step.PUT_RESET): _C,
    (_L, Step.GET_HEADERS): _L,
    (_L, Step.GET_HEADERS_END): _C,
    (_L, Step.GET_DATA): _L,
    (_L, Step.GET_DATA_END): _C,
    (_L, Step.GET_RESET): _C,
    (_L, Step.GET_WINDOW): _L,
    (_L, Step.PUT_RESET): _C,
    (_R, Step.GET_RESET): _C,
    (_R, Step.GET_WINDOW): _R,
    (_R, Step.PUT_HEADERS): _R,
    (_R, Step.PUT_HEADERS_END): _C,
    (_R, Step.PUT_DATA): _R,
    (_R, Step.PUT_DATA_END): _C,
    (_R, Step.PUT_RESET): _C,
    # Updates and resets may cross the end of a stream on their way.
    (_C, Step.GET_RESET): _C,
    (_C, Step.GET_WINDOW): _C,
}

#: How a frame of the peer without a row is answered, by the state it came in.
WHEN_WRONG: Final[dict[StreamState, ErrorCode]] = {
    StreamState.IDLE: ErrorCode.PROTOCOL_ERROR,
    StreamState.HALF_CLOSED_REMOTE: ErrorCode.STREAM_CLOSED,
    StreamState.CLOSED: ErrorCode.STREAM_CLOSED,
}
