"""The log as the broker sees it: partitions of batches, and keyed hard state beside them.

A `Log` stores two things and changes both only in `commit`: batches of messages, appended to
partitions, and *state*, a map from short keys to small values. A commit is atomic and durable when
`commit` returns, and has a sequence number one higher than the last. The log knows bytes and
offsets, nothing of topics or subscriptions. A message is stored as the publisher's own bytes; see
`fanlog.log.batch`.

Invariants every engine keeps (and `fanlog.testing.conformance` checks):

1. Offsets of a partition are dense: each append starts where the last one ended.
2. A reader sees whole commits only, and only those whose `commit` returned.
3. A failed commit changes nothing.
4. Publish times never run backwards within the log.
5. A damaged batch is reported as `Damaged`, never as data, and its neighbours are still served.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fanlog.log.batch import Batch, Body
from fanlog.model.resources import Offset, PartitionId

#: Keys of state are short: LMDB's own limit, kept by every engine.
KEY_BYTES_MAX = 511


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Abilities of an engine beyond the protocol; declared, so that tests and broker can ask."""

    #: Survives the process and the power.
    durable: bool
    #: Has one commit sequence over all partitions (Kafka has vectors instead).
    total_order: bool
    #: The most bytes of one commit, messages and state as they are stored; None for no bound.
    commit_bytes_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Add these bodies to a partition, in this order, from `base_offset` on (its present end)."""

    topic: int
    partition: PartitionId
    base_offset: Offset
    bodies: Sequence[Body]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trim:
    """Let go of everything below `before`; a partition that is `dropped` is forgotten whole."""

    partition: PartitionId
    before: Offset
    dropped: bool = False
    #: Whether it can be read elsewhere still; engines do not care, the broker's own start does.
    is_archived: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One atomic change. Engines apply it whole or not at all: appends, then state, then trims."""

    sequence: int
    publish_time_ns: int
    appends: Sequence[Append] = ()
    #: Key to value; None removes the key.
    state: Mapping[bytes, bytes | None] = field(default_factory=dict)
    trims: Sequence[Trim] = ()


