"""A look at the tables of a lake: files, sizes, and tables that cannot be opened."""

from __future__ import annotations

from pathlib import Path

from fanlog.lake import table_looks
from fanlog.lake.tables import ensure_lake
from lake.test_upkeep import REJECTED, TABLE, exported


def test_tables_and_their_files(folder):
    ensure_lake(folder)
    exported(folder, 12)
    messages, orders, rejected = table_looks.look(folder)
    assert (messages.name, messages.files, messages.rows) == ("messages", 0, 0)
    assert (orders.name, rejected.name) == (TABLE, REJECTED)
    assert (orders.files, orders.rows, orders.small_files) == (12, 12, 12)
    sizes = [one.size_bytes for one in (*orders.largest, *orders.smallest)]
    assert len(sizes) == 10
    assert sizes == sorted(sizes, reverse=True)
    path = Path(folder.uri) / TABLE / orders.largest[0].path
    assert path.stat().st_size == sizes[0]
    assert orders.size_bytes >= sum(sizes)


def test_a_table_that_cannot_be_opened_is_named(folder):
    ensure_lake(folder)
    exported(folder, 1)
    [first, *_] = sorted((Path(folder.uri) / TABLE / "_delta_log").glob("*.json"))
    first.write_text("no JSON")
    broken = next(one for one in table_looks.look(folder) if one.name == TABLE)
    assert broken.trouble
    assert broken.files == 0
