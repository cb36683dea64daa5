"""Whole batches, in a folder and in S3 storage: what tasks write, what commits make of it."""

from __future__ import annotations

import errno
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fanlog.lake import commits, durability
from fanlog.lake.tables import open_table
from fanlog.model.resources import FileExport, TableExport
from fanlog.pipeline.export.batch import (
    BatchPlan,
    TaskOutput,
    commit_batch,
    export_batch,
    table_columns,
)
from fanlog.pipeline.export.bucket_files import bucket_location
from fanlog.pipeline.export.rejected_table import RejectedRows
from fanlog.pipeline.export.rules.topic_schema import TopicSchema
from lake.test_export_rows import SUBSCRIPTION, avro, field, messages

REVISIONS = TopicSchema(
    "AVRO", "r1", {"r1": avro(field("id", "string"), field("partition", "int"))}
)
EXPORT = TableExport(table="shop.orders", use_topic_schema=True)


def plan(location: Any, number: int = 1, export: Any = EXPORT) -> BatchPlan:
    columns = None
    if isinstance(export, TableExport):
        columns = table_columns(location, export, REVISIONS)
    return BatchPlan(
        subscription=SUBSCRIPTION,
        app_id="log/5",
        number=number,
        time=datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC),
        export=export,
        topic_schema=REVISIONS,
        columns=columns,
    )


def read(location: Any, table: Any) -> Any:
    return open_table(location, table).to_pyarrow_table()


def test_a_table_and_what_did_not_fit(location):
    first = plan(location)
    some = messages(b'{"id": "a", "partition": 1}', b"bad", b'{"id": "b", "partition": 2}')
    pieces = export_batch(first, some.to_batches(max_chunksize=2), location)
    assert [(piece.kind, piece.count) for piece in pieces] == [("rows", 2), ("rejected", 1)]
    assert [TaskOutput.from_json(piece.to_json()) for piece in pieces] == pieces
    assert commit_batch(first, pieces, location)
    # Written by another attempt, and once more.
    again = export_batch(first, some.to_batches(), location)
    assert not commit_batch(first, again, location)
    assert sorted(read(location, first.table)["id"].to_pylist()) == ["a", "b"]
    assert read(location, first.rejected)["data"].to_pylist() == [b"bad"]
    second = plan(location, 2)
    pieces = export_batch(second, messages(b'{"id": "c", "partition": 3}').to_batches(), location)
    assert commit_batch(second, pieces, location)
    assert sorted(read(location, second.table)["partition"].to_pylist()) == [1, 2, 3]


def test_death_between_the_two_tables(location):
    first = plan(location)
    some = messages(b'{"id": "a", "partition": 1}', b"bad")
    pieces = export_batch(first, some.to_batches(), location)
    commit_batch(first, [piece for piece in pieces if piece.kind == "rows"], location)
    assert commit_batch(first, export_batch(first, some.to_batches(), location), location)
    assert read(location, first.table).num_rows == 1
    assert read(location, first.rejected).num_rows == 1


def test_two_subscriptions_share_a_table(location):
    for app_id in ("log/5", "log/6"):
        mine = replace(plan(location), app_id=app_id)
        some = messages(b'{"id": "a", "partition": 1}')
        assert commit_batch(mine, export_batch(mine, some.to_batches(), location), location)
    assert read(location, mine.table).num_rows == 2


def test_files(location):
    export = FileExport(bucket="box", format="avro", use_topic_schema=True, filename_prefix="a/")
    first = plan(location, export=export)
    some = messages(b'{"id": "a", "partition": 1}', b"bad")
    for _ in range(2):
        pieces = export_batch(first, some.to_batches(), location)
        commit_batch(first, pieces, location)
    [path] = [piece.text for piece in pieces if piece.kind == "file"]
    files = bucket_location(location, "box").filesystem()
    assert files.get_file_info(path).size > 0
    assert first.rejected.name == "exports/p.rows_rejected"
    assert read(location, first.rejected).num_rows == 1


