"""When the owner writes checkpoints, snapshots and old batches again, and how far it may trim.

A reader can begin at a checkpoint if everything it needs lies behind it:

1. a whole snapshot, for the rows and the state of before;
2. every live batch: where its commit lies, or where a later complete *pass* carried it;
3. every stage that was not removed.

So the partition may begin at the last checkpoint that lies below all of these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from fanlog.log.replicated.facts import StoryFacts
from fanlog.log.replicated.marks import Mark, Marks


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepPace:
    """How often."""

    #: Between two checkpoints.
    checkpoint_bytes: int = 64 * 1024 * 1024
    #: Between two snapshots, at least; and so many times what a snapshot has.
    snapshot_bytes_min: int = 256 * 1024 * 1024
    snapshot_factor: int = 2
    #: Old batches are carried when the partition would else keep more than this, and so many times
    #: what the cache has.
    carry_bytes_min: int = 256 * 1024 * 1024
    carry_factor: int = 2
    #: Of a piece of a snapshot, or of a pass.
    piece_bytes: int = 512 * 1024
    #: Between two pieces, for commits to come between.
    pause_s: float = 0.02


class WriteCheckpoint(NamedTuple):
    """Append a checkpoint."""


class WritePiece(NamedTuple):
    """Append a piece of a snapshot; -1: the first one of a new snapshot."""

    begin: int
    first: bytes


class WriteCarried(NamedTuple):
    """Append an entry of a pass; -1: the first one of a new pass."""

    begin: int
    first: bytes
    up_to: int


Chore: TypeAlias = WriteCheckpoint | WritePiece | WriteCarried


class LiveBatches(NamedTuple):
    """The live batches, as the cache has them."""

    #: Of the oldest one above the last complete pass, and of the oldest one; None if there is none.
    oldest_above: int | None
    oldest: int | None
    #: About.
    size_bytes: int


def next_chore(
    pace: UpkeepPace, facts: StoryFacts, marks: Marks, look: Callable[[], LiveBatches]
) -> Chore | None:
    """The next entry that the owner should append besides commits; None when there is none.

    Snapshots and passes begin right behind a checkpoint, where a reader may begin then: ask again
    at once when one was written. Only then is `look` called.
    """
    if marks.snapshot is not None:
        return WritePiece(marks.snapshot.begin, marks.snapshot.until)
    if marks.carrying is not None:
        carrying = marks.carrying
        return WriteCarried(carrying.begin, carrying.until, carrying.up_to)
    last = marks.checkpoints[-1] if marks.checkpoints else Mark(-1, 0, 0)
    if last.offset == facts.last_offset:
        return _begin(pace, facts, marks, look())
    is_due = facts.total_bytes - last.total_bytes >= pace.checkpoint_bytes
    return WriteCheckpoint() if is_due else None


def _begin(pace: UpkeepPace, facts: StoryFacts, marks: Marks, live: LiveBatches) -> Chore | None:
    is_pass_due = _is_pass_due(pace, facts, marks, live)
    if is_pass_due and marks.carried_begin < marks.snapshot_begin:
        # Where both are always due, they take turns.
        return WriteCarried(-1, b"", facts.sequence)
    if _is_snapshot_due(pace, facts, marks):
        return WritePiece(-1, b"")
    return WriteCarried(-1, b"", facts.sequence) if is_pass_due else None


def trim_offset(marks: Marks, live: LiveBatches) -> int | None:
    """The last offset at which the partition may begin; None if it must stay as it is."""
    limit = _batches_begin(marks, live)
    if marks.snapshot_begin < 0 or limit is None:
        return None
    limit = min(limit, marks.snapshot_begin, *marks.stages.values())
    found = _last(marks, lambda mark: mark.offset <= limit)
    return None if found is None else found.offset


def _batches_begin(marks: Marks, live: LiveBatches) -> int | None:
    """An offset behind which all live batches lie; None if there is none but the very begin."""
    limits = [marks.checkpoints[-1].offset] if marks.checkpoints else []
    if live.oldest_above is not None:
        sequence = live.oldest_above
        found = _last(marks, lambda mark: mark.sequence < sequence)
        if found is None:
            return None
        limits.append(found.offset)
    if live.oldest is not None and live.oldest <= marks.carried_up_to:
        limits.append(marks.carried_begin)
    return min(limits, default=None)


def _is_snapshot_due(pace: UpkeepPace, facts: StoryFacts, marks: Marks) -> bool:
    if marks.snapshot_begin < 0:
        return facts.total_bytes >= pace.checkpoint_bytes
    bytes_since = facts.total_bytes - _bytes_before(marks, marks.snapshot_begin)
    return bytes_since >= max(pace.snapshot_bytes_min, pace.snapshot_factor * marks.snapshot_bytes)


def _is_pass_due(pace: UpkeepPace, facts: StoryFacts, marks: Marks, live: LiveBatches) -> bool:
    if live.oldest is None:
        return False
    begin = _batches_begin(marks, live)
    bytes_since = facts.total_bytes - (0 if begin is None else _bytes_before(marks, begin))
    return bytes_since >= max(pace.carry_bytes_min, pace.carry_factor * live.size_bytes)


def _bytes_before(marks: Marks, offset: int) -> int:
    found = _last(marks, lambda mark: mark.offset <= offset)
    return 0 if found is None else found.total_bytes


def _last(marks: Marks, suits: Callable[[Mark], bool]) -> Mark | None:
    return next((mark for mark in reversed(marks.checkpoints) if suits(mark)), None)
