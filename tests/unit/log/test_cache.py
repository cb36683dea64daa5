"""The cache of decoded batches stays within its bound and keeps what is used."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fanlog.log.batch import Batch
from fanlog.log.cache import BatchCache
from fanlog.model.resources import PartitionId

ONE = PartitionId(1)


def make_batch(base_offset: int, size_bytes: int = 1_000) -> Batch:
    return Batch(
        topic=1,
        partition=ONE,
        base_offset=base_offset,
        sequence=1,
        publish_time_ns=1,
        starts=[0, size_bytes],
        key_hashes=[1] if base_offset % 2 else None,
        attributes={},
        content=bytes(size_bytes),
    )


def test_least_lately_used_goes_first():
    cache = BatchCache(max_bytes=10_000)
    for base_offset in range(4):
        cache.add(make_batch(base_offset))
    assert cache.get(ONE, 0) is not None
    cache.add(make_batch(4))
    assert cache.get(ONE, 1) is None
    assert cache.get(ONE, 0) == make_batch(0)
    assert cache.get(PartitionId(2), 0) is None
    assert 0 < cache.size_bytes <= 10_000


def test_batch_larger_than_the_cache_is_not_kept():
    cache = BatchCache(max_bytes=10_000)
    cache.add(make_batch(0))
    cache.add(make_batch(1, size_bytes=20_000))
    assert cache.get(ONE, 1) is None
    assert cache.get(ONE, 0) is not None


def test_adding_twice_is_our_mistake():
    cache = BatchCache(max_bytes=10_000)
    cache.add(make_batch(0))
    with pytest.raises(AssertionError):
        cache.add(make_batch(0))


def test_a_batch_is_found_by_any_of_its_offsets():
    cache = BatchCache(max_bytes=10_000)
    for base_offset in (30, 10, 20):
        cache.add(replace(make_batch(base_offset), starts=[0, 300, 500, 1_000]))
    found = {offset: cache.find(ONE, offset) for offset in range(9, 34)}
    assert {offset: batch.base_offset for offset, batch in found.items() if batch} == {
        10: 10, 11: 10, 12: 10, 20: 20, 21: 20, 22: 20, 30: 30, 31: 30, 32: 30,
    }  # fmt: skip
    assert cache.find(PartitionId(2), 10) is None
    # Looking is using.
    assert cache.find(ONE, 31)
    for base_offset in range(40, 42):
        cache.add(make_batch(base_offset))
    assert [offset for offset in (10, 20, 30) if cache.find(ONE, offset + 1)] == [20, 30]
    for base_offset in range(50, 60):
        cache.add(make_batch(base_offset))
    assert cache.find(ONE, 31) is None
