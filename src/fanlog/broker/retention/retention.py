"""Retention: messages, snapshots and subscriptions expire, and the log is trimmed.

A message stays while its topic's retention holds it; or some subscription has it unacknowledged
within that subscription's retention, retains acknowledged ones, or a snapshot is on it; or it is to
be archived and is not yet. Messages that a topic retains are there for all its subscriptions, also
for those with a shorter retention. Where there is a lake, messages stay in the one tier or the
other; `Tiers` says in which. Everything here works on whole partitions and is safe to repeat.

A topic without a retention of its own has the server's *default retention*. Messages that only that
keeps are *spare*: they are bounded (`Spare`), and let go of, oldest first, when there are too many
of them or no room for new messages. It does not make unacknowledged messages live longer than their
subscription wants them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from fanlog import limits, times
from fanlog.broker.access import Access
from fanlog.broker.delivery.decisions import Decisions
from fanlog.broker.delivery.shares import Shares
from fanlog.broker.metrics import Metrics
from fanlog.broker.pacing import paced
from fanlog.broker.retention import needs
from fanlog.broker.retention.needs import Horizons, NeededOffsets, TopicRetention
from fanlog.broker.retention.spare import NO_CUTS, Cuts, Spare
from fanlog.broker.tiering.tiers import Tiers
from fanlog.broker.transaction import Ledger
from fanlog.core import snapshots
from fanlog.core.records import Activity, ArchivedRecord, LostRecord, Record, Trimmed
from fanlog.core.share import Share
from fanlog.errors import LakeUnavailable
from fanlog.limits import HOUR_S
from fanlog.log.api import Bounds, Log, Trim
from fanlog.model.resources import Offset, PartitionId, Topic

log = logging.getLogger("fanlog.retention")

#: How coarsely the last use of a subscription is written down. An idle one expires this much later
#: than it could, never earlier, and never sooner than this after a start: however long the broker
#: was stopped, consumers have time to come back.
ACTIVITY_S = HOUR_S
#: How long a horizon that lies in the lake is believed: messages expire that much later.
COLD_HORIZON_S = 60.0
#: Topics named in the log when something is let go of before its time; the rest is counted.
TOPICS_NAMED_MAX = 10


class Retention:
    """Sweeps the broker's state; `Sweeper` calls `sweep` every few seconds."""

    def __init__(
        self,
        ledger: Ledger,
        store: Log,
        metrics: Metrics,
        access: Access,
        shares: Shares,
        decisions: Decisions,
        tiers: Tiers,
        spare: Spare,
        *,
        topic_retention_s: float,
        started_s: float,
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._metrics = metrics
        self._access = access
        self._shares = shares
        self._decisions = decisions
        self._tiers = tiers
        self._spare = spare
        self._default_s = topic_retention_s
        self._started_s = started_s
        #: As the last sweep found them.
        self._horizons: Horizons = {}
        #: Horizons that lie in the lake: until when each is believed, and the offset.
        self._cold: dict[tuple[PartitionId, float], tuple[float, Offset]] = {}

    async def sweep(self, now: float) -> None:
        """Expire messages, snapshots and idle subscriptions; then trim the log.

        All of it is committed when this returns.
        """
        self.note_activity()
        self._expire_subscriptions(now)
        self._expire_snapshots(now)
        horizons = self._horizons = await self._find_horizons(now)
        self._expire_messages(now, horizons)
        self._leave_topics(horizons)
        self._forget_dedup_ids(now)
        self._forget_publishers(now)
        await self._tiers.look(now)
        self._forget_requests(now)
        self._trim(horizons, await self._cuts(horizons))
        await self._ledger.sync()

    @property
    def has_default(self) -> bool:
        return self._default_s > 0.0

    def of_topic(self, topic: Topic) -> TopicRetention:
        """How long a topic keeps messages that no subscription needs, and by which setting."""
        return needs.retention_of(topic, self._tiers, self._default_s)

    async def let_go(self, size_bytes: int) -> bool:
        """Let go of about so many bytes of spare messages; committed when this returns.

        False when none are left. Messages in the lake are left to the sweep, which looks at the
        lake first.
        """
        if not self.has_default:
            return False
        while True:
            spans = await self._weigh(self._horizons, portions=1 << 62, hot_only=True)
            ahead_bytes = min(limits.SPARE_AHEAD_BYTES, self._spare.measure(spans) // 8)
            cuts = await self._spare.cuts(spans, size_bytes + ahead_bytes)
            if not cuts.offsets:
                return False
            # Not all that was spare may be so still: then there is less of it than there was.
            if self._trim(self._horizons, cuts, only=cuts.offsets):
                await self._ledger.sync()
                return True

    def note_activity(self) -> None:
        """Write down which subscriptions were used since that was last done."""
        hard, active = self._ledger.hard, self._access.last_used
        for subscription_id in list(active):
            if hard.catalog.subscription_by_id(subscription_id) is None:
                del active[subscription_id]
        records: list[Record] = [
            Activity(subscription_id, last_s)
            for subscription_id, last_s in active.items()
            if last_s - hard.activity.get(subscription_id, 0.0) > ACTIVITY_S
        ]
        if records:
            self._ledger.commit(records)

    async def retained_from(self, share: Share, now: float) -> Offset:
        """First offset that a seek can bring back although it was acknowledged."""
        subscription = share.settings
        candidates = [self._ledger.end(share.partition)]
        if subscription.retain_acked:
            retained_s = now - subscription.message_retention_s
            candidates.append(await self._offset_at(share.partition, retained_s))
        topic = self._ledger.hard.catalog.topic_of(share.partition)
        if topic is not None and (topic.message_retention_s is not None or self.has_default):
            retained_s = now - (
                # Older messages would be closed again by the subscription's own retention.
                min(self._default_s, subscription.message_retention_s)
                if topic.message_retention_s is None
                else topic.message_retention_s
            )
            candidates.append(await self._offset_at(share.partition, retained_s))
        return min(candidates)

    def _expire_subscriptions(self, now: float) -> None:
        if now - self._started_s < ACTIVITY_S:
            return
        hard = self._ledger.hard
        for subscription in list(hard.catalog.subscriptions()):
            ttl_s = subscription.expiration_ttl_s
            if ttl_s is None:
                continue
            last_s = hard.activity.get(subscription.id, subscription.created_s)
            if now - last_s > ttl_s + ACTIVITY_S:
                log.info("action=subscription_expired subscription=%s", subscription.name)
                self._shares.remove_subscription(subscription)

    def _expire_snapshots(self, now: float) -> None:
        hard = self._ledger.hard
        for snapshot in list(hard.catalog.snapshots()):
            if snapshot.expire_s <= now:
                log.info("action=snapshot_expired snapshot=%s", snapshot.name)
                self._ledger.commit(snapshots.remove(hard, snapshot))

    async def _find_horizons(self, now: float) -> Horizons:
        """First offset within each retention that a topic or subscription has, per partition."""
        hard = self._ledger.hard
        wanted: set[tuple[PartitionId, float]] = set()
        for share in hard.shares():
            wanted.add((share.partition, share.settings.message_retention_s))
            wanted.add((share.partition, self._retention_s(share)))
        for topic in hard.catalog.topics():
            kept_s = self.of_topic(topic).seconds
            if kept_s:
                wanted |= {(partition, kept_s) for partition in topic.partitions}
        found: Horizons = {}
        # Changes in between do no harm: a horizon that is missing or early keeps messages.
        async for partition, retention_s in paced(wanted):
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
        since_s = now - retention_s
        start, is_hot = (
            self._ledger.start_of(partition),
            partition not in self._ledger.hard.archived,
        )
        if is_hot and self._spare.is_younger(partition, max(0, int(since_s * 1e9))):
            return start
        until_s, held = self._cold.get((partition, retention_s), (0.0, 0))
        if now < until_s:
            return held
        try:
            horizon = await self._offset_at(partition, since_s)
        except LakeUnavailable:
            return None
        if horizon < self._tiers.hot_start(partition):
            self._cold[partition, retention_s] = (now + COLD_HORIZON_S, horizon)
        return horizon

    def _expire_messages(self, now: float, horizons: Horizons) -> None:
        """Close messages that are too old, counted from when they were published, or reopened."""
        for share in list(self._ledger.hard.shares()):
            retention_s = self._retention_s(share)
            start = self._ledger.start_of(share.partition)
            horizon = max(horizons.get((share.partition, retention_s), 0), start)
            if share.cursor.floor < horizon:
                since_s = now - retention_s
                decision = share.advance(horizon, reopened_since_s=since_s, start=start)
                if decision.records:
                    self._decisions.decide(share, decision)

    def _leave_topics(self, horizons: Horizons) -> None:
        """Patterns let go of deleted topics that they have read to their end."""
        hard = self._ledger.hard
        for share in list(hard.shares()):
            subscription, partition = share.settings, share.partition
            if not subscription.is_pattern or hard.catalog.topic_of(partition) is not None:
                continue
            end = self._ledger.assigned_end(partition)
            kept_to = horizons.get((partition, subscription.message_retention_s), 0)
            is_retained = subscription.retain_acked and kept_to < end
            if subscription.detached or (share.cursor.floor >= end and not is_retained):
                self._shares.remove(share)
        for topic in list(hard.catalog.former_topics()):
            if not hard.is_read_by_pattern(topic):
                self._ledger.commit(hard.catalog.forget_former(topic))

    def _forget_dedup_ids(self, now: float) -> None:
        hard = self._ledger.hard
        for window in hard.dedup_windows():
            is_gone = hard.catalog.topic_of(window.partition) is None
            limit = limits.SWEEP_DEDUP_MAX
            forgotten = window.forget(limit=limit) if is_gone else window.expire(now, limit=limit)
            if forgotten:
                self._ledger.commit(forgotten)

    def _forget_publishers(self, now: float) -> None:
        hard, limit = self._ledger.hard, limits.SWEEP_PUBLISHERS_MAX
        for publishers in hard.publishers:
            topic = hard.catalog.topic_of(publishers.partition)
            if topic is None:
                forgotten = publishers.forget(limit=limit)
            else:
                forgotten = publishers.expire(now, topic.publisher_life_s, limit=limit)
            if forgotten:
                self._ledger.commit(forgotten)

    def _forget_requests(self, now: float) -> None:
        forgotten = self._ledger.hard.requests.expire(now, limit=limits.SWEEP_DEDUP_MAX)
        if forgotten:
            self._ledger.commit(forgotten)

    def _needed_offsets(self, horizons: Horizons) -> NeededOffsets:
        return needs.needed_offsets(self._ledger, self._tiers, horizons, self._default_s)

    def _spans(self, horizons: Horizons, *, hot_only: bool = False) -> dict[PartitionId, Bounds]:
        """Where spare messages are; of partitions that the lake has nothing of, if so asked."""
        found = needs.spare_spans(self._needed_offsets(horizons), self._ledger, self._tiers)
        archived = self._ledger.hard.archived if hot_only else {}
        return {partition: span for partition, span in found.items() if partition not in archived}

    async def _weigh(
        self, horizons: Horizons, *, portions: int, hot_only: bool = False
    ) -> dict[PartitionId, Bounds]:
        """Where spare messages are, with their sizes known as far as so many portions go."""
        spans = self._spans(horizons, hot_only=hot_only)
        starts = {partition: self._tiers.hot_start(partition) for partition in spans}
        if await self._spare.weigh(starts, portions=portions):
            return self._spans(horizons, hot_only=hot_only)
        return spans

    async def _cuts(self, horizons: Horizons) -> Cuts:
        """Up to where spare messages go before their time; nowhere while there is room for them."""
        if not self.has_default:
            return NO_CUTS
        spans = await self._weigh(horizons, portions=limits.SWEEP_WEIGHED_MAX)
        self._spare.measure(spans)
        excess = self._spare.excess_bytes
        if not self._store.has_garbage:
            # Otherwise trimmed batches are being freed already.
            ahead_bytes = min(limits.SPARE_AHEAD_BYTES, self._spare.size_bytes // 8)
            excess = max(excess, self._ledger.shortage(ahead_bytes))
        return await self._spare.cuts(spans, excess) if excess else NO_CUTS

    def _trim(
        self,
        horizons: Horizons,
        cuts: Cuts = NO_CUTS,
        only: Mapping[PartitionId, Offset] | None = None,
    ) -> bool:
        """Trim messages that are not needed; drop partitions without a topic or reader.

        Returns whether any message was trimmed.

        `cuts` are up to where spare messages go. Needs are looked at now, in the same turn of the
        loop: a subscription or a snapshot that came meanwhile has all it needs.
        """
        hard, tiers, needed = self._ledger.hard, self._tiers, self._needed_offsets(horizons)
        trims: list[Trim] = []
        records: list[Record] = []
        early: dict[PartitionId, Bounds] = {}
        for partition, bounds in self._store.partitions().items():
            if only is not None and partition not in only:
                continue
            if partition not in needed.by_readers:
                trims.append(Trim(partition=partition, before=bounds.end, dropped=True))
                if partition in hard.archived:
                    records.append(ArchivedRecord(partition, None))
                if partition in hard.lost:
                    records.append(LostRecord(partition, None))
                records += hard.addresses.remove(partition)
                records += hard.agendas.remove(partition)
                continue
            start = self._ledger.start_of(partition)
            records += hard.addresses.trim(partition, start)
            records += hard.agendas.trim(partition, start)
            by_readers = needed.by_readers[partition]
            kept = min(by_readers, needed.by_default.get(partition, by_readers))
            keep = min(by_readers, max(kept, cuts.offsets.get(partition, 0)))
            decided, trim = tiers.let_go(partition, keep, start)
            records += decided
            if trim is not None:
                trims.append(trim)
                if trim.before > max(start, kept) and keep > kept:
                    early[partition] = Bounds(max(start, kept), trim.before)
        if trims or records or self._store.has_garbage:
            self._tell_early(early, cuts.before_ns)
            transaction = self._ledger.begin()
            transaction.apply([*records, *map(self._trim_record, trims)])
            transaction.trim(trims)
            transaction.commit()
        return bool(trims)

    def _tell_early(self, early: Mapping[PartitionId, Bounds], before_ns: int) -> None:
        """Count, and log, messages that go before the default retention is over."""
        before = times.of_ns(before_ns)
        for number, (partition, gone) in enumerate(early.items()):
            messages = gone.end - gone.start
            self._metrics.default_trimmed += messages
            size_bytes = self._spare.forget(partition, gone.start, gone.end)
            self._metrics.default_trimmed_bytes += size_bytes
            if number < TOPICS_NAMED_MAX:
                log.warning(
                    "action=default_retention_trimmed topic=%s messages=%d before=%s",
                    self._ledger.hard.catalog.topic_name_of(partition),
                    messages,
                    before,
                )
        if len(early) > TOPICS_NAMED_MAX:
            log.warning(
                "action=default_retention_trimmed topics=%d messages=%d before=%s; %d are named",
                *(len(early), sum(one.end - one.start for one in early.values()), before),
                TOPICS_NAMED_MAX,
            )

    def _trim_record(self, trim: Trim) -> Trimmed:
        """Remember which commits a partition no longer has in full."""
        if trim.dropped:
            return Trimmed(trim.partition, None)
        sequence = self._store.sequence_of(trim.partition, trim.before - 1)
        # The commit of a damaged batch is not known; it is no later than the last.
        return Trimmed(trim.partition, sequence or self._ledger.committed_sequence)

    def _retention_s(self, share: Share) -> float:
        """How long a message may wait unacknowledged: a topic that retains longer has its way."""
        topic = self._ledger.hard.catalog.topic_of(share.partition)
        topic_retention_s = topic.message_retention_s if topic is not None else None
        return max(share.settings.message_retention_s, topic_retention_s or 0.0)

    async def _offset_at(self, partition: PartitionId, seconds: float) -> Offset:
        return await self._store.offset_for_time(partition, max(0, int(seconds * 1e9)))
