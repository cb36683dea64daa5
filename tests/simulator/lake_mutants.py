"""Planted bugs of the two tiers: what is believed of the lake, let go of, and read from it."""

from __future__ import annotations

import sys
from typing import Any

from fanlog.broker.tiering.lake_tiers import LakeTiers
from fanlog.broker.verbs.reopening import Reopening
from fanlog.core.records import ArchivedRecord, LakeRecord
from fanlog.lake import commit_order
from fanlog.lake.api import LakeStanding
from fanlog.lake.tiered import TieredLog
from fanlog.log.api import Bounds, Trim
from fanlog.model.resources import Offset, PartitionId
from simulator.planting import mutant


@mutant("what is old is trimmed before it is archived", 20, (LakeTiers, "let_go"), needs="lake")
def _(let_go: Any) -> Any:
    def early(self: LakeTiers, partition: PartitionId, keep: Offset, start: Offset) -> Any:
        records, trim = let_go(self, partition, keep, start)
        if trim is not None and trim.is_archived:
            before = max(trim.before, self._horizons.get(partition, 0))
            trim = Trim(partition=partition, before=before, is_archived=True)
        return records, trim

    return early


@mutant("a report is believed without a look", 50, (LakeTiers, "_verify"), needs="lake")
def _(_: Any) -> Any:
    async def credulous(self: LakeTiers, table_version: int, sequence: int) -> None:
        appended = await self._find_appended(self.archived_sequence, sequence)
        hard = self._ledger.hard
        records: list[Any] = []
        for partition, bounds in appended.items():
            topic = hard.catalog.topic_of(partition)
            if topic is not None and topic.is_archived:
                known = hard.archived.get(partition)
                start = bounds.start if known is None else known.start
                records.append(ArchivedRecord(partition, start, bounds.end))
        records.append(LakeRecord(self._lake_id, table_version, sequence))
        await self._ledger.commit(records)

    return credulous


@mutant("what is archived is trimmed at once", 20, (LakeTiers, "look"), needs="lake")
def _(look: Any) -> Any:
    async def hasty(self: LakeTiers, now: float) -> None:
        await look(self, now)
        for partition, record in self._ledger.hard.archived.items():
            self._horizons[partition] = record.end

    return hasty


@mutant("an alarm stops nothing", 50, (LakeTiers, "alarm"), needs="lake")
def _(_: Any) -> Any:
    def quiet(self: LakeTiers) -> str:
        asker = sys._getframe(1).f_code
        is_rule = asker.co_name == "let_go" and asker.co_qualname.startswith("LakeTiers")
        return "" if is_rule else self._alarm or self._refused

    return property(quiet)


@mutant("an older copy is as good as the lake", 50, (LakeTiers, "_standing"), needs="lake")
def _(_: Any) -> Any:
    async def trusting(self: LakeTiers, believed: LakeRecord | None) -> LakeStanding:
        return await self._store.cold.standing(self._store.identity.hex())

    return trusting


@mutant(
    "the lake is not looked at again before a trim",
    50,
    (LakeTiers, "_look_once_more"),
    needs="lake",
)
def _(_: Any) -> Any:
    async def sure(self: LakeTiers) -> None:
        return

    return sure


@mutant("the seam of hot and cold is off by one", 20, (TieredLog, "_below"), needs="lake")
def _(below: Any) -> Any:
    def short(self: TieredLog, partition: PartitionId, hot: Bounds) -> Bounds | None:
        found: Bounds | None = below(self, partition, hot)
        return None if found is None else Bounds(found.start, max(found.start, found.end - 1))

    return short


@mutant("the log begins where it is hot", 20, (TieredLog, "_whole"), needs="lake")
def _(_: Any) -> Any:
    return lambda self, partition, hot: hot


@mutant("a time in the lake is the first hot one", 50, (TieredLog, "offset_for_time"), needs="lake")
def _(_: Any) -> Any:
    async def hot_only(self: TieredLog, partition: PartitionId, time_ns: int) -> Offset:
        return await self.hot.offset_for_time(partition, time_ns)

    return hot_only


@mutant("whatever lies there is read", 50, (LakeTiers, "is_right"), needs="lake")
def _(_: Any) -> Any:
    return lambda self, lake_id, table_version: True


@mutant(
    "a second archiver adds what is there",
    50,
    (commit_order, "has_happened"),
    needs="archivers_race",
)
def _(_: Any) -> Any:
    return lambda who, last, app_version, after: False


@mutant("what is cold is not reopened", 50, (Reopening, "_there"), needs="lake")
def _(there: Any) -> Any:
    def hot_only(self: Reopening, partition: PartitionId, offsets: Any) -> Any:
        found = there(self, partition, offsets)
        store: Any = self._ledger._store
        found.remove_range(0, store.hot.bounds(partition).start)
        return found

    return hot_only


@mutant("the lake lets go of what is reopened", 50, (LakeTiers, "let_go"), needs="lake")
def _(let_go: Any) -> Any:
    def forgetful(self: LakeTiers, partition: PartitionId, keep: Offset, start: Offset) -> Any:
        cursors = [share.cursor for share in self._ledger.hard.shares_on(partition)]
        marks = [cursor.mark for cursor in cursors if cursor.floor < cursor.mark]
        if marks:
            keep = max(keep, min(*marks, self.hot_start(partition)))
        return let_go(self, partition, keep, start)

    return forgetful
