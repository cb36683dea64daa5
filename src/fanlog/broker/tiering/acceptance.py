"""The plan of an acceptance: the messages given up if a broker goes on with the lake of now."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import NamedTuple

from fanlog.broker.tiering.losses import count, judge
from fanlog.broker.tiering.tiers import Loss
from fanlog.core.hard_state import HardState
from fanlog.core.records import ArchivedRecord, LakeRecord, LostRecord
from fanlog.lake.api import Content, LakeStanding
from fanlog.lake.location import NoLake
from fanlog.lake.tiered import TieredLog
from fanlog.log.api import Bounds, Damaged
from fanlog.model.resources import PartitionId

#: The offsets of each partition that the hot log has of all commits after one.
Appended = Callable[[int], Awaitable[dict[PartitionId, Bounds]]]


class Plan(NamedTuple):
    """The lake of now, the messages that are lost, and the records that say so."""

    #: Without an id when there is no lake.
    found: LakeStanding
    #: The commit that the archive goes on behind.
    sequence: int
    losses: list[Loss]
    records: list[ArchivedRecord | LostRecord]


async def plan(
    hard: HardState,
    store: TieredLog,
    believed: LakeRecord,
    *,
    damage: Collection[Damaged],
    appended_after: Appended,
) -> Plan:
    """Look at the lake, whichever it is, and hold it against hard state.

    Raises:
        LakeError, LakeUnavailable, OSError: It cannot be looked at.
    """
    try:
        found = await store.cold.standing(store.identity.hex())
        content = (await store.cold.whole_content()).without(damage)
    except NoLake:
        found, content = LakeStanding("", 0, 0), Content()
    sequence = min(found.sequence, believed.sequence)
    appended = await appended_after(sequence)
    losses: list[Loss] = []
    records: list[ArchivedRecord | LostRecord] = []
    for partition, record in hard.archived.items():
        resumed = record.end
        if record.is_open and partition in appended:
            resumed = min(resumed, appended[partition].start)
        judged = judge(
            record,
            content.runs.get(partition, ()),
            hot=store.hot.bounds(partition),
            resumed=resumed,
            accepted=hard.lost.get(partition),
        )
        records += judged.records
        if judged.lost or judged.leaving:
            losses.append(
                Loss(
                    topic=hard.catalog.topic_name_of(partition),
                    partition=partition,
                    messages=count(judged.lost),
                    leaving=count(judged.leaving),
                    ranges=[*judged.lost, *judged.leaving],
                    start=judged.start,
                )
            )
    return Plan(found, sequence, losses, records)


def hot_after(store: TieredLog) -> int:
    """The last commit before the first of which the hot log has something."""
    first = store.hot.positions(0, limit=1)
    return first[0].sequence - 1 if first else 0
