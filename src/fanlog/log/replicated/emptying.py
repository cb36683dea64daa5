"""What the owner reads from its cache for the nodes to come: pieces of state, old batches.

The counterpart of `filling.py`. All of it is as of the last entry that was applied, which is the
last one of the partition, because nothing else is under way meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from fanlog.log import batch as codec
from fanlog.log import folder
from fanlog.log.batch import BatchDamaged
from fanlog.log.encoded import EncodedBatch
from fanlog.log.envelope import Kind
from fanlog.log.folder import Store
from fanlog.log.replicated.bodies import Carried, Part, SnapshotPiece
from fanlog.log.replicated.filling import ROWS, STATE, row_key, state_key
from fanlog.log.stored_batches import Transaction
from fanlog.model.resources import Offset, PartitionId

#: A row in a piece, for the piece's size.
_ROW_BYTES = 20


class _Row(NamedTuple):
    partition: PartitionId
    start: Offset
    end: Offset


_State = tuple[bytes, Part]


def snapshot_piece(
    store: Store, txn: Transaction, *, begin: int, first: bytes, bytes_max: int, stop: bytes = b""
) -> SnapshotPiece:
    """Rows and state from a key on, and before `stop`; at least one of them, if there is one.

    Raises:
        EnvelopeDamaged: A row is not readable.
    """
    rows: list[_Row] = []
    state: list[_State] = []
    until = b""
    items: Iterator[tuple[bytes, _Row | bytes]] = chain(
        _rows(store, txn, first), _state(store, txn, first)
    )
    for key, item in items:
        if bytes_max <= 0 or (stop and key >= stop):
            until = key
            break
        if isinstance(item, bytes):
            state.append((key[1:], item))
            bytes_max -= len(item)
        else:
            rows.append(item)
            bytes_max -= _ROW_BYTES
    return SnapshotPiece(
        begin=begin, first=first, until=until, rows=tuple(rows), state=tuple(state)
    )


def carried(
    store: Store, txn: Transaction, *, begin: int, first: bytes, up_to: int, bytes_max: int
) -> Carried:
    """Live batches from a key of `commits` on, of commits up to a sequence.

    Raises:
        BatchDamaged: One of them is, or is missing: the partition may have the only good copy.
        EnvelopeDamaged: A row is not readable.
    """
    batches: list[EncodedBatch] = []
    until = b""
    for key in _commit_keys(store, txn, first):
        sequence, partition, base_offset = folder.parse_commit_key(key)
        if sequence > up_to:
            break
        if bytes_max <= 0:
            until = key
            break
        batch = _live_batch(store, txn, partition, base_offset)
        if batch is not None:
            batches.append(batch)
            bytes_max -= len(batch.value)
    return Carried(begin=begin, up_to=up_to, first=first, until=until, batches=tuple(batches))


def first_sequence(store: Store, txn: Transaction, *, above: int) -> int | None:
    """Sequence of the oldest batch of commits above a sequence; of one that waits to be freed too.

    None if there is none.
    """
    first = folder.commit_key(above + 1, PartitionId(0), 0)
    for key in _commit_keys(store, txn, first):
        return folder.parse_commit_key(key)[0]
    return None


def _rows(store: Store, txn: Transaction, first: bytes) -> Iterator[tuple[bytes, _Row]]:
    if first >= STATE:
        return
    with txn.cursor(store.partitions) as at:
        more = at.set_range(first[1:]) if first > ROWS else at.first()
        while more:
            row = folder.parse_row(folder.open_envelope(Kind.PARTITION, at.key(), at.value()))
            partition = folder.parse_partition_key(at.key())
            if not row.is_dropped:
                yield row_key(partition), _Row(partition, row.start, row.end)
            more = at.next()


def _state(store: Store, txn: Transaction, first: bytes) -> Iterator[tuple[bytes, bytes]]:
    with txn.cursor(store.state) as at:
        more = at.set_range(first[1:]) if first > STATE else at.first()
        while more:
            key, value = bytes(at.key()), bytes(at.value())
            # A damaged value must not take the place of good ones elsewhere.
            folder.open_envelope(Kind.STATE, key, value)
            yield state_key(key), value
            more = at.next()


def _commit_keys(store: Store, txn: Transaction, first: bytes) -> Iterator[bytes]:
    with txn.cursor(store.commits) as at:
        more = at.set_range(first) if first else at.first()
        while more:
            yield bytes(at.key())
            more = at.next()


def _live_batch(
    store: Store, txn: Transaction, partition: PartitionId, base_offset: Offset
) -> EncodedBatch | None:
    """A batch, unless it waits to be freed."""
    row_value = txn.get(folder.partition_key(partition), db=store.partitions)
    if row_value is None:
        return None
    row = folder.parse_row(
        folder.open_envelope(Kind.PARTITION, folder.partition_key(partition), row_value)
    )
    value = txn.get(folder.batch_key(partition, base_offset), db=store.batches)
    if row.is_dropped or (value is None and base_offset < row.start):
        return None
    if value is None:
        raise BatchDamaged(f"the batch of partition {partition} at {base_offset} is missing")
    header = codec.verify(value)
    if header.end_offset <= row.start:
        return None
    return EncodedBatch(partition, base_offset, header.end_offset, header.sequence, bytes(value))
