"""All hard state of a broker: the sum of its records.

`apply` is the only way to change it: with records just decided on the live path, with the records
of the log on recovery. Pure: the log and the clock are the broker's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar, assert_never

from pyroaring import BitMap64

from fanlog.core import records as codec
from fanlog.core.addressing import AddressTable
from fanlog.core.agenda import AgendaTable
from fanlog.core.alerts import AlertTable
from fanlog.core.catalog import Catalog
from fanlog.core.cursor import Cursor
from fanlog.core.dedup import DedupWindow
from fanlog.core.drops import Drops
from fanlog.core.identities import Identities
from fanlog.core.patterns import Patterns
from fanlog.core.publishers import Gap, PublisherTable
from fanlog.core.records import (
    AccountRecord,
    Activity,
    AddressRecord,
    AgendaChunk,
    AlertRecord,
    AlertStateRecord,
    ArchivedRecord,
    AttemptsChunk,
    CommittingRecord,
    Counters,
    CursorChunk,
    CursorHead,
    DedupEntry,
    DropRecord,
    ExportProgress,
    ExportRecord,
    ForgottenRecord,
    FormerTopicRecord,
    JobRecord,
    LakeRecord,
    LeaseHeld,
    LostRecord,
    NumbersRecord,
    PlaceRecord,
    PolicyRecord,
    ProgressRecord,
    PublisherRecord,
    QueryRecord,
    Record,
    ReopenedChunk,
    RequestRecord,
    RoleRecord,
    ScheduleRecord,
    SchemaRecord,
    SchemaRevisionRecord,
    ScopePolicyRecord,
    SecretRecord,
    ShareRecord,
    SnapshotRecord,
    SubscriptionRecord,
    TenantChunk,
    TickRecord,
    TopicRecord,
    Trimmed,
)
from fanlog.core.requests import Requests
from fanlog.core.schedules import ScheduleTable
from fanlog.core.share import Share
from fanlog.core.sinks import SinkTable
from fanlog.errors import DataLoss
from fanlog.model.jobs import Job
from fanlog.model.resources import (
    Offset,
    PartitionId,
    Snapshot,
    Subscription,
    SubscriptionId,
    Topic,
)

K = TypeVar("K")
V = TypeVar("V")


class HardState:
    """Catalog, shares of subscriptions, cursors of snapshots. Not safe to share between threads."""

    def __init__(self) -> None:
        self.catalog = Catalog()
        self.identities = Identities()
        self._shares: dict[int, dict[PartitionId, Share]] = {}
        self._shares_on: dict[PartitionId, dict[int, Share]] = {}
        self._snapshot_cursors: dict[tuple[int, PartitionId], Cursor] = {}
        self._dedup: dict[PartitionId, DedupWindow] = {}
        self.jobs: dict[str, Job] = {}
        self.schedules = ScheduleTable()
        self.alerts = AlertTable()
        #: The lake that has the archived messages; None while none are.
        self.lake: LakeRecord | None = None
        self.archived: dict[PartitionId, ArchivedRecord] = {}
        #: Offsets that the lake has lost; the loss was accepted.
        self.lost: dict[PartitionId, BitMap64] = {}
        self.exports: dict[SubscriptionId, ExportProgress] = {}
        self.requests = Requests()
        #: When each subscription was last used, as far as it was written down.
        self.activity: dict[SubscriptionId, float] = {}
        #: The last commit of which each partition has let go of a message.
        self.trimmed: dict[PartitionId, int] = {}
        self.sinks = SinkTable()
        #: Which messages are for one subscription alone.
        self.addresses = AddressTable()
        #: What messages of each partition ask for.
        self.agendas = AgendaTable()
        #: The publishers that number their messages.
        self.publishers = PublisherTable()
        #: What backlog policies dropped, by subscription or snapshot and partition.
        self.drops: dict[tuple[int, PartitionId], Drops] = {}

    @classmethod
    def load(
        cls,
        state: Iterable[tuple[bytes, bytes]],
        *,
        latest_deadline_s: float = math.inf,
        open_secrets: Callable[[Record], Record] | None = None,
    ) -> HardState:
        """Rebuild hard state from the keys and values in the log.

        No lease lasts longer than `latest_deadline_s`: the clock may have been set back.
        `open_secrets` opens the secrets of a record; without it, sealed ones stay sealed, and the
        state is to be looked at only. Its errors are raised as they are.

        Raises:
            DataLoss: A record cannot be read.
        """
        hard = cls()
        heads: list[CursorHead] = []
        later: list[Record] = []
        for key, value in state:
            try:
                record = codec.decode(key, value)
            except (ValueError, TypeError, KeyError) as error:
                raise DataLoss(f"state record {key.hex()} cannot be read: {error}") from error
            # Keys are in the order of their letters, and so cursors come before their owners.
            # Chunks and leases of a pattern need the share, which the head of its cursor makes.
            match record:
                case CursorHead():
                    heads.append(record)
                case CursorChunk() | ReopenedChunk() | AttemptsChunk() | LeaseHeld() | Activity():
                    later.append(record)
                case SubscriptionRecord() | SecretRecord() if open_secrets is not None:
                    hard.apply(open_secrets(record))
                case _:
                    hard.apply(record)
        hard.apply_all(heads)
        hard.apply_all(hard._missing_heads())
        hard.apply_all(later)
        try:
            hard.schedules.check()
            hard.alerts.check()
        except ValueError as error:
            raise DataLoss(f"hard state cannot be read: {error}") from error
        for share in hard.shares():
            share.start(latest_deadline_s)
        for window in hard.dedup_windows():
            window.sort()
        hard.requests.sort()
        hard.publishers.sort()
        return hard

    def gap_before(self, partition: PartitionId, offset: Offset) -> Gap | None:
        """What a message waits for that is held back; None for others."""
        topic = self.catalog.topic_of(partition)
        if topic is None:
            return None
        return self.publishers.on(partition).gap_before(offset, topic.gap_timeout_s)

    def dedup_on(self, partition: PartitionId) -> DedupWindow:
        """The dedup ids seen lately in a partition."""
        return self._dedup.get(partition) or DedupWindow(partition)

    def dedup_windows(self) -> list[DedupWindow]:
        return list(self._dedup.values())

    def share(self, subscription: SubscriptionId, partition: PartitionId) -> Share | None:
        return self._shares.get(subscription, _NO_SHARES).get(partition)

    def shares_of(self, subscription: Subscription) -> list[Share]:
        return list(self._shares.get(subscription.id, _NO_SHARES).values())

    def shares_on(self, partition: PartitionId) -> list[Share]:
        """The shares of all subscriptions that read a partition."""
        return list(self._shares_on.get(partition, {}).values())

    def is_read_by_pattern(self, topic: Topic) -> bool:
        """Whether a pattern, or a snapshot of one, has cursors in a topic."""
        return any(
            share.settings.is_pattern for p in topic.partitions for share in self.shares_on(p)
        ) or any(
            snapshot.is_pattern and not set(topic.partitions).isdisjoint(snapshot.partitions)
            for snapshot in self.catalog.snapshots()
        )

    def shares(self) -> Iterator[Share]:
        for shares in self._shares.values():
            yield from shares.values()

    def cursor_of(self, snapshot: Snapshot, partition: PartitionId) -> Cursor:
        return self._snapshot_cursors[snapshot.id, partition]

    def apply_all(self, records: Iterable[Record]) -> None:
        for record in records:
            self.apply(record)

    def apply(self, record: Record) -> None:
        """Change hard state. The only method that does."""
        match record:
            # First, for there are most of them: every acknowledgement has some.
            case CursorHead() | CursorChunk() | ReopenedChunk() | AttemptsChunk() | LeaseHeld():
                self._apply_to_owner(record)
            case DedupEntry():
                self._apply_dedup(record)
            case Activity(owner=owner, last_active_s=last_active_s):
                _put(self.activity, SubscriptionId(owner), last_active_s)
            case Trimmed(partition=partition, sequence=sequence):
                _put(self.trimmed, partition, sequence)
            case SubscriptionRecord():
                self._apply_subscription(record)
            case SnapshotRecord():
                self._apply_snapshot(record)
            case Counters() | TopicRecord() | FormerTopicRecord() | PolicyRecord():
                self.catalog.apply(record)
            case SchemaRecord() | SchemaRevisionRecord():
                self.catalog.apply(record)
            case RequestRecord():
                self.requests.apply(record)
            case JobRecord(name=name, job=job):
                _put(self.jobs, name, job)
            case ScheduleRecord() | TickRecord():
                self.schedules.apply(record)
            case AlertRecord() | AlertStateRecord():
                self.alerts.apply(record)
            case LakeRecord():
                self.lake = record
            case ArchivedRecord(partition=partition, start=start):
                _put(self.archived, partition, None if start is None else record)
            case LostRecord(partition=partition, offsets=offsets):
                _put(self.lost, partition, offsets)
            case ExportRecord(owner=subscription_id, progress=progress):
                _put(self.exports, subscription_id, progress)
            case AddressRecord():
                self._apply_address(record)
            case PublisherRecord() | NumbersRecord() | ForgottenRecord():
                self.publishers.apply(record)
            case AgendaChunk() | PlaceRecord() | TenantChunk():
                self._apply_agenda(record)
            case QueryRecord() | CommittingRecord() | ProgressRecord():
                self.sinks.apply(record)
            case DropRecord(owner=owner, partition=partition, drops=drops):
                _put(self.drops, (owner, partition), drops)
            case AccountRecord() | ScopePolicyRecord() | RoleRecord() | SecretRecord():
                self.identities.apply(record)
            case _:
                assert_never(record)

    def drop_removal(self, owner: int, partitions: Iterable[PartitionId]) -> list[Record]:
        """The records that forget what was dropped of shares, or of cursors of a snapshot."""
        return [DropRecord(owner, p, None) for p in partitions if (owner, p) in self.drops]

    def _missing_heads(self) -> list[CursorHead]:
        """The heads that a pattern lacks in topics that it matches: they were lost with the disk.

        Such a topic is read from its start, as by a subscription on its name.
        """
        patterns = Patterns()
        for subscription in self.catalog.subscriptions():
            if not subscription.detached:
                patterns.add(subscription)
        return [
            CursorHead(owner, partition, 0)
            for topic in self.catalog.topics()
            for owner in patterns.match(topic.name)
            for partition in topic.partitions
            if partition not in self._shares[owner]
        ]

    def _apply_dedup(self, entry: DedupEntry) -> None:
        window = self._dedup.setdefault(entry.partition, DedupWindow(entry.partition))
        window.apply(entry)
        # Most partitions never see a dedup id: an empty window is not kept.
        if not len(window):
            del self._dedup[entry.partition]

    def _apply_address(self, record: AddressRecord) -> None:
        self.addresses.apply(record)
        for share in self.shares_on(record.partition):
            share.address(self.addresses.view(share.settings.id, record.partition))

    def _apply_agenda(self, record: AgendaChunk | PlaceRecord | TenantChunk) -> None:
        known = self.agendas.find(record.partition)
        placed = self.agendas.apply(record)
        agenda = self.agendas.find(record.partition)
        if agenda is not known:
            for share in self.shares_on(record.partition):
                share.attend(agenda)
        if placed and isinstance(record, PlaceRecord):
            for share in self.shares_on(record.partition):
                share.take_places(record.anchor, placed)

    def _apply_subscription(self, record: SubscriptionRecord) -> None:
        self.catalog.apply(record)
        if record.subscription is None:
            for partition in self._shares.pop(record.id, {}):
                self._leave(record.id, partition)
            return
        shares = self._shares.setdefault(record.id, {})
        for share in shares.values():
            share.settings = record.subscription
        for partition in record.subscription.partitions:
            if partition not in shares:
                self._add_share(Share(record.subscription, partition))

    def _add_share(self, share: Share) -> None:
        owner, partition = share.settings.id, share.partition
        share.address(self.addresses.view(owner, partition))
        share.attend(self.agendas.find(partition))
        share.siblings = self._shares[owner]
        self._shares[owner][partition] = share
        self._shares_on.setdefault(partition, {})[owner] = share

    def _leave(self, owner: int, partition: PartitionId) -> None:
        readers = self._shares_on[partition]
        del readers[owner]
        if not readers:
            del self._shares_on[partition]

    def _apply_snapshot(self, record: SnapshotRecord) -> None:
        self.catalog.apply(record)
        if record.snapshot is None:
            for key in [k for k in self._snapshot_cursors if k[0] == record.id]:
                del self._snapshot_cursors[key]
            return
        for partition in record.snapshot.partitions:
            self._snapshot_cursors.setdefault((record.id, partition), Cursor())

    def _apply_to_owner(self, record: ShareRecord) -> None:
        shares = self._shares.get(record.owner)
        if shares is not None:
            self._apply_to_share(record, shares)
            return
        cursor = self._snapshot_cursors.get((record.owner, record.partition))
        # The record of an owner that was removed in the same commit, before this one.
        if cursor is not None:
            _apply_to_cursor(record, cursor)

    def _apply_to_share(self, record: ShareRecord, shares: dict[PartitionId, Share]) -> None:
        owner, partition = record.owner, record.partition
        share = shares.get(partition)
        if share is not None:
            share.apply(record)
            # A pattern leaves a topic with its cursor there; a subscription on one topic keeps its
            # share until it is deleted itself.
            if (
                isinstance(record, CursorHead)
                and record.floor is None
                and share.settings.is_pattern
            ):
                del shares[partition]
                self._leave(owner, partition)
        elif isinstance(record, CursorHead) and record.floor is not None:
            # A topic joins a pattern, or joined it before the start.
            subscription = self.catalog.subscription_by_id(SubscriptionId(owner))
            assert subscription is not None
            if subscription.is_pattern:
                share = Share(subscription, partition, record.floor)
                share.apply(record)
                self._add_share(share)


def _apply_to_cursor(record: ShareRecord, cursor: Cursor) -> None:
    """Apply a record of a snapshot."""
    match record:
        case CursorHead(floor=floor):
            # Without a floor nothing is to be done: the snapshot's record, in the same commit,
            # removes the cursor.
            if floor is not None:
                cursor.apply_head(floor)
        case CursorChunk(chunk=chunk, bits=bits):
            cursor.apply_chunk(chunk, bits)
        case ReopenedChunk(chunk=chunk, opened=opened):
            cursor.apply_reopened(chunk, opened)
        case AttemptsChunk() | LeaseHeld():
            pass  # A snapshot delivers nothing.
        case _:
            assert_never(record)


def _put(table: dict[K, V], key: K, value: V | None) -> None:
    """Set a value; None removes it."""
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


_NO_SHARES: dict[PartitionId, Share] = {}
