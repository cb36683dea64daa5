"""The offsets that each partition keeps: for its readers, and for the default retention alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fanlog.broker.tiering.tiers import Tiers
from fanlog.broker.transaction import Ledger
from fanlog.log.api import Bounds
from fanlog.model.resources import Offset, PartitionId, Topic

#: The first offset within a retention, by partition and seconds. One that is missing is taken to
#: be 0, and an old one keeps more than it must.
Horizons = dict[tuple[PartitionId, float], Offset]


@dataclass(frozen=True, slots=True)
class TopicRetention:
    """How long a topic keeps messages that no subscription needs, and by which setting."""

    by: Literal["topic", "server", "lake", "nobody"]
    #: None for good, in the lake.
    seconds: float | None


@dataclass(frozen=True, slots=True)
class NeededOffsets:
    """First offsets that are needed, per partition."""

    #: By subscriptions, snapshots, a topic's own retention or the lake.
    by_readers: Mapping[PartitionId, Offset]
    #: By the default retention, where there is no other.
    by_default: Mapping[PartitionId, Offset]


def retention_of(topic: Topic, tiers: Tiers, default_s: float) -> TopicRetention:
    if topic.message_retention_s is not None:
        return TopicRetention("topic", topic.message_retention_s)
    if tiers.keeps(topic):
        return TopicRetention("lake", None)
    return TopicRetention("server", default_s) if default_s else TopicRetention("nobody", 0.0)


def needed_offsets(
    ledger: Ledger, tiers: Tiers, horizons: Horizons, default_s: float
) -> NeededOffsets:
    """The needs of this moment; partitions of deleted topics have some only while they are read."""
    hard = ledger.hard
    found: defaultdict[PartitionId, list[Offset]] = defaultdict(list)
    default: dict[PartitionId, Offset] = {}
    for topic in hard.catalog.topics():
        rule = retention_of(topic, tiers, default_s)
        for partition in topic.partitions:
            keep = ledger.end(partition)
            if rule.seconds is None:
                keep = ledger.start_of(partition)
            elif rule.by == "topic":
                keep = horizons.get((partition, rule.seconds), 0)
            elif rule.by == "server":
                default[partition] = horizons.get((partition, rule.seconds), 0)
            found[partition].append(keep)
    for share in hard.shares():
        if share.settings.detached:
            continue
        keep = share.cursor.floor
        if share.settings.retain_acked:
            retention = (share.partition, share.settings.message_retention_s)
            keep = min(keep, horizons.get(retention, 0))
        found[share.partition].append(keep)
    for snapshot in hard.catalog.snapshots():
        for partition in snapshot.partitions:
            found[partition].append(hard.cursor_of(snapshot, partition).floor)
    return NeededOffsets({partition: min(keeps) for partition, keeps in found.items()}, default)


def spare_spans(needed: NeededOffsets, ledger: Ledger, tiers: Tiers) -> dict[PartitionId, Bounds]:
    """Where spare messages are in the hot log: only the default retention keeps them."""
    found: dict[PartitionId, Bounds] = {}
    for partition, horizon in needed.by_default.items():
        start = max(ledger.start_of(partition), tiers.hot_start(partition), horizon)
        if start < needed.by_readers[partition]:
            found[partition] = Bounds(start, needed.by_readers[partition])
    return found
