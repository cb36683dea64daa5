"""Stored batches of one partition, through an LMDB cursor: find, walk, probe, free.

Functions over an open transaction and a cursor on `batches`; the caller says which offsets it may
see. A batch ends where the next one begins, or at the partition's end: so that its extent is known
even when its own header is not readable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import lmdb

from fanlog.log import batch as codec
from fanlog.log import folder
from fanlog.log.api import Bounds, Damaged, Extent, StoredBatch
from fanlog.log.batch import Batch, BatchDamaged
from fanlog.log.folder import PartitionRow, Store
from fanlog.model.resources import Offset, PartitionId

Transaction: TypeAlias = "lmdb.Transaction[memoryview]"
Cursor: TypeAlias = "lmdb.Cursor[memoryview]"

#: Later than any publish time.
NEVER_NS = 1 << 64


def seek(at: Cursor, partition: PartitionId, offset: Offset) -> Offset | None:
    """Go to the last batch that begins at or below `offset`, or else to the partition's first.

    Returns its base offset, or None when the partition has no batch.
    """
    key = folder.batch_key(partition, offset)
    if at.set_range(key):
        if at.key() == key:
            return offset
        if not at.prev():
            at.first()
    elif not at.last():
        return None
    if (base := _base(at, partition)) is not None:
        return base
    # That was the partition before; the next key is ours or belongs to the partition after.
    return _base(at, partition) if at.next() else None


def next_base(at: Cursor, partition: PartitionId, end: Offset) -> Offset:
    """Go on to the next batch; returns where it begins, or `end` when there is none."""
    base = _base(at, partition) if at.next() else None
    return end if base is None else min(base, end)


def walk(
    at: Cursor, partition: PartitionId, offset: Offset, end: Offset
) -> Iterator[tuple[Offset, Offset, memoryview]]:
    """Batches from `seek(offset)` up to `end`: base offset, where the next begins, and the value.

    Values are views of the map, to be used before the transaction ends.
    """
    base = seek(at, partition, offset)
    while base is not None and base < end:
        value = at.value()
        after = next_base(at, partition, end)
        yield base, after, value
        base = after


def load(
    partition: PartitionId, base_offset: Offset, after: Offset, value: memoryview
) -> Batch | Damaged:
    """Decode the value stored at `base_offset`; anything but that very batch is `Damaged`."""
    try:
        batch = codec.decode(value)
    except BatchDamaged as error:
        return mark_damaged(partition, base_offset, after, str(error))
    if (batch.partition, batch.base_offset) != (partition, base_offset):
        return mark_damaged(partition, base_offset, after, "it is the batch of another place")
    return batch


def copy(
    partition: PartitionId, base_offset: Offset, after: Offset, value: memoryview
) -> StoredBatch | Damaged:
    """Verify the value stored at `base_offset`, and copy it as it is."""
    try:
        header = codec.verify(value)
    except BatchDamaged as error:
        return mark_damaged(partition, base_offset, after, str(error))
    if (header.partition, header.base_offset) != (partition, base_offset):
        return mark_damaged(partition, base_offset, after, "it is the batch of another place")
    return StoredBatch(
        partition=partition,
        base_offset=base_offset,
        end_offset=header.end_offset,
        value=bytes(value),
    )


def mark_damaged(partition: PartitionId, base_offset: Offset, end: Offset, reason: str) -> Damaged:
    count = end - base_offset
    return Damaged(partition=partition, base_offset=base_offset, count=count, reason=reason)


def extent(
    at: Cursor, partition: PartitionId, base_offset: Offset, end: Offset
) -> tuple[Offset, int]:
    """Where the batch at `base_offset` ends, and its size; 0 if none stands there."""
    base = seek(at, partition, base_offset)
    if base is None:
        return end, 0
    if base > base_offset:
        return min(base, end), 0
    size_bytes = len(at.value()) if base == base_offset else 0
    return next_base(at, partition, end), size_bytes


def sequence_of(at: Cursor, partition: PartitionId, offset: Offset) -> int | None:
    """Sequence of the batch that holds `offset`; None if it is missing or not readable."""
    base = seek(at, partition, offset)
    if base is None or base > offset:
        return None
    try:
        header = codec.decode_header(at.value())
    except BatchDamaged:
        return None
    return header.sequence if header.end_offset > offset else None


def probe(
    at: Cursor, partition: PartitionId, offset: Offset, end: Offset
) -> tuple[Offset, Offset, int]:
    """Publish time around `offset`: base of the batch there, where the next begins, its time.

    A batch whose header is not readable is taken to be as late as the readable one after it.
    """
    first = None
    for base, after, value in walk(at, partition, offset, end):
        first = base if first is None else first
        try:
            return min(first, offset), after, codec.decode_header(value).publish_time_ns
        except BatchDamaged:
            continue
    return offset if first is None else min(first, offset), end, NEVER_NS


def extents(
    at: Cursor, partition: PartitionId, bounds: Bounds, *, step_bytes: int, limit: int
) -> list[Extent]:
    """Batches in `bounds`, the one that holds its start included, added up; at most `limit`."""
    found: list[Extent] = []
    size_bytes, first_ns = 0, 0
    base = seek(at, partition, bounds.start)
    while base is not None and base < bounds.end and limit > 0:
        # The size stands beside the key: of most values not a byte is read.
        value = at.value()
        first_ns = first_ns or _time_ns(value)
        size_bytes += len(value)
        base = next_base(at, partition, bounds.end)
        limit -= 1
        if size_bytes >= step_bytes or base == bounds.end or not limit:
            last_ns = _time_ns(value) or first_ns
            found.append(
                Extent(end_offset=base, size_bytes=size_bytes, first_ns=first_ns, last_ns=last_ns)
            )
            size_bytes, first_ns = 0, 0
    return found


def free(
    store: Store, txn: Transaction, partition: PartitionId, row: PartitionRow, limit: int
) -> tuple[int, bool]:
    """Delete at most `limit` batches that lie wholly below the row's start, lowest first.

    Returns how many, and whether none is left. The index entry of a batch whose header is not
    readable cannot be found and stays; readers pass over it, for it lies below the start.
    """
    freed = 0
    with txn.cursor(store.batches) as at:
        base = seek(at, partition, 0)
        while base is not None and base < row.start:
            sequence = _sequence(at.value())
            after = next_base(at, partition, row.end)
            if after > row.start:
                break
            if freed == limit:
                return freed, False
            txn.delete(folder.batch_key(partition, base), db=store.batches)
            if sequence is not None:
                txn.delete(folder.commit_key(sequence, partition, base), db=store.commits)
            freed += 1
            base = seek(at, partition, 0)
    return freed, True


def _base(at: Cursor, partition: PartitionId) -> Offset | None:
    found, base = folder.parse_batch_key(at.key())
    return base if found == partition else None


def _time_ns(value: memoryview) -> int:
    """Publish time of a batch; 0 when its header is not readable."""
    try:
        return codec.decode_header(value).publish_time_ns
    except BatchDamaged:
        return 0


def _sequence(value: memoryview) -> int | None:
    try:
        return codec.decode_header(value).sequence
    except BatchDamaged:
        return None
