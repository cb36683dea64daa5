"""Bytes to frames: the preface, sizes, the order of frames, and header blocks of several frames.

Padding and priorities of HEADERS are taken off here, and CONTINUATION frames are joined to the
HEADERS frame they belong to: the connection sees one frame with a whole block. A long DATA frame
is handed on in pieces as they arrive, so that the reader never holds more than a short frame.
"""

from __future__ import annotations

from typing import Final

from fanlog.http2 import codes, patience
from fanlog.http2.codes import ErrorCode, Fault
from fanlog.http2.patience import Patience

#: Bytes of one compressed header block, all its CONTINUATION frames together: more than are taken
#: as headers, so that a caller with too many is answered, and the connection's other calls go on.
BLOCK_BYTES_MAX: Final = 64 * 1024
#: A DATA frame that is longer is handed on in pieces of at least so many bytes.
_WHOLE_BYTES_MAX: Final = codes.FRAME_BYTES_MIN

#: Type, flags, stream and payload.
Frame = tuple[int, int, int, bytes]


class FrameReader:
    """The frames of one peer. Not usable after a fault."""

    __slots__ = (
        "_awaits_settings",
        "_block",
        "_buffer",
        "_data_left",
        "_patience",
        "_preface_left",
        "_size_max",
    )

    def __init__(self, preface: bytes, size_max: int, budget: Patience) -> None:
        self._preface_left = preface
        self._size_max = size_max
        self._patience = budget
        self._buffer = b""
        self._awaits_settings = True
        #: Stream, flags and bytes of a header block that is not complete.
        self._block: tuple[int, int, bytearray] | None = None
        #: Flags and stream of a DATA frame that was handed on in part, and its bytes to come.
        self._data_left: tuple[int, int, int] | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the first frame has come."""
        return not self._awaits_settings

    def read(self, data: bytes) -> tuple[list[Frame], Fault | None]:
        """Take bytes; the frames that are whole now, and the rule that the next one breaks."""
        if self._buffer:
            data = self._buffer + data
        found: list[Frame] = []
        position, end, most = 0, len(data), self._size_max
        try:
            if self._preface_left:
                position = self._take_preface(data)
            if self._data_left is not None:
                position = self._take_rest(data, found)
                if self._data_left is not None:
                    end = position
            while end - position >= codes.FRAME_HEAD_BYTES:
                start = position + codes.FRAME_HEAD_BYTES
                length = (data[position] << 16) | (data[position + 1] << 8) | data[position + 2]
                kind, flags = data[position + 3], data[position + 4]
                if length > most:
                    raise Fault(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {length} bytes")
                missing = start + length - end
                if missing > 0 and (
                    kind != codes.DATA
                    or flags & codes.PADDED
                    or length - missing < _WHOLE_BYTES_MAX
                ):
                    break
                stream_id = int.from_bytes(data[position + 5 : start]) & codes.WINDOW_MAX
                if self._awaits_settings or self._block is not None:
                    self._check_order(kind, flags, stream_id)
                if missing > 0:
                    self._data_left = (flags, stream_id, missing)
                    length -= missing
                    flags &= ~codes.END_STREAM
                position = start + length
                frame = (kind, flags, stream_id, data[start:position])
                if kind == codes.HEADERS or kind == codes.CONTINUATION:
                    self._take_block(frame, found)
                else:
                    found.append(frame)
        except Fault as fault:
            self._buffer = b""
            return found, fault
        self._buffer = data[position:]
        return found, None

    def _take_preface(self, data: bytes) -> int:
        part = data[: len(self._preface_left)]
        if not self._preface_left.startswith(part):
            raise Fault(ErrorCode.PROTOCOL_ERROR, "no connection preface")
        self._preface_left = self._preface_left[len(part) :]
        return len(part)

    def _take_rest(self, data: bytes, found: list[Frame]) -> int:
        """The next piece of a DATA frame, unless it is too short to be worth it; its end."""
        assert self._data_left is not None
        flags, stream_id, left = self._data_left
        if len(data) >= left:
            self._data_left = None
            found.append((codes.DATA, flags, stream_id, data[:left]))
            return left
        if len(data) < _WHOLE_BYTES_MAX:
            return 0
        self._data_left = (flags, stream_id, left - len(data))
        found.append((codes.DATA, flags & ~codes.END_STREAM, stream_id, data))
        return len(data)

    def _check_order(self, kind: int, flags: int, stream_id: int) -> None:
        """The first frame is SETTINGS, and a header block is not interrupted."""
        if self._awaits_settings:
            if kind != codes.SETTINGS or flags & codes.ACK:
                raise Fault(ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS")
            self._awaits_settings = False
        elif self._block is not None and (kind, stream_id) != (codes.CONTINUATION, self._block[0]):
            raise Fault(ErrorCode.PROTOCOL_ERROR, "a header block is not complete")

    def _take_block(self, frame: Frame, found: list[Frame]) -> None:
        kind, flags, stream_id, payload = frame
        if kind == codes.CONTINUATION:
            if self._block is None:
                raise Fault(ErrorCode.PROTOCOL_ERROR, "CONTINUATION without HEADERS")
            self._patience.spend(patience.COST_CONTINUATION, "CONTINUATION frames")
            _, first_flags, block = self._block
            block += payload
            if len(block) > BLOCK_BYTES_MAX:
                raise Fault(ErrorCode.ENHANCE_YOUR_CALM, "a header block that does not end")
            if flags & codes.END_HEADERS:
                self._block = None
                found.append((codes.HEADERS, first_flags, stream_id, bytes(block)))
            return
        if stream_id == 0:
            raise Fault(ErrorCode.PROTOCOL_ERROR, "HEADERS on stream 0")
        if flags & (codes.PADDED | codes.WITH_PRIORITY):
            payload = _bare_block(stream_id, flags, payload)
        if flags & codes.END_HEADERS:
            found.append((kind, flags, stream_id, payload))
        else:
            self._block = (stream_id, flags, bytearray(payload))


def _bare_block(stream_id: int, flags: int, payload: bytes) -> bytes:
    if flags & codes.PADDED:
        payload = unpad(payload)
    if flags & codes.WITH_PRIORITY:
        if len(payload) < 5:
            raise Fault(ErrorCode.FRAME_SIZE_ERROR, "HEADERS without room for its priority")
        if int.from_bytes(payload[:4]) & codes.WINDOW_MAX == stream_id:
            raise Fault(ErrorCode.PROTOCOL_ERROR, "a stream that depends on itself")
        payload = payload[5:]
    return payload


def unpad(payload: bytes) -> bytes:
    """The content of a padded frame. Raises Fault."""
    if not payload or payload[0] >= len(payload):
        raise Fault(ErrorCode.PROTOCOL_ERROR, "more padding than there is room")
    return payload[1 : len(payload) - payload[0]]
