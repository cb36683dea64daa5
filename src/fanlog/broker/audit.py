"""Whether stored hard state is consistent; `fanlog doctor` shows the findings."""

from __future__ import annotations

from collections.abc import Iterator

from fanlog.core import records as codec
from fanlog.core.hard_state import HardState
from fanlog.core.records import Activity, CursorChunk, CursorHead, Record, ShareRecord
from fanlog.errors import DataLoss
from fanlog.log.report import Finding
from fanlog.model.resources import PartitionId, SubscriptionId


def audit(state: list[tuple[bytes, bytes]]) -> list[Finding]:
    """Find records that would keep a broker from starting, and records without an owner."""
    try:
        hard = HardState.load(state)
    except DataLoss as error:
        return [Finding("error", error.message)]
    except AssertionError as error:
        return [Finding("error", f"the state contradicts itself: {error}")]
    records = [codec.decode(key, value) for key, value in state]
    texts = [
        *_strangers(hard, records),
        *_lost_cursors(hard, records),
        *_nameless(hard),
        *_stray_policies(hard),
    ]
    return [Finding("warning", text) for text in texts]


def _strangers(hard: HardState, records: list[Record]) -> Iterator[str]:
    """Records of an owner that is not there, or that does not read where they say."""
    snapshots = {(s.id, partition) for s in hard.catalog.snapshots() for partition in s.partitions}
    said: set[tuple[int, PartitionId | None]] = set()
    for record in records:
        if not isinstance(record, ShareRecord | Activity):
            continue
        owner = record.owner
        partition = None if isinstance(record, Activity) else record.partition
        if (owner, partition) in said:
            continue
        if partition is None:
            is_known = hard.catalog.subscription_by_id(SubscriptionId(owner)) is not None
        elif (owner, partition) in snapshots:
            is_known = isinstance(record, CursorHead | CursorChunk)
        else:
            is_known = hard.share(SubscriptionId(owner), partition) is not None
        if not is_known:
            said.add((owner, partition))
            where = "" if partition is None else f" in partition {partition}"
            yield f"records of owner {owner}{where} belong to no subscription and no snapshot"


def _lost_cursors(hard: HardState, records: list[Record]) -> Iterator[str]:
    """Where a pattern reads, its cursors say; topics it must read are in the catalog, too."""
    heads = {(r.owner, r.partition) for r in records if isinstance(r, CursorHead)}
    for share in hard.shares():
        if (share.settings.id, share.partition) not in heads:
            yield (
                f"the cursor of {share.settings.name!r} in partition {share.partition} is lost: "
                "the topic is read from its start"
            )


def _nameless(hard: HardState) -> Iterator[str]:
    for share in hard.shares():
        if share.settings.is_pattern and not hard.catalog.topic_name_of(share.partition):
            yield (
                f"{share.settings.name!r} reads partition {share.partition}, of which nobody knows "
                "what its topic was called"
            )


def _stray_policies(hard: HardState) -> Iterator[str]:
    catalog = hard.catalog
    known: set[int] = {topic.id for topic in catalog.topics()}
    known |= {subscription.id for subscription in catalog.subscriptions()}
    known |= {snapshot.id for snapshot in catalog.snapshots()}
    for policy in catalog.policies():
        if policy.id not in known:
            yield f"the IAM policy of resource {policy.id} is of nothing that exists"
