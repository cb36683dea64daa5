"""Bytes that wait for a peer: the oldest goes first, and a great fall is told once."""

from __future__ import annotations

from fanlog.transport.unfinished import FALL_BYTES, Unfinished


def test_the_oldest_goes_while_there_is_too_much():
    waiting: Unfinished[str] = Unfinished(100)
    waiting.put("a", 60, 1.0)
    waiting.put("b", 60, 2.0)
    # What grows keeps its place.
    waiting.put("a", 70, 3.0)
    assert waiting.excess() == "a"
    waiting.remove("a")
    assert waiting.excess() is None
    assert waiting.size_bytes == 60


def test_what_is_whole_is_never_late_and_still_counts():
    waiting: Unfinished[str] = Unfinished(100)
    waiting.put("a", 10, 1.0)
    waiting.put("b", 10, 1.0)
    waiting.whole("a", 20)
    assert waiting.late(2.0) == ["b"]
    assert waiting.size_bytes == 30
    # Its next message has a time of its own.
    waiting.put("a", 30, 5.0)
    assert waiting.late(6.0) == ["a", "b"]


def test_a_fall_is_told_once_and_only_from_a_height():
    told = []
    waiting: Unfinished[int] = Unfinished(1 << 40, lambda: told.append(waiting.size_bytes))
    waiting.put(0, FALL_BYTES - 1, 0.0)
    waiting.remove(0)
    assert told == []
    for number in range(8):
        waiting.put(number, FALL_BYTES // 4, 0.0)
    for number in range(8):
        waiting.remove(number)
    assert told == [FALL_BYTES // 2]
