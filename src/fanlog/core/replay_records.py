"""Hard-state records of delivering again: what is reopened, and requests that were done.

As `fanlog.core.records`, which decodes them too.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar

from pyroaring import BitMap64

from fanlog.core.reopening import OpenChunk
from fanlog.model.resources import PartitionId

_VERSION_BYTE = b"\x01"
_CHUNK = struct.Struct(">QIQ")
_ID = struct.Struct(">Q")
_OPEN_VALUE = struct.Struct("<QdI")
_REQUEST_VALUE = struct.Struct("<dQQQ")
_REASONS_VALUE = struct.Struct("<QQ")
_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class ReopenedChunk:
    """Offsets of one chunk that were acknowledged and are not any more."""

    KIND: ClassVar[bytes] = b"O"
    owner: int
    partition: PartitionId
    chunk: int
    opened: OpenChunk | None

    def key(self) -> bytes:
        return self.KIND + _CHUNK.pack(self.owner, self.partition, self.chunk)

    def value(self) -> bytes | None:
        if self.opened is None:
            return None
        bits = _compact(self.opened.bits)
        head = _OPEN_VALUE.pack(self.opened.fence, self.opened.since_s, len(bits))
        wanted = _compact(self.opened.wanted) if self.opened.wanted else b""
        return _VERSION_BYTE + head + bits + wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of a request that was done, in messages."""

    reopened: int
    copied: int = 0
    skipped: int = 0
    #: Of the skipped, those that were not acknowledged, and those that were not published yet; None
    #: where that is not known.
    unacked: int | None = None
    ahead: int | None = None


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """A request that was done, by the hash of its id: what was answered."""

    KIND: ClassVar[bytes] = b"Q"
    owner: int
    digest: bytes
    #: None forgets it.
    answer: Answer | None
    expires_s: float

    def key(self) -> bytes:
        return self.KIND + _ID.pack(self.owner) + self.digest

    def value(self) -> bytes | None:
        answer = self.answer
        if answer is None:
            return None
        counts = answer.reopened, answer.copied, answer.skipped
        value = _VERSION_BYTE + _REQUEST_VALUE.pack(self.expires_s, *counts)
        # Where nothing was skipped it is written as before reasons were kept.
        if answer.unacked is None or answer.ahead is None or not answer.skipped:
            return value
        return value + _REASONS_VALUE.pack(answer.unacked, answer.ahead)


def decode(kind: bytes, rest: bytes, body: bytes) -> ReopenedChunk | RequestRecord | None:
    """The record of a key and a value without its version; None for a kind of somebody else.

    Raises:
        ValueError, struct.error: It cannot be read.
    """
    if kind == ReopenedChunk.KIND:
        owner, partition, chunk = _CHUNK.unpack(rest)
        opened = _open_chunk(body)
        if not opened.is_of(chunk):
            raise ValueError("it has offsets of another chunk")
        return ReopenedChunk(owner, partition, chunk, opened)
    if kind == RequestRecord.KIND:
        if len(rest) != _ID.size + _DIGEST_BYTES:
            raise ValueError("its key has not the length of one")
        owner, digest = _ID.unpack_from(rest)[0], rest[_ID.size :]
        return RequestRecord(owner, digest, *_answer(body))
    return None


def _answer(body: bytes) -> tuple[Answer, float]:
    """An answer, and until when it is remembered."""
    expires_s, reopened, copied, skipped = _REQUEST_VALUE.unpack(body[: _REQUEST_VALUE.size])
    unacked = ahead = None
    if len(body) > _REQUEST_VALUE.size:
        unacked, ahead = _REASONS_VALUE.unpack(body[_REQUEST_VALUE.size :])
        if unacked + ahead > skipped:
            raise ValueError("it has more reasons than messages that were skipped")
    answer = Answer(reopened=reopened, copied=copied, skipped=skipped, unacked=unacked, ahead=ahead)
    return answer, expires_s


def _open_chunk(body: bytes) -> OpenChunk:
    fence, since_s, size = _OPEN_VALUE.unpack_from(body)
    bits = BitMap64.deserialize(body[_OPEN_VALUE.size : _OPEN_VALUE.size + size])
    rest = body[_OPEN_VALUE.size + size :]
    wanted = BitMap64.deserialize(rest) if rest else BitMap64()
    if not bits or not wanted.issubset(bits):
        raise ValueError("it has nothing that is reopened, or wants what is not")
    return OpenChunk(bits, fence, since_s, wanted)


def _compact(bits: BitMap64) -> bytes:
    compact = bits.copy()
    compact.run_optimize()
    return compact.serialize()
