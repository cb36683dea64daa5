"""Hard-state records of those who read and write in bulk: trims, and sinks.

As `fanlog.core.records`, which decodes them too.
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import ClassVar

from fanlog.core.shape import check_shape
from fanlog.model.resources import PartitionId

_VERSION_BYTE = b"\x01"
_PARTITION = struct.Struct(">I")
_SEQUENCE = struct.Struct("<Q")
_PROGRESS = struct.Struct("<IQQ")
_DIGEST_BYTES = 16


def query_digest(query: str) -> bytes:
    """What stands for a query's name in keys."""
    return blake2b(query.encode(), digest_size=_DIGEST_BYTES).digest()


@dataclass(frozen=True, slots=True)
class Trimmed:
    """The last commit of which a partition has let go of a message."""

    KIND: ClassVar[bytes] = b"B"
    partition: PartitionId
    #: None when the partition is gone.
    sequence: int | None

    def key(self) -> bytes:
        return self.KIND + _PARTITION.pack(self.partition)

    def value(self) -> bytes | None:
        return None if self.sequence is None else _VERSION_BYTE + _SEQUENCE.pack(self.sequence)


@dataclass(frozen=True, slots=True)
class Query:
    """What a query that publishes in epochs has committed last."""

    name: str
    epoch: int
    #: Published with that epoch.
    messages: int
    #: When; a query that commits nothing for long is forgotten.
    committed_s: float


@dataclass(frozen=True, slots=True)
class QueryRecord:
    KIND: ClassVar[bytes] = b"W"
    digest: bytes
    query: Query | None

    def key(self) -> bytes:
        return self.KIND + self.digest

    def value(self) -> bytes | None:
        return None if self.query is None else _to_json(asdict(self.query))


@dataclass(frozen=True, slots=True)
class Committing:
    """An epoch too large for one commit, decided: its stages are published whatever happens."""

    query: str
    epoch: int
    #: Ids of its stages, in order.
    stages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CommittingRecord:
    KIND: ClassVar[bytes] = b"K"
    digest: bytes
    committing: Committing | None

    def key(self) -> bytes:
        return self.KIND + self.digest

    def value(self) -> bytes | None:
        return None if self.committing is None else _to_json(asdict(self.committing))


@dataclass(frozen=True, slots=True)
class Progress:
    """How much of such an epoch is published: up to a place in one of its stages."""

    stage: int
    position: int
    messages: int


@dataclass(frozen=True, slots=True)
class ProgressRecord:
    KIND: ClassVar[bytes] = b"G"
    digest: bytes
    progress: Progress | None

    def key(self) -> bytes:
        return self.KIND + self.digest

    def value(self) -> bytes | None:
        if self.progress is None:
            return None
        one = self.progress
        return _VERSION_BYTE + _PROGRESS.pack(one.stage, one.position, one.messages)


SinkRecord = QueryRecord | CommittingRecord | ProgressRecord
BulkRecord = Trimmed | SinkRecord


def decode(kind: bytes, rest: bytes, body: bytes) -> BulkRecord | None:
    """The record of a key and a value without its version; None for a kind of somebody else.

    Raises:
        ValueError, struct.error, LookupError, TypeError: It cannot be read.
    """
    if kind == Trimmed.KIND:
        partition = PartitionId(_PARTITION.unpack(rest)[0])
        return Trimmed(partition, _SEQUENCE.unpack(body)[0])
    if kind not in (QueryRecord.KIND, CommittingRecord.KIND, ProgressRecord.KIND):
        return None
    if len(rest) != _DIGEST_BYTES:
        raise ValueError("its key has not the length of one")
    if kind == ProgressRecord.KIND:
        return ProgressRecord(rest, Progress(*_PROGRESS.unpack(body)))
    fields = json.loads(body)
    if kind == QueryRecord.KIND:
        query = Query(**fields)
        _check(query, query.name, rest)
        return QueryRecord(rest, query)
    committing = Committing(**fields | {"stages": tuple(fields["stages"])})
    _check(committing, committing.query, rest)
    return CommittingRecord(rest, committing)


def _check(value: Query | Committing, name: str, digest: bytes) -> None:
    check_shape(value)
    if query_digest(name) != digest:
        raise ValueError("it is of another query than its key says")


def _to_json(fields: dict[str, object]) -> bytes:
    return _VERSION_BYTE + json.dumps(fields, separators=(",", ":")).encode()