@dataclass(frozen=True, slots=True)
class Bounds:
    """Readable offsets of a partition: `start <= offset < end`."""

    start: Offset
    end: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged:
    """Offsets whose bytes fail their checksum or are gone: quarantined, named, never served."""

    partition: PartitionId
    base_offset: Offset
    count: int
    reason: str

    @property
    def end_offset(self) -> Offset:
        return self.base_offset + self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBatch:
    """A batch as it is stored: bytes whose checksums are right, for others to decode."""

    partition: PartitionId
    base_offset: Offset
    end_offset: Offset
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPosition:
    """Where one batch of a commit stands."""

    sequence: int
    partition: PartitionId
    base_offset: Offset
    end_offset: Offset
    #: Of the stored value; 0 when it is missing.
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Some batches that follow each other: how large they are, and from when."""

    end_offset: Offset
    #: Of the stored values.
    size_bytes: int
    #: Publish times of the first and the last of them; 0 when not one of them can be read.
    first_ns: int
    last_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStats:
    """Sizes for metrics and watermarks."""

    #: Bytes of the store on disk (0 in memory).
    file_bytes: int
    #: Bytes inside the file that are free to be used again.
    free_bytes: int
    #: Bytes that can still be written: disk space left plus `free_bytes`.
    room_bytes: int


class Log(Protocol):
    """One broker's log. One writer: `commit` is called by one thread at a time, never by two.

    All other methods are called on the broker's loop thread, also while a commit is running.
    """

    features: Features

    @property
    def identity(self) -> bytes:
        """Sixteen random bytes chosen when the log was made; they never change."""

    @property
    def last_sequence(self) -> int:
        """Sequence of the last commit; 0 for a new log."""

    @property
    def last_publish_time_ns(self) -> int:
        """Publish time of the last commit; 0 for a new log."""

    def commit(self, commit: Commit) -> None:
        """Apply `commit`; durable and visible when this returns.

        Called by the writer thread. May block.

        Raises:
            DiskFull: No room; nothing changed.
            CommitFailed: Anything else; nothing changed. Of these, engines that several nodes share
                have `CommitTooLarge`, and `Fenced` once another node commits.
            OutcomeUnknown: Only such engines: it may be there, or come yet. The engine commits
                nothing more; the state is as of the last commit that was applied.
        """

    def prepare(self) -> None:
        """Make the next commit cheaper, if there is a way.

        Called by the writer thread after each commit, when its outcome is told: nobody waits for
        it but the next commit. Changes nothing that a reader sees, and never raises.
        """

    async def read(
        self, partition: PartitionId, offset: Offset, *, max_bytes: int
    ) -> list[Batch | Damaged]:
        """Batches from the one that holds `offset` on, in order, up to about `max_bytes`.

        At least one batch when `offset` is readable, none at the end. A trimmed `offset` gives the
        batches from the start on. Checksums are verified; the bytes are copies.
        """

    async def read_stored(
        self, partition: PartitionId, offset: Offset, *, end: Offset, max_bytes: int
    ) -> list[StoredBatch | Damaged]:
        """As `read`, for callers that decode elsewhere: the batches' own bytes, nothing at `end`.

        The batch that holds `end - 1` comes whole.
        """

    def sequence_of(self, partition: PartitionId, offset: Offset) -> int | None:
        """Sequence of the commit that appended a readable offset; None if that is not known."""

    def bounds(self, partition: PartitionId) -> Bounds:
        """Readable offsets; `Bounds(0, 0)` for a partition never appended to."""

    def partitions(self) -> Mapping[PartitionId, Bounds]:
        """All partitions that were ever appended to and not dropped."""

    async def offset_for_time(self, partition: PartitionId, time_ns: int) -> Offset:
        """First readable offset whose publish time is at or after `time_ns`; the end if none."""

    async def extents(
        self, partition: PartitionId, offset: Offset, *, step_bytes: int, limit: int
    ) -> list[Extent]:
        """Sizes of stored batches, from the one that holds `offset` on, in order.

        They are added up until they have `step_bytes`; the last of the answer may have less. At
        most `limit` batches are looked at: go on from where the last extent ends, until nothing
        comes. Of the batches themselves only some headers are read, and the loop does not wait
        for it.
        """

    def state(self) -> Iterator[tuple[bytes, bytes]]:
        """All hard state, in key order. Called when the broker starts or recovers.

        Raises:
            DataLoss: A value fails its checksum; the sentence names the key.
        """

    def positions(self, after: int, *, limit: int) -> list[LogPosition]:
        """Readable batches of the commits after sequence `after`, in commit order.

        Whole commits only, so that the last sequence is where to go on: at most `limit` batches,
        unless the first commit alone has more.
        """

    @property
    def has_garbage(self) -> bool:
        """Whether trimmed bytes wait to be freed. Each commit frees some, an empty one too."""

    def stats(self) -> LogStats: ...

    def close(self) -> None:
        """Release everything. Idempotent; the writer thread must have ended."""


def check_commit(log: Log, commit: Commit) -> None:
    """Assert the rules of a commit that every engine relies on, before anything is changed."""
    assert commit.sequence == log.last_sequence + 1, "commit sequences are dense"
    assert commit.publish_time_ns >= log.last_publish_time_ns, "publish time ran backwards"
    ends: dict[PartitionId, Offset] = {}
    for append in commit.appends:
        assert append.bodies, "an append without messages"
        end = ends.get(append.partition)
        if end is None:
            end = log.bounds(append.partition).end
        assert append.base_offset == end, "offsets are dense"
        ends[append.partition] = end + sum([body.count for body in append.bodies])
    assert all(0 < len(key) <= KEY_BYTES_MAX for key in commit.state), "a key of a wrong length"
