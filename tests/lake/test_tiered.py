from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fanlog.errors import Unavailable
from fanlog.lake.api import LakeBeliefs
from fanlog.lake.cold import ColdReader
from fanlog.lake.location import Location
from fanlog.lake.tiered import TieredLog
from fanlog.log.api import Bounds, Damaged, Log
from fanlog.log.memory import MemoryLog
from fanlog.model.resources import Offset, PartitionId
from fanlog.testing.archiver import Archiver
from fanlog.testing.conformance import LogConformance
from lake.logs import DAY_NS, SECOND_NS, publish, topic_of, trim


class TestTieredLog(LogConformance):
    """With an empty lake it is the engine below."""

    def make_log(self, place: Path) -> Log:
        return TieredLog(MemoryLog(), ColdReader(Location.parse(str(place / "lake"))))

    def damage(self, log: Log, place: Path, partition: PartitionId, base_offset: Offset) -> Log:
        assert isinstance(log, TieredLog)
        assert isinstance(log.hot, MemoryLog)
        values = log.hot._partitions[partition].values
        value = bytearray(values[base_offset])
        value[-1] ^= 1
        values[base_offset] = bytes(value)
        return log


class Beliefs(LakeBeliefs):
    """Of the first partition the lake has some offsets; of others none."""

    trouble = ""

    def __init__(self, bounds: Bounds, trouble: str = "") -> None:
        self._bounds = bounds
        self.trouble = trouble

    def cold_bounds(self, partition: PartitionId) -> Bounds | None:
        return self._bounds if partition == 1 else None


@pytest.fixture
async def log(folder):
    """Thirty messages, a second apart by threes; the first twenty-four archived, twelve trimmed."""
    hot = MemoryLog()
    for second in range(8):
        publish(hot, 3, time_ns=DAY_NS + second * SECOND_NS)
    await Archiver(folder, hot, topic_of).run()
    for second in range(8, 10):
        publish(hot, 3, time_ns=DAY_NS + second * SECOND_NS)
    trim(hot, 12)
    tiered = TieredLog(hot, ColdReader(folder))
    tiered.follow(Beliefs(Bounds(0, 24)))
    yield tiered
    await tiered.cold.close()


async def offsets(log: Log, start: int, end: int) -> list[int]:
    found: list[int] = []
    at = start
    while at < end:
        items = await log.read(PartitionId(1), at, max_bytes=100)
        assert items
        for item in items:
            assert not isinstance(item, Damaged)
            found += range(max(item.base_offset, at), item.end_offset)
            at = item.end_offset
    return found


async def test_both_tiers_are_one_log(log):
    assert log.bounds(PartitionId(1)) == Bounds(0, 30)
    assert log.partitions() == {1: Bounds(0, 30)}
    assert await offsets(log, 0, 30) == list(range(30))
    assert await offsets(log, 11, 30) == list(range(11, 30))


async def test_a_time_is_found_in_either_tier(log):
    for second in range(10):
        at = DAY_NS + second * SECOND_NS
        assert await log.offset_for_time(PartitionId(1), at) == second * 3
        assert await log.offset_for_time(PartitionId(1), at + 1) == second * 3 + 3


async def test_a_trim_while_reading_loses_nothing(log):
    """What is trimmed between the look at the bounds and the read comes from the lake."""
    read = log.hot.read

    async def trimmed_meanwhile(partition, offset, *, max_bytes):
        log.hot.read = read
        trim(log.hot, 24)
        return await read(partition, offset, max_bytes=max_bytes)

    log.hot.read = trimmed_meanwhile
    assert await offsets(log, 12, 30) == list(range(12, 30))
    assert log.hot.bounds(PartitionId(1)).start == 24


async def test_readers_at_once_share_what_is_read(log):
    found = await asyncio.gather(*(offsets(log, start, 30) for start in range(12)))
    assert found == [list(range(start, 30)) for start in range(12)]


async def test_a_lake_in_trouble_is_not_read(log):
    log.follow(Beliefs(Bounds(0, 24), "it is another lake"))
    with pytest.raises(Unavailable, match="another lake"):
        await log.read(PartitionId(1), 0, max_bytes=1)
    with pytest.raises(Unavailable, match="another lake"):
        await log.offset_for_time(PartitionId(1), DAY_NS)
    assert await offsets(log, 12, 30) == list(range(12, 30))


async def test_a_lake_that_has_nothing_of_a_partition_does_not_make_it_longer(log):
    log.follow(Beliefs(Bounds(0, 0)))
    assert log.bounds(PartitionId(1)) == Bounds(12, 30)
    assert await log.offset_for_time(PartitionId(1), DAY_NS) == 12
