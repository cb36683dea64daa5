"""Seals in the lake: kept with their rows, and missing from what is older than they are."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fanlog.lake import commits, files, rewrites, tables
from fanlog.lake.cold import ColdReader
from fanlog.lake.index import FileDamaged
from fanlog.lake.tables import MESSAGES
from fanlog.log.seal import UNSEALED, Seal
from fanlog.model.terms import TermKind, Terms
from lake.rows import UNSEALED as OLD_MESSAGES
from lake.rows import rows

COPY = Seal(is_copy=True, addressee=7)


def old_lake(location) -> None:
    """A lake of the version before, with offsets 0 to 9 in two files."""
    tables.ensure_table(location, OLD_MESSAGES)
    for number, offsets in enumerate((range(5), range(5, 10)), start=1):
        made = rows(offsets, sequence=number).drop_columns(["seal"])
        written = files.write_rows(location, OLD_MESSAGES, made, attempt=f"old{number}")
        commits.add_files(location, OLD_MESSAGES, written, app_id="log", app_version=number)


def add(location, offsets: range, sequence: int, seal: Seal) -> None:
    made = rows(offsets, sequence=sequence, seal=str(seal))
    written = files.write_rows(location, MESSAGES, made, attempt=f"new{sequence}")
    commits.add_files(location, MESSAGES, written, app_id="log", app_version=sequence)


async def seals(location, end: int) -> list[tuple[int, int, Seal | None]]:
    """First offset, end and seal of each batch."""
    reader = ColdReader(location)
    try:
        found = await reader.read(1, 0, end=end, max_bytes=1 << 20)
        return [(one.base_offset, one.base_offset + one.count, one.seal) for one in found]
    finally:
        await reader.close()


async def test_an_old_lake_is_read_as_it_was(folder):
    old_lake(folder)
    assert await seals(folder, 10) == [(0, 5, None), (5, 10, None)]
    tables.ensure_lake(folder)
    assert await seals(folder, 10) == [(0, 5, None), (5, 10, None)]
    rows_now = tables.open_table(folder, MESSAGES).to_pyarrow_table()
    assert rows_now.num_rows == 10
    assert rows_now["seal"].null_count == 10


async def test_new_rows_beside_old_ones_keep_what_they_are(folder):
    old_lake(folder)
    add(folder, range(10, 12), 3, UNSEALED)
    add(folder, range(12, 14), 4, Seal(is_letter=True))
    add(folder, range(14, 15), 5, COPY)
    expected = [
        (0, 5, None),
        (5, 10, None),
        (10, 12, UNSEALED),
        (12, 14, Seal(is_letter=True)),
        (14, 15, COPY),
    ]
    assert await seals(folder, 15) == expected
    # And when all of them are in one file.
    _, found = rewrites.files_of(folder)
    [what] = rewrites.plan_merges(found)
    made, _ = rewrites.rewrite(folder, what)
    rewrites.replace_files(folder, what, made, is_change=False)
    assert len(tables.open_table(folder, MESSAGES).file_uris()) == 1
    assert await seals(folder, 15) == expected


async def test_rows_of_one_commit_with_two_seals_are_two_batches(folder):
    tables.ensure_lake(folder)
    made = pa.concat_tables(
        [rows(range(3), seal=str(Seal(is_letter=True))), rows(range(3, 4), seal=str(COPY))]
    )
    written = files.write_rows(folder, MESSAGES, made, attempt="x")
    commits.add_files(folder, MESSAGES, written, app_id="log", app_version=1)
    assert await seals(folder, 4) == [(0, 3, Seal(is_letter=True)), (3, 4, COPY)]


async def test_a_seal_that_is_not_known_is_damage(folder):
    tables.ensure_lake(folder)
    written = files.write_rows(folder, MESSAGES, rows(range(3), seal="royal"), attempt="x")
    commits.add_files(folder, MESSAGES, written, app_id="log", app_version=1)
    reader = ColdReader(folder)
    try:
        with pytest.raises(FileDamaged, match="the seal 'royal' is not known"):
            await reader._load(1, 0)
    finally:
        await reader.close()


async def test_what_rows_ask_for_is_read_again(folder):
    tables.ensure_lake(folder)
    made = rows(range(3), sequence=1, seal=str(UNSEALED))
    asking = [[("fanlog-delay", "90"), ("fanlog-priority", "7")], [], [("fanlog-ttl", "5")]]
    place = made.column_names.index("attributes")
    made = made.set_column(place, "attributes", pa.array(asking, made.schema.field(place).type))
    written = files.write_rows(folder, MESSAGES, made, attempt="asking")
    commits.add_files(folder, MESSAGES, written, app_id="log", app_version=1)
    reader = ColdReader(folder)
    try:
        [batch] = await reader.read(1, 0, end=3, max_bytes=1 << 20)
    finally:
        await reader.close()
    assert batch.terms == Terms.of(
        [(0, TermKind.DELAY, 90_000), (0, TermKind.PRIORITY, 7), (2, TermKind.TTL, 5_000)]
    )
