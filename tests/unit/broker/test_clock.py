"""Both clocks keep the one promise of `call_at`: never before its time."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from fanlog.broker.clock import ManualClock, SystemClock


def test_a_loop_that_calls_early_is_sent_back():
    """uvloop counts in whole milliseconds, and so calls up to one of them early."""
    clock = SystemClock()
    early_s = []

    async def wait_often():
        for _ in range(100):
            called = asyncio.get_running_loop().create_future()
            when = clock.now() + 0.0011
            clock.call_at(when, lambda called=called: called.set_result(clock.now()))
            early_s.append(when - await called)

    uvloop.run(wait_often())

    assert max(early_s) <= 0


async def test_a_cancelled_timer_does_not_call():
    clock = SystemClock()
    called = []
    timer = clock.call_at(clock.now(), lambda: called.append("cancelled"))
    timer.cancel()
    done = asyncio.get_running_loop().create_future()
    clock.call_at(clock.now() + 0.001, lambda: done.set_result(None))
    await done
    assert called == []


def test_the_manual_clock_calls_in_the_order_of_time():
    clock = ManualClock(start=100.0)
    called = []

    def note(name):
        called.append((name, clock.now()))

    clock.call_at(103.0, lambda: note("late"))
    clock.call_at(101.0, lambda: clock.call_at(102.0, lambda: note("made on the way")))
    clock.call_at(102.5, lambda: note("cancelled")).cancel()
    clock.advance(2.9)
    assert called == [("made on the way", 102.0)]
    clock.advance(0.1)
    assert called[1:] == [("late", 103.0)]
    assert clock.now() == pytest.approx(103.0)
    assert clock.wall_ns() == pytest.approx(103.0e9)
