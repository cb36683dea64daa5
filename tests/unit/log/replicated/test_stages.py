"""Files of stages: entries may be applied again, from any place on, and nothing comes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fanlog.errors import FanlogError
from fanlog.log.replicated.bodies import Body, Renewal, StageEnd, StagePiece, StagesRemoved
from fanlog.log.replicated.stages import StageFiles

ENTRIES: list[Body] = [
    StagePiece(stage_id="a", position=0, content=b"one"),
    StagePiece(stage_id="b", position=0, content=b"x" * 10),
    StagePiece(stage_id="a", position=3, content=b"two"),
    Renewal(members=()),
    StageEnd(stage_id="a", position=6, said=b"end"),
    StagePiece(stage_id="c", position=0, content=b"draft"),
    StageEnd(stage_id="d", position=0, said=b"empty"),
    StagesRemoved(stage_ids=("b", "d", "never")),
]


def content(files: StageFiles) -> dict[str, bytes]:
    if not files.place.exists():
        return {}
    return {path.name: path.read_bytes() for path in files.place.iterdir()}


def test_stages_are_files(tmp_path: Path):
    files = StageFiles(tmp_path / "stages")
    assert files.draft_ids() == []
    for body in ENTRIES[:6]:
        files.apply(body)
    assert content(files) == {"a.stage": b"onetwoend", "b.draft": b"x" * 10, "c.draft": b"draft"}
    assert files.draft_ids() == ["b", "c"]
    for body in ENTRIES[6:]:
        files.apply(body)
    assert content(files) == {"a.stage": b"onetwoend", "c.draft": b"draft"}


@pytest.mark.parametrize("lost", range(len(ENTRIES)))
@pytest.mark.parametrize("applied", range(len(ENTRIES) + 1))
def test_entries_are_applied_again(tmp_path: Path, lost: int, applied: int):
    """A process ends between files and facts: what it had applied is applied once more."""
    files = StageFiles(tmp_path / "stages")
    for body in ENTRIES[:applied]:
        files.apply(body)
    for body in ENTRIES[min(lost, applied) :]:
        files.apply(body)
    assert content(files) == {"a.stage": b"onetwoend", "c.draft": b"draft"}


def test_a_longer_write_that_was_lost_leaves_nothing(tmp_path: Path):
    """The partition lost a record that was applied here, and another came in its place."""
    files = StageFiles(tmp_path / "stages")
    files.apply(StagePiece(stage_id="a", position=0, content=b"longer"))
    files.apply(StagePiece(stage_id="a", position=0, content=b"one"))
    assert content(files) == {"a.draft": b"one"}


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path):
    (tmp_path / "stages").write_bytes(b"")
    with pytest.raises(FanlogError, match="a stage could not be written"):
        StageFiles(tmp_path / "stages").apply(ENTRIES[0])
