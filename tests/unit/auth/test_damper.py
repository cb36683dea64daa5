"""Entries that strangers cause."""

from __future__ import annotations

from fanlog.auth.damper import WRITTEN_A_MINUTE, Damper


def test_so_many_a_minute_and_the_rest_is_counted():
    damper = Damper()
    found = [damper.take(100.0) for _ in range(WRITTEN_A_MINUTE + 7)]
    assert found == [0] * WRITTEN_A_MINUTE + [None] * 7
    # One is written again as soon as there is room for it, and says what is missing.
    assert damper.take(100.0 + 60 / WRITTEN_A_MINUTE) == 7
    assert damper.take(100.0 + 60 / WRITTEN_A_MINUTE) is None
    # A long rest makes room for a minute's worth, and no more.
    found = [damper.take(10_000.0) for _ in range(WRITTEN_A_MINUTE + 1)]
    assert found == [1, *[0] * (WRITTEN_A_MINUTE - 1), None]


def test_a_clock_that_goes_back_gives_nothing():
    damper = Damper()
    for _ in range(WRITTEN_A_MINUTE):
        damper.take(100.0)
    assert damper.take(50.0) is None
