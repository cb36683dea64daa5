"""The runway is written ahead of small commits, at the end of the file, and goes with the log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fanlog import limits
from fanlog.log.api import Append, Commit
from fanlog.log.embedded import EmbeddedLog
from fanlog.log.folder import DATA_NAME
from fanlog.log.runway import Runway
from fanlog.model.resources import PartitionId
from fanlog.testing.conformance import make_body

END = 8_192


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"p" * END)
    return path


def test_zeros_stand_behind_the_pages(path: Path):
    Runway(path).extend(END)
    assert path.read_bytes() == b"p" * END + bytes(limits.RUNWAY_BYTES)


def test_enough_is_left_alone(path: Path):
    runway = Runway(path)
    runway.extend(END)
    size_bytes = path.stat().st_size
    end = size_bytes - limits.RUNWAY_BYTES_MIN
    runway.extend(end)
    assert path.stat().st_size == size_bytes
    runway.extend(end + 1)
    assert path.stat().st_size == size_bytes + limits.RUNWAY_BYTES


def test_pages_that_came_since_are_not_written_over(path: Path):
    runway = Runway(path)
    with path.open("ab") as file:
        file.write(b"q" * END)
    runway.extend(2 * END)
    assert path.read_bytes()[: 2 * END] == b"p" * END + b"q" * END


def test_large_commits_have_none(path: Path):
    runway = Runway(path)
    for _ in range(100):
        runway.count(limits.RUNWAY_COMMIT_BYTES_MAX * 2)
    runway.extend(END)
    assert path.stat().st_size == END
    for _ in range(100):
        runway.count(100)
    runway.extend(END)
    assert path.stat().st_size > END


def test_a_disk_with_little_room_has_none(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "RUNWAY_ROOM_BYTES_MIN", 2**62)
    Runway(path).extend(END)
    assert path.stat().st_size == END


def test_a_disk_that_refuses_is_asked_once(path: Path, monkeypatch: pytest.MonkeyPatch, caplog):
    asked = []

    def refuse(*_: object) -> int:
        asked.append(1)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", refuse)
    runway = Runway(path)
    runway.extend(END)
    runway.extend(END)
    assert len(asked) == 1
    assert "action=runway" in caplog.text


def make_commit(log: EmbeddedLog, size_bytes: int = 100) -> Commit:
    partition = PartitionId(1)
    return Commit(
        sequence=log.last_sequence + 1,
        publish_time_ns=log.last_publish_time_ns + 1_000,
        appends=[
            Append(
                topic=1,
                partition=partition,
                base_offset=log.bounds(partition).end,
                bodies=[make_body(b"m" * size_bytes)],
            )
        ],
        state={},
        trims=[],
    )


def test_small_commits_do_not_make_the_file_longer(tmp_path: Path):
    log = EmbeddedLog(tmp_path)
    log.commit(make_commit(log))
    log.prepare()
    size_bytes = (tmp_path / DATA_NAME).stat().st_size
    for _ in range(100):
        log.commit(make_commit(log, 1_000))
        log.prepare()
    assert (tmp_path / DATA_NAME).stat().st_size == size_bytes
    # It is room that a commit can use, not space that is taken.
    assert log.stats().file_bytes < size_bytes
    log.close()


def test_a_log_that_closes_takes_it_along(tmp_path: Path):
    log = EmbeddedLog(tmp_path)
    log.commit(make_commit(log))
    log.prepare()
    end_bytes = log.stats().file_bytes
    assert (tmp_path / DATA_NAME).stat().st_size > end_bytes
    log.close()
    assert (tmp_path / DATA_NAME).stat().st_size == end_bytes


def test_a_runway_that_a_crash_left_is_used(tmp_path: Path):
    log = EmbeddedLog(tmp_path)
    log.commit(make_commit(log))
    log.close()
    with (tmp_path / DATA_NAME).open("ab") as file:
        file.write(bytes(limits.RUNWAY_BYTES) + b"torn")
    size_bytes = (tmp_path / DATA_NAME).stat().st_size
    log = EmbeddedLog(tmp_path)
    log.commit(make_commit(log))
    log.prepare()
    assert (tmp_path / DATA_NAME).stat().st_size == size_bytes
    log.close()
    log = EmbeddedLog(tmp_path)
    assert log.last_sequence == 2
    log.close()
