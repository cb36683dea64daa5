from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier, Thread

import duckdb
import pyarrow as pa
import pytest
from deltalake import Field
from deltalake.exceptions import DeltaError
from deltalake.schema import PrimitiveType

from fanlog.lake import commits, files, tables
from fanlog.lake.location import LakeError
from fanlog.lake.tables import DEAD_LETTERS, DELIVERY_STATS, MESSAGES, TOPIC_STATS
from lake.rows import UNSEALED, rows


@pytest.mark.parametrize("table", [MESSAGES, DEAD_LETTERS, TOPIC_STATS, DELIVERY_STATS])
def test_a_table_is_made_once_and_says_its_version(folder, table):
    tables.ensure_table(folder, table)
    opened = tables.ensure_table(folder, table)
    assert opened.version() == 0
    assert opened.metadata().configuration == {tables.VERSION_PROPERTY: str(table.version)}
    assert opened.metadata().partition_columns == ["date"]
    assert [one.name for one in opened.schema().fields] == table.schema.names


def test_two_who_make_a_lake_make_one(location):
    barrier, made = Barrier(2), []

    def make() -> None:
        barrier.wait()
        made.append(tables.ensure_lake(location))

    threads = [Thread(target=make) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 2
    assert made[0] == made[1]


def test_an_older_table_is_migrated(folder):
    tables.ensure_table(folder, MESSAGES)
    added: list[int] = []

    def add_column(opened) -> None:
        added.append(opened.version())
        opened.alter.add_columns([Field("note", PrimitiveType("string"))])

    newer = replace(
        MESSAGES,
        version=3,
        schema=MESSAGES.schema.append(pa.field("note", pa.string())),
        migrations={2: add_column},
    )
    opened = tables.ensure_table(folder, newer)
    assert opened.metadata().configuration == {tables.VERSION_PROPERTY: "3"}
    assert opened.schema().fields[-1].name == "note"
    tables.ensure_table(folder, newer)
    assert added == [0]


def test_a_newer_table_is_refused(folder):
    tables.ensure_table(folder, replace(MESSAGES, version=3))
    with pytest.raises(LakeError, match="schema version 3; this version of Fanlog knows 2"):
        tables.open_table(folder, MESSAGES)


def test_readers_that_are_not_ours_open_a_table(folder):
    written = files.write_rows(folder, MESSAGES, rows(range(100)), attempt="a")
    commits.add_files(folder, MESSAGES, written, app_id="x", app_version=1)
    columns = pa.schema([pa.field("id", pa.int64()), pa.field("t", tables.TIME)])
    orders = tables.Table(name="exports/orders", schema=columns)
    typed = pa.table({"id": [1, 2], "t": [0, 1]}, schema=orders.schema)
    written = files.write_rows(folder, orders, typed, attempt="a")
    commits.add_files(folder, orders, written, app_id="x", app_version=1)

    messages = tables.open_table(folder, MESSAGES).to_pyarrow_dataset()
    assert messages.to_table().num_rows == 100
    with duckdb.connect() as connection:
        connection.register("messages", messages)
        found = connection.sql(
            "select count(*), max(\"offset\"), max(attributes['number']), min(date) from messages "
            "where publish_time >= '2026-01-01' and \"offset\" > 89"
        ).fetchall()[0]
        assert (*found[:3], str(found[3])) == (10, 99, "99", "2026-01-02")
        uris = tables.open_table(folder, orders).file_uris()
        assert connection.sql(f"select sum(id) from read_parquet({uris})").fetchall() == [(3,)]


def test_of_many_that_migrate_at_once_each_finds_it_done(folder):
    tables.ensure_table(folder, UNSEALED)
    with ThreadPoolExecutor(4) as pool:
        opened = list(pool.map(lambda _: tables.ensure_table(folder, MESSAGES), range(4)))
    for one in opened:
        assert one.metadata().configuration == {tables.VERSION_PROPERTY: "2"}
        assert [field.name for field in one.schema().fields].count("seal") == 1


def test_a_table_that_cannot_be_migrated_says_so(folder):
    tables.ensure_table(folder, MESSAGES)

    def fails(_) -> None:
        raise DeltaError("no")

    with pytest.raises(LakeError, match="cannot be migrated: no"):
        tables.ensure_table(folder, replace(MESSAGES, version=3, migrations={2: fails}))
