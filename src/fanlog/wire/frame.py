"""Delivery without re-encoding: stored messages framed as `received_messages`.

A stored message goes out as it came in. Before it stand the ack id and the length; behind it,
fields from the header of its batch: attributes added to all, the message id, the publish time.
Coming last they win by protobuf's merge rules over the same fields of the sender, which is why the
publish time always writes both of its fields, zeros included.

A frame is field 1 of PullResponse and of StreamingPullResponse alike, so frames that are joined are
an answer, and answers that are joined are a larger answer.

    0a len                            received_messages
       0a len  prefix hex(offset)     ack_id
       12 len  stored message         message: the publisher's bytes
               12 len …               attributes of the batch
               1a len  id             message_id
               22 len  08 s 10 ns     publish_time
       18 attempt                     delivery_attempt, when there is one
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain

from fanlog.log.batch import Batch
from fanlog.model.ids import ACK_OFFSET_DIGITS, OFFSET_DIGITS, message_id
from fanlog.model.resources import Offset
from fanlog.wire.encode import (
    TAG_MESSAGE_ID,
    TAG_PUBLISH_TIME,
    attributes_fields,
    field,
    varint,
    varint_size,
)

_NO_ATTEMPTS: Mapping[Offset, int] = {}
_HEX = tuple(b"%03x" % number for number in range(0x1000))
_DIGITS = tuple(b"%03d" % number for number in range(1_000))

#: Up to so many bytes, copies of messages cost less than a view of each.
_COPIED_BYTES_MAX = 1_024

#: Before the offset's last hex digits; between them and the message; where the message begins.
_Heads = tuple[bytes, bytes, int]


def frame_received(
    batch: Batch,
    indexes: Iterable[int],
    ack_id_prefix: bytes,
    *,
    attempt: int = 0,
    attempts: Mapping[Offset, int] = _NO_ATTEMPTS,
    added: Mapping[str, str] | None = None,
) -> bytes:
    """Frame the messages of `batch` at `indexes`, in that order, as `received_messages`.

    Args:
        indexes: Positions in the batch, 0 for the one at its base offset.
        ack_id_prefix: ASCII; an ack id is this and twelve hex digits of the offset.
        attempt: Delivery attempt of every message that `attempts` does not name; 0 writes none.
        attempts: Delivery attempts by offset.
        added: Attributes for every message, besides those of the batch.
    """
    parts: list[bytes | memoryview] = []
    if isinstance(indexes, range) and indexes.step == 1 and not attempts:
        _add_run(parts, _Frames(batch, ack_id_prefix, attempt, added), indexes)
    else:
        _add_each(parts, batch, indexes, ack_id_prefix, attempt, attempts, added)
    return b"".join(parts)


def frame_overhead(batch: Batch, ack_id_prefix: bytes) -> int:
    """Give the most bytes a frame has beyond the message's stored size (`starts[i+1] - starts[i]`).

    For deciding how many messages an answer can hold before framing them.
    """
    frames = _Frames(batch, ack_id_prefix, 0x7FFF_FFFF)
    # And the frame's own tag and the two lengths that depend on the message, less the tag and
    # length that the stored size already counts.
    return frames.fixed_size + frames.tail_size + 1 + 2 * 5


def _add_run(parts: list[bytes | memoryview], frames: _Frames, indexes: range) -> None:
    """Add frames of neighbours: a stretch in which all but the last digits of the offset stay."""
    batch = frames.batch
    content = memoryview(batch.content)
    starts = batch.starts
    index, end = indexes.start, indexes.stop
    while index < end:
        offset = batch.base_offset + index
        digits = offset % 1_000
        low = offset & 0xFFF
        count = min(end - index, 1_000 - digits, 0x1000 - low)
        known = frames.enter(offset).get
        low_hexes, all_digits = _HEX[low : low + count], _DIGITS[digits : digits + count]
        if size := _even_size(starts[index : index + count + 1]):
            heads = known(size) or frames.heads_of(size)
            begin = starts[index]
            alike = content[begin : begin + size * count]
            _add_alike(parts, frames, heads, size, alike, low_hexes, all_digits)
            index += count
            continue
        id_head, tail = frames.id_head, frames.tail
        for field_begin, field_end, low_hex, low_digits in zip(
            starts[index : index + count],
            starts[index + 1 : index + count + 1],
            low_hexes,
            all_digits,
            strict=True,
        ):
            size = field_end - field_begin
            before, between, skip = known(size) or frames.heads_of(size)
            parts += (
                before,
                low_hex,
                between,
                content[field_begin + skip : field_end],
                id_head,
                low_digits,
                tail,
            )
        index += count


def _even_size(places: Sequence[int]) -> int:
    """The size of messages that are all of one, and short; 0 for others."""
    begin, end = places[0], places[-1]
    size = places[1] - begin
    is_even = (
        0 < size <= _COPIED_BYTES_MAX
        and begin + size * (len(places) - 1) == end
        and list(places) == list(range(begin, end + 1, size))
    )
    return size if is_even else 0


def _add_alike(
    parts: list[bytes | memoryview],
    frames: _Frames,
    heads: _Heads,
    size: int,
    content: memoryview,
    low_hexes: Sequence[bytes],
    digits: Sequence[bytes],
) -> None:
    """Add frames of messages of one size: all that they share is said once, for all of them."""
    before, between, skip = heads
    parts.append(before)
    # The end of each frame and the beginning of the next are one piece.
    pieces = [b"", between, b"", frames.id_head, b"", frames.tail + before] * len(digits)
    pieces[0::6] = low_hexes
    pieces[2::6] = chain.from_iterable(struct.iter_unpack(f"{skip}x{size - skip}s", content))
    pieces[4::6] = digits
    pieces[-1] = frames.tail
    parts += pieces


def _add_each(
    parts: list[bytes | memoryview],
    batch: Batch,
    indexes: Iterable[int],
    ack_id_prefix: bytes,
    attempt: int,
    attempts: Mapping[Offset, int],
    added: Mapping[str, str] | None,
) -> None:
    """Add frames of any messages, each with its own delivery attempt."""
    by_attempt: dict[int, _Frames] = {}
    content = memoryview(batch.content)
    for index in indexes:
        offset = batch.base_offset + index
        number = attempts.get(offset, attempt)
        frames = by_attempt.get(number)
        if frames is None:
            frames = by_attempt[number] = _Frames(batch, ack_id_prefix, number, added)
        heads = frames.enter(offset)
        begin, end = batch.starts[index], batch.starts[index + 1]
        before, between, skip = heads.get(end - begin) or frames.heads_of(end - begin)
        parts += (
            before,
            _HEX[offset & 0xFFF],
            between,
            content[begin + skip : end],
            frames.id_head,
            _DIGITS[offset % 1_000],
            frames.tail,
        )


class _Frames:
    """The bytes that frames of a batch with one delivery attempt share, by message size."""

    __slots__ = (
        "ack_id_head",
        "ack_id_prefix",
        "attributes",
        "batch",
        "block",
        "fixed_size",
        "heads",
        "id_head",
        "tail",
        "tail_size",
        "thousand",
    )

    def __init__(
        self,
        batch: Batch,
        ack_id_prefix: bytes,
        attempt: int,
        added: Mapping[str, str] | None = None,
    ) -> None:
        self.batch = batch
        ack_id_size = varint(len(ack_id_prefix) + ACK_OFFSET_DIGITS)
        self.ack_id_prefix = b"\x0a" + ack_id_size + ack_id_prefix
        self.attributes = attributes_fields(batch.attributes) if batch.attributes else b""
        if added:
            self.attributes += attributes_fields(added)
        publish_time = _publish_time(batch.publish_time_ns)
        attempt_field = b"\x18" + varint(attempt) if attempt > 0 else b""
        id_size = len(str(batch.partition)) + OFFSET_DIGITS
        #: Bytes that follow the stored message inside `message`.
        self.tail_size = len(self.attributes) + 1 + varint_size(id_size) + id_size
        self.tail_size += len(publish_time)
        #: Bytes of a frame that are neither message nor a length that depends on it.
        self.fixed_size = len(self.ack_id_prefix) + ACK_OFFSET_DIGITS + len(attempt_field)
        self.tail = publish_time + attempt_field
        self.id_head = self.ack_id_head = b""
        self.block = self.thousand = -1
        self.heads: dict[int, _Heads] = {}

    def enter(self, offset: Offset) -> dict[int, _Heads]:
        """Make ready for `offset` and those that share all but its last three digits."""
        thousand, block = offset // 1_000, offset >> 12
        if thousand != self.thousand:
            self.thousand = thousand
            digits = message_id(self.batch.partition, thousand * 1_000).encode()
            self.id_head = self.attributes + field(TAG_MESSAGE_ID, digits)[:-3]
        if block != self.block:
            self.block = block
            self.heads = {}
            self.ack_id_head = self.ack_id_prefix + b"%0*x" % (ACK_OFFSET_DIGITS - 3, block)
        return self.heads

    def heads_of(self, field_size: int) -> _Heads:
        """Make the bytes around the ack id for a stored field of this size, and keep them."""
        # Tag and length stand before the stored message: two bytes up to 127, three up to 16,383.
        if field_size < 0x82:
            skip = 2
        elif field_size < 0x4003:
            skip = 3
        else:
            skip = _head_size(field_size)
        message_size = field_size - skip + self.tail_size
        message_length = varint(message_size)
        frame_length = varint(self.fixed_size + 1 + len(message_length) + message_size)
        heads = self.heads[field_size] = (
            b"\x0a%b%b" % (frame_length, self.ack_id_head),
            b"\x12" + message_length,
            skip,
        )
        return heads


def _head_size(field_size: int) -> int:
    size = field_size - 2
    while 1 + varint_size(size) + size > field_size:
        size -= 1
    return field_size - size


@lru_cache(maxsize=4096)
def _publish_time(time_ns: int) -> bytes:
    # Kept: many subscriptions frame a message or two of the same batch.
    seconds, nanos = divmod(time_ns, 1_000_000_000)
    return field(TAG_PUBLISH_TIME, b"\x08" + varint(seconds) + b"\x10" + varint(nanos))


assert OFFSET_DIGITS > 3
assert ACK_OFFSET_DIGITS > 3
