"""Durations as people write and read them: `90s`, `12h`, "7 days"."""

from __future__ import annotations

import re

UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
#: A number and its unit; a duration is one or more of them.
PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")

_NUMBER = re.compile(r"\d+(\.\d+)?")
_PARTS = re.compile(f"({PART.pattern})+")
_WORDS = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def seconds(text: str) -> float:
    """Read `90`, `90s`, `1m30s`, `12h` or `7d` as seconds.

    Raises:
        ValueError: It is none of these.
    """
    if _NUMBER.fullmatch(text):
        return float(text)
    if not _PARTS.fullmatch(text):
        raise ValueError("must be a duration: 90s, 10m, 12h, 7d or seconds as a number")
    return sum(float(count) * UNITS_S[unit] for count, unit in PART.findall(text))


def words(seconds: float) -> str:
    """A duration in the largest unit that it is a whole number of, such as "7 days"."""
    for unit_s, word in _WORDS:
        if seconds and seconds % unit_s == 0:
            count = int(seconds // unit_s)
            return f"{count} {word}" if count == 1 else f"{count} {word}s"
    return f"{seconds:.15g} seconds"
