"""The archived part of one partition, as far as it may be believed: the log against the lake."""

from __future__ import annotations

from fanlog.core.records import ArchivedRecord
from fanlog.lake.api import Content
from fanlog.log.api import Bounds
from fanlog.model.resources import Offset, PartitionId, Topic


class LakeMismatch(Exception):
    """The lake does not have the messages that it should have; the sentence says which."""


def archived_now(
    partition: PartitionId,
    topic: Topic,
    before: ArchivedRecord | None,
    appended: Bounds,
    content: Content,
    *,
    hot_start: Offset,
) -> ArchivedRecord | None:
    """The archived offsets of a partition now; None when they are the same as before.

    Args:
        before: The offsets that were believed so far.
        appended: The offsets that the commits in question appended, as far as they are hot.
        content: The messages of these commits that are in the lake.

    Raises:
        LakeMismatch: The lake does not have messages that the archive should have taken.
    """
    if not topic.is_archived:
        return close(partition, before)
    if before is not None and not before.is_open:
        return _taken_up_again(before, appended, content, hot_start)
    if not content.covers(partition, appended.start, appended.end):
        runs = content.runs.get(partition, [])
        shown = ", ".join(f"{run.first} to {run.end}" for run in runs[:5]) or "none of them"
        raise LakeMismatch(
            f"offsets {appended.start} to {appended.end} (exclusive) of partition {partition} "
            f"({topic.name}) should be in the lake, which has {shown}"
        )
    if before is None:
        return ArchivedRecord(partition, appended.start, appended.end)
    if before.end != appended.start:
        raise LakeMismatch(
            f"partition {partition} is archived up to {before.end}, and goes on at {appended.start}"
        )
    return ArchivedRecord(partition, before.start, appended.end)


def _taken_up_again(
    before: ArchivedRecord, appended: Bounds, content: Content, hot_start: Offset
) -> ArchivedRecord | None:
    """Kept out for a while: the lake need not have all that follows, but reaches the log's end."""
    runs = content.runs.get(before.partition, [])
    if not runs or runs[-1].end < appended.end:
        return None
    assert before.start is not None
    if runs[-1].first <= before.end:
        return ArchivedRecord(before.partition, before.start, appended.end)
    is_served_cold = before.end > before.start and before.start < hot_start
    if is_served_cold:
        return None
    return ArchivedRecord(before.partition, runs[-1].first, appended.end)


def close(partition: PartitionId, before: ArchivedRecord | None) -> ArchivedRecord | None:
    """The archived rest of a partition that is now kept out; None when it is the same."""
    if before is None:
        return ArchivedRecord(partition, 0, 0, is_open=False)
    if not before.is_open:
        return None
    return ArchivedRecord(partition, before.start, before.end, is_open=False)
