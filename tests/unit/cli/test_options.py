"""How names, durations, times and pairs are read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from fanlog import times
from fanlog.cli import options
from fanlog.errors import InvalidArgument


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("90", 90), ("1.5", 1.5), ("250ms", 0.25), ("1m30s", 90), ("12h", 43_200),
     ("7d", 604_800), ("1d1h1m1s", 90_061)],
)  # fmt: skip
def test_durations(text, seconds):
    assert options.duration_s(text, "--x") == seconds


@pytest.mark.parametrize("text", ["", "s", "-1", "1w", "1 m", "1m30", "1e3", "inf"])
def test_bad_durations(text):
    with pytest.raises(InvalidArgument, match="--x"):
        options.duration_s(text, "--x")


def test_moments():
    noon = datetime(2025, 1, 31, 12, tzinfo=UTC)
    assert options.moment("2025-01-31T12:00:00Z", "--x") == noon
    assert options.moment("2025-01-31T14:00:00+02:00", "--x") == noon
    assert times.of_datetime(noon) == "2025-01-31T12:00:00.000000Z"


def test_a_duration_is_that_long_ago():
    before = datetime.now(UTC)
    read = options.moment("1h30m", "--x")
    assert before <= read + timedelta(minutes=90) <= datetime.now(UTC)


@pytest.mark.parametrize("text", ["", "noon", "2025-01-31", "2025-01-31T12:00:00", "-5m"])
def test_bad_moments(text):
    with pytest.raises(InvalidArgument, match="--x"):
        options.moment(text, "--x")


def test_pairs():
    assert options.pairs(["a=1", "b=", "c=x=y"], "--x") == {"a": "1", "b": "", "c": "x=y"}
    assert options.pairs(None, "--x") == {}


@pytest.mark.parametrize("texts", [["a"], ["=1"], ["a=1", "a=1"]])
def test_bad_pairs(texts):
    with pytest.raises(InvalidArgument, match="--x"):
        options.pairs(texts, "--x")


def test_names():
    assert options.topic("orders", "p") == "projects/p/topics/orders"
    assert options.topic("projects/q/topics/orders", "p") == "projects/q/topics/orders"
    assert options.subscription("billing", "p") == "projects/p/subscriptions/billing"
    assert options.snapshot("before", "p") == "projects/p/snapshots/before"


@pytest.mark.parametrize("read", [options.topic, options.subscription, options.snapshot])
@pytest.mark.parametrize("name", ["", "ab", "1abc", "googles", "a/b", "projects/p/queues/q"])
def test_bad_names(read, name):
    with pytest.raises(InvalidArgument):
        read(name, "p")


@pytest.mark.parametrize(
    ("master", "given"),
    [
        ("local[*]", {"memory": "2g", "log_level": "info"}),
        ("spark://127.0.0.1:7077", {"memory": "2g"}),
        ("sc://127.0.0.1:15002", {"memory": None, "log_level": None}),
    ],
)
def test_a_master(master, given):
    assert options.spark_master(master, **given) == master


def test_a_connect_server_has_a_driver_already():
    with pytest.raises(InvalidArgument, match=r"^--memory and --log-level: .*is the server"):
        options.spark_master("sc://127.0.0.1:15002", memory="2g", log_level="info")
