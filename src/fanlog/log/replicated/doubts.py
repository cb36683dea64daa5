"""Whether the cache of a node is the begin of the partition's story; asked before it is gone on.

A cache that is ahead of the partition, or beside it, is discarded: the partition decides. One whose
partition is empty, or has another log, is kept, and the node does nothing: it may be all that is
left of a topic that was deleted.
"""

from __future__ import annotations

from fanlog.log.replicated.entries import EntryDamaged, StrayRecord
from fanlog.log.replicated.facts import StoryFacts
from fanlog.log.replicated.partition import (
    Fetched,
    OffsetGone,
    Partition,
    PartitionBounds,
    PartitionUnavailable,
)
from fanlog.log.replicated.story import Story, StoryBroken, is_same, new_facts

_FETCH_BYTES = 64 * 1024
_WAIT_S = 1.0


def doubt(partition: Partition, facts: StoryFacts, bounds: PartitionBounds) -> str:
    """Why a cache that is as far as `facts` must be discarded; "" if it need not.

    Raises:
        PartitionUnavailable: The partition cannot be asked.
        StoryBroken: The partition has not this log, or cannot be read.
    """
    identity = _find_identity(partition, bounds)
    if identity != facts.identity:
        has = f"the log {identity.hex()}" if identity else "no log"
        raise StoryBroken(
            f"the partition has {has}, and the cache is of the log {facts.identity.hex()}: the "
            "topic was deleted or made anew; to begin again with what it has, remove the cache"
        )
    if facts.next_offset > bounds.end:
        return (
            f"it is ahead of the partition, which ends at {bounds.end} and lost what came before "
            f"{facts.next_offset}"
        )
    if facts.last_offset < bounds.start:
        return f"the partition was trimmed up to {bounds.start}, and it ends at {facts.last_offset}"
    record = _fetch(partition, facts.last_offset)
    try:
        entry = Story(partition.cluster, facts).decode(record.value)
    except (EntryDamaged, StrayRecord) as error:
        return f"its last entry, at offset {record.offset}, is gone: {error}"
    if not is_same(facts, entry):
        return f"its last entry, at offset {record.offset}, is another in the partition"
    return ""


def _find_identity(partition: Partition, bounds: PartitionBounds) -> bytes:
    """The identity of the log in the partition; empty if there is none."""
    story = Story(partition.cluster, new_facts(bounds.start))
    while not story.has_begun and story.facts.next_offset < bounds.end:
        story.read(_fetch(partition, story.facts.next_offset))
    return story.facts.identity


def _fetch(partition: Partition, offset: int) -> Fetched:
    try:
        records = partition.fetch(offset, max_bytes=_FETCH_BYTES, wait_s=_WAIT_S)
    except OffsetGone as error:
        # It was trimmed since the bounds were asked for.
        raise PartitionUnavailable(str(error)) from error
    if not records:
        raise PartitionUnavailable(f"the record at offset {offset} does not come")
    return records[0]
