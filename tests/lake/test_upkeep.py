"""Upkeep of tables other than `messages`: files are merged, rows stay unless told otherwise."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fanlog.errors import InvalidArgument
from fanlog.lake import upkeep
from fanlog.lake.location import LakeError
from fanlog.lake.tables import MESSAGES, ensure_table, open_table
from fanlog.model.resources import TableExport
from fanlog.pipeline.export.batch import commit_batch, export_batch
from fanlog.pipeline.export.rejected_table import RejectedRows
from lake.test_export_batch import EXPORT, plan, read
from lake.test_export_rows import SUBSCRIPTION, messages

TABLE, REJECTED = "exports/shop.orders", "exports/shop.orders_rejected"
METADATA = replace(EXPORT, write_metadata=True)


def exported(location: Any, count: int, export: TableExport = EXPORT) -> Any:
    """Batches of two messages, one of which does not fit."""
    mine = None
    for number in range(1, count + 1):
        mine = plan(location, number, export)
        some = messages(b'{"id": "%d", "partition": %d}' % (number, number), b"bad")
        commit_batch(mine, export_batch(mine, some.to_batches(), location), location)
    return mine


def test_small_files_of_exports_become_one(location):
    mine = exported(location, 6)
    assert upkeep.tables_of(location) == [TABLE, REJECTED]
    for table in (TABLE, REJECTED):
        done = upkeep.compact(location, table)
        assert (done.files_before, done.merged, done.into) == (6, 6, 1)
        again = upkeep.compact(location, table)
        assert (again.files_before, again.merged, again.into) == (1, 0, 0)
    assert sorted(read(location, mine.table)["id"].to_pylist()) == list("123456")
    assert read(location, mine.rejected)["data"].to_pylist() == [b"bad"] * 6
    # The tables know what was exported, and exports go on.
    some = messages(b'{"id": "6", "partition": 6}', b"bad")
    assert not commit_batch(mine, export_batch(mine, some.to_batches(), location), location)
    mine = plan(location, 7)
    pieces = export_batch(mine, messages(b'{"id": "7", "partition": 7}').to_batches(), location)
    assert commit_batch(mine, pieces, location)
    assert sorted(read(location, mine.table)["id"].to_pylist()) == list("1234567")


def test_files_are_kept_for_a_day(folder, monkeypatch):
    exported(folder, 3)
    upkeep.compact(folder, TABLE)
    files = list((Path(folder.uri) / TABLE).rglob("*.parquet"))
    assert len(files) == 4
    monkeypatch.setattr(upkeep, "KEPT_HOURS", 0)
    assert upkeep.compact(folder, TABLE).deleted == 3
    assert len(list((Path(folder.uri) / TABLE).rglob("*.parquet"))) == 1


def test_other_tables_of_the_lake(folder):
    assert upkeep.tables_of(folder) == []
    ensure_table(folder, MESSAGES)
    ensure_table(folder, upkeep.TOPIC_STATS)
    exported(folder, 1)
    (Path(folder.uri) / "exports" / "a folder").mkdir()
    assert upkeep.tables_of(folder) == ["topic_stats", TABLE, REJECTED]
    assert upkeep.find_table(folder, "shop.orders") == upkeep.find_table(folder, TABLE) == TABLE
    with pytest.raises(InvalidArgument, match="'nope' is no table of the lake; there are: mess"):
        upkeep.find_table(folder, "nope")


def test_a_damaged_file_is_named_and_nothing_changes(folder):
    exported(folder, 3)
    path = min((Path(folder.uri) / TABLE).rglob("*.parquet"))
    path.write_bytes(b"PAR1" + bytes(50) + b"PAR1")
    before = open_table(folder, plan(folder).table).version()
    with pytest.raises(LakeError, match=r"table 'exports/shop.orders' cannot be rewritten"):
        upkeep.compact(folder, TABLE)
    assert open_table(folder, plan(folder).table).version() == before


class TestDeleteBefore:
    def test_rows_before_a_time(self, location):
        mine = exported(location, 3, METADATA)
        [time] = set(read(location, mine.table)["publish_time"].to_pylist())
        assert upkeep.delete_before(location, TABLE, time) == 0
        assert read(location, mine.table).num_rows == 3
        assert upkeep.delete_before(location, TABLE, time + timedelta(seconds=1)) == 3
        assert read(location, mine.table).num_rows == 0
        # What was exported is not exported again by that.
        some = messages(b'{"id": "3", "partition": 3}')
        assert not commit_batch(mine, export_batch(mine, some.to_batches(), location), location)
        assert upkeep.delete_before(location, REJECTED, time + timedelta(seconds=1)) == 3

    def test_a_table_that_does_not_say_how_old_its_rows_are(self, folder):
        exported(folder, 1)
        with pytest.raises(InvalidArgument, match="does not say how old its rows are"):
            upkeep.delete_before(folder, TABLE, datetime.now(UTC))


def test_a_redrive_while_the_table_is_compacted(folder, monkeypatch):
    """Both change the same files: one of them begins again."""
    mine = exported(folder, 3)
    rejected = RejectedRows(folder, "shop.orders", SUBSCRIPTION)
    opened = rejected._open
    calls: list[int] = []

    def late() -> Any:
        found = opened()
        calls.append(1)
        if len(calls) == 2:
            upkeep.compact(folder, REJECTED)
        return found

    monkeypatch.setattr(rejected, "_open", late)
    rejected.forget("", to_batch=3)
    assert read(folder, mine.rejected).num_rows == 0
    assert len(calls) == 3
