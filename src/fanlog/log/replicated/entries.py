"""The entries of the partition: their values, and their one codec.

An entry is one record of the partition. It says which cluster, which term and which place it is
meant for, and carries the hash chain over all valid entries before it:

    head (64 bytes, its last four its checksum) | payload

All numbers are little-endian; `docs/internals/data_files.md` draws the bytes. The payloads are in
`payloads.py`. Whether an entry counts is decided by `story.py`, never here.

Invariants:

1. Every bit of an entry is under a checksum. Heads have the same layout in all versions.
2. A take-over carries no chain, sequence or place: whoever sends one cannot know them yet.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import NamedTuple

from crc32c import crc32c

from fanlog.log.replicated import payloads
from fanlog.log.replicated.bodies import Body, TakeOver

MAGIC = b"\xfaFLE"
FORMAT_VERSION = 1

TAG_BYTES = 4
CHAIN_BYTES = 16
NO_CHAIN = bytes(CHAIN_BYTES)

# magic, version, kind, flags, cluster, term, expected offset, sequence, chain, payload length,
# payload checksum; then the checksum of these 60 bytes.
_FIELDS = struct.Struct("<4sBBH4sqqQ16sII")
_CHECKSUM = struct.Struct("<I")
#: Where the cluster's tag stands among the fields.
_TAG_AT = 8
_OFFSET = struct.Struct("<q")
HEAD_BYTES = _FIELDS.size + _CHECKSUM.size

assert HEAD_BYTES == 64


class EntryDamaged(ValueError):
    """The bytes are no entry that this build can read; the sentence names the problem."""


class StrayRecord(ValueError):
    """An entry of another cluster, or bytes that no node can have written: of no meaning here."""


class Head(NamedTuple):
    """Where an entry claims to belong."""

    #: Of a take-over: the term that it replaces.
    term: int
    #: Offset at which it counts; -1 of a take-over, which counts anywhere.
    expected: int
    #: Sequence of the last commit, the entry itself included; 0 of a take-over.
    sequence: int
    #: Over all valid entries before it; zeros of a take-over.
    chain: bytes


class LogEntry(NamedTuple):
    head: Head
    body: Body
    #: The 64 bytes of the head: by the checksum in it, they stand for all of the entry.
    head_bytes: bytes
    #: Of the whole entry.
    size_bytes: int


def cluster_tag(cluster: str) -> bytes:
    """The bytes that stand for a cluster's name."""
    return blake2b(cluster.encode(), digest_size=TAG_BYTES, person=b"fanlog cluster").digest()


def encode(tag: bytes, head: Head, body: Body) -> tuple[bytes, LogEntry]:
    """The record to append, and the entry that `decode` makes of it."""
    assert (head.expected < 0) == isinstance(body, TakeOver)
    kind, parts = payloads.encode(body)
    size_bytes = payload_crc = 0
    for part in parts:
        size_bytes += len(part)
        payload_crc = crc32c(part, payload_crc)
    fields = _FIELDS.pack(MAGIC, FORMAT_VERSION, kind, 0, tag, *head, size_bytes, payload_crc)
    head_bytes = fields + _CHECKSUM.pack(crc32c(fields))
    value = b"".join((head_bytes, *parts))
    return value, LogEntry(head, body, head_bytes, len(value))


def decode(tag: bytes, value: bytes) -> LogEntry:
    """Read an entry back. Large parts of the result are views of `value`.

    Raises:
        EntryDamaged: It is damaged, or of a version or kind that this build does not know.
        StrayRecord: It is an entry of another cluster, or none at all.
    """
    if is_stray(tag, value):
        raise StrayRecord(f"{len(value)} bytes that are no entry of Fanlog")
    if len(value) < HEAD_BYTES or not value.startswith(MAGIC):
        raise EntryDamaged(f"{len(value)} bytes that were an entry of Fanlog, and are damaged")
    head_bytes = value[:HEAD_BYTES]
    fields = _FIELDS.unpack_from(head_bytes)
    _, version, kind, flags, cluster, term, expected, sequence, chain, size_bytes, payload_crc = (
        fields
    )
    (stored,) = _CHECKSUM.unpack_from(head_bytes, _FIELDS.size)
    if crc32c(head_bytes[: _FIELDS.size]) != stored:
        raise EntryDamaged("the head of an entry fails its checksum")
    if cluster != tag:
        raise StrayRecord(f"an entry of another cluster (its tag is {cluster.hex()})")
    if version != FORMAT_VERSION or flags or not payloads.is_known(kind):
        raise EntryDamaged(
            f"an entry of format version {version}, kind {kind} and flags {flags:#x}: this build "
            f"of Fanlog reads version {FORMAT_VERSION}; a newer one wrote it, update this node"
        )
    payload = memoryview(value)[HEAD_BYTES:]
    if len(payload) != size_bytes or crc32c(payload) != payload_crc:
        raise EntryDamaged("the payload of an entry is cut short, or fails its checksum")
    head = Head(term, expected, sequence, chain)
    try:
        body = payloads.decode(kind, payload, sequence)
    except (ValueError, struct.error) as error:
        raise EntryDamaged(f"the payload of an entry of kind {kind}: {error}") from error
    _check_head(head, body)
    return LogEntry(head, body, head_bytes, len(value))


def is_stray(tag: bytes, value: bytes) -> bool:
    """Whether no node of the cluster can have written these bytes, in any version.

    An entry begins with the magic, and has the cluster's tag at its place. A record of which
    neither is left is not one that was damaged: Kafka's checksum is over both.
    """
    if value.startswith(MAGIC) or value[_TAG_AT : _TAG_AT + TAG_BYTES] == tag:
        return False
    # Fewer bytes than there are in a tag say nothing, unless they are the begin of an entry.
    return not (value and MAGIC.startswith(value))


def chain_after(chain: bytes, offset: int, head_bytes: bytes) -> bytes:
    """The chain behind a valid entry at `offset`."""
    digest = blake2b(chain, digest_size=CHAIN_BYTES, person=b"fanlog chain")
    digest.update(_OFFSET.pack(offset))
    digest.update(head_bytes)
    return digest.digest()


def _check_head(head: Head, body: Body) -> None:
    if isinstance(body, TakeOver):
        if head.term < -1 or head.expected != -1 or head.sequence or head.chain != NO_CHAIN:
            raise EntryDamaged(f"a take-over with {head}")
    elif head.term < 0 or head.expected <= head.term:
        raise EntryDamaged(f"an entry of term {head.term} that expects to lie at {head.expected}")
