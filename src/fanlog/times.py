"""Times as texts: RFC 3339, both ways, for every time that enters or leaves as a text."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

#: A whole text that is a time: one pattern for Python, Arrow and other matchers of texts.
PATTERN: Final = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})"
)
#: UTC as most write it, and as Google writes it in the attributes of a dead letter.
ZULU: Final = "Z"
GOOGLE_UTC: Final = "+00:00"

_WHOLE: Final = re.compile(PATTERN)
_NS: Final = 1_000_000_000


class NoZone(ValueError):
    """A time without its offset from UTC, which may mean any of many."""


def parse(text: str) -> datetime:
    """Read a time that people or programs wrote: RFC 3339, and other forms of ISO 8601.

    Raises:
        NoZone: It does not say its offset from UTC.
        ValueError: It is not a time.
    """
    found = datetime.fromisoformat(text.upper())
    if found.tzinfo is None:
        raise NoZone(f"{text!r} has no time zone")
    return found


def parse_strict(text: str) -> datetime:
    """Read a time exactly as RFC 3339 writes it.

    Raises:
        ValueError: It is not one.
    """
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text!r} is not a time as RFC 3339 writes it")
    return parse(text)


def of_datetime(time: datetime, *, timespec: str = "microseconds") -> str:
    """Write a time in UTC; one without a zone is UTC already."""
    aware = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    return aware.replace(tzinfo=None).isoformat(timespec=timespec) + ZULU


@lru_cache(maxsize=4096)
def of_ns(time_ns: int, utc: str = ZULU) -> str:
    """Write nanoseconds since the epoch, to the millisecond; whole seconds have no fraction.

    Kept: one message goes to many endpoints.
    """
    seconds, nanos = divmod(time_ns, _NS)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{nanos // 1_000_000:03d}{utc}" if nanos else f"{text}{utc}"


@lru_cache(maxsize=4096)
def of_us(time_ns: int) -> str:
    """Write nanoseconds since the epoch, to the microsecond: in three digits where these do."""
    micros = time_ns // 1_000
    if micros % 1_000 == 0:
        return of_ns(time_ns)
    text = datetime.fromtimestamp(micros // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{micros % 1_000_000:06d}{ZULU}"
