from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fanlog.lake import files
from fanlog.lake.files import DataFile, FileWriter, OffsetRange
from fanlog.lake.tables import MESSAGES, TIME, Table
from lake.rows import DAY_US, rows


def parquet(location, table, written: DataFile) -> pq.ParquetFile:
    source = location.filesystem().open_input_file(f"{table.name}/{written.path}")
    return pq.ParquetFile(source, page_checksum_verification=True)


def test_a_file_is_described_for_the_log(location):
    together = pa.concat_tables(
        [rows(range(5, 15), partition=1, sequence=3), rows(range(7), partition=2, sequence=4)]
    )
    (written,) = files.write_rows(location, MESSAGES, together, attempt="try-1")
    assert written.path == "date=2026-01-02/try-1/0.parquet"
    assert written.partition_values == {"date": "2026-01-02"}
    assert written.count == 17
    assert written.ranges == (OffsetRange(1, 5, 14, 10), OffsetRange(2, 0, 6, 7))
    assert (written.sequence_first, written.sequence_last) == (3, 4)
    stats = json.loads(written.stats)
    assert stats["numRecords"] == 17
    assert stats["minValues"]["offset"] == 0
    assert stats["maxValues"]["offset"] == 14
    assert stats["minValues"]["topic"] == "projects/p/topics/t"
    assert stats["maxValues"]["publish_time"] == "2026-01-02T00:00:00.000000Z"
    assert stats["nullCount"]["partition"] == 0
    assert "data" not in stats["minValues"]
    assert DataFile.from_json(written.to_json()) == written
    with parquet(location, MESSAGES, written) as opened:
        assert opened.read().num_rows == 17
        assert json.loads(opened.metadata.metadata[files.RUNS_KEY]) == [[1, 5, 10], [2, 0, 7]]


def test_each_day_has_its_file(folder):
    day_us = 86_400_000_000
    together = pa.concat_tables(
        [rows(range(5), time_us=DAY_US), rows(range(5, 9), time_us=DAY_US + day_us)]
    )
    first, second = files.write_rows(folder, MESSAGES, together, attempt="a")
    assert (first.count, second.count) == (5, 4)
    assert second.partition_values == {"date": "2026-01-03"}


def test_row_groups_are_small(folder):
    writer = FileWriter(folder, MESSAGES, attempt="a", partition_values={"date": "2026-01-02"})
    for start in range(0, 20_000, 1_000):
        writer.write(rows(range(start, start + 1_000)).to_batches()[0])
    written = writer.close()
    with parquet(folder, MESSAGES, written) as opened:
        counts = [
            opened.metadata.row_group(number).num_rows for number in range(opened.num_row_groups)
        ]
    assert counts == [8_192, 8_192, 3_616]
    assert written.ranges == (OffsetRange(1, 0, 19_999, 20_000),)


def test_row_groups_of_large_messages_are_not_large(folder, monkeypatch):
    monkeypatch.setattr(files, "ROW_GROUP_BYTES", 10_000)
    (written,) = files.write_rows(
        folder, MESSAGES, rows(range(100), data=bytes(1_000)), attempt="a"
    )
    with parquet(folder, MESSAGES, written) as opened:
        assert opened.num_row_groups == 16
        assert opened.read()["offset"].to_pylist() == list(range(100))


def test_offsets_with_a_gap_are_two_runs(folder):
    given = rows([1, 2, 4])
    assert files.runs_of(given["partition"], given["offset"]) == [(1, 1, 2), (1, 4, 1)]
    (written,) = files.write_rows(folder, MESSAGES, given, attempt="a")
    assert written.ranges == (OffsetRange(1, 1, 4, 3),)


def test_statistics_of_any_column(folder):
    columns = pa.schema(
        [
            pa.field("text", pa.string()),
            pa.field("long", pa.string()),
            pa.field("number", pa.float64()),
            pa.field("odd", pa.float64()),
            pa.field("none", pa.int64()),
            pa.field("at", TIME),
            pa.field("day", pa.date32()),
            pa.field("truth", pa.bool_()),
            pa.field("raw", pa.binary()),
            pa.field("amount", pa.decimal128(38, 9)),
            pa.field("list", pa.list_(pa.int64())),
        ]
    )
    table = Table(name="typed", schema=columns)
    filled = pa.table(
        {
            "text": ["b", None, "a"],
            "long": ["a", "x" * 1_000, "b"],
            "number": [2.0, None, 1.0],
            "odd": [1.0, float("inf"), 2.0],
            "none": [None, None, None],
            "at": [DAY_US, DAY_US + 1, None],
            "day": [1, 2, 3],
            "truth": [True, False, None],
            "raw": [b"a", b"b", b"c"],
            "amount": pa.array([1, 2, 3], pa.int64()).cast(pa.decimal128(38, 9)),
            "list": [[1], [2], None],
        },
        schema=table.schema,
    )
    (written,) = files.write_rows(folder, table, filled, attempt="a")
    stats = json.loads(written.stats)
    assert stats["minValues"] == {
        "text": "a",
        "number": 1.0,
        "at": "2026-01-02T00:00:00.000000Z",
        "day": "1970-01-02",
        "truth": False,
    }
    assert stats["maxValues"]["at"] == "2026-01-02T00:00:00.000001Z"
    assert stats["nullCount"]["none"] == 3
    assert stats["nullCount"]["text"] == 1


def test_a_file_given_up_is_gone(folder):
    writer = FileWriter(folder, MESSAGES, attempt="a", partition_values={"date": "2026-01-02"})
    writer.write(rows(range(5)))
    writer.discard()
    assert folder.filesystem().get_file_info("messages/date=2026-01-02/a/0.parquet").size is None


def test_rows_that_do_not_fit_leave_no_file(folder):
    with pytest.raises((pa.ArrowInvalid, KeyError)):
        files.write_rows(folder, MESSAGES, rows(range(5)).drop_columns(["sequence"]), attempt="a")
    found = folder.filesystem().get_file_info("messages/date=2026-01-02/a/0.parquet")
    assert found.size is None
