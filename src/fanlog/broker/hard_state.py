"""All hard state of a broker in one place: what records, applied, add up to.

`apply` is the only thing that changes it, with the record just decided on the live path, with the
records of the log on recovery.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from fanlog.core import records as codec
from fanlog.core.catalog import Catalog
from fanlog.core.cursor import Cursor
from fanlog.core.records import (
    Activity,
    AttemptsChunk,
    Counters,
    CursorChunk,
    CursorHead,
    LeaseHeld,
    Record,
    ShareRecord,
    SnapshotRecord,
    SubscriptionRecord,
    TopicRecord,
)
from fanlog.core.share import Share
from fanlog.errors import DataLoss
from fanlog.model import PartitionId, Snapshot, Subscription, SubscriptionId


class HardState:
    """Catalog, shares of subscriptions, cursors of snapshots. Not safe to share between threads."""

    def __init__(self) -> None:
        self.catalog = Catalog()
        self._shares: dict[tuple[int, PartitionId], Share] = {}
        self._snapshot_cursors: dict[tuple[int, PartitionId], Cursor] = {}
        #: When each subscription was last used, as far as it was written down.
        self.activity: dict[SubscriptionId, float] = {}

    @classmethod
    def load(
        cls, state: Iterable[tuple[bytes, bytes]], *, latest_deadline_s: float = math.inf
    ) -> HardState:
        """Rebuild from what the log holds; no lease lasts longer than `latest_deadline_s`.

        Raises:
            DataLoss: A record cannot be read.
        """
        hard = cls()
        later: list[Record] = []
        for key, value in state:
            try:
                record = codec.decode(key, value)
            except (ValueError, TypeError, KeyError) as error:
                raise DataLoss(f"state record {key.hex()} cannot be read: {error}") from error
            # Cursors make sense only once their owners are there.
            if isinstance(record, ShareRecord | Activity):
                later.append(record)
            else:
                hard.apply(record)
        hard.apply_all(later)
        for share in hard._shares.values():
            share.start(latest_deadline_s)
        return hard

    def share(self, subscription: SubscriptionId, partition: PartitionId) -> Share | None:
        return self._shares.get((subscription, partition))

    def shares_of(self, subscription: Subscription) -> list[Share]:
        return [self._shares[subscription.id, partition] for partition in subscription.partitions]

    def shares(self) -> Iterator[Share]:
        yield from self._shares.values()

    def cursor_of(self, snapshot: Snapshot, partition: PartitionId) -> Cursor:
        return self._snapshot_cursors[snapshot.id, partition]

    def apply_all(self, records: Iterable[Record]) -> None:
        for record in records:
            self.apply(record)

    def apply(self, record: Record) -> None:
        """Change hard state. The only method that does."""
        match record:
            case SubscriptionRecord():
                self._apply_subscription(record)
            case SnapshotRecord():
                self._apply_snapshot(record)
            case Counters() | TopicRecord():
                self.catalog.apply(record)
            case Activity(owner=owner, last_active_s=last_active_s):
                if last_active_s is None:
                    self.activity.pop(SubscriptionId(owner), None)
                else:
                    self.activity[SubscriptionId(owner)] = last_active_s
            case CursorHead() | CursorChunk() | AttemptsChunk() | LeaseHeld():
                self._apply_to_owner(record)

    def _apply_subscription(self, record: SubscriptionRecord) -> None:
        before = self.catalog.subscription_by_id(record.id)
        self.catalog.apply(record)
        if record.subscription is None:
            for partition in before.partitions if before is not None else ():
                self._shares.pop((record.id, partition), None)
            return
        for partition in record.subscription.partitions:
            share = self._shares.get((record.id, partition))
            if share is None:
                self._shares[record.id, partition] = Share(record.subscription, partition)
            else:
                share.settings = record.subscription

    def _apply_snapshot(self, record: SnapshotRecord) -> None:
        self.catalog.apply(record)
        if record.snapshot is None:
            for key in [k for k in self._snapshot_cursors if k[0] == record.id]:
                del self._snapshot_cursors[key]
            return
        for partition in record.snapshot.partitions:
            self._snapshot_cursors.setdefault((record.id, partition), Cursor())

    def _apply_to_owner(self, record: ShareRecord) -> None:
        key = (record.owner, record.partition)
        share = self._shares.get(key)
        if share is not None:
            share.apply(record)
            return
        cursor = self._snapshot_cursors.get(key)
        # An owner that was just removed takes its records with it.
        match record:
            case CursorHead(floor=floor) if cursor is not None and floor is not None:
                cursor.apply_head(floor)
            case CursorChunk(chunk=chunk, bits=bits) if cursor is not None:
                cursor.apply_chunk(chunk, bits)
