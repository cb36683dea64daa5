"""How a cache that began at a checkpoint gets what is older: pieces of snapshots, carried batches.

A piece is exact as of its own place: what the cache has under the piece's keys is replaced. Between
the checkpoint and the last piece the cache has rows and state in part, and nobody reads it. Applied
to a cache that has all, both change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fanlog.log import folder
from fanlog.log.encoded import EncodedBatch
from fanlog.log.folder import PartitionRow
from fanlog.log.replicated.bodies import SnapshotPiece
from fanlog.log.writing import Writing
from fanlog.model.resources import PartitionId

#: First bytes of the keys of a snapshot: rows of partitions come before state.
ROWS, STATE = b"\x00", b"\x01"

#: Above all offsets: the row of a partition that was dropped, with batches that are left of it.
_DROPPED = PartitionRow(1 << 62, 1 << 62, is_dropped=True)


def row_key(partition: PartitionId) -> bytes:
    """The key of a partition's row in a snapshot."""
    return ROWS + folder.partition_key(partition)


def state_key(key: bytes) -> bytes:
    """The key of a state value in a snapshot."""
    return STATE + key


def put_piece(writing: Writing, piece: SnapshotPiece) -> None:
    """Replace all rows and state between the ends of a piece."""
    _put_state(writing, piece)
    _put_rows(writing, piece)


def put_batches(writing: Writing, batches: Iterable[EncodedBatch]) -> None:
    """Put the batches that are missing."""
    for batch in batches:
        row = writing.row(batch.partition)
        if row is not None and batch.end_offset <= row.start:
            continue
        key = folder.batch_key(batch.partition, batch.base_offset)
        if writing.txn.put(key, batch.value, overwrite=False, db=writing.store.batches):
            index = folder.commit_key(batch.sequence, batch.partition, batch.base_offset)
            writing.txn.put(index, b"", db=writing.store.commits)


def _put_state(writing: Writing, piece: SnapshotPiece) -> None:
    if piece.until and piece.until <= STATE:
        return
    first = piece.first[1:] if piece.first > STATE else b""
    until = piece.until[1:]
    values = {key for key, _ in piece.state}
    with writing.txn.cursor(writing.store.state) as at:
        more = at.set_range(first) if first else at.first()
        while more:
            key = bytes(at.key())
            if until and key >= until:
                break
            if key in values:
                more = at.next()
            else:
                # The cursor is at the next key then; behind the last one its key is empty.
                at.delete()
                more = bool(at.key())
    for key, value in piece.state:
        writing.txn.put(key, value, db=writing.store.state)


def _put_rows(writing: Writing, piece: SnapshotPiece) -> None:
    rows = {partition: (start, end) for partition, start, end in piece.rows}
    for partition, (start, end) in rows.items():
        before = writing.row(partition)
        row = PartitionRow(start, end, is_dropped=False)
        if before == row:
            continue
        writing.rows[partition] = row
        # Entries before the piece may have brought batches that were trimmed by then.
        writing.garbage[partition] = row
    for partition in list(_partitions(writing, piece)):
        if partition not in rows:
            writing.rows[partition] = writing.garbage[partition] = _DROPPED


def _partitions(writing: Writing, piece: SnapshotPiece) -> Iterator[PartitionId]:
    """Partitions between the ends of a piece that have a row or a batch."""
    if piece.first >= STATE:
        return
    first = folder.parse_partition_key(piece.first[1:]) if piece.first else PartitionId(0)
    end = 1 << 32
    if piece.until and piece.until < STATE:
        end = folder.parse_partition_key(piece.until[1:])
    for partition in writing.partitions():
        if first <= partition < end:
            yield partition
    with writing.txn.cursor(writing.store.batches) as at:
        more = at.set_range(folder.batch_key(first, 0))
        while more:
            partition, _ = folder.parse_batch_key(at.key())
            if partition >= end:
                return
            yield partition
            more = partition + 1 < 1 << 32 and at.set_range(
                folder.batch_key(PartitionId(partition + 1), 0)
            )
