"""Writes a log as the broker's writer does; for the conformance suite and tests of engines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fanlog.log.api import Append, Commit, Damaged, Log, Trim
from fanlog.log.batch import Batch, Body
from fanlog.log.seal import UNSEALED, Seal
from fanlog.model.resources import PartitionId

TOPIC = 7
ONE, TWO, THREE = PartitionId(1), PartitionId(2), PartitionId(3)
SECOND_NS = 1_000_000_000
START_NS = 1_700_000_000 * SECOND_NS
ALL_BYTES = 1 << 40


def make_body(
    *messages: bytes,
    key_hashes: Sequence[int] | None = None,
    attributes: Mapping[str, str] | None = None,
    seal: Seal = UNSEALED,
) -> Body:
    """A body of these messages; the log does not read their contents."""
    starts = [0]
    for message in messages:
        starts.append(starts[-1] + len(message))
    return Body(
        content=b"".join(messages),
        starts=starts,
        key_hashes=key_hashes,
        attributes=attributes or {},
        seal=seal,
    )


def messages_of(batches: Iterable[Batch | Damaged]) -> list[bytes]:
    """The messages of whole batches, in order; fails on a damaged one."""
    found = []
    for batch in batches:
        assert isinstance(batch, Batch), batch
        starts = batch.starts
        found += [batch.content[starts[i] : starts[i + 1]] for i in range(batch.count)]
    return found


class Author:
    """Writes commits as the broker's writer does: next sequence, next offset, one second later."""

    def __init__(self, log: Log) -> None:
        self.log = log

    def commit(
        self,
        appends: Mapping[PartitionId, Sequence[Body]] | None = None,
        *,
        state: Mapping[bytes, bytes | None] | None = None,
        trims: Sequence[Trim] = (),
        publish_time_ns: int | None = None,
    ) -> int:
        """Commit, and return the commit's sequence."""
        log = self.log
        sequence = log.last_sequence + 1
        log.commit(
            Commit(
                sequence=sequence,
                publish_time_ns=publish_time_ns or START_NS + sequence * SECOND_NS,
                appends=[
                    Append(
                        topic=TOPIC,
                        partition=partition,
                        base_offset=log.bounds(partition).end,
                        bodies=bodies,
                    )
                    for partition, bodies in (appends or {}).items()
                ],
                state=state or {},
                trims=trims,
            )
        )
        return sequence

    def publish(self, partition: PartitionId, *messages: bytes) -> int:
        return self.commit({partition: [make_body(*messages)]})

    def collect_garbage(self) -> None:
        """Commit nothing until trimmed bytes are freed."""
        for _ in range(10_000):
            if not self.log.has_garbage:
                return
            self.commit()
        raise AssertionError("trimmed bytes are never freed")
