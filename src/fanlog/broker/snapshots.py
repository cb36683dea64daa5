"""The records of snapshots: a copy of a subscription's cursors under an owner of its own."""

from __future__ import annotations

from collections.abc import Iterable

from fanlog.broker.hard_state import HardState
from fanlog.core.records import CursorChunk, CursorHead, Record
from fanlog.core.share import Share
from fanlog.model import Snapshot


def copied(snapshot: Snapshot, shares: Iterable[Share]) -> list[Record]:
    """What the snapshot remembers: exactly the unacknowledged set as it is now."""
    records: list[Record] = []
    for share in shares:
        cursor = share.cursor
        records.append(CursorHead(snapshot.id, share.partition, cursor.floor))
        records += [
            CursorChunk(snapshot.id, share.partition, chunk, bits)
            for chunk, bits in cursor.chunks.items()
        ]
    return records


def removed(hard: HardState, snapshot: Snapshot) -> list[Record]:
    """The records that remove a snapshot and its cursors."""
    records: list[Record] = []
    for partition in snapshot.partitions:
        cursor = hard.cursor_of(snapshot, partition)
        records.append(CursorHead(snapshot.id, partition, None))
        records += [CursorChunk(snapshot.id, partition, n, None) for n in cursor.chunks]
    return [*records, *hard.catalog.delete_snapshot(snapshot)]
