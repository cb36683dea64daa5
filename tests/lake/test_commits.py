from __future__ import annotations

from threading import Barrier, Thread

import pytest

from fanlog.lake import archive, commits, files, tables
from fanlog.lake.commit_order import CommitLost
from fanlog.lake.location import LakeError
from fanlog.lake.tables import MESSAGES
from lake.rows import rows

LOG = "0f" * 16


def written(location, offsets, *, attempt, sequence=1):
    return files.write_rows(location, MESSAGES, rows(offsets, sequence=sequence), attempt=attempt)


def offsets(location) -> list[int]:
    dataset = tables.open_table(location, MESSAGES).to_pyarrow_dataset()
    return sorted(dataset.to_table(columns=["offset"])["offset"].to_pylist())


def test_files_are_added_once(location):
    made = written(location, range(5), attempt="a")
    first = commits.add_files(location, MESSAGES, made, app_id="x", app_version=7)
    again = commits.add_files(location, MESSAGES, made, app_id="x", app_version=7)
    assert first.is_new
    assert not again.is_new
    assert again.table_version == first.table_version
    assert commits.last_version(location, MESSAGES, "x") == 7
    assert commits.last_version(location, MESSAGES, "y") is None
    assert offsets(location) == [0, 1, 2, 3, 4]


def test_what_no_commit_added_is_not_in_the_table(folder):
    made = written(folder, range(5), attempt="a")
    written(folder, range(5), attempt="killed")
    commits.add_files(folder, MESSAGES, made, app_id="x", app_version=1)
    assert offsets(folder) == [0, 1, 2, 3, 4]


def test_of_two_archives_one_wins(location):
    tables.ensure_lake(location)
    for number in range(3):
        barrier = Barrier(2)
        outcomes: list[object] = []

        def run(name: str, at: int, number: int, barrier: Barrier, outcomes: list[object]) -> None:
            made = written(location, range(number * 5, number * 5 + 5), attempt=f"{name}{number}")
            # Each has archived as far as it happened to see.
            to = number * 10 + (10 if name == "a" else 9)
            barrier.wait()
            try:
                outcomes.append(
                    archive.commit_archive(location, LOG, made, after_sequence=at, to_sequence=to)
                )
            except CommitLost as error:
                outcomes.append(error)

        at = archive.archived_sequence(location, LOG)
        threads = [
            Thread(target=run, args=(name, at, number, barrier, outcomes)) for name in ("a", "b")
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(type(one).__name__ for one in outcomes) == ["CommitLost", "Committed"]
    assert offsets(location) == list(range(15))


def test_an_archive_resumes_at_the_table(folder):
    tables.ensure_lake(folder)
    assert archive.archived_sequence(folder, LOG) == 0
    archive.commit_archive(
        folder, LOG, written(folder, range(5), attempt="a"), after_sequence=0, to_sequence=4
    )
    assert archive.archived_sequence(folder, LOG) == 4
    # A second one, planned on what was there before.
    with pytest.raises(CommitLost, match="is at 4"):
        archive.commit_archive(
            folder, LOG, written(folder, range(9), attempt="b"), after_sequence=0, to_sequence=6
        )
    with pytest.raises(CommitLost, match="past 3"):
        archive.commit_archive(
            folder, LOG, written(folder, range(3), attempt="c"), after_sequence=0, to_sequence=3
        )
    # Commits without messages are archived too.
    archive.commit_archive(folder, LOG, [], after_sequence=4, to_sequence=5)
    assert archive.archived_sequence(folder, LOG) == 5
    assert offsets(folder) == [0, 1, 2, 3, 4]


def test_a_lake_that_cannot_be_written_says_so(folder, tmp_path):
    (tmp_path / "lake").write_text("a file")
    with pytest.raises(LakeError):
        tables.ensure_lake(folder)
