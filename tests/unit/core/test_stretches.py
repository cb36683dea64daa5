"""Sizes of partitions in stretches, and the time before which so many bytes lie."""

from __future__ import annotations

import random

import pytest

from fanlog.core import stretches
from fanlog.core.stretches import Stretches, StretchPiece, cutoff_ns

S = 1_000_000_000


def filled(count: int, *, size: int = 10, step: int = 100, start: int = 0) -> Stretches:
    """A message a second, each of the same size."""
    found = Stretches(start, step)
    for number in range(start, start + count):
        found.add(number + 1, size, number * S, number * S)
    return found


def test_sizes_between_offsets() -> None:
    found = filled(95)
    assert len(found) == 10
    assert found.end == 95
    assert found.size_bytes(0, 95) == 950
    assert found.size_bytes(13, 17) == 40
    assert found.size_bytes(90, 1_000) == 50
    assert found.size_bytes(20, 20) == found.size_bytes(30, 20) == 0
    assert found.oldest_ns == 0


def test_nothing() -> None:
    found = Stretches(7, 100)
    assert (len(found), found.end, found.oldest_ns) == (0, 7, None)
    assert found.size_bytes(0, 100) == 0
    assert list(found.pieces(0, 100)) == []
    found.cut(20)
    assert found.end == 20
    found.add(30, 100, S, S)
    assert found.size_bytes(20, 30) == 100


def test_what_is_there_already_is_passed_over() -> None:
    found = filled(10)
    found.add(10, 1_000, 0, 0)
    found.add(5, 1_000, 0, 0)
    assert found.size_bytes(0, 10) == 100


def test_cutting_off() -> None:
    found = filled(95)
    found.cut(33)
    assert found.size_bytes(0, 95) == found.size_bytes(33, 95) == 620
    assert found.oldest_ns == 30 * S
    [first, *_] = found.pieces(0, 95)
    assert 32 * S <= first.first_ns <= 33 * S
    found.cut(10)
    assert found.size_bytes(0, 95) == 620
    found.cut(95)
    assert (len(found), found.end) == (0, 95)
    found.add(96, 10, 95 * S, 95 * S)
    assert found.size_bytes(0, 96) == 10


def test_pieces_have_the_sizes_and_the_times() -> None:
    found = filled(30, step=100)
    assert list(found.pieces(0, 30)) == [
        StretchPiece(100, 0, 9 * S),
        StretchPiece(100, 10 * S, 19 * S),
        StretchPiece(100, 20 * S, 29 * S),
    ]
    [first, last] = found.pieces(5, 15)
    assert (first.size_bytes, last.size_bytes) == (50, 50)
    assert first.last_ns == 9 * S
    assert 4 * S <= first.first_ns <= 5 * S
    assert 14 * S <= last.last_ns <= 15 * S


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "STRETCHES_MAX", 16)
    found = filled(100_000, step=10)
    assert len(found) <= 16
    assert found.size_bytes(0, 100_000) == 1_000_000
    assert found.size_bytes(25_000, 75_000) == 500_000
    assert sum(piece.size_bytes for piece in found.pieces(0, 100_000)) == pytest.approx(1_000_000)
    assert found.oldest_ns == 0


@pytest.mark.parametrize("gone", [1, 99, 100, 250, 555, 949])
def test_the_cutoff_of_one_partition(gone: int) -> None:
    found = filled(95)
    time_ns = cutoff_ns(found.pieces(0, 95), gone)
    assert time_ns / S == pytest.approx(gone / 10, abs=1.0)


def test_the_cutoff_is_behind_all_when_all_of_it_is_asked_for() -> None:
    found = filled(95)
    assert cutoff_ns(found.pieces(0, 95), 10_000) > 94 * S
    assert cutoff_ns([], 1) == 0


def test_what_is_of_one_moment_goes_together() -> None:
    pieces = [StretchPiece(1_000, 5 * S, 5 * S), StretchPiece(1_000, 7 * S, 7 * S)]
    assert cutoff_ns(pieces, 1) == 5 * S + 1
    assert cutoff_ns(pieces, 1_000) == 5 * S + 1
    assert cutoff_ns(pieces, 1_001) == 7 * S + 1


def test_many_slow_partitions_do_not_lose_more_than_asked_for() -> None:
    """Each has one stretch that lasts until now: a time is found inside of all of them."""
    pieces = [StretchPiece(1_000, 0, 1_000 * S) for _ in range(100)]
    assert cutoff_ns(pieces, 10_000) / S == pytest.approx(100, abs=1)


def test_a_slow_and_a_fast_partition_lose_what_is_older_than_one_time() -> None:
    rng = random.Random(1)
    slow = [StretchPiece(1_000, 0, 1_000_000 * S)]
    fast = [StretchPiece(1_000, n * S, (n + 10) * S) for n in range(0, 1_000_000, 10_000)]
    pieces = slow + fast
    rng.shuffle(pieces)
    time_ns = cutoff_ns(pieces, 50_500)
    gone = sum(p.size_bytes for p in fast if p.last_ns < time_ns) + time_ns / S / 1_000
    assert gone == pytest.approx(50_500, abs=1_500)
