"""Two data folders that should hold the same log: what differs between them.

Compared is what a reader can see: the bounds of partitions, live batches and state, byte by byte.
What waits to be freed may differ: each folder frees at its own pace.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, zip_longest
from typing import NamedTuple, TypeVar

from fanlog.log import folder, stored_batches
from fanlog.log.envelope import EnvelopeDamaged, Kind
from fanlog.log.folder import PartitionRow, Store
from fanlog.log.stored_batches import Transaction
from fanlog.model.resources import PartitionId

Item = TypeVar("Item")

#: A folder of another log differs everywhere.
DIFFERENCES_MAX = 20


class Side(NamedTuple):
    """One of the two, in a transaction."""

    #: For the sentences.
    name: str
    store: Store
    txn: Transaction


class Compared(NamedTuple):
    """What was compared, and sentences about what differs."""

    partition_count: int
    batch_count: int
    state_count: int
    differences: tuple[str, ...]


def compare(one: Side, other: Side) -> Compared:
    """Raises EnvelopeDamaged: A row of a partition is not readable."""
    counts = _Counts()
    found = tuple(islice(_differences(one, other, counts), DIFFERENCES_MAX))
    return Compared(counts.partitions, counts.batches, counts.state, found)


class _Counts:
    def __init__(self) -> None:
        self.partitions = self.batches = self.state = 0


def _differences(one: Side, other: Side, counts: _Counts) -> Iterator[str]:
    yield from _facts(one, other)
    rows, other_rows = _rows(one), _rows(other)
    for partition in sorted(rows.keys() | other_rows.keys()):
        counts.partitions += 1
        row, other_row = rows.get(partition), other_rows.get(partition)
        if row is None or other_row is None or row != other_row:
            yield (
                f"partition {partition}: {one.name} has {_bounds(row)}, "
                f"{other.name} has {_bounds(other_row)}"
            )
        else:
            yield from _batches(one, other, partition, row, counts)
    yield from _state(one, other, counts)


def _facts(one: Side, other: Side) -> Iterator[str]:
    facts, other_facts = (folder.read_facts(side.store, side.txn) for side in (one, other))
    if facts is None or other_facts is None:
        raise EnvelopeDamaged("the log's own facts are missing")
    if facts.identity != other_facts.identity:
        yield (
            f"{one.name} is the log {facts.identity.hex()}, "
            f"{other.name} the log {other_facts.identity.hex()}"
        )
    if facts[1:3] != other_facts[1:3]:
        yield (
            f"{one.name} ends with commit {facts.last_sequence}, "
            f"{other.name} with commit {other_facts.last_sequence}"
        )


def _batches(
    one: Side, other: Side, partition: PartitionId, row: PartitionRow, counts: _Counts
) -> Iterator[str]:
    with (
        one.txn.cursor(one.store.batches) as at,
        other.txn.cursor(other.store.batches) as other_at,
    ):
        walked = _live(at, partition, row)
        other_walked = _live(other_at, partition, row)
        for batch, other_batch in zip_longest(walked, other_walked):
            counts.batches += 1
            if batch != other_batch:
                base_offset = min(found[0] for found in (batch, other_batch) if found is not None)
                yield (
                    f"partition {partition} offset {base_offset}: the batch in {one.name} is not "
                    f"the one in {other.name}"
                )
                # Those behind it do not lie side by side any more.
                return


def _live(
    at: stored_batches.Cursor, partition: PartitionId, row: PartitionRow
) -> Iterator[tuple[int, memoryview]]:
    for base, after, value in stored_batches.walk(at, partition, row.start, row.end):
        if after > row.start:
            yield base, value


def _state(one: Side, other: Side, counts: _Counts) -> Iterator[str]:
    with one.txn.cursor(one.store.state) as at, other.txn.cursor(other.store.state) as other_at:
        more, other_more = at.first(), other_at.first()
        while more or other_more:
            counts.state += 1
            key = bytes(at.key()) if more else None
            other_key = bytes(other_at.key()) if other_more else None
            if key == other_key:
                assert key is not None
                if at.value() != other_at.value():
                    yield f"state under the key {key.hex()}: the values differ"
                more, other_more = at.next(), other_at.next()
            elif other_key is None or (key is not None and key < other_key):
                assert key is not None
                yield f"state under the key {key.hex()}: {other.name} does not have it"
                more = at.next()
            else:
                yield f"state under the key {other_key.hex()}: {one.name} does not have it"
                other_more = other_at.next()


def _rows(side: Side) -> dict[PartitionId, PartitionRow]:
    rows = {}
    with side.txn.cursor(side.store.partitions) as at:
        for key, value in at:
            row = folder.parse_row(folder.open_envelope(Kind.PARTITION, key, value))
            if not row.is_dropped:
                rows[folder.parse_partition_key(key)] = row
    return rows


def _bounds(row: PartitionRow | None) -> str:
    return "none" if row is None else f"offsets {row.start} to {row.end}"
