"""Small files become one, rows that were let go of go; readers see all of it or nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fanlog.lake import commits, files, rewrites, tables
from fanlog.lake.commit_order import CommitLost
from fanlog.lake.rewrites import FileUnreadable, OldFile, Rewrite
from fanlog.lake.tables import MESSAGES
from lake.rows import rows


def archived(location, *spans, partition=1):
    """Archive spans of offsets, each in a file of its own."""
    for number, span in enumerate(spans, start=1):
        made = files.write_rows(
            location,
            MESSAGES,
            rows(span, sequence=number, partition=partition),
            attempt=f"a{partition}-{number}",
        )
        commits.add_files(location, MESSAGES, made, app_id=f"log{partition}", app_version=number)


def content(location):
    table = tables.open_table(location, MESSAGES).to_pyarrow_table()
    return sorted(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


def merge_all(location):
    _, found = rewrites.files_of(location)
    for what in rewrites.plan_merges(found):
        made, _ = rewrites.rewrite(location, what)
        rewrites.replace_files(location, what, made, is_change=False)


class TestPlans:
    def file(self, path, size, date="2026-01-01", sequence=1, offset_min=0):
        return OldFile(
            path=path, size_bytes=size, date=date, sequence=sequence, offset_min=offset_min
        )

    def test_small_neighbours_of_a_day(self):
        found = rewrites.plan_merges(
            [
                self.file("c", 30, sequence=3),
                self.file("a", 30, sequence=1),
                self.file("b", 30, sequence=2),
                self.file("big", 60, sequence=4),
                self.file("other day", 10, date="2026-01-02"),
            ],
            target_bytes=100,
        )
        assert [(one.date, one.paths) for one in found] == [("2026-01-01", ("a", "b", "c"))]

    def test_no_more_than_fits(self):
        found = rewrites.plan_merges(
            [self.file(str(n), 40, sequence=n) for n in range(5)], target_bytes=100
        )
        assert [one.paths for one in found] == [("0", "1"), ("2", "3")]

    def test_only_files_that_may_have_some_expire(self):
        found = rewrites.plan_expiry(
            [self.file("old", 1), self.file("new", 1, offset_min=50)], {7: 50}
        )
        assert [one.paths for one in found] == [("old",)]
        assert rewrites.plan_expiry([self.file("old", 1)], {}) == []

    def test_they_travel(self):
        what = Rewrite(date="2026-01-01", paths=("a",), size_bytes=3, starts={5: 7})
        assert Rewrite.from_json(what.to_json()) == what


def test_merged_rows_are_the_same_in_fewer_files(location):
    archived(location, range(3), range(3, 6))
    archived(location, range(4), partition=2)
    before = content(location)
    merge_all(location)
    assert content(location) == before
    _, [one] = rewrites.files_of(location)
    assert one.sequence == 1
    # How far the archive is has not changed.
    assert commits.last_version(location, MESSAGES, "log1") == 2


def test_a_merge_keeps_the_order(folder):
    archived(folder, range(3, 6), partition=2)
    archived(folder, range(3), partition=1)
    merge_all(folder)
    table = tables.open_table(folder, MESSAGES).to_pyarrow_table()
    assert table["partition"].to_pylist() == [1, 1, 1, 2, 2, 2]


def test_older_versions_can_still_be_read(folder):
    archived(folder, range(3), range(3, 6))
    version = tables.open_table(folder, MESSAGES).version()
    merge_all(folder)
    assert rewrites.vacuum(folder) == 0
    older = tables.open_table(folder, MESSAGES, version=version)
    assert older.to_pyarrow_table().num_rows == 6


def test_vacuumed_when_nobody_can_need_them(folder):
    archived(folder, range(3), range(3, 6))
    before = content(folder)
    merge_all(folder)
    assert rewrites.vacuum(folder, hours=0) == 2
    assert content(folder) == before


def test_of_two_rewrites_one_wins(location):
    archived(location, range(3), range(3, 6))
    _, found = rewrites.files_of(location)
    [what] = rewrites.plan_merges(found)
    mine, _ = rewrites.rewrite(location, what)
    theirs, _ = rewrites.rewrite(location, what)
    rewrites.replace_files(location, what, mine, is_change=False)
    with pytest.raises(CommitLost):
        rewrites.replace_files(location, what, theirs, is_change=False)
    assert len(content(location)) == 6


def test_an_archive_goes_on_meanwhile(location):
    archived(location, range(3), range(3, 6))
    _, found = rewrites.files_of(location)
    [what] = rewrites.plan_merges(found)
    made, _ = rewrites.rewrite(location, what)
    archived(location, range(2), partition=2)
    rewrites.replace_files(location, what, made, is_change=False)
    assert len(content(location)) == 8


@pytest.mark.parametrize(
    ("starts", "left", "gone"),
    [({1: 2}, [(1, 2), (2, 0), (2, 1), (2, 2)], 2), ({1: 3, 2: 3}, [], 6)],
)
def test_rows_that_were_let_go_of(folder, starts, left, gone):
    archived(folder, range(3))
    archived(folder, range(3), partition=2)
    merge_all(folder)
    _, found = rewrites.files_of(folder)
    [what] = rewrites.plan_expiry(found, starts)
    made, count = rewrites.rewrite(folder, what)
    assert count == gone
    rewrites.replace_files(folder, what, made, is_change=True)
    assert content(folder) == left


def test_a_file_without_such_rows_is_left(folder):
    archived(folder, range(5))
    what = Rewrite(
        date=rewrites.files_of(folder)[1][0].date,
        paths=(rewrites.files_of(folder)[1][0].path,),
        size_bytes=1,
        starts={9: 3},
    )
    assert rewrites.rewrite(folder, what) == (None, -1)


class TestDamaged:
    def path(self, folder, name):
        return next((Path(folder.uri) / MESSAGES.name).rglob(f"*/{name}/*.parquet"))

    @pytest.mark.parametrize("harm", [lambda p: p.unlink(), lambda p: p.write_bytes(b"x")])
    def test_it_is_named(self, folder, harm):
        archived(folder, range(10), range(10, 20))
        harm(self.path(folder, "a1-2"))
        _, found = rewrites.files_of(folder)
        [what] = rewrites.plan_merges(found)
        with pytest.raises(FileUnreadable) as caught:
            rewrites.rewrite(folder, what)
        assert caught.value.path.endswith("a1-2/0.parquet")
        assert "messages/date=2026-01-02/a1-2/0.parquet cannot be read" in caught.value.reason

    def test_what_can_be_read_is_kept(self, folder, monkeypatch):
        monkeypatch.setattr(files, "ROW_GROUP_ROWS", 10)
        archived(folder, range(30))
        path = self.path(folder, "a1-1")
        group = pq.read_metadata(path).row_group(1)
        content = bytearray(path.read_bytes())
        chunk = next(
            group.column(at)
            for at in range(group.num_columns)
            if group.column(at).path_in_schema == "message_id"
        )
        end = chunk.data_page_offset + chunk.total_compressed_size
        content[end - 10 : end] = bytes(10)
        path.write_bytes(content)
        _, [old] = rewrites.files_of(folder)
        what = Rewrite(date=old.date, paths=(old.path,), size_bytes=old.size_bytes)
        made = rewrites.mend(folder, what)
        assert (old.count, made.count) == (30, 20)
        rewrites.replace_files(folder, what, made, is_change=True)
        assert content_of(folder) == [*range(10), *range(20, 30)]

    def test_of_what_has_no_footer_nothing_is_kept(self, folder):
        archived(folder, range(10), range(10, 20))
        path = self.path(folder, "a1-1")
        path.write_bytes(path.read_bytes()[:-20])
        what = Rewrite(
            date="2026-01-02",
            paths=(str(path.relative_to(Path(folder.uri) / MESSAGES.name)),),
            size_bytes=1,
        )
        assert rewrites.mend(folder, what) is None
        rewrites.replace_files(folder, what, None, is_change=True)
        assert content_of(folder) == list(range(10, 20))


def content_of(location):
    return [offset for _, offset in content(location)]
