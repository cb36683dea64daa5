from __future__ import annotations

import shutil
from collections.abc import AsyncIterator

import pyarrow.parquet as pq
import pytest

from fanlog.errors import LakeUnavailable, Unavailable
from fanlog.lake import cold, files, tables
from fanlog.lake.api import LakeBeliefs
from fanlog.lake.cold import ColdReader
from fanlog.lake.location import Location
from fanlog.lake.tables import MESSAGES
from fanlog.log.api import Damaged
from fanlog.log.batch import Batch
from fanlog.log.memory import MemoryLog
from fanlog.testing.archiver import Archiver
from lake.logs import DAY_NS, SECOND_NS, messages, publish, topic_of


@pytest.fixture
async def reader(folder) -> AsyncIterator[ColdReader]:
    reader = ColdReader(folder)
    yield reader
    await reader.close()


async def archived(location: Location, log: MemoryLog, *, files_max: int = 1) -> None:
    await Archiver(location, log, topic_of).run(files_max=files_max)


async def read_all(reader, start: int, end: int, *, partition: int = 1, max_bytes: int = 1 << 20):
    """Messages by offset, read a piece at a time; and what is damaged."""
    found: dict[int, bytes] = {}
    damaged: list[Damaged] = []
    at = start
    while at < end:
        items = await reader.read(partition, at, end=end, max_bytes=max_bytes)
        assert items
        for item in items:
            assert item.base_offset <= at
            if isinstance(item, Damaged):
                damaged.append(item)
            else:
                found |= contents(item)
            at = item.base_offset + item.count
    return found, damaged


def contents(batch: Batch) -> dict[int, bytes]:
    return {
        batch.base_offset + index: batch.content[batch.starts[index] : batch.starts[index + 1]]
        for index in range(batch.count)
    }


async def hot(log: MemoryLog, partition: int = 1) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for item in await log.read(partition, 0, max_bytes=1 << 30):
        found |= contents(item)
    return found


async def test_what_was_archived_is_read_back_as_it_was(location):
    log = MemoryLog()
    publish(log, 3)
    publish(log, [(b"", {}, ""), (b"x" * 200, {}, "key"), (b"", {"a": ""}, "other")])
    publish(log, [(b"data", {}, "")])
    publish(log, 2, partition=7)
    await archived(location, log)
    reader = ColdReader(location)
    try:
        items = await reader.read(1, 0, end=7, max_bytes=1 << 20)
        expected = await log.read(1, 0, max_bytes=1 << 20)
        for item, original in zip(items, expected, strict=True):
            assert isinstance(item, Batch)
            assert item.content == original.content
            assert list(item.starts) == list(original.starts)
            assert item.sequence == original.sequence
            assert item.publish_time_ns == original.publish_time_ns
            hashes = original.key_hashes
            assert (item.key_hashes is None) == (hashes is None or not any(hashes))
            assert hashes is None or list(item.key_hashes or []) == list(hashes)
        found, damaged = await read_all(reader, 0, 2, partition=7)
        assert found == await hot(log, 7)
        assert not damaged
    finally:
        await reader.close()


async def test_reads_begin_anywhere_and_go_on_over_files(folder, reader, monkeypatch):
    monkeypatch.setattr(files, "ROW_GROUP_ROWS", 7)
    log = MemoryLog()
    for _ in range(4):
        publish(log, 25)
        publish(log, 3, partition=2)
        await archived(folder, log, files_max=2)
    expected = await hot(log)
    for start in (0, 1, 6, 7, 24, 25, 60, 99):
        found, damaged = await read_all(reader, start, 100, max_bytes=200)
        assert not damaged
        assert {at: found[at] for at in range(start, 100)} == {
            at: expected[at] for at in range(start, 100)
        }
    found, _ = await read_all(reader, 0, 12, partition=2)
    assert found == await hot(log, 2)


async def test_large_bodies_are_cut(folder, reader):
    log = MemoryLog()
    publish(log, [(bytes(100_000), {}, "") for _ in range(10)])
    await archived(folder, log)
    items = await reader.read(1, 0, end=10, max_bytes=1 << 30)
    assert [item.count for item in items] == [2] * 5
    assert (await read_all(reader, 0, 10))[0] == await hot(log)


async def test_what_is_kept_is_bounded(folder, monkeypatch):
    monkeypatch.setattr(files, "ROW_GROUP_ROWS", 10)
    monkeypatch.setattr(cold, "KEPT_BYTES", 5_000)
    log = MemoryLog()
    publish(log, [(bytes(200), {}, "") for _ in range(100)])
    await archived(folder, log)
    reader = ColdReader(folder)
    try:
        assert len((await read_all(reader, 0, 100, max_bytes=500))[0]) == 100
        assert reader._groups._size_bytes <= 5_000
    finally:
        await reader.close()


async def test_a_time_is_found(folder, reader, monkeypatch):
    monkeypatch.setattr(files, "ROW_GROUP_ROWS", 4)
    log = MemoryLog()
    for second in range(10):
        publish(log, 3, time_ns=DAY_NS + second * SECOND_NS)
        if second % 4 == 3:
            await archived(folder, log)
    await archived(folder, log)
    for second in range(10):
        at = DAY_NS + second * SECOND_NS
        assert await reader.offset_for_time(1, at, start=0, end=30) == second * 3
        assert await reader.offset_for_time(1, at - 1, start=0, end=30) == second * 3
        later = await reader.offset_for_time(1, at + 1, start=0, end=30)
        assert later == second * 3 + 3
    assert await reader.offset_for_time(1, DAY_NS, start=7, end=30) == 7
    assert await reader.offset_for_time(9, DAY_NS, start=0, end=30) == 30


