"""Pauses between takes: where they gain something, and hardly where they do not."""

from __future__ import annotations

from fanlog.in_process.flow_pace import PAUSE_S, FlowPace


def paused(pace: FlowPace, takes: int, *, apart_s: float, after_pause: int, count: int = 1) -> int:
    """How many pauses there are in so many takes; `after_pause` messages come in each."""
    now, pauses, has_paused = 100.0, 0, False
    for _ in range(takes):
        pause_s = pace.pause_s(now, after_pause if has_paused else count)
        has_paused = bool(pause_s)
        pauses += has_paused
        now += apart_s + pause_s
    return pauses


def test_single_messages_far_apart_never_wait():
    assert paused(FlowPace(), 1_000, apart_s=0.01, after_pause=1) == 0


def test_large_takes_never_wait():
    assert paused(FlowPace(), 1_000, apart_s=0.0001, after_pause=100, count=100) == 0


def test_single_messages_close_together_come_several_at_once():
    assert paused(FlowPace(), 1_000, apart_s=0.0001, after_pause=10) > 900


def test_where_a_pause_gains_nothing_it_is_hardly_tried():
    # Each message is published by the callback of the one before.
    assert paused(FlowPace(), 10_000, apart_s=0.0001, after_pause=1) < 12


def test_a_pause_is_short():
    assert PAUSE_S <= 0.002
