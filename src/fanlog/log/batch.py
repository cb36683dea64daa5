"""The batch: the unit of everything the log stores. Its values, and its bytes.

A stored batch is one value that describes itself: where it stands in the log, when it was
published, where each of its messages starts, and checksums over all of it. Nothing outside the
value is needed to read it, so that a batch found by a raw scan of a broken file can be used.

    header (64 bytes) | slot table | addressee | terms | attributes | body

All numbers are little-endian. `docs/internals/data_files.md` draws the layout; a change to it bumps
`FORMAT_VERSION` and adds a golden file.

Invariants:

1. The header's checksum covers the rest of the header; the payload's checksum, which stands in the
   header, covers everything after it. So every bit of a value is covered.
2. The slot table has one entry more than there are messages: the first is 0, the last is the
   length of the body, and none is smaller than the one before it.
3. The seal (`fanlog.log.seal`) is in the header's flags, and its addressee behind the slot table:
   no byte of a publisher's is there.
4. A batch whose messages have no terms has no such section, and is of version 2. Where there is
   one, the header counts its bytes with those of the attributes.
5. A value is at most `limits.BATCH_BYTES_MAX` long unless it holds a single message.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypedDict

from crc32c import crc32c

from fanlog import limits
from fanlog.log import term_table
from fanlog.log.seal import BITS, IS_ADDRESSED, UNSEALED, Seal
from fanlog.model.resources import Offset, PartitionId
from fanlog.model.terms import Terms, joined

MAGIC = b"\xfaFLB"
FORMAT_VERSION = 3
#: Without terms: what most batches are written as.
_TERMLESS_VERSION = 2
#: Before there were seals: all else is the same.
_UNSEALABLE_VERSION = 1

# magic, format version, flags, count, attributes length, commit sequence, topic, partition,
# body length, base offset, publish time, payload checksum; then the checksum of these 60 bytes.
_FIELDS = struct.Struct("<4sHHIIQQIIQQI")
_CHECKSUM = struct.Struct("<I")
#: Where the count stands among the fields.
_COUNT, _COUNT_AT = struct.Struct("<I"), 8
HEADER_BYTES = _FIELDS.size + _CHECKSUM.size

#: The slot table is followed by one key hash a message.
_HAS_KEY_HASHES = 1
#: Flags that each version knows.
_FLAGS = {
    _UNSEALABLE_VERSION: _HAS_KEY_HASHES,
    _TERMLESS_VERSION: _HAS_KEY_HASHES | BITS,
    FORMAT_VERSION: _HAS_KEY_HASHES | BITS,
}

_START_BYTES = 4
_KEY_HASH_BYTES = 8
_ADDRESSEE = struct.Struct("<Q")
_ATTRIBUTE_LENGTHS = struct.Struct("<HH")
#: Whether arrays have another byte order than what is stored.
SWAPS = sys.byteorder == "big"

assert HEADER_BYTES == 64
assert array("I").itemsize == _START_BYTES
assert array("Q").itemsize == _KEY_HASH_BYTES


class BatchDamaged(ValueError):
    """The bytes are not a batch this build can read; the sentence names the problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """Messages ready to be stored, all of one publish: the bytes and where each message starts.

    `content` is a run of PublishRequest's repeated `messages` fields, tags and lengths included.
    `starts[i]` is where field i begins in `content`; the last entry is its length, so that there is
    one entry more than there are messages. `key_hashes` has one entry a message, 0 for no ordering
    key, or is None when no message has one.
    """

    content: bytes
    starts: Sequence[int]
    key_hashes: Sequence[int] | None = None
    #: Attributes added to every message of the body when it is delivered.
    attributes: Mapping[str, str] = field(default_factory=dict)
    #: The broker's own statement about them.
    seal: Seal = UNSEALED
    #: None when no message asks for anything.
    terms: Terms | None = None

    @property
    def count(self) -> int:
        return len(self.starts) - 1

    def only(self, indexes: Sequence[int]) -> Body:
        """The body of some of the messages, cut at their boundaries."""
        starts, pieces = [0], []
        for index in indexes:
            piece = self.content[self.starts[index] : self.starts[index + 1]]
            pieces.append(piece)
            starts.append(starts[-1] + len(piece))
        hashes = self.key_hashes
        return Body(
            content=b"".join(pieces),
            starts=starts,
            key_hashes=None if hashes is None else [hashes[index] for index in indexes],
            attributes=self.attributes,
            seal=self.seal,
            terms=None if self.terms is None else self.terms.only(indexes),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch as read back: the header's values, the slot table, and the body's bytes."""

    topic: int
    partition: PartitionId
    base_offset: Offset
    #: Sequence of the commit that wrote it.
    sequence: int
    publish_time_ns: int
    #: As in `Body`: one entry more than there are messages, offsets into `content`.
    starts: Sequence[int]
    key_hashes: Sequence[int] | None
    attributes: Mapping[str, str]
    #: As in `Body`.
    content: bytes
    #: None when it was written before there were seals.
    seal: Seal | None = None
    #: As in `Body`.
    terms: Terms | None = None

    @property
    def count(self) -> int:
        return len(self.starts) - 1

    @property
    def end_offset(self) -> Offset:
        return self.base_offset + len(self.starts) - 1


class BatchPlace(TypedDict):
    """Where, and by which commit, the messages of an append are stored."""

    sequence: int
    topic: int
    partition: PartitionId
    base_offset: Offset
    publish_time_ns: int


class Header(NamedTuple):
    """The values of a batch before its slot table. The header's own checksum has been verified."""

    magic: bytes
    version: int
    flags: int
    message_count: int
    attributes_bytes: int
    sequence: int
    topic: int
    partition: PartitionId
    body_bytes: int
    base_offset: Offset
    publish_time_ns: int
    payload_crc: int

    @property
    def end_offset(self) -> Offset:
        return self.base_offset + self.message_count

    @property
    def has_key_hashes(self) -> bool:
        return bool(self.flags & _HAS_KEY_HASHES)

    @property
    def value_bytes(self) -> int:
        """Length of the whole value, header included."""
        keyed = self.flags & _HAS_KEY_HASHES
        beside = self.attributes_bytes + (_ADDRESSEE.size if self.flags & IS_ADDRESSED else 0)
        return batch_bytes(self.body_bytes, self.message_count, keyed, beside)


def encode(
    bodies: Sequence[Body],
    *,
    sequence: int,
    topic: int,
    partition: PartitionId,
    base_offset: Offset,
    publish_time_ns: int,
) -> Iterator[tuple[Offset, bytes]]:
    """Turn the bodies of one append into the values to store, each with its base offset.

    Bodies are cut at message boundaries where a value would pass `limits.BATCH_BYTES_MAX`, and
    neighbours with equal attributes and seals share a value while they fit, so that many small
    publishes of one commit are one batch. Read back and joined, the values give the bodies'
    messages in order.
    One value is made at a time: memory that is used again at once costs half as much.
    """
    for run in _gather(bodies):
        header = (sequence, topic, partition, base_offset, publish_time_ns)
        yield base_offset, _encode_run(run, *header)
        base_offset += run.count


def stored_bytes(bodies: Sequence[Body]) -> int:
    """The length of all values that `encode` makes of the bodies of one append."""
    return sum([run.value_bytes for run in _gather(bodies)])


def stored_bytes_max(body: Body) -> int:
    """At least as many bytes as a body takes when it is stored by itself."""
    beside = 0
    if body.attributes or body.seal is not UNSEALED:
        beside = len(_encode_addressee(body.seal)) + len(_encode_attributes(body.attributes))
    if body.terms is not None:
        beside += term_table.bytes_max(body.terms)
    content = len(body.content) + (_START_BYTES + _KEY_HASH_BYTES) * body.count
    # Two values that follow each other have more than one may have together.
    values = 1 + 2 * content // (limits.BATCH_BYTES_MAX // 2)
    return content + values * (HEADER_BYTES + _START_BYTES + beside)


def message_count(value: bytes | memoryview) -> int:
    """How many messages a value by `encode` has."""
    (count,) = _COUNT.unpack_from(value, _COUNT_AT)
    return int(count)


def decode_header(value: bytes | memoryview) -> Header:
    """Read and verify the header of a stored batch; the payload is not looked at.

    Raises:
        BatchDamaged: Not a batch, another format version, or the header's checksum is wrong.
    """
    if len(value) < HEADER_BYTES:
        raise BatchDamaged(f"cut short: {len(value)} bytes, a header has {HEADER_BYTES}")
    header = Header._make(_FIELDS.unpack_from(value))
    if header.magic != MAGIC:
        raise BatchDamaged("not a batch: it does not start with the batch magic")
    (stored,) = _CHECKSUM.unpack_from(value, _FIELDS.size)
    if crc32c(value[: _FIELDS.size]) != stored:
        raise BatchDamaged("the header fails its checksum")
    if header.flags & ~_FLAGS.get(header.version, 0) or header.version not in _FLAGS:
        raise BatchDamaged(
            f"format version {header.version} with flags {header.flags:#x}: "
            f"this build reads versions {_UNSEALABLE_VERSION} to {FORMAT_VERSION}"
        )
    return header


def verify(value: bytes | memoryview) -> Header:
    """Verify both checksums of a stored batch, and look no further.

    Raises:
        BatchDamaged: The sentence names the problem.
    """
    header = decode_header(value)
    if len(value) != header.value_bytes:
        raise BatchDamaged(f"{len(value)} bytes, the header says {header.value_bytes}")
    if crc32c(memoryview(value)[HEADER_BYTES:]) != header.payload_crc:
        raise BatchDamaged("the payload fails its checksum")
    return header


def decode(value: bytes | memoryview) -> Batch:
    """Read a stored batch back, verifying both checksums. Copies: `value` may be a view of a map.

    Raises:
        BatchDamaged: The sentence names the problem.
    """
    header = verify(value)
    view = memoryview(value)
    position = HEADER_BYTES + _START_BYTES * (header.message_count + 1)
    starts = _array("I", view[HEADER_BYTES:position])
    key_hashes = None
    if header.flags & _HAS_KEY_HASHES:
        key_hashes = _array("Q", view[position : position + _KEY_HASH_BYTES * header.message_count])
        position += _KEY_HASH_BYTES * header.message_count
    seal, position = _decode_seal(header, view, position)
    body_start = position + header.attributes_bytes
    terms = None
    if header.version == FORMAT_VERSION:
        try:
            terms, position = term_table.decode(view[:body_start], position, header.message_count)
        except ValueError as error:
            raise BatchDamaged(str(error)) from error
    # Bytes that pass their checksum are by `encode`, or by a publisher that put a batch of its own
    # into a message, for a search of the file to find.
    if not header.message_count or starts[0] or starts[-1] != header.body_bytes:
        raise BatchDamaged("the slot table does not span the body")
    return Batch(
        topic=header.topic,
        partition=header.partition,
        base_offset=header.base_offset,
        sequence=header.sequence,
        publish_time_ns=header.publish_time_ns,
        starts=starts,
        key_hashes=key_hashes,
        attributes=_decode_attributes(view[position:body_start]),
        content=bytes(view[body_start:]),
        seal=seal,
        terms=terms,
    )


def check_slots(batch: Batch) -> None:
    """Check every slot. Batches by `encode` always pass, and need not be checked.

    Raises:
        BatchDamaged: A slot is smaller than the one before it.
    """
    if list(batch.starts) != sorted(batch.starts):
        raise BatchDamaged("the slot table goes back")


class _Run:
    """Pieces of bodies, in order, that become one value."""

    __slots__ = (
        "attributes",
        "beside",
        "body_bytes",
        "count",
        "keyed",
        "pieces",
        "seal",
        "terms_bytes",
    )

    def __init__(self, body: Body, beside: bytes) -> None:
        self.attributes = body.attributes
        self.seal = body.seal
        #: The bytes between the slot table and the body, but for the terms.
        self.beside = beside
        #: At most so many; 0 when no message has terms.
        self.terms_bytes = 0
        #: Body, first message, message after the last one.
        self.pieces: list[tuple[Body, int, int]] = []
        self.count = 0
        self.body_bytes = 0
        self.keyed = False

    @property
    def value_bytes(self) -> int:
        beside = len(self.beside)
        if self.terms_bytes:
            beside += len(term_table.encode(_terms(self)))
        return batch_bytes(self.body_bytes, self.count, self.keyed, beside)

    def takes(self, body: Body) -> bool:
        if body.seal is not self.seal and body.seal != self.seal:
            return False
        if body.attributes != self.attributes:
            return False
        size = self.body_bytes + body.starts[-1]
        keyed = self.keyed or body.key_hashes is not None
        count = self.count + body.count
        total = batch_bytes(size, count, keyed, len(self.beside) + self.terms_bytes)
        if body.terms is not None:
            total += term_table.bytes_max(body.terms)
        return total <= limits.BATCH_BYTES_MAX

    def add(self, body: Body, first: int, end: int) -> None:
        self.pieces.append((body, first, end))
        self.count += end - first
        self.body_bytes += body.starts[end] - body.starts[first]
        self.keyed = self.keyed or body.key_hashes is not None
        if body.terms is not None:
            part = body.terms.part(first, end)
            self.terms_bytes += 0 if part is None else term_table.bytes_max(part)


def batch_bytes(body_bytes: int, count: int, keyed: int, beside_bytes: int = 0) -> int:
    """The length of a value: so much of the publishers', in so many messages, and beside them."""
    slot_bytes = _START_BYTES + _KEY_HASH_BYTES if keyed else _START_BYTES
    return HEADER_BYTES + _START_BYTES + slot_bytes * count + beside_bytes + body_bytes


def _gather(bodies: Sequence[Body]) -> Iterator[_Run]:
    for body in bodies:
        assert len(body.starts) > 1
        assert body.starts[0] == 0
        assert body.starts[-1] == len(body.content)
        assert body.key_hashes is None or len(body.key_hashes) == len(body.starts) - 1
    plain = _plain_run(bodies)
    if plain is not None:
        yield plain
        return
    run: _Run | None = None
    for body in bodies:
        if run is not None and run.takes(body):
            run.add(body, 0, body.count)
            continue
        if run is not None:
            yield run
        run = None
        beside = _encode_addressee(body.seal) + _encode_attributes(body.attributes)
        terms_bytes = 0 if body.terms is None else term_table.bytes_max(body.terms)
        for first, end in _cuts(body, len(beside) + terms_bytes):
            if run is not None:
                yield run
            run = _Run(body, beside)
            run.add(body, first, end)
    if run is not None:
        yield run


def _plain_run(bodies: Sequence[Body]) -> _Run | None:
    """All bodies, as mostly: nothing is beside any of them, and they fit into one value."""
    if not bodies:
        return None
    run = _Run(bodies[0], b"")
    for body in bodies:
        if body.seal is not UNSEALED or body.attributes or body.terms is not None:
            return None
        count = len(body.starts) - 1
        run.pieces.append((body, 0, count))
        run.count += count
        run.body_bytes += body.starts[-1]
        run.keyed = run.keyed or body.key_hashes is not None
    return run if run.value_bytes <= limits.BATCH_BYTES_MAX else None


def _cuts(body: Body, beside_bytes: int) -> Iterator[tuple[int, int]]:
    """Where to cut a body: each cut takes as many messages as fit, and at least one."""
    starts, count = body.starts, body.count
    slot_bytes = _START_BYTES if body.key_hashes is None else _START_BYTES + _KEY_HASH_BYTES
    room = limits.BATCH_BYTES_MAX - HEADER_BYTES - _START_BYTES - beside_bytes
    first = 0
    while first < count:
        most = room + starts[first] + slot_bytes * first
        if starts[count] + slot_bytes * count <= most:
            end = count
        else:
            ends = range(first + 1, count + 1)
            fitting = bisect_right(ends, most, key=lambda end: starts[end] + slot_bytes * end)
            end = first + max(1, fitting)
        yield first, end
        first = end


def _encode_run(
    run: _Run,
    sequence: int,
    topic: int,
    partition: PartitionId,
    base_offset: Offset,
    publish_time_ns: int,
) -> bytes:
    starts: array[int] = array("I")
    contents: list[bytes | memoryview] = []
    position = 0
    for body, first, end in run.pieces:
        begin, stop = body.starts[first], body.starts[end]
        entries: Iterable[int] = body.starts[first:end]
        shift = position - begin
        if shift and isinstance(entries, range):
            # Messages of one size.
            entries = range(entries.start + shift, entries.stop + shift, entries.step)
        elif shift:
            entries = map(shift.__add__, entries)
        starts += array("I", entries)
        whole = begin == 0 and stop == len(body.content)
        contents.append(body.content if whole else memoryview(body.content)[begin:stop])
        position += stop - begin
    starts.append(position)
    assert position == run.body_bytes
    assert len(starts) == run.count + 1
    slots = _bytes(starts) + (_key_hashes(run) if run.keyed else b"")
    beside, beside_bytes = [run.beside], len(run.beside)
    if run.terms_bytes:
        addressee_bytes = _ADDRESSEE.size if run.seal.addressee else 0
        terms = term_table.encode(_terms(run))
        beside = [run.beside[:addressee_bytes], terms, run.beside[addressee_bytes:]]
        beside_bytes += len(terms)
    parts = [slots, *beside, *contents]
    payload_crc = 0
    for part in parts:
        payload_crc = crc32c(part, payload_crc)
    fields = _FIELDS.pack(
        MAGIC,
        FORMAT_VERSION if run.terms_bytes else _TERMLESS_VERSION,
        run.seal.flags | (_HAS_KEY_HASHES if run.keyed else 0),
        run.count,
        beside_bytes - (_ADDRESSEE.size if run.seal.addressee else 0),
        sequence,
        topic,
        partition,
        run.body_bytes,
        base_offset,
        publish_time_ns,
        payload_crc,
    )
    value = b"".join((fields, _CHECKSUM.pack(crc32c(fields)), *parts))
    assert len(value) <= limits.BATCH_BYTES_MAX or run.count == 1
    return value


def _key_hashes(run: _Run) -> bytes:
    hashes: array[int] = array("Q")
    for body, first, end in run.pieces:
        if body.key_hashes is None:
            hashes.frombytes(bytes(_KEY_HASH_BYTES * (end - first)))
        else:
            hashes += array("Q", body.key_hashes[first:end])
    return _bytes(hashes)


def _terms(run: _Run) -> Terms:
    parts: list[tuple[int, Terms | None]] = []
    place = 0
    for body, first, end in run.pieces:
        if body.terms is not None:
            whole = end - first == body.count
            parts.append((place, body.terms if whole else body.terms.part(first, end)))
        place += end - first
    found = joined(parts)
    assert found is not None
    return found


def _encode_addressee(seal: Seal) -> bytes:
    return _ADDRESSEE.pack(seal.addressee) if seal.addressee else b""


def _decode_seal(header: Header, view: memoryview, position: int) -> tuple[Seal | None, int]:
    """The seal, and the position behind it."""
    if header.version == _UNSEALABLE_VERSION:
        return None, position
    if not header.flags & IS_ADDRESSED:
        return Seal.of_flags(header.flags, 0), position
    (addressee,) = _ADDRESSEE.unpack_from(view, position)
    if not addressee:
        raise BatchDamaged("it is addressed to nobody")
    return Seal.of_flags(header.flags, addressee), position + _ADDRESSEE.size


def _encode_attributes(attributes: Mapping[str, str]) -> bytes:
    parts = []
    for key, text in attributes.items():
        key_bytes, text_bytes = key.encode(), text.encode()
        parts.append(_ATTRIBUTE_LENGTHS.pack(len(key_bytes), len(text_bytes)))
        parts.append(key_bytes)
        parts.append(text_bytes)
    return b"".join(parts)


def _decode_attributes(block: memoryview) -> Mapping[str, str]:
    attributes: dict[str, str] = {}
    position = count = 0
    try:
        while position < len(block):
            key_bytes, text_bytes = _ATTRIBUTE_LENGTHS.unpack_from(block, position)
            middle = position + _ATTRIBUTE_LENGTHS.size + key_bytes
            key = str(block[middle - key_bytes : middle], "utf-8")
            position = middle + text_bytes
            attributes[key] = str(block[middle:position], "utf-8")
            count += 1
    except (struct.error, UnicodeDecodeError) as error:
        raise BatchDamaged(f"the attributes cannot be read: {error}") from error
    if position != len(block) or count != len(attributes):
        raise BatchDamaged("the attributes pass their end, or one is there twice")
    return attributes


def _bytes(numbers: array[int]) -> bytes:
    if SWAPS:  # pragma: no cover - a machine of the other byte order
        numbers.byteswap()
    return numbers.tobytes()


def _array(typecode: str, block: memoryview) -> array[int]:
    numbers: array[int] = array(typecode)
    numbers.frombytes(block)
    if SWAPS:  # pragma: no cover - a machine of the other byte order
        numbers.byteswap()
    return numbers
