"""Settings that are numbers: ports, sizes, times. Each raises ValueError."""

from __future__ import annotations

import sys
from typing import TypeGuard

from fanlog import limits
from fanlog.model import durations


def read_port(value: object) -> int:
    if not _is_integer(value) or not 0 <= value <= 65_535:
        raise ValueError("must be a whole number from 0 to 65535")
    return value


def read_optional_port(value: object) -> int | None:
    if value == "off":
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if not _is_integer(value) or not 0 <= value <= 65_535:
        raise ValueError("must be a whole number from 0 to 65535, or off")
    return value


def read_size_bytes(value: object) -> int:
    if not _is_integer(value) or value < 0:
        raise ValueError("must be a whole number of bytes, 0 or more")
    return value


def read_body_bytes(value: object) -> int:
    if not _is_integer(value) or value < limits.HTTP_BYTES_MIN:
        raise ValueError(f"must be a whole number of bytes, {limits.HTTP_BYTES_MIN} or more")
    return value


def read_message_bytes(value: object) -> int:
    if not _is_integer(value) or not 1 <= value <= limits.MESSAGE_BYTES_MAX:
        raise ValueError(f"must be a whole number of bytes from 1 to {limits.MESSAGE_BYTES_MAX}")
    return value


def read_seconds(value: object) -> float:
    # An integer may be below infinity and still too large for a float.
    if not (_is_integer(value) or isinstance(value, float)) or not 0 <= value <= sys.float_info.max:
        raise ValueError("must be a number of seconds, 0 or more")
    return float(value)


def read_sample(value: object) -> int:
    if not _is_integer(value) or not 0 <= value <= limits.TRACE_SAMPLE_MAX:
        raise ValueError(f"must be a whole number from 0 to {limits.TRACE_SAMPLE_MAX}")
    return value


def read_count(value: object) -> int:
    if not _is_integer(value) or value < 0:
        raise ValueError("must be a whole number, 0 or more")
    return value


def read_topic_retention(value: object) -> float:
    try:
        seconds = durations.seconds(value) if isinstance(value, str) else read_seconds(value)
    except ValueError:
        seconds = -1.0
    if seconds and not limits.RETENTION_S_MIN <= seconds <= limits.RETENTION_S_MAX:
        raise ValueError("must be 0, or from 10m to 31d: seconds, or a text such as 7d, 12h or 30m")
    return seconds


def _is_integer(value: object) -> TypeGuard[int]:
    # A bool is an int to Python and a mistake here.
    return isinstance(value, int) and not isinstance(value, bool)
