"""The cache that is bounded by bytes."""

from __future__ import annotations

from fanlog.schema.sized_cache import SizedCache


def test_the_one_unused_for_longest_goes_first():
    kept: SizedCache[str, int] = SizedCache(100)
    for number, key in enumerate("abc"):
        kept.put(key, number, 30)
    assert kept.get("a") == 0
    kept.put("d", 3, 30)
    assert [kept.get(key) for key in "abcd"] == [0, None, 2, 3]
    assert kept.size_bytes == 90


def test_bytes_count_and_not_how_many():
    kept: SizedCache[int, int] = SizedCache(1_000)
    for number in range(100):
        kept.put(number, number, 1)
    kept.put(100, 100, 990)
    assert len(kept) == 11
    assert kept.size_bytes == 1_000


def test_what_is_too_large_is_not_kept_and_nothing_goes_for_it():
    kept: SizedCache[str, int] = SizedCache(100)
    kept.put("a", 1, 60)
    kept.put("b", 2, 101)
    assert (kept.get("a"), kept.get("b"), kept.size_bytes) == (1, None, 60)


def test_a_value_replaced_weighs_once():
    kept: SizedCache[str, int] = SizedCache(100)
    kept.put("a", 1, 60)
    kept.put("a", 2, 80)
    assert (kept.get("a"), kept.size_bytes, len(kept)) == (2, 80, 1)
