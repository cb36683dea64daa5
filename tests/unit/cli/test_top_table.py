"""The lines of `fanlog top`, and the keys of a terminal."""

from __future__ import annotations

import pytest

from fanlog.cli.screen import read_keys
from fanlog.cli.top_table import SUBSCRIPTIONS, TOPICS, View, age, count, cut, lines, rate
from fanlog.v1 import overview_pb2 as pb


def row(name, **fields):
    return pb.SubscriptionRow(name=f"projects/p/subscriptions/{name}", **fields)


def view(*rows, **fields):
    column = SUBSCRIPTIONS.find("backlog")
    return View(SUBSCRIPTIONS, column, "h:1", "projects/p", rows, len(rows), **fields)


@pytest.mark.parametrize("width", [1, 20, 79, 200])
@pytest.mark.parametrize("height", [1, 2, 5, 24])
def test_no_wider_and_exactly_as_high_as_the_screen(width, height):
    rows = [row(f"name-{n}" * 20, backlog=10**12) for n in range(100)]
    found = lines(view(*rows), width, height)
    assert len(found) == height
    assert max(len(text) for text, _ in found) <= width


def test_numbers_of_a_row():
    one = row("billing", backlog=20_311, backlog_estimated=True, outstanding=7, consumers=2)
    one.acknowledged, one.failed, one.delivered = 0.0, 3.25, 1_234_567.0
    one.oldest_unacked_age.FromSeconds(14 * 60)
    one.pressure = 0.371
    text = next(text for text, _ in lines(view(one), 120, 10) if text.startswith("billing"))
    assert text.split() == [
        *("billing", "-", "1.2M", "0", "3.2", "~20,311", "14m", "7", "2", "37%")
    ]


def test_strangers_words_are_shown_as_text():
    sample = pb.LiveSample(problem_count=2, problems=[pb.Problem(sentence="a \x1b[2J b")])
    text = "\n".join(text for text, _ in lines(view(sample=sample), 100, 10))
    assert "\x1b" not in text
    assert "and 1 more" in text


def test_scrolling_stays_within_the_rows():
    one = view(*[row(f"r{n}") for n in range(30)])
    assert len(lines(one, 100, 16)) == 16
    one.scroll(100)
    assert one.above == 30 - one.room
    one.scroll(-100)
    assert one.above == 0


def test_the_columns_go_round():
    first = SUBSCRIPTIONS.find("name")
    assert SUBSCRIPTIONS.beside(first, -1).word == "pressure"
    # Topics have no order by their subscriptions.
    assert TOPICS.beside(TOPICS.find("total"), 1).word == "name"
    assert TOPICS.find("subscriptions") is None


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0, "0"), (0.04, "0"), (0.5, "0.5"), (9.9, "9.9"), (12.4, "12")],
)
def test_rates(value, text):
    assert rate(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (99_999, "99,999"),
        (100_000, "100.0k"),
        (999_950, "1.0M"),
        (5 * 10**9, "5.0G"),
        (7 * 10**15, "7,000.0T"),
    ],
)
def test_counts(value, text):
    assert count(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (119, "119s"), (120, "2m"), (7_199, "119m"), (7_200, "2h"), (200_000, "2d")],
)
def test_ages(seconds, text):
    assert age(seconds) == text


def test_a_long_name_loses_its_middle():
    assert cut("abcdefghij", 5) == "ab…ij"
    assert cut("abcde", 5) == "abcde"


@pytest.mark.parametrize(
    ("pressed", "keys"),
    [
        (b"q", ["q"]),
        (b"\x1b[A\x1b[B", ["up", "down"]),
        (b"\x1b", ["escape"]),
        (b"\x1b[1;5Aq", ["q"]),
        (b"\x1b[", []),
        (b"\xc3\xa4\x00a", ["a"]),
        (b"\r\x7f/", ["enter", "backspace", "/"]),
    ],
)
def test_keys(pressed, keys):
    assert read_keys(pressed) == keys
