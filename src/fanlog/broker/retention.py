"""Retention: what expires, and what the log may let go of.

A message stays while its topic's retention holds it; or some subscription has it unacknowledged
within that subscription's retention, retains acknowledged ones, or a snapshot is on it; or it is to
be archived and is not yet. Nothing else pins it. What a topic retains is there for all its
subscriptions, whatever their own retention says. Where there is a lake, messages stay in the one
tier or the other; `Tiers` says in which. Everything here works on whole partitions and is safe to
repeat.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable

from fanlog import limits
from fanlog.broker import snapshots
from fanlog.broker.hard_state import HardState
from fanlog.broker.tiers import Tiers
from fanlog.broker.writer import Writer
from fanlog.core.bulk_records import Trimmed
from fanlog.core.lake_records import ArchivedRecord, LostRecord
from fanlog.core.records import Activity, Record
from fanlog.core.share import Decision, Share
from fanlog.errors import LakeUnavailable
from fanlog.limits import HOUR_S
from fanlog.log.api import Log, Trim
from fanlog.model import Offset, PartitionId, Subscription, SubscriptionId

log = logging.getLogger("fanlog.retention")

#: Partitions looked at before the loop may do something else.
STEP = 100
#: How coarsely the last use of a subscription is written down. An idle one expires this much later
#: than it could, never earlier, and never sooner than this after a start: however long the broker
#: was stopped, consumers have time to come back.
ACTIVITY_S = HOUR_S
#: How long a horizon that lies in the lake is believed: messages expire that much later.
COLD_HORIZON_S = 60.0


class Retention:
    """Sweeps the broker's state; the broker calls `sweep` every few seconds."""

    def __init__(
        self,
        hard: Callable[[], HardState],
        store: Log,
        writer: Writer,
        decided: Callable[[Share, Decision], object],
        delete_subscription: Callable[[Subscription], object],
        remove_share: Callable[[Share], object],
        *,
        tiers: Callable[[], Tiers],
        started_s: float,
    ) -> None:
        self._hard = hard
        self._store = store
        self._writer = writer
        self._decided = decided
        self._delete_subscription = delete_subscription
        self._remove_share = remove_share
        self._tiers = tiers
        self._started_s = started_s
        #: Horizons that lie in the lake: until when each is believed, and what it is.
        self._cold: dict[tuple[PartitionId, float], tuple[float, Offset]] = {}

    async def sweep(self, now: float, active: dict[SubscriptionId, float]) -> None:
        """Expire messages, snapshots and idle subscriptions; then trim the log.

        All of it is committed when this returns. `active` says when each subscription was last
        used in this life of the broker.
        """
        self.note_activity(active)
        self._expire_subscriptions(now)
        self._expire_snapshots(now)
        horizons = await self._horizons(now)
        self._expire_messages(now, horizons)
        self._leave_topics(horizons)
        self._forget_dedup_ids(now)
        await self._tiers().look(now)
        self._forget_requests(now)
        self._trim(horizons)
        await self._writer.settled()

    def note_activity(self, active: dict[SubscriptionId, float]) -> None:
        """Write down which subscriptions were used since that was last done."""
        hard = self._hard()
        for subscription_id in list(active):
            if hard.catalog.subscription_by_id(subscription_id) is None:
                del active[subscription_id]
        records: list[Record] = [
            Activity(subscription_id, last_s)
            for subscription_id, last_s in active.items()
            if last_s - hard.activity.get(subscription_id, 0.0) > ACTIVITY_S
        ]
        if records:
            hard.apply_all(records)
            self._writer.submit(records=records)

    async def retained_from(self, share: Share, now: float) -> Offset:
        """First offset that a seek can bring back although it was acknowledged."""
        subscription = share.settings
        candidates = [self._writer.end(share.partition)]
        if subscription.retain_acked:
            retained_s = now - subscription.message_retention_s
            candidates.append(await self._offset_at(share.partition, retained_s))
        topic = self._hard().catalog.topic_of(share.partition)
        if topic is not None and topic.message_retention_s is not None:
            retained_s = now - topic.message_retention_s
            candidates.append(await self._offset_at(share.partition, retained_s))
        return min(candidates)

    def _expire_subscriptions(self, now: float) -> None:
        if now - self._started_s < ACTIVITY_S:
            return
        hard = self._hard()
        for subscription in list(hard.catalog.subscriptions()):
            ttl_s = subscription.expiration_ttl_s
            if ttl_s is None:
                continue
            last_s = hard.activity.get(subscription.id, subscription.created_s)
            if now - last_s > ttl_s + ACTIVITY_S:
                log.info("action=subscription_expired subscription=%s", subscription.name)
                self._delete_subscription(subscription)

    def _expire_snapshots(self, now: float) -> None:
        hard = self._hard()
        for snapshot in list(hard.catalog.snapshots()):
            if snapshot.expire_s <= now:
                log.info("action=snapshot_expired snapshot=%s", snapshot.name)
                records = snapshots.removed(hard, snapshot)
                hard.apply_all(records)
                self._writer.submit(records=records)

    async def _horizons(self, now: float) -> dict[tuple[PartitionId, float], Offset]:
        """First offset within each retention that somebody has, per partition."""
        hard = self._hard()
        wanted: set[tuple[PartitionId, float]] = set()
        for share in hard.shares():
            wanted.add((share.partition, share.settings.message_retention_s))
            wanted.add((share.partition, self._retention_s(share)))
        for topic in hard.catalog.topics():
            if topic.message_retention_s is not None:
                wanted |= {(p, topic.message_retention_s) for p in topic.partitions}
        found: dict[tuple[PartitionId, float], Offset] = {}
        for number, (partition, retention_s) in enumerate(wanted):
            if number % STEP == STEP - 1:
                # Deliveries do not wait for thousands of partitions to be looked up. What changes
                # meanwhile does no harm: a horizon that is missing or early keeps messages.
                await asyncio.sleep(0)
            horizon = await self._horizon(partition, retention_s, now)
            if horizon is not None:
                found[partition, retention_s] = horizon
        self._cold = {key: held for key, held in self._cold.items() if key in wanted}
        return found

    async def _horizon(
        self, partition: PartitionId, retention_s: float, now: float
    ) -> Offset | None:
        """First offset within a retention; None when the lake cannot be asked.

        One that lies in the lake costs a read there, and is not looked up by every sweep.
        """
        until_s, held = self._cold.get((partition, retention_s), (0.0, 0))
        if now < until_s:
            return held
        try:
            horizon = await self._offset_at(partition, now - retention_s)
        except LakeUnavailable:
            return None
        if horizon < self._tiers().hot_start(partition):
            self._cold[partition, retention_s] = (now + COLD_HORIZON_S, horizon)
        return horizon

    def _expire_messages(
        self, now: float, horizons: dict[tuple[PartitionId, float], Offset]
    ) -> None:
        """Close what is too old, counted from when it was published, or reopened."""
        for share in list(self._hard().shares()):
            retention_s = self._retention_s(share)
            start = self._writer.start(share.partition)
            horizon = max(horizons.get((share.partition, retention_s), 0), start)
            if share.cursor.floor < horizon:
                since_s = now - retention_s
                decision = share.advance(horizon, reopened_since_s=since_s, start=start)
                if decision.records:
                    self._decided(share, decision)

    def _leave_topics(self, horizons: dict[tuple[PartitionId, float], Offset]) -> None:
        """Patterns let go of deleted topics that they are through with."""
        hard = self._hard()
        for share in list(hard.shares()):
            subscription, partition = share.settings, share.partition
            if not subscription.is_pattern or hard.catalog.topic_of(partition) is not None:
                continue
            end = self._writer.assigned_end(partition)
            kept_to = horizons.get((partition, subscription.message_retention_s), 0)
            is_retained = subscription.retain_acked and kept_to < end
            if subscription.detached or (share.cursor.floor >= end and not is_retained):
                self._remove_share(share)
        for topic in list(hard.catalog.former_topics()):
            if not hard.is_read_by_pattern(topic):
                records = hard.catalog.forget_former(topic)
                hard.apply_all(records)
                self._writer.submit(records=records)

    def _forget_dedup_ids(self, now: float) -> None:
        hard = self._hard()
        for window in hard.dedup_windows():
            is_gone = hard.catalog.topic_of(window.partition) is None
            limit = limits.SWEEP_DEDUP_MAX
            forgotten = window.removed(limit=limit) if is_gone else window.expired(now, limit=limit)
            if forgotten:
                hard.apply_all(forgotten)
                self._writer.submit(records=forgotten)

    def _forget_requests(self, now: float) -> None:
        forgotten = self._hard().requests.expired(now, limit=limits.SWEEP_DEDUP_MAX)
        if forgotten:
            self._hard().apply_all(forgotten)
            self._writer.submit(records=forgotten)

    def _trim(self, horizons: dict[tuple[PartitionId, float], Offset]) -> None:
        """Let go of what nobody needs; a partition nobody knows is dropped."""
        hard, tiers = self._hard(), self._tiers()
        needed: defaultdict[PartitionId, list[Offset]] = defaultdict(list)
        for topic in hard.catalog.topics():
            for partition in topic.partitions:
                keep = self._writer.end(partition)
                if topic.message_retention_s is not None:
                    keep = horizons.get((partition, topic.message_retention_s), 0)
                elif tiers.keeps(topic):
                    keep = self._writer.start(partition)
                needed[partition].append(keep)
        for share in hard.shares():
            if share.settings.detached:
                continue
            keep = share.cursor.floor
            if share.settings.retain_acked:
                retention = (share.partition, share.settings.message_retention_s)
                keep = min(keep, horizons.get(retention, 0))
            needed[share.partition].append(keep)
        for snapshot in hard.catalog.snapshots():
            for partition in snapshot.partitions:
                needed[partition].append(hard.cursor_of(snapshot, partition).floor)
        trims: list[Trim] = []
        records: list[Record] = []
        for partition, bounds in self._store.partitions().items():
            if partition not in needed:
                trims.append(Trim(partition=partition, before=bounds.end, dropped=True))
                if partition in hard.archived:
                    records.append(ArchivedRecord(partition, None))
                if partition in hard.lost:
                    records.append(LostRecord(partition, None))
                records += hard.addresses.removed(partition)
                continue
            start = self._writer.start(partition)
            records += hard.addresses.trimmed(partition, start)
            decided, trim = tiers.let_go(partition, min(needed[partition]), start)
            records += decided
            if trim is not None:
                trims.append(trim)
        if trims or records or self._store.has_garbage:
            records += [self._trimmed(trim) for trim in trims]
            hard.apply_all(records)
            self._writer.submit(records=records, trims=trims)

    def _trimmed(self, trim: Trim) -> Trimmed:
        """Remember which commits a partition no longer has in full."""
        if trim.dropped:
            return Trimmed(trim.partition, None)
        sequence = self._store.sequence_of(trim.partition, trim.before - 1)
        # Of a damaged batch nobody knows; it is of no later commit than the last.
        return Trimmed(trim.partition, sequence or self._writer.committed_sequence)

    def _retention_s(self, share: Share) -> float:
        """How long a message may wait unacknowledged: a topic that retains longer has its way."""
        topic = self._hard().catalog.topic_of(share.partition)
        topic_retention_s = topic.message_retention_s if topic is not None else None
        return max(share.settings.message_retention_s, topic_retention_s or 0.0)

    async def _offset_at(self, partition: PartitionId, seconds: float) -> Offset:
        return await self._store.offset_for_time(partition, max(0, int(seconds * 1e9)))
