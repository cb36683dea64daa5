"""What is known of the partition behind the last entry that was read: a value, and its bytes.

The cache stores it in the LMDB transaction that applies those entries, so that cache and facts
never differ.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from fanlog.log.replicated.api import NO_TERM
from fanlog.log.replicated.entries import NO_CHAIN

FORMAT_VERSION = 1

# version, then the fields in their order; identity and nonce are zeros where there is none
_FIELDS = struct.Struct("<B16sqqq16sQQ16s16sqqQ")
_LENGTH = struct.Struct("<i")
_NO_ID = bytes(16)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryFacts:
    """The story up to, and without, `next_offset`."""

    #: Of the log; empty before the first valid entry.
    identity: bytes = b""
    #: Where this reader began: 0, or a checkpoint.
    start_offset: int = 0
    next_offset: int = 0
    term: int = NO_TERM
    #: Of the take-over that began the term.
    nonce: bytes = b""
    card: bytes | None = None
    #: Set by a hand-over: the term is closed.
    successor: str | None = None
    #: Of the last commit.
    sequence: int = 0
    publish_time_ns: int = 0
    #: Over all valid entries, and over those before the last one.
    chain: bytes = NO_CHAIN
    chain_before: bytes = NO_CHAIN
    #: Of the last valid entry; -1 before one.
    last_offset: int = -1
    append_time_ms: int = 0
    #: Of all valid entries of the partition, ever; each counts a little more than it has.
    total_bytes: int = 0

    def to_bytes(self) -> bytes:
        fields = _FIELDS.pack(
            FORMAT_VERSION,
            self.identity,
            self.start_offset,
            self.next_offset,
            self.term,
            self.nonce,
            self.sequence,
            self.publish_time_ns,
            self.chain,
            self.chain_before,
            self.last_offset,
            self.append_time_ms,
            self.total_bytes,
        )
        successor = None if self.successor is None else self.successor.encode()
        return fields + _pack(self.card) + _pack(successor)


def parse_facts(content: bytes) -> StoryFacts:
    """The facts that `to_bytes` made the bytes of.

    Raises:
        ValueError: They are of another version, or no facts.
    """
    try:
        version, identity, start, after, term, nonce, *rest = _FIELDS.unpack_from(content)
        card, position = _unpack(content, _FIELDS.size)
        successor, position = _unpack(content, position)
    except struct.error as error:
        raise ValueError(f"not the facts of a partition: {error}") from error
    if version != FORMAT_VERSION or position != len(content):
        raise ValueError(f"facts of version {version}: this build reads {FORMAT_VERSION}")
    sequence, publish_time_ns, chain, chain_before, last_offset, append_time_ms, total_bytes = rest
    return StoryFacts(
        identity=b"" if identity == _NO_ID else identity,
        start_offset=start,
        next_offset=after,
        term=term,
        nonce=b"" if term == NO_TERM else nonce,
        card=card,
        successor=None if successor is None else successor.decode(),
        sequence=sequence,
        publish_time_ns=publish_time_ns,
        chain=chain,
        chain_before=chain_before,
        last_offset=last_offset,
        append_time_ms=append_time_ms,
        total_bytes=total_bytes,
    )


def _pack(content: bytes | None) -> bytes:
    return _LENGTH.pack(-1) if content is None else _LENGTH.pack(len(content)) + content


def _unpack(content: bytes, position: int) -> tuple[bytes | None, int]:
    (length,) = _LENGTH.unpack_from(content, position)
    position += _LENGTH.size
    if length < 0:
        return None, position
    return content[position : position + length], position + length
