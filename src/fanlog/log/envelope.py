"""The envelope: how small records are stored, so that each of them describes itself.

State values, partition rows and the log's own facts are each wrapped with their key, their kind and
the commit that wrote them, under one checksum. A flipped bit is noticed when the record is read,
and a raw scan of a broken file can tell the kind of a record and which of two is newer.

    head (32 bytes, its last four the checksum) | key | payload

All numbers are little-endian. The checksum covers everything but itself. See
`docs/internals/data_files.md`.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from crc32c import crc32c

MAGIC = b"\xfaFLR"
FORMAT_VERSION = 1

# magic, format version, kind, key length, payload length, commit sequence, publish time
_HEAD = struct.Struct("<4sBBHIQQ")
_CHECKSUM = struct.Struct("<I")
HEAD_BYTES = _HEAD.size + _CHECKSUM.size

assert HEAD_BYTES == 32


class Kind(IntEnum):
    """The purpose of a record. Numbers are stored and never change meaning."""

    #: Hard state of the broker: the key is the broker's own.
    STATE = 1
    #: A partition's bounds: the key is the partition.
    PARTITION = 2
    #: A fact about the log itself.
    META = 3


_KINDS = frozenset(Kind)


class EnvelopeDamaged(ValueError):
    """The bytes are not a record this build can read; the sentence names the problem."""


class Record(NamedTuple):
    """A record as read back; its checksum has been verified."""

    kind: Kind
    key: bytes
    payload: bytes
    #: Sequence of the commit that wrote it.
    sequence: int
    #: Publish time of that commit: a commit that failed and the one made in its place have the
    #: same sequence, and the later of the two is the one that counts.
    publish_time_ns: int
    #: Length of the whole stored value.
    value_bytes: int


def encode(kind: Kind, key: bytes, payload: bytes, *, sequence: int, publish_time_ns: int) -> bytes:
    """The value to store for one record."""
    assert key
    lengths = (len(key), len(payload))
    head = _HEAD.pack(MAGIC, FORMAT_VERSION, kind, *lengths, sequence, publish_time_ns)
    crc = crc32c(payload, crc32c(key, crc32c(head)))
    return b"".join((head, _CHECKSUM.pack(crc), key, payload))


def peek(value: bytes | memoryview) -> tuple[Kind, bytes, int]:
    """Kind, key and sequence of a record that is exactly `value`; its checksum is not looked at.

    For bytes that passed a checksum of their own.

    Raises:
        EnvelopeDamaged: The sentence names the problem.
    """
    if len(value) < HEAD_BYTES:
        raise EnvelopeDamaged(f"cut short: {len(value)} bytes, the head has {HEAD_BYTES}")
    magic, version, kind, key_bytes, payload_bytes, sequence, _ = _HEAD.unpack_from(value)
    if magic != MAGIC or version != FORMAT_VERSION or kind not in _KINDS:
        raise EnvelopeDamaged(f"not a record of format version {FORMAT_VERSION}")
    if not key_bytes or HEAD_BYTES + key_bytes + payload_bytes != len(value):
        raise EnvelopeDamaged("its lengths are not those of its key and payload")
    return Kind(kind), bytes(value[HEAD_BYTES : HEAD_BYTES + key_bytes]), sequence


def decode(value: bytes | memoryview) -> Record:
    """Read a record back. Bytes behind it in `value` are ignored: `value_bytes` is its length.

    Raises:
        EnvelopeDamaged: The sentence names the problem.
    """
    if len(value) < HEAD_BYTES:
        raise EnvelopeDamaged(f"cut short: {len(value)} bytes, the head has {HEAD_BYTES}")
    head = _HEAD.unpack_from(value)
    magic, version, kind, key_bytes, payload_bytes, sequence, publish_time_ns = head
    if magic != MAGIC:
        raise EnvelopeDamaged("not a record: it does not start with the record magic")
    end = HEAD_BYTES + key_bytes + payload_bytes
    if len(value) < end:
        raise EnvelopeDamaged(f"cut short: {len(value)} bytes, its head says {end}")
    (stored,) = _CHECKSUM.unpack_from(value, _HEAD.size)
    if crc32c(value[HEAD_BYTES:end], crc32c(value[: _HEAD.size])) != stored:
        raise EnvelopeDamaged("it fails its checksum")
    if not key_bytes:
        raise EnvelopeDamaged("it has no key")
    if version != FORMAT_VERSION or kind not in _KINDS:
        raise EnvelopeDamaged(
            f"format version {version} of kind {kind}: this build reads version {FORMAT_VERSION}"
        )
    middle = HEAD_BYTES + key_bytes
    key, payload = bytes(value[HEAD_BYTES:middle]), bytes(value[middle:end])
    return Record(Kind(kind), key, payload, sequence, publish_time_ns, end)
