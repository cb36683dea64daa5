"""When the owner writes what, and how far it may trim."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fanlog.log.replicated.bodies import (
    Body,
    Carried,
    Checkpoint,
    Renewal,
    SnapshotPiece,
    StageEnd,
    StagePiece,
    StagesRemoved,
)
from fanlog.log.replicated.checkpoints import (
    Chore,
    LiveBatches,
    UpkeepPace,
    WriteCarried,
    WriteCheckpoint,
    WritePiece,
    next_chore,
    trim_offset,
)
from fanlog.log.replicated.facts import StoryFacts
from fanlog.log.replicated.marks import CHECKPOINTS_MAX, Mark, MarkProgress, Marks, parse_marks

PACE = UpkeepPace(
    checkpoint_bytes=100,
    snapshot_bytes_min=300,
    snapshot_factor=2,
    carry_bytes_min=1_000,
    carry_factor=2,
)
NOTHING = LiveBatches(None, None, 0)


def chore(
    marks: Marks, total_bytes: int, last_offset: int = 99, live: LiveBatches = NOTHING
) -> Chore | None:
    facts = StoryFacts(total_bytes=total_bytes, last_offset=last_offset, sequence=7)
    return next_chore(PACE, facts, marks, lambda: live)


def at_checkpoint(*marks: Mark, **other: object) -> tuple[Marks, int, int]:
    """Marks whose last checkpoint is the last entry, and what goes with them."""
    return Marks(checkpoints=marks, **other), marks[-1].total_bytes + 10, marks[-1].offset  # type: ignore[arg-type]


# Chores.


def test_a_checkpoint_every_so_many_bytes():
    assert chore(Marks(), 99) is None
    assert chore(Marks(), 100) == WriteCheckpoint()
    marks = Marks(checkpoints=(Mark(50, 3, 100),))
    assert chore(marks, 199) is None
    assert chore(marks, 200) == WriteCheckpoint()


def test_the_first_snapshot_comes_with_the_first_checkpoint():
    assert chore(*at_checkpoint(Mark(50, 3, 100))) == WritePiece(-1, b"")


@pytest.mark.parametrize(
    ("total_bytes", "snapshot_bytes", "is_due"),
    [(280, 10, False), (390, 10, True), (390, 200, False), (490, 200, True)],
)
def test_a_snapshot_every_so_many_bytes_and_times_its_own(
    total_bytes: int, snapshot_bytes: int, is_due: bool
):
    marks = at_checkpoint(
        Mark(50, 3, 100),
        Mark(80, 5, total_bytes),
        snapshot_begin=51,
        snapshot_bytes=snapshot_bytes,
    )
    assert (chore(*marks) == WritePiece(-1, b"")) == is_due


@pytest.mark.parametrize(("size_bytes", "is_due"), [(0, True), (500, True), (600, False)])
def test_a_pass_when_the_partition_keeps_too_much(size_bytes: int, is_due: bool):
    marks = at_checkpoint(Mark(50, 3, 100), Mark(80, 5, 1_095), snapshot_begin=81, snapshot_bytes=1)
    live = LiveBatches(4, 4, size_bytes)
    assert (chore(*marks, live) == WriteCarried(-1, b"", 7)) == is_due
    # Batches that pin nothing are not carried.
    assert chore(*marks, LiveBatches(6, 6, size_bytes)) is None
    assert chore(*marks, NOTHING) is None


def test_what_was_begun_is_ended_first():
    marks = Marks(snapshot=MarkProgress(40, b"k", 5), carrying=MarkProgress(30, b"c", 5, 6))
    assert chore(marks, 10_000) == WritePiece(40, b"k")
    assert chore(replace(marks, snapshot=None), 10_000) == WriteCarried(30, b"c", 6)


def test_snapshots_and_passes_take_turns():
    marks, total_bytes, last = at_checkpoint(
        Mark(50, 3, 100), Mark(80, 5, 5_000), snapshot_begin=51, carried_begin=52
    )
    live = LiveBatches(4, 1, 0)
    assert chore(marks, total_bytes, last, live) == WritePiece(-1, b"")
    marks = replace(marks, snapshot_begin=53)
    assert chore(marks, total_bytes, last, live) == WriteCarried(-1, b"", 7)


# Trimming.

MARKS = Marks(
    checkpoints=(Mark(10, 1, 0), Mark(20, 2, 0), Mark(30, 4, 0), Mark(40, 6, 0)),
    snapshot_begin=41,
)


def test_nothing_is_trimmed_before_a_snapshot_is_complete():
    assert trim_offset(replace(MARKS, snapshot_begin=-1), NOTHING) is None
    assert trim_offset(Marks(), NOTHING) is None


@pytest.mark.parametrize(("begin", "expected"), [(41, 40), (40, 40), (39, 30), (9, None)])
def test_the_last_snapshot_stays(begin: int, expected: int | None):
    assert trim_offset(replace(MARKS, snapshot_begin=begin), NOTHING) == expected


@pytest.mark.parametrize(
    ("oldest", "expected"), [(9, 40), (7, 40), (6, 30), (5, 30), (4, 20), (2, 10), (1, None)]
)
def test_live_batches_stay(oldest: int, expected: int | None):
    """A commit lies behind the checkpoints that do not count it."""
    assert trim_offset(MARKS, LiveBatches(oldest, oldest, 0)) == expected


def test_batches_that_were_carried_stay_in_their_pass():
    marks = replace(MARKS, carried_begin=25, carried_up_to=3)
    assert trim_offset(marks, LiveBatches(6, 1, 0)) == 20
    # Not one of them is live any more.
    assert trim_offset(marks, LiveBatches(6, 6, 0)) == 30
    assert trim_offset(marks, LiveBatches(None, 1, 0)) == 20


def test_stages_stay():
    assert trim_offset(replace(MARKS, stages={"a": 35, "b": 22}), NOTHING) == 20


# Marks.


def read(marks: Marks, *bodies: Body, first: int = 0) -> Marks:
    for offset, body in enumerate(bodies, start=first):
        marks = marks.read(offset, 5, 100, body)
    return marks


def piece(begin: int, first: bytes, until: bytes) -> SnapshotPiece:
    return SnapshotPiece(begin=begin, first=first, until=until, rows=(), state=())


def carried(begin: int, first: bytes, until: bytes, up_to: int = 3) -> Carried:
    return Carried(begin=begin, up_to=up_to, first=first, until=until, batches=())


CHECKPOINT = Checkpoint(
    identity=bytes(16), publish_time_ns=0, total_bytes=77, nonce=bytes(16), card=b"c"
)


def test_a_snapshot_is_complete_when_each_piece_followed_the_one_before():
    marks = read(Marks(), piece(0, b"", b"k"), Renewal(members=()), piece(0, b"k", b"m"))
    assert marks.snapshot == MarkProgress(0, b"m", 200)
    assert read(marks, piece(0, b"m", b""), first=3).snapshot_begin == 0
    assert read(marks, piece(0, b"m", b""), first=3).snapshot_bytes == 300
    # Pieces of others, or with a gap, change nothing.
    for other in (piece(0, b"n", b""), piece(1, b"m", b""), piece(1, b"k", b"m")):
        assert read(marks, other, first=3) == marks
    again = read(marks, piece(3, b"", b"a"), first=3)
    assert again.snapshot == MarkProgress(3, b"a", 100)
    assert read(Marks(), piece(7, b"k", b"")) == Marks()


def test_a_pass_is_complete_when_each_entry_followed_the_one_before():
    marks = read(Marks(), carried(0, b"", b"k"), carried(0, b"k", b"m"))
    assert marks.carrying == MarkProgress(0, b"m", 200, 3)
    done = read(marks, carried(0, b"m", b""), first=2)
    assert (done.carrying, done.carried_begin, done.carried_up_to) == (None, 0, 3)
    for other in (carried(0, b"n", b""), carried(1, b"m", b""), carried(0, b"m", b"", up_to=4)):
        assert read(marks, other, first=2) == marks


def test_stages_are_known_until_they_are_removed():
    marks = read(
        Marks(),
        StagePiece(stage_id="a", position=0, content=b""),
        StagePiece(stage_id="a", position=1, content=b""),
        StageEnd(stage_id="b", position=0, said=b""),
    )
    assert marks.stages == {"a": 0, "b": 2}
    assert read(marks, StagesRemoved(stage_ids=("a", "c"))).stages == {"b": 2}


def test_checkpoints_are_forgotten_when_there_are_many():
    marks = read(Marks(), *[CHECKPOINT] * (3 * CHECKPOINTS_MAX))
    offsets = [mark.offset for mark in marks.checkpoints]
    assert CHECKPOINTS_MAX // 2 <= len(offsets) <= CHECKPOINTS_MAX
    assert offsets == sorted(offsets)
    assert (offsets[0], offsets[-1]) == (0, 3 * CHECKPOINTS_MAX - 1)


def test_marks_are_read_back():
    marks = replace(
        MARKS,
        snapshot=MarkProgress(1, b"\x00\xff", 3),
        carrying=MarkProgress(1, b"", 3, 4),
        carried_begin=25,
        carried_up_to=3,
        stages={"a": 35},
    )
    for one in (marks, Marks()):
        assert parse_marks(one.to_bytes()) == one
    for content in (b"", b"{}", b"[]", b'{"version": 2}', b'{"version": 1}'):
        with pytest.raises(ValueError):
            parse_marks(content)
