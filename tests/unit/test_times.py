"""Times as texts, both ways."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from fanlog import times

AT = datetime(2026, 1, 2, 3, 4, 5, 600_000, tzinfo=UTC)
AT_NS = int(AT.timestamp()) * 1_000_000_000 + 600_000_000


@pytest.mark.parametrize("utc", [times.ZULU, times.GOOGLE_UTC])
def test_what_is_written_is_read(utc: str) -> None:
    text = times.of_ns(AT_NS, utc)
    assert text == f"2026-01-02T03:04:05.600{utc}"
    assert times.parse(text) == times.parse_strict(text) == AT
    assert times.parse_strict(times.of_datetime(AT)) == AT


def test_whole_seconds_have_no_fraction() -> None:
    assert times.of_ns(0) == "1970-01-01T00:00:00Z"
    assert times.of_datetime(AT.replace(microsecond=0), timespec="auto") == "2026-01-02T03:04:05Z"


def test_what_is_written_is_in_utc() -> None:
    east = AT.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert times.of_datetime(east) == times.of_datetime(AT.replace(tzinfo=None))


def test_people_may_write_less() -> None:
    assert times.parse("2026-01-02t03:04+01:00") == datetime(2026, 1, 2, 2, 4, tzinfo=UTC)
    with pytest.raises(times.NoZone):
        times.parse("2026-01-02T03:04:05")


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-02T03:04:05Z", "2026-01-02 03:04:05Z"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError):
        times.parse_strict(text)
