"""The kinds of entries, as values. `payloads.py` has their bytes, `story.py` their rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from fanlog.log.encoded import EncodedBatch, EncodedCommit
from fanlog.log.replicated.api import Member
from fanlog.model.resources import Offset, PartitionId

Part: TypeAlias = bytes | memoryview


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOver:
    """A node begins a term, if the term in the head is still the present one."""

    #: Of the log, if this is its first valid entry; else it is not looked at.
    identity: bytes
    #: Random: tells the node that sent it which of its attempts this is.
    nonce: bytes
    card: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """The owner is there; and it knows of these nodes that follow."""

    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """The owner stops: nothing of its term counts behind this but a take-over."""

    #: Name of the node that should take over; empty for any.
    successor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """All that a reader must know to begin here, but for what the snapshot behind it has."""

    identity: bytes
    publish_time_ns: int
    #: As `StoryFacts.total_bytes`, without this entry.
    total_bytes: int
    #: Of the present term.
    nonce: bytes
    card: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPiece:
    """All rows and state with keys in `first <= key < until`, as of the piece's own place.

    Keys are those of `snapshot_keys`. The pieces of a snapshot follow one another, with other
    entries between them: each begins where the one before ended.
    """

    #: Offset of the snapshot's first piece.
    begin: int
    #: Empty: from the first key on.
    first: bytes
    #: Empty: to the last key, so that the snapshot is complete.
    until: bytes
    #: Partition, start, end.
    rows: tuple[tuple[PartitionId, Offset, Offset], ...]
    #: Key and envelope.
    state: tuple[tuple[bytes, Part], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """Batches of old commits again, as they are, so that the partition can be trimmed.

    A *pass* carries all live batches of commits up to a sequence, in the order of the index
    `commits`; its entries follow one another as the pieces of a snapshot do.
    """

    #: Offset of the first entry of the pass.
    begin: int
    up_to: int
    #: Keys of `commits`; empty: the first, and behind the last.
    first: bytes
    until: bytes
    batches: tuple[EncodedBatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePiece:
    """Some bytes of a stage that is not finished yet."""

    stage_id: str
    position: int
    content: Part


@dataclass(frozen=True, slots=True, kw_only=True)
class StageEnd:
    """A stage is whole."""

    stage_id: str
    #: Behind the last piece.
    position: int
    #: The end of the file.
    said: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StagesRemoved:
    """Stages, finished or not, are needed no more."""

    stage_ids: tuple[str, ...]


Body: TypeAlias = (
    TakeOver
    | EncodedCommit
    | Renewal
    | HandOver
    | Checkpoint
    | SnapshotPiece
    | Carried
    | StagePiece
    | StageEnd
    | StagesRemoved
)
