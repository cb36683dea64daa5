"""A commit as it is stored: encoded once, for every place that keeps it.

Batches and state values are the very bytes of `fanlog.log.batch` and `fanlog.log.envelope`; each
says of itself where it belongs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from fanlog.log import batch as codec
from fanlog.log import envelope
from fanlog.log.api import Commit, Trim
from fanlog.log.envelope import Kind
from fanlog.model.resources import Offset, PartitionId


class EncodedBatch(NamedTuple):
    """A batch, and where it stands."""

    partition: PartitionId
    base_offset: Offset
    end_offset: Offset
    #: Sequence of the commit that appended it.
    sequence: int
    value: bytes | memoryview


class EncodedCommit(NamedTuple):
    """As `Commit`. The iterables may be lazy, and are then walked once, in this order."""

    sequence: int
    publish_time_ns: int
    batches: Iterable[EncodedBatch]
    #: Key and envelope; None removes the key.
    state: Iterable[tuple[bytes, bytes | memoryview | None]]
    trims: Sequence[Trim]


def encode_commit(commit: Commit) -> EncodedCommit:
    """Encode lazily: one value at a time, because memory that is used again at once costs half."""
    return EncodedCommit(
        commit.sequence,
        commit.publish_time_ns,
        _encode_batches(commit),
        _encode_state(commit),
        commit.trims,
    )


def _encode_batches(commit: Commit) -> Iterator[EncodedBatch]:
    for append in commit.appends:
        values = codec.encode(
            append.bodies,
            sequence=commit.sequence,
            topic=append.topic,
            partition=append.partition,
            base_offset=append.base_offset,
            publish_time_ns=commit.publish_time_ns,
        )
        for base_offset, value in values:
            end_offset = base_offset + codec.message_count(value)
            yield EncodedBatch(append.partition, base_offset, end_offset, commit.sequence, value)


def _encode_state(commit: Commit) -> Iterator[tuple[bytes, bytes | None]]:
    sequence, publish_time_ns = commit.sequence, commit.publish_time_ns
    for key, payload in commit.state.items():
        if payload is None:
            yield key, None
        else:
            value = envelope.encode(
                Kind.STATE, key, payload, sequence=sequence, publish_time_ns=publish_time_ns
            )
            yield key, value