async def test_later_versions_are_picked_up(folder, reader):
    log = MemoryLog()
    publish(log, 3)
    await archived(folder, log)
    assert len((await read_all(reader, 0, 3))[0]) == 3
    publish(log, 3)
    await archived(folder, log)
    await reader.refresh()
    assert len((await read_all(reader, 0, 6))[0]) == 6


async def test_files_that_were_replaced_are_found_again(folder, reader):
    log = MemoryLog()
    for _ in range(3):
        publish(log, 3)
        await archived(folder, log)
    await reader.refresh()
    table = tables.open_table(folder, MESSAGES)
    table.optimize.compact()
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    found, damaged = await read_all(reader, 0, 9)
    assert not damaged
    assert found == await hot(log)


def data_files(location: Location) -> list[str]:
    opened = tables.open_table(location, MESSAGES)
    return sorted(opened.file_uris())


def flip(path: str, at: int) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x10]))


async def test_a_damaged_row_group_is_named_and_its_neighbours_are_served(
    folder, reader, monkeypatch
):
    monkeypatch.setattr(files, "ROW_GROUP_ROWS", 10)
    log = MemoryLog()
    publish(log, 5, partition=2)
    publish(log, messages(30))
    await archived(folder, log)
    (path,) = data_files(folder)
    group = pq.read_metadata(path).row_group(1)
    column = next(
        group.column(n)
        for n in range(group.num_columns)
        if group.column(n).path_in_schema == "data"
    )
    flip(path, column.data_page_offset + column.total_compressed_size - 3)
    found, damaged = await read_all(reader, 0, 30)
    (one,) = damaged
    assert (one.base_offset, one.count) == (10, 10)
    assert path.rsplit("/", 1)[-1] in one.reason
    expected = await hot(log)
    assert found == {at: expected[at] for at in expected if not 10 <= at < 20}


@pytest.mark.parametrize("harm", ["cut", "footer", "empty"])
async def test_a_damaged_file_is_named_and_its_neighbours_are_served(folder, reader, harm):
    log = MemoryLog()
    paths: list[str] = []
    for _ in range(3):
        publish(log, 10)
        await archived(folder, log)
        paths += [path for path in data_files(folder) if path not in paths]
    with open(paths[1], "r+b") as file:
        size = file.seek(0, 2)
        if harm == "cut":
            file.truncate(size // 2)
        elif harm == "empty":
            file.truncate(0)
        else:
            file.seek(size - 1_000)
            file.write(b"\xff" * 900)
    found, damaged = await read_all(reader, 0, 30)
    (one,) = damaged
    assert (one.base_offset, one.count) == (10, 10)
    expected = await hot(log)
    assert found == {at: expected[at] for at in expected if not 10 <= at < 20}


async def test_a_lake_out_of_reach_is_not_a_damaged_one(folder, reader, tmp_path):
    log = MemoryLog()
    publish(log, 10)
    await archived(folder, log)
    await reader.refresh()
    (tmp_path / "lake").rename(tmp_path / "away")
    with pytest.raises(Unavailable, match="cannot be read"):
        await reader.read(1, 0, end=10, max_bytes=1)
    (tmp_path / "away").rename(tmp_path / "lake")
    assert len((await read_all(reader, 0, 10))[0]) == 10


@pytest.mark.parametrize("by", ["empty", "older"])
async def test_what_lies_in_place_of_the_lake_is_not_read(tmp_path, by):
    """Else what is in the right one would be taken for damaged, or for older than it is."""
    location, log = Location.parse(str(tmp_path / "lake")), MemoryLog()
    publish(log, 3)
    await archived(location, log)
    shutil.copytree(tmp_path / "lake", tmp_path / "older")
    tables.ensure_lake(Location.parse(str(tmp_path / "empty")))
    publish(log, 3, time_ns=DAY_NS + 10 * SECOND_NS)
    await archived(location, log)
    seen = tables.lake_id(location), tables.open_table(location, MESSAGES).version()
    reader = ColdReader(location)
    beliefs = LakeBeliefs()
    beliefs.is_right = lambda lake_id, version: lake_id == seen[0] and version >= seen[1]
    reader.follow(beliefs)
    await reader.refresh()

    (tmp_path / "lake").rename(tmp_path / "right")
    (tmp_path / by).rename(tmp_path / "lake")
    with pytest.raises(LakeUnavailable, match="another lake, or an older copy"):
        await reader.read(1, 3, end=6, max_bytes=1 << 20)
    with pytest.raises(LakeUnavailable):
        await reader.offset_for_time(1, DAY_NS + 10 * SECOND_NS, start=0, end=6)

    (tmp_path / "lake").rename(tmp_path / "gone")
    (tmp_path / "right").rename(tmp_path / "lake")
    assert (await read_all(reader, 0, 6))[0].keys() == set(range(6))
    assert await reader.offset_for_time(1, DAY_NS + 10 * SECOND_NS, start=0, end=6) == 3
    await reader.close()
