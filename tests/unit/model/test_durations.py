"""Durations as people write and read them."""

from __future__ import annotations

import pytest

from fanlog.model import durations


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("1.5", 1.5),
        ("90s", 90.0),
        ("1m30s", 90.0),
        ("12h", 43_200.0),
        ("7d", 604_800),
    ],
)
def test_read(text, seconds):
    assert durations.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "7 d", "7w", "-1s", "d", "1e3", "7days"])
def test_what_is_none(text):
    with pytest.raises(ValueError, match="must be a duration"):
        durations.seconds(text)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (604_800.0, "7 days"),
        (86_400.0, "1 day"),
        (129_600.0, "36 hours"),
        (3_600.0, "1 hour"),
        (600.0, "10 minutes"),
        (601.0, "601 seconds"),
        (1.0, "1 second"),
        (0.5, "0.5 seconds"),
        (0.0, "0 seconds"),
    ],
)
def test_in_words(seconds, words):
    assert durations.words(seconds) == words
