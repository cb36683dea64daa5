"""Ticks of cron expressions against a walk over every minute."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanlog.core.cron import parse_cron

ZONES = ("UTC", "America/New_York", "Australia/Lord_Howe", "America/Havana", "Asia/Kathmandu")
#: Days around which the clocks of these zones change, and some others.
DAYS = ("2024-03-09", "2024-11-02", "2024-10-05", "2024-04-06", "2024-02-28", "2023-12-30")
SPAN = 3 * 1440


def _field(low: int, high: int) -> st.SearchStrategy[str]:
    values = st.integers(low, high)
    ranges = st.tuples(values, values).map(lambda pair: f"{min(pair)}-{max(pair)}")
    steps = st.integers(1, high).map(lambda step: f"*/{step}")
    ranged = st.tuples(ranges, st.integers(1, high)).map(lambda pair: f"{pair[0]}/{pair[1]}")
    item = st.one_of(st.just("*"), values.map(str), ranges, steps, ranged)
    return st.lists(item, min_size=1, max_size=3).map(",".join)


def _values(text: str, low: int, high: int) -> set[int]:
    """The plain reading of a field."""
    found: set[int] = set()
    for item in text.split(","):
        whole, _, step = item.partition("/")
        first, _, last = whole.partition("-")
        begin, end = (low, high) if first == "*" else (int(first), int(last or first))
        found |= set(range(begin, end + 1, int(step or 1)))
    return found


def _walk(expression: str, start: int, zone: ZoneInfo) -> Iterator[int]:
    """The ticks after `start`, of all minutes one after the other."""
    minutes, hours, days, months, weekdays = expression.split()
    by_minute, by_hour = _values(minutes, 0, 59), _values(hours, 0, 23)
    by_day, by_month = _values(days, 1, 31), _values(months, 1, 12)
    by_weekday = {one % 7 for one in _values(weekdays, 0, 6)}

    def matches(local: datetime) -> bool:
        in_month, in_week = local.day in by_day, local.isoweekday() % 7 in by_weekday
        is_either = not days.startswith("*") and not weekdays.startswith("*")
        return (
            (in_month or in_week if is_either else in_month and in_week)
            and local.month in by_month
            and local.hour in by_hour
            and local.minute in by_minute
        )

    if hours.startswith("*"):
        for tick in range(start + 60, start + SPAN * 60, 60):
            if matches(datetime.fromtimestamp(tick, zone)):
                yield tick
        return
    local = datetime.fromtimestamp(start, zone).replace(tzinfo=None) - timedelta(days=1)
    found = {
        int((local + timedelta(minutes=index)).replace(tzinfo=zone).timestamp())
        for index in range(SPAN + 2880)
        if matches(local + timedelta(minutes=index))
    }
    yield from sorted(tick for tick in found if start < tick < start + SPAN * 60)


@pytest.mark.parametrize("zone_name", ZONES)
@given(
    expression=st.tuples(
        _field(0, 59), _field(0, 23), _field(1, 28), _field(1, 12), _field(0, 6)
    ).map(" ".join),
    day=st.sampled_from(DAYS),
)
def test_ticks_are_those_of_a_walk(zone_name: str, expression: str, day: str) -> None:
    zone, cron = ZoneInfo(zone_name), parse_cron(expression)
    start = int(datetime.fromisoformat(f"{day}T12:00Z").timestamp())
    end = start + SPAN * 60 - 1
    expected = list(_walk(expression, start, zone))
    assert cron.ticks_until(end, start, zone, 10**9) == expected
    found = cron.next_after(start, zone)
    for tick in expected[:50]:
        assert found == tick
        found = cron.next_after(found, zone)
    if len(expected) < 50 and found is not None:
        assert found > end
