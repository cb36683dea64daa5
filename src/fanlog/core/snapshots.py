"""The records of snapshots: a copy of a subscription's cursors under an owner of its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fanlog.core.hard_state import HardState
from fanlog.core.records import CursorChunk, CursorHead, Record, ReopenedChunk
from fanlog.core.share import Share
from fanlog.model import specs
from fanlog.model.resources import Snapshot, Subscription, Topic


def copy_cursors(snapshot: Snapshot, shares: Iterable[Share]) -> list[Record]:
    """The records of a new snapshot's cursors: exactly the unacknowledged messages of this moment.

    No attempts and no leases: after a seek to the snapshot, every message is delivered anew.
    """
    records: list[Record] = []
    for share in shares:
        cursor = share.cursor
        records.append(CursorHead(snapshot.id, share.partition, cursor.mark))
        records += [
            CursorChunk(snapshot.id, share.partition, chunk, bits)
            for chunk, bits in cursor.chunks.items()
        ]
        records += [
            ReopenedChunk(snapshot.id, share.partition, chunk, opened)
            for chunk, opened in cursor.reopened.chunks.items()
        ]
    return records


def add_topic(hard: HardState, topic: Topic) -> list[Record]:
    """The records that add a new topic to the snapshots of patterns that match its name.

    All its messages are published after the snapshot was made, and so are unacknowledged in it.
    """
    records: list[Record] = []
    for snapshot in hard.catalog.snapshots():
        if snapshot.is_pattern and specs.reads(snapshot.topic, topic.name):
            partitions = (*snapshot.partitions, *topic.partitions)
            records += hard.catalog.put_snapshot(replace(snapshot, partitions=partitions))
            records += [CursorHead(snapshot.id, partition, 0) for partition in topic.partitions]
    return records


def is_of(snapshot: Snapshot, subscription: Subscription) -> bool:
    """Whether a subscription may be moved to a snapshot: both read the same topics."""
    if snapshot.is_pattern or subscription.is_pattern:
        return snapshot.topic == subscription.topic
    return snapshot.partitions == subscription.partitions


def remove(hard: HardState, snapshot: Snapshot) -> list[Record]:
    """The records that remove a snapshot and its cursors."""
    records: list[Record] = hard.drop_removal(snapshot.id, snapshot.partitions)
    for partition in snapshot.partitions:
        cursor = hard.cursor_of(snapshot, partition)
        records.append(CursorHead(snapshot.id, partition, None))
        records += [CursorChunk(snapshot.id, partition, n, None) for n in cursor.chunks]
        records += [ReopenedChunk(snapshot.id, partition, n, None) for n in cursor.reopened.chunks]
    return [*records, *hard.catalog.delete_snapshot(snapshot)]
