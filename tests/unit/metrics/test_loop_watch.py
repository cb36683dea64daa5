"""Steps of the machine's clock."""

from __future__ import annotations

import pytest

from fanlog.broker.histogram import Histogram
from fanlog.server.metrics.loop_watch import LoopWatch


@pytest.mark.parametrize(("step_s", "count"), [(0.4, 0), (0.6, 1), (-0.6, 1), (3_600, 1)])
def test_a_step_is_counted_once(step_s, count):
    wall_s, steady_s = 1e9, 5.0
    watch = LoopWatch(wall_s=lambda: wall_s, steady_s=lambda: steady_s)
    wall_s, steady_s = wall_s + 10, steady_s + 10
    watch.look_at_clock()
    assert watch.clock_steps == 0
    wall_s += step_s
    watch.look_at_clock()
    watch.look_at_clock()
    assert watch.clock_steps == count


def test_values_that_are_no_times():
    histogram = Histogram((1.0,))
    assert histogram.observe(float("nan"), 3) == 0
    assert histogram.observe(-1.0, 2) == 0
    assert histogram.observe(2.0, 2) == 4
    assert (histogram.counts, histogram.total) == ([2, 2], 4)
