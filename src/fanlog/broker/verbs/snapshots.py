"""The verbs of snapshots. They answer when the state that they saw and changed is durable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from fanlog import limits
from fanlog.broker.access import Access
from fanlog.broker.clock import Clock
from fanlog.broker.delivery.shares import Shares
from fanlog.broker.transaction import Ledger
from fanlog.broker.verbs.backlogs import Backlogs
from fanlog.broker.verbs.checks import check_labels, check_quota
from fanlog.core import snapshots
from fanlog.core.records import DropRecord
from fanlog.errors import FailedPrecondition, InvalidArgument
from fanlog.model.quotas import Quotas
from fanlog.model.resources import Snapshot
from fanlog.model.specs import SnapshotSpec
from fanlog.model.updates import SnapshotUpdate


@dataclass(eq=False)
class Snapshots:
    """Snapshot verbs of one broker."""

    _ledger: Ledger
    _clock: Clock
    _access: Access
    _shares: Shares
    _backlogs: Backlogs
    _quotas: Quotas

    async def create(self, spec: SnapshotSpec) -> Snapshot:
        """Remember exactly the unacknowledged messages of a subscription, and all published later.

        Raises:
            FailedPrecondition: Its oldest message is too old for the snapshot to live an hour.
        """
        source = self._access.enter(spec.subscription)
        # Judged first: a message that the filter leaves out is not the oldest unacknowledged one.
        await self._shares.judge_all(spec.subscription)
        oldest_s = [
            await self._backlogs.oldest_unacked_s(share)
            for share in self._ledger.hard.shares_of(source)
        ]
        await self._shares.judge_all(spec.subscription)
        hard = self._ledger.hard
        source = self._access.enter(spec.subscription)
        expire_s = min(oldest_s, default=self._clock.now()) + limits.SNAPSHOT_LIFE_S
        if expire_s < self._clock.now() + limits.SNAPSHOT_LIFE_S_MIN:
            raise FailedPrecondition(
                f"the oldest unacknowledged message of {spec.subscription!r} is too old: the "
                "snapshot would expire within an hour"
            )
        shares = hard.shares_of(source)
        partitions = tuple(share.partition for share in shares)
        snapshot, made = hard.catalog.create_snapshot(spec, source, partitions, expire_s)
        check_quota(hard.catalog, self._quotas, "snapshots", spec.name, spec.labels)
        transaction = self._ledger.begin()
        transaction.apply(made)
        for share in shares:
            transaction.apply(share.settle_passed().records)
        transaction.apply(snapshots.copy_cursors(snapshot, shares))
        # What was dropped until now is acknowledged in the snapshot, and it says so.
        transaction.apply(
            [
                DropRecord(snapshot.id, share.partition, drops)
                for share in shares
                if (drops := hard.drops.get((source.id, share.partition))) is not None
            ]
        )
        await transaction.commit()
        return snapshot

    async def get(self, name: str) -> Snapshot:
        snapshot = self._ledger.hard.catalog.snapshot(name)
        await self._ledger.sync()
        return snapshot

    def dropped(self, snapshot: Snapshot) -> Mapping[str, int]:
        """Messages that a backlog policy had dropped before the snapshot was made, by reason."""
        counts: Counter[str] = Counter()
        for partition in snapshot.partitions:
            drops = self._ledger.hard.drops.get((snapshot.id, partition))
            if drops is not None:
                counts.update(drops.counts)
        return counts

    async def update(self, update: SnapshotUpdate) -> Snapshot:
        catalog = self._ledger.hard.catalog
        before = catalog.snapshot(update.name)
        changed = update.apply_to(before)
        check_labels(catalog, self._quotas, changed.name, before.labels, changed.labels)
        now = self._clock.now()
        if changed.expire_s != before.expire_s and not (
            now < changed.expire_s <= now + limits.SNAPSHOT_LIFE_S
        ):
            raise InvalidArgument("expire_time: must lie in the future, and at most 7 days ahead")
        await self._ledger.commit(catalog.put_snapshot(changed))
        return changed

    async def delete(self, name: str) -> None:
        hard = self._ledger.hard
        await self._ledger.commit(snapshots.remove(hard, hard.catalog.snapshot(name)))

    async def list_all(self, project: str, after: str, limit: int) -> list[Snapshot]:
        catalog = self._ledger.hard.catalog
        found = catalog.snapshot_names(f"projects/{project}/snapshots/", after)
        listed = [catalog.snapshot(name) for name in islice(found, limit)]
        await self._ledger.sync()
        return listed