def test_rejected_rows_are_found_and_forgotten(location):
    for number in (1, 2, 3):
        mine = plan(location, number)
        some = messages(b"bad", b'{"id": 1, "partition": 1}')
        commit_batch(mine, export_batch(mine, some.to_batches(), location), location)
    rejected = RejectedRows(location, "shop.orders", SUBSCRIPTION)
    assert rejected.rows().num_rows == 6
    assert rejected.rows("it's not there").num_rows == 0
    found = list(rejected.offsets("expected JSON", to_batch=2))
    assert [(number, {p: list(o) for p, o in sets.items()}) for number, sets in found] == [
        (1, {7: [0]}),
        (2, {7: [0]}),
    ]
    rejected.forget("it's not there", to_batch=3)
    rejected.forget("expected JSON", to_batch=2)
    left = rejected.rows()
    assert left["batch"].to_pylist() == [1, 2, 3, 3]
    # What was deleted does not bring its batch back.
    again = plan(location, 3)
    pieces = export_batch(again, messages(b"bad").to_batches(), location)
    assert not commit_batch(again, pieces, location)


class Disk:
    """Which files and folders were synced, and what was committed by then."""

    def __init__(self, monkeypatch: Any, location: Any) -> None:
        self.root = Path(location.uri)
        self.synced: list[str] = []
        monkeypatch.setattr(durability, "_sync", self._sync)

    def _sync(self, path: Path) -> None:
        assert path.exists()
        inside = path.is_relative_to(self.root)
        self.synced.append(str(path.relative_to(self.root)) if inside else "above")


class TestOnTheDisk:
    """Before the broker is told, and acknowledges, all of a batch is on the disk."""

    def test_a_table(self, folder, monkeypatch):
        first = plan(folder)
        some = messages(b'{"id": "a", "partition": 1}', b"bad")
        pieces = export_batch(first, some.to_batches(), folder)
        disk = Disk(monkeypatch, folder)
        committed: list[bool] = []
        commit = commits.add_files

        def add_files(location, table, files, **rest):
            names = [f"{table.name}/{file.path}" for file in files]
            committed.append(set(names) <= set(disk.synced))
            return commit(location, table, files, **rest)

        monkeypatch.setattr(commits, "add_files", add_files)
        assert commit_batch(first, pieces, folder)
        assert committed == [True, True]
        for table in ("exports/shop.orders", "exports/shop.orders_rejected"):
            log = f"{table}/_delta_log"
            assert {f"{log}/{0:020}.json", f"{log}/{1:020}.json", log, table} <= set(disk.synced)
        assert {"exports", ".", "above"} <= set(disk.synced)
        # One that died between the commit and the sync: the next one does it.
        disk.synced.clear()
        assert not commit_batch(first, export_batch(first, some.to_batches(), folder), folder)
        assert f"exports/shop.orders/_delta_log/{1:020}.json" in disk.synced

    def test_a_log_is_synced_from_its_last_checkpoint_on(self, folder, monkeypatch):
        for number in range(1, 4):
            some = messages(b'{"id": "a", "partition": 1}')
            mine = plan(folder, number)
            commit_batch(mine, export_batch(mine, some.to_batches(), folder), folder)
        open_table(folder, mine.table).create_checkpoint()
        disk = Disk(monkeypatch, folder)
        mine = plan(folder, 4)
        commit_batch(mine, export_batch(mine, some.to_batches(), folder), folder)
        names = {Path(path).name.partition(".")[0] for path in disk.synced if ".json" in path}
        assert names == {f"{3:020}", f"{4:020}"}
        assert any(path.endswith("_last_checkpoint") for path in disk.synced)

    def test_files(self, folder, monkeypatch):
        first = plan(folder, export=FileExport(bucket="box", format="text", filename_prefix="a/"))
        disk = Disk(monkeypatch, folder)
        [piece] = export_batch(first, messages(b"one").to_batches(), folder)
        # Its bytes under the name it had first, then what it is called.
        name = piece.text.rpartition("/")[2]
        assert any(name in path and path.endswith(".tmp") for path in disk.synced)
        whole = Path("files/box") / piece.text
        wanted = {str(whole), *map(str, whole.parents), "above"}
        assert wanted <= set(disk.synced)

    def test_what_cannot_be_synced_is_not_told(self, folder, monkeypatch):
        first = plan(folder)
        pieces = export_batch(first, messages(b'{"id": "a", "partition": 1}').to_batches(), folder)

        def failing(_: Path) -> None:
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(durability, "_sync", failing)
        with pytest.raises(OSError, match="Input/output error"):
            commit_batch(first, pieces, folder)
