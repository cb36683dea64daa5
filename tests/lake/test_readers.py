"""Readers of Delta that are not Spark, and not ours, open every table of a lake."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from fanlog.lake import commits, rewrites, upkeep
from fanlog.lake.files import write_rows
from fanlog.lake.location import Location
from fanlog.lake.tables import (
    DEAD_LETTERS,
    DELIVERY_STATS,
    MESSAGES,
    TOPIC_STATS,
    Table,
    ensure_lake,
)
from lake.rows import rows
from lake.test_upkeep import METADATA, exported

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)

#: A value of each type that a table has.
VALUES: dict[pa.DataType, Any] = {
    pa.string(): "text",
    pa.int64(): 7,
    pa.float64(): 0.5,
    pa.binary(): b"\x00bytes",
    pa.timestamp("us", tz="UTC"): NOW,
    pa.date32(): date(2026, 1, 2),
}


def value_of(field: pa.Field, number: int) -> Any:
    if pa.types.is_map(field.type):
        return [("number", str(number)), ("none", None)]
    if field.nullable and number % 2:
        return None
    found = VALUES[field.type]
    return found + number if isinstance(found, int) else found


def fill(location: Location, table: Table, count: int) -> None:
    fields = list(table.schema)
    columns = {one.name: [value_of(one, number) for number in range(count)] for one in fields}
    made = pa.table(columns, schema=pa.schema(fields))
    written = write_rows(location, table, made, attempt="a")
    commits.add_files(location, table, written, app_id="x", app_version=1)


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> Location:
    """Every table there is, some of them rewritten since."""
    location = Location.parse(str(tmp_path_factory.mktemp("readers") / "lake"))
    ensure_lake(location)
    for number in (1, 2):
        written = write_rows(
            location, MESSAGES, rows(range(number * 50, number * 50 + 50)), attempt=f"a{number}"
        )
        commits.add_files(location, MESSAGES, written, app_id="log", app_version=number)
    _, files = rewrites.files_of(location)
    [what] = rewrites.plan_merges(files)
    made, _ = rewrites.rewrite(location, what)
    rewrites.replace_files(location, what, made, is_change=False)
    for table in (DEAD_LETTERS, TOPIC_STATS, DELIVERY_STATS):
        fill(location, table, 10)
    exported(location, 3, METADATA)
    upkeep.compact(location, "exports/shop.orders")
    return location


TABLES = {
    "messages": 100,
    "dead_letters": 10,
    "topic_stats": 10,
    "delivery_stats": 10,
    "exports/shop.orders": 3,
    "exports/shop.orders_rejected": 3,
}


def test_these_are_all_there_are(lake):
    assert set(upkeep.tables_of(lake)) | {MESSAGES.name} == TABLES.keys()


def sorted_rows(found: list[dict[str, Any]]) -> list[Any]:
    """Rows in an order of their own; maps, which readers show in their own ways, as pairs."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            value = list(value.items())
        if isinstance(value, list):
            return sorted(
                (tuple(one.values()) if isinstance(one, dict) else tuple(one) for one in value),
                key=repr,
            )
        return value

    return sorted(([(k, plain(v)) for k, v in sorted(row.items())] for row in found), key=repr)


@pytest.mark.parametrize("name", TABLES)
def test_polars(lake, name):
    uri = lake.table_uri(name)
    found = polars.scan_delta(uri).collect()
    assert found.height == TABLES[name]
    expected = DeltaTable(uri).to_pyarrow_table().to_pylist()
    assert sorted_rows(found.to_dicts()) == sorted_rows(expected)


@pytest.mark.parametrize("name", TABLES)
def test_duckdb(lake, name):
    """Over a dataset of Arrow: its own extension for Delta has to be downloaded at run time."""
    opened = DeltaTable(lake.table_uri(name))
    with duckdb.connect() as connection:
        connection.register("found", opened.to_pyarrow_dataset())
        [(count,)] = connection.sql("select count(*) from found").fetchall()
        # And its own reader of Parquet, of the files that the table lists.
        files = opened.file_uris()
        [(rows_of_files,)] = connection.sql(
            f"select count(*) from (select * from read_parquet({files}))"
        ).fetchall()
    assert (count, rows_of_files) == (TABLES[name], TABLES[name])


def test_polars_skips_what_a_predicate_leaves_out(lake):
    """Statistics and partition values are what a reader expects them to be."""
    scanned = polars.scan_delta(lake.table_uri("messages"))
    some = scanned.filter((polars.col("offset") >= 90) & (polars.col("date") == date(2026, 1, 2)))
    assert sorted(some.collect()["offset"].to_list()) == list(range(90, 150))
    assert scanned.filter(polars.col("date") > date(2026, 1, 2)).collect().height == 0
