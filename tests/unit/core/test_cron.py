"""Cron expressions: what each means, what is refused and where, and the clocks of time zones."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from fanlog.core.cron import ALIASES, parse_cron
from fanlog.errors import InvalidArgument


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def ticks(expression: str, start: str, count: int, zone: str = "UTC") -> list[str]:
    """The local times of the next ticks, each with its offset."""
    cron, tick, tz = parse_cron(expression), at(start), ZoneInfo(zone)
    found = []
    for _ in range(count):
        following = cron.next_after(tick, tz)
        assert following is not None
        # Back and forth are one.
        assert cron.last_until(following, tick, tz) == following
        assert cron.last_until(following - 1, tick, tz) is None
        tick = following
        found.append(datetime.fromtimestamp(tick, tz).isoformat(sep=" "))
    return found


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("* * * * *", ["01-01 00:01:00", "01-01 00:02:00"]),
        ("*/20 * * * *", ["01-01 00:20:00", "01-01 00:40:00", "01-01 01:00:00"]),
        ("5-59/20 * * * *", ["01-01 00:05:00", "01-01 00:25:00", "01-01 00:45:00"]),
        ("30,10,10 0 * * *", ["01-01 00:10:00", "01-01 00:30:00", "01-02 00:10:00"]),
        ("0 9-17/4 * * *", ["01-01 09:00:00", "01-01 13:00:00", "01-01 17:00:00"]),
        ("0 0 31 * *", ["01-31 00:00:00", "03-31 00:00:00", "05-31 00:00:00"]),
        ("0 0 * feb,APR *", ["02-01 00:00:00", "02-02 00:00:00"]),
        # The first of January 2024 is a Monday.
        ("0 0 * * mon-wed", ["01-02 00:00:00", "01-03 00:00:00", "01-08 00:00:00"]),
        ("0 0 * * fri-sun", ["01-05 00:00:00", "01-06 00:00:00", "01-07 00:00:00"]),
        ("0 0 * * 0", ["01-07 00:00:00", "01-14 00:00:00"]),
        ("0 0 * * 7", ["01-07 00:00:00", "01-14 00:00:00"]),
        # Either, when both are restricted; both, when one begins with a star.
        ("0 0 3 * tue", ["01-02 00:00:00", "01-03 00:00:00", "01-09 00:00:00"]),
        ("0 0 */2 * tue", ["01-09 00:00:00", "01-23 00:00:00", "02-13 00:00:00"]),
        ("0 0 3 * */2", ["02-03 00:00:00", "03-03 00:00:00"]),
        ("0 0 13 * *", ["01-13 00:00:00", "02-13 00:00:00"]),
        # Seconds come first where there are six fields.
        ("*/30 * * * * *", ["01-01 00:00:30", "01-01 00:01:00"]),
        ("5 0 12 * * *", ["01-01 12:00:05", "01-02 12:00:05"]),
        ("@hourly", ["01-01 01:00:00", "01-01 02:00:00"]),
        ("@Daily", ["01-02 00:00:00", "01-03 00:00:00"]),
        ("@weekly", ["01-07 00:00:00", "01-14 00:00:00"]),
        ("@monthly", ["02-01 00:00:00", "03-01 00:00:00"]),
        ("  0\t0  1 3 *  ", ["03-01 00:00:00"]),
    ],
)
def test_what_an_expression_means(expression: str, expected: list[str]) -> None:
    found = ticks(expression, "2024-01-01T00:00:00Z", len(expected))
    assert found == [f"2024-{one}+00:00" for one in expected]


def test_every_alias_is_an_expression() -> None:
    for alias, expression in ALIASES.items():
        assert parse_cron(alias) == parse_cron(expression)


def test_a_day_that_comes_once_in_decades() -> None:
    # 2100 has no 29th of February; and of those that are a Sunday there are few.
    assert ticks("0 0 29 2 *", "2096-03-01T00:00:00Z", 1) == ["2104-02-29 00:00:00+00:00"]
    assert ticks("0 0 29 2 */7", "2088-03-01T00:00:00Z", 1) == ["2128-02-29 00:00:00+00:00"]


def test_calendars_end() -> None:
    cron = parse_cron("0 0 1 1 *")
    assert cron.next_after(at("9989-06-01T00:00:00Z"), UTC) == at("9990-01-01T00:00:00Z")
    assert cron.next_after(at("9990-06-01T00:00:00Z"), UTC) is None
    assert cron.next_after(1e18, UTC) is None
    assert cron.last_until(1e18, 0, UTC) == at("9990-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("", "'' has 0 fields; there are five"),
        ("* * * *", "has 4 fields"),
        ("* * * * * * *", "has 7 fields"),
        ("60 * * * *", "minute, at character 1: '60' is not 0 to 59"),
        ("0 24 * * *", "hour, at character 3: '24' is not 0 to 23"),
        ("0 0 0 * *", "day of the month, at character 5: '0' is not 1 to 31"),
        ("0 0 1 13 *", "month, at character 7: '13' is not 1 to 12"),
        (
            "0 0 1 foo *",
            "month, at character 7: 'foo' is not a number from 1 to 12, nor one of JAN",
        ),
        ("0 0 * * 8", "day of the week, at character 9: '8' is not 0 to 7"),
        ("0 0 * * L", "day of the week, at character 9: 'L' is not a number"),
        ("0 0 * * mon#2", "day of the week, at character 9: 'mon#2' is not *, a value, a range"),
        ("60 0 0 * * *", "second, at character 1: '60' is not 0 to 59"),
        ("0 1,,2 * * *", "hour, at character 5: a value is missing"),
        ("0 1, * * *", "hour, at character 5: a value is missing"),
        ("0 5-2 * * *", "hour, at character 5: '5-2': the range ends before it begins"),
        ("0 1-* * * *", "hour, at character 3: '1-*' is not *, a value"),
        ("*-5 * * * *", "minute, at character 1: '*-5': a range has no *"),
        ("5/15 * * * *", "minute, at character 3: '5/15': a step needs a range, such as 5-59/15"),
        ("*/0 * * * *", "minute, at character 3: a step of 0; it is 1 to 59"),
        ("*/60 * * * *", "minute, at character 3: a step of 60; it is 1 to 59"),
        ("*/x * * * *", "minute, at character 3: 'x' is not a number"),
        ("-1 * * * *", "minute, at character 1: '-1' is not *"),
        ("\u0663 * * * *", "minute, at character 1"),
        ("1e3 * * * *", "minute, at character 1: '1e3' is not a number"),
        ("0 0 30 2 *", "never ticks: none of its months has 30 days"),
        ("0 0 31 4,jun,9,11 *", "never ticks: none of its months has 31 days"),
        ("0 0 31 2 */2", "never ticks"),
        ("@reboot", "'@reboot'; there are @yearly"),
        ("@every 5m", "there are @yearly"),
        ("0 " * 200, "400 characters; at most 256 are allowed"),
    ],
)
def test_what_is_refused_and_where(expression: str, sentence: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        parse_cron(expression)
    assert str(refused.value).startswith("cron: ")
    assert sentence in str(refused.value)


# Clocks that change: New York skips 02:00-03:00 on 10 March 2024 and has 01:00-02:00 twice on
# 3 November; Lord Howe moves by half an hour.


def test_a_time_of_the_day_in_a_gap_is_moved_behind_it() -> None:
    found = ticks("30 2 * * *", "2024-03-09T12:00:00Z", 2, "America/New_York")
    assert found == ["2024-03-10 03:30:00-04:00", "2024-03-11 02:30:00-04:00"]


def test_two_times_that_the_gap_makes_one_are_one_tick() -> None:
    found = ticks("30 2,3 * * *", "2024-03-09T12:00:00Z", 2, "America/New_York")
    assert found == ["2024-03-10 03:30:00-04:00", "2024-03-11 02:30:00-04:00"]


def test_a_time_of_the_day_that_comes_twice_is_the_first() -> None:
    found = ticks("30 1 * * *", "2024-11-02T12:00:00Z", 2, "America/New_York")
    assert found == ["2024-11-03 01:30:00-04:00", "2024-11-04 01:30:00-05:00"]


def test_a_star_for_the_hour_follows_real_time() -> None:
    found = ticks("*/30 * * * *", "2024-03-10T06:15:00Z", 3, "America/New_York")
    assert found == [
        "2024-03-10 01:30:00-05:00",
        "2024-03-10 03:00:00-04:00",
        "2024-03-10 03:30:00-04:00",
    ]
    found = ticks("0 * * * *", "2024-11-03T04:30:00Z", 3, "America/New_York")
    assert found == [
        "2024-11-03 01:00:00-04:00",
        "2024-11-03 01:00:00-05:00",
        "2024-11-03 02:00:00-05:00",
    ]


def test_a_change_by_half_an_hour() -> None:
    # 02:00 becomes 02:30 on 6 October 2024, and 02:00 becomes 01:30 on 7 April.
    found = ticks("15 2 * * *", "2024-10-05T00:00:00Z", 2, "Australia/Lord_Howe")
    assert found == ["2024-10-06 02:45:00+11:00", "2024-10-07 02:15:00+11:00"]
    found = ticks("45 1 * * *", "2024-04-06T00:00:00Z", 2, "Australia/Lord_Howe")
    assert found == ["2024-04-07 01:45:00+11:00", "2024-04-08 01:45:00+10:30"]


def test_a_midnight_that_does_not_exist() -> None:
    # Cuba's clocks go from 00:00 to 01:00.
    found = ticks("@daily", "2024-03-09T12:00:00Z", 2, "America/Havana")
    assert found == ["2024-03-10 01:00:00-04:00", "2024-03-11 00:00:00-04:00"]


def test_a_day_that_does_not_exist() -> None:
    # Samoa had no 30 December 2011.
    found = ticks("0 10 30 12 *", "2011-12-29T00:00:00Z", 2, "Pacific/Apia")
    assert found == ["2011-12-31 10:00:00+14:00", "2012-12-30 10:00:00+14:00"]
    found = ticks("0 10 * * *", "2011-12-29T00:00:00Z", 3, "Pacific/Apia")
    assert [one[:10] for one in found] == ["2011-12-29", "2011-12-31", "2012-01-01"]


def test_the_ticks_of_a_time_that_passed() -> None:
    cron, start, end = parse_cron("*/10 * * * *"), at("2024-01-01T00:00Z"), at("2024-01-01T01:05Z")
    every = [start + 600 * index for index in range(1, 7)]
    assert cron.ticks_until(end, start, UTC, 10) == every
    assert cron.ticks_until(end, start, UTC, 2) == every[-2:]
    assert cron.ticks_until(every[0], start, UTC, 2) == every[:1]
    assert cron.ticks_until(start, start, UTC, 2) == []
    assert cron.ticks_until(start - 5, start, UTC, 2) == []
