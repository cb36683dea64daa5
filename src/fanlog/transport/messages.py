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
#: Longer messages are sent behind their prefix, and not copied to be joined with it.
LONG_BYTES: Final = 16 * 1024

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
    return message_prefix(message) + message


def message_prefix(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4)


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


#: Parts of a message below this are joined as they come.
_PART_BYTES_MIN: Final = 4 * 1024

#: Is given a message as it came, and whether it is compressed.
OnMessage = Callable[[bytes, bool], None]


class MessageReader:
    """Messages of one stream, as they arrive."""

    __slots__ = ("_held_bytes", "_length", "_on_message", "_parts", "_size_max")

    def __init__(self, size_max: int, on_message: OnMessage) -> None:
        self._size_max = size_max
        self._on_message = on_message
        #: The message under way with its prefix, joined once it is whole. Small parts are joined
        #: at once: each would cost more than its bytes.
        self._parts: list[bytes | bytearray] = []
        self._held_bytes = 0
        #: Of the message under way; -1 before its prefix is whole.
        self._length = -1

    @property
    def held_bytes(self) -> int:
        """Bytes of a message that is not whole."""
        return self._held_bytes

    @property
    def missing_bytes(self) -> int:
        """Bytes of the message under way that are still to come; 0 when none is."""
        if self._length < 0:
            return 0
        return PREFIX_BYTES + self._length - self._held_bytes

    @property
    def is_inside(self) -> bool:
        """Whether a message has begun and is not whole."""
        return self._held_bytes > 0

    def feed(self, data: bytes) -> None:
        """Take data; every message that is whole is handed on.

        Raises:
            MessageRefused: A message is too long, or has unknown flags.
        """
        position, end = self._finish_held(data) if self._parts else 0, len(data)
        while end - position >= PREFIX_BYTES:
            start = position + PREFIX_BYTES
            length = int.from_bytes(data[position + 1 : start])
            self._check(data[position], length)
            if end - start < length:
                self._length = length
                break
            flag, position = data[position], start + length
            self._on_message(data[start:position], bool(flag))
        if position < end:
            self._hold(data[position:])

    def _finish_held(self, data: bytes) -> int:
        """Add to the message under way what is missing of it, as far as it came; its end."""
        position = 0
        if self._length < 0:
            position = PREFIX_BYTES - self._held_bytes
            self._hold(data[:position])
            if self._held_bytes < PREFIX_BYTES:
                return len(data)
            prefix = self._parts[0]
            self._length = int.from_bytes(prefix[1:])
            self._check(prefix[0], self._length)
        end = position + self.missing_bytes
        if len(data) < end:
            self._hold(data[position:])
            return len(data)
        first = self._parts[0]
        parts = [memoryview(part) for part in self._parts]
        parts[0] = parts[0][PREFIX_BYTES:]
        parts.append(memoryview(data)[position:end])
        self._parts, self._held_bytes, self._length = [], 0, -1
        self._on_message(b"".join(parts), bool(first[0]))
        return end

    def _hold(self, data: bytes) -> None:
        parts = self._parts
        self._held_bytes += len(data)
        if len(data) >= _PART_BYTES_MIN:
            parts.append(data)
        elif parts and isinstance(parts[-1], bytearray):
            parts[-1] += data
        elif data:
            parts.append(bytearray(data))

    def _check(self, flag: int, length: int) -> None:
        if length > self._size_max:
            raise MessageRefused(too_long(length, self._size_max))
        if flag > 1:
            raise MessageRefused(Status(INTERNAL, "a message with unknown flags"))
