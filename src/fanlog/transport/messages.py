"""gRPC messages in the data of a stream: a byte for compression, four for the length, the message.

A `MessageReader` is fed data as it comes and gives whole messages. It knows how much of the message
under way is missing, which is what the stream is credited, and refuses one that is too long by its
first five bytes. Compressed messages are handed on as they are, and unfolded when their verb takes
them: a few bytes may become megabytes, and many may wait.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final

from fanlog.transport.statuses import INTERNAL, RESOURCE_EXHAUSTED, UNIMPLEMENTED, Status

PREFIX_BYTES: Final = 5

#: Window bits for zlib: gzip's frame, or zlib's, which HTTP calls deflate.
_WINDOW_BITS: Final = {b"gzip": 31, b"deflate": 15}
#: What may come compressed.
ACCEPTED: Final = b"identity,deflate,gzip"
#: Answers that are shorter are not worth it.
FOLDED_BYTES_MIN: Final = 1_024
#: The fastest: it is done on the loop.
_FOLD_LEVEL: Final = 1


class MessageRefused(Exception):
    """A message cannot be taken; the call ends with `status`."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


def frame_message(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4) + message


def fold_message(message: bytes) -> bytes:
    """A message as it goes to a caller that takes gzip: compressed, where that makes it shorter."""
    if len(message) < FOLDED_BYTES_MIN:
        return frame_message(message)
    compressor = zlib.compressobj(_FOLD_LEVEL, zlib.DEFLATED, _WINDOW_BITS[b"gzip"])
    folded = compressor.compress(message) + compressor.flush()
    if len(folded) >= len(message):
        return frame_message(message)
    return b"\1" + len(folded).to_bytes(4) + folded


def check_encoding(encoding: bytes) -> None:
    """Raises MessageRefused (UNIMPLEMENTED) for an encoding that is not known."""
    if encoding not in (b"", b"identity", *_WINDOW_BITS):
        name = encoding.decode("ascii", "replace")
        raise MessageRefused(
            Status(
                UNIMPLEMENTED,
                f"grpc-encoding {name!r} is not supported; one of {ACCEPTED.decode()} is",
            )
        )


def unfold(content: bytes, encoding: bytes, size_max: int) -> bytes:
    """A compressed message as it was, of at most `size_max` bytes.

    Raises:
        MessageRefused: It is longer, or cannot be read.
    """
    bits = _WINDOW_BITS.get(encoding)
    if bits is None:
        raise MessageRefused(
            Status(INTERNAL, "a compressed message, and no grpc-encoding that says how")
        )
    decompressor = zlib.decompressobj(bits)
    try:
        found = decompressor.decompress(content, size_max + 1)
    except zlib.error as error:
        raise MessageRefused(
            Status(INTERNAL, f"a message that cannot be unfolded: {error}")
        ) from None
    if len(found) > size_max:
        raise MessageRefused(too_long(len(found), size_max))
    if not decompressor.eof or decompressor.unused_data:
        raise MessageRefused(Status(INTERNAL, "a compressed message that is not whole"))
    return found


def too_long(size_bytes: int, size_max: int) -> Status:
    return Status(
        RESOURCE_EXHAUSTED,
        f"the request has at least {size_bytes} bytes; at most {size_max} are allowed",
    )


#: Is given a message as it came, and whether it is compressed.
OnMessage = Callable[[bytes, bool], None]


class MessageReader:
    """Messages of one stream, as they arrive."""

    __slots__ = ("_buffer", "_length", "_on_message", "_size_max")

    def __init__(self, size_max: int, on_message: OnMessage) -> None:
        self._size_max = size_max
        self._on_message = on_message
        self._buffer = bytearray()
        #: Of the message under way; -1 before its prefix is whole.
        self._length = -1

    @property
    def held_bytes(self) -> int:
        """Bytes of a message that is not whole."""
        return len(self._buffer)

    @property
    def missing_bytes(self) -> int:
        """Bytes of the message under way that are still to come; 0 when none is."""
        if self._length < 0:
            return 0
        return PREFIX_BYTES + self._length - len(self._buffer)

    @property
    def is_inside(self) -> bool:
        """Whether a message has begun and is not whole."""
        return bool(self._buffer)

    def feed(self, data: bytes) -> None:
        """Take data; every message that is whole is handed on.

        Raises:
            MessageRefused: A message is too long, or has unknown flags.
        """
        buffer = self._buffer
        if not buffer and len(data) >= PREFIX_BYTES:
            # Mostly one frame has one whole message.
            end = PREFIX_BYTES + int.from_bytes(data[1:5])
            if end == len(data) and not data[0] and end - PREFIX_BYTES <= self._size_max:
                self._on_message(data[PREFIX_BYTES:], False)
                return
        buffer += data
        while len(buffer) >= PREFIX_BYTES:
            if self._length < 0:
                self._length = int.from_bytes(buffer[1:5])
                if self._length > self._size_max:
                    raise MessageRefused(too_long(self._length, self._size_max))
                if buffer[0] > 1:
                    raise MessageRefused(Status(INTERNAL, "a message with unknown flags"))
            end = PREFIX_BYTES + self._length
            if len(buffer) < end:
                return
            with memoryview(buffer) as view:
                content = bytes(view[PREFIX_BYTES:end])
            is_compressed = bool(buffer[0])
            del buffer[:end]
            self._length = -1
            self._on_message(content, is_compressed)
