"""`grpc-timeout`: how long a caller waits for its answer."""

from __future__ import annotations

from typing import Final

_UNIT_S: Final = {b"n": 1e-9, b"u": 1e-6, b"m": 1e-3, b"S": 1.0, b"M": 60.0, b"H": 3600.0}
#: The specification's own: at most eight digits.
_DIGITS_MAX: Final = 8


def parse_timeout(text: bytes) -> float | None:
    """Seconds; None when it is no time-out."""
    digits, unit_s = text[:-1], _UNIT_S.get(text[-1:])
    if unit_s is None or not digits.isdigit() or len(digits) > _DIGITS_MAX:
        return None
    return int(digits) * unit_s


def format_timeout(seconds: float) -> bytes:
    """A time-out as it is sent: whole milliseconds, or seconds when there are too many."""
    milliseconds = max(1, round(seconds * 1e3))
    if milliseconds < 10**_DIGITS_MAX:
        return b"%dm" % milliseconds
    return b"%dS" % min(round(seconds), 10**_DIGITS_MAX - 1)
