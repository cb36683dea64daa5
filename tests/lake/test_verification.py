"""Files read to their last byte: what is wrong is named, and what can be read is counted."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanlog.lake import files
from fanlog.lake.api import RowRun
from fanlog.lake.archive import commit_archive
from fanlog.lake.files import write_rows
from fanlog.lake.index import FileIndex
from fanlog.lake.location import Location
from fanlog.lake.tables import MESSAGES, ensure_lake, open_table
from fanlog.lake.verification import Checked, check_file, spread
from lake.rows import rows


def written(location: Location, some: pa.Table) -> Path:
    ensure_lake(location)
    [file] = write_rows(location, MESSAGES, some, attempt="a")
    commit_archive(location, "log", [file], after_sequence=0, to_sequence=1)
    return Path(location.uri) / MESSAGES.name / file.path


def checked(location: Location) -> Checked:
    [file] = FileIndex(open_table(location, MESSAGES)).files
    found = check_file(location.filesystem(), file)
    assert Checked.from_json(found.to_json()) == found
    return found


def test_a_file_that_is_fine(location):
    ensure_lake(location)
    some = pa.concat_tables([rows(range(20)), rows([0, 1, 5], partition=2)])
    [file] = write_rows(location, MESSAGES, some, attempt="a")
    commit_archive(location, "log", [file], after_sequence=0, to_sequence=1)
    found = checked(location)
    assert found.damage == ""
    assert found.runs == [RowRun(1, 0, 20), RowRun(2, 0, 2), RowRun(2, 5, 1)]


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "ROW_GROUP_ROWS", 100)


def test_row_groups_beside_a_damaged_one_are_counted(folder, small_groups):
    path = written(folder, rows(range(300), data=bytes(1_000)))
    assert checked(folder).runs == [RowRun(1, 0, 100), RowRun(1, 100, 100), RowRun(1, 200, 100)]
    group = pq.read_metadata(path).row_group(1)
    [chunk] = [
        group.column(number)
        for number in range(group.num_columns)
        if group.column(number).path_in_schema == "message_id"
    ]
    content = bytearray(path.read_bytes())
    content[chunk.data_page_offset + chunk.total_compressed_size - 5] ^= 1
    path.write_bytes(content)
    found = checked(folder)
    assert f"file messages/{found.path} is damaged" in found.damage
    assert sum(run.rows for run in found.runs) == 200


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda path: path.unlink(), "is not there"),
        (lambda path: path.write_bytes(b""), "is damaged: it has 0 bytes, the table says"),
        (lambda path: path.write_bytes(b"PAR1" + bytes(90) + b"PAR1"), "is damaged: it has 98"),
    ],
)
def test_a_file_of_which_nothing_can_be_read(folder, harm, says):
    path = written(folder, rows(range(20)))
    harm(path)
    found = checked(folder)
    assert found.runs == []
    assert found.path in found.damage
    assert says in found.damage


def test_a_file_with_other_rows_than_it_should_have(folder):
    path = written(folder, rows(range(20)))
    [other] = write_rows(folder, MESSAGES, rows(range(19)), attempt="b")
    path.write_bytes((Path(folder.uri) / MESSAGES.name / other.path).read_bytes())
    assert checked(folder).damage.endswith("has 19 rows, the table says 20")


RUNS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12)), max_size=8)


@given(RUNS, st.integers(0, 40), st.integers(0, 40))
def test_counts(pairs, start, end):
    runs = [RowRun(1, first, count) for first, count in pairs]
    offsets = [at for run in runs for at in range(run.first, run.end) if start <= at < end]
    assert spread(runs, start, end) == (len(offsets), len(set(offsets)))
