"""The one timer of all shares."""

from __future__ import annotations

from typing import Any

from fanlog.broker.clock import ManualClock
from fanlog.broker.delivery.timers import Timers


class Due:
    """As much of a share as a timer looks at."""

    def __init__(self, *deadlines: float) -> None:
        self.deadlines = list(deadlines)

    def next_deadline(self) -> float | None:
        return min(self.deadlines, default=None)


def test_shares_expire_in_order_and_are_watched_again():
    clock = ManualClock(0.0)
    expired: list[tuple[float, Any]] = []
    first, second = Due(1.0, 3.0), Due(2.0)

    def expire(share: Any) -> None:
        share.deadlines = [d for d in share.deadlines if d > clock.now()]
        expired.append((clock.now(), share))
        timers.watch(share)

    timers = Timers(clock, expire)
    for share in (second, first):
        timers.watch(share)
    clock.advance(10.0)
    assert expired == [(1.0, first), (2.0, second), (3.0, first)]


def test_a_share_that_nobody_knows_any_more_is_let_go():
    """A deleted subscription may leave back-offs behind; to ask again at once would never end."""
    clock = ManualClock(0.0)
    asked: list[Any] = []
    gone = Due(1.0)
    timers = Timers(clock, asked.append)
    timers.watch(gone)
    clock.advance(10.0)
    assert asked == [gone]
