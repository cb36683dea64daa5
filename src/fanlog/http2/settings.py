"""SETTINGS: the promises of one side, read and checked."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from fanlog.http2 import codes
from fanlog.http2.codes import ErrorCode, Fault

HEADER_TABLE_SIZE: Final = 1
ENABLE_PUSH: Final = 2
MAX_CONCURRENT_STREAMS: Final = 3
INITIAL_WINDOW_SIZE: Final = 4
MAX_FRAME_SIZE: Final = 5
MAX_HEADER_LIST_SIZE: Final = 6

_PAIR = struct.Struct(">HL")


@dataclass(slots=True)
class Http2Settings:
    """The promises of one side of a connection: sizes and counts that it takes."""

    table_bytes: int = codes.TABLE_BYTES_DEFAULT
    streams_max: int = codes.WINDOW_MAX
    stream_window: int = codes.WINDOW_DEFAULT
    frame_bytes_max: int = codes.FRAME_BYTES_MIN
    header_list_bytes_max: int = codes.WINDOW_MAX

    def pairs(self) -> Iterator[tuple[int, int]]:
        """All of them, as they are announced; pushes are never wanted."""
        yield HEADER_TABLE_SIZE, self.table_bytes
        yield ENABLE_PUSH, 0
        yield MAX_CONCURRENT_STREAMS, self.streams_max
        yield INITIAL_WINDOW_SIZE, self.stream_window
        yield MAX_FRAME_SIZE, self.frame_bytes_max
        yield MAX_HEADER_LIST_SIZE, self.header_list_bytes_max

    def change(self, payload: bytes) -> int:
        """Take a SETTINGS frame's pairs in; return by how much the windows of streams grow.

        Raises:
            Fault: A value is outside its bounds.
        """
        window_before = self.stream_window
        for number, value in _PAIR.iter_unpack(payload):
            if number == HEADER_TABLE_SIZE:
                self.table_bytes = value
            elif number == ENABLE_PUSH:
                if value > 1:
                    raise Fault(ErrorCode.PROTOCOL_ERROR, "ENABLE_PUSH is neither 0 nor 1")
            elif number == MAX_CONCURRENT_STREAMS:
                self.streams_max = value
            elif number == INITIAL_WINDOW_SIZE:
                if value > codes.WINDOW_MAX:
                    raise Fault(ErrorCode.FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE is too large")
                self.stream_window = value
            elif number == MAX_FRAME_SIZE:
                if not codes.FRAME_BYTES_MIN <= value <= codes.FRAME_BYTES_MAX:
                    raise Fault(ErrorCode.PROTOCOL_ERROR, "MAX_FRAME_SIZE is outside its bounds")
                self.frame_bytes_max = value
            elif number == MAX_HEADER_LIST_SIZE:
                self.header_list_bytes_max = value
        return self.stream_window - window_before
