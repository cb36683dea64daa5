"""Records of sinks: the epochs that queries have published, or are publishing.

A query's name may be longer than a key; its hash stands for it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from fanlog.core.records.codec import Form, Stored, digest_of, json_of, numbers, record

_PROGRESS = struct.Struct("<IQQ")

_QUERY_KEY = numbers("16s")


@dataclass(frozen=True, slots=True)
class Query:
    """The last epoch that a query has committed."""

    name: str
    epoch: int
    #: Published with that epoch.
    messages: int
    #: When; a query that commits nothing for long is forgotten.
    committed_s: float


@record("W", key=_QUERY_KEY, value=json_of(Query), key_of=lambda query: (digest_of(query.name),))
@dataclass(frozen=True, slots=True)
class QueryRecord(Stored):
    digest: bytes
    query: Query | None


@dataclass(frozen=True, slots=True)
class Committing:
    """An epoch too large for one commit, decided: a restart goes on with publishing its stages."""

    query: str
    epoch: int
    #: Ids of its stages, in order.
    stages: tuple[str, ...]


@record(
    "K",
    key=_QUERY_KEY,
    value=json_of(Committing),
    key_of=lambda committing: (digest_of(committing.query),),
)
@dataclass(frozen=True, slots=True)
class CommittingRecord(Stored):
    digest: bytes
    committing: Committing | None


@dataclass(frozen=True, slots=True)
class EpochProgress:
    """How much of such an epoch is published: up to a position in one of its stages."""

    stage: int
    position: int
    messages: int


def _pack_progress(progress: EpochProgress) -> bytes:
    return _PROGRESS.pack(progress.stage, progress.position, progress.messages)


def _unpack_progress(body: bytes) -> tuple[EpochProgress]:
    return (EpochProgress(*_PROGRESS.unpack(body)),)


@record("G", key=_QUERY_KEY, value=Form(_pack_progress, _unpack_progress))
@dataclass(frozen=True, slots=True)
class ProgressRecord(Stored):
    digest: bytes
    progress: EpochProgress | None


SinkRecord = QueryRecord | CommittingRecord | ProgressRecord
