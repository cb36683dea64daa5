"""The setting of load shedding: a pressure, from 0 to 1."""

from __future__ import annotations


def read_pressure(value: object) -> float:
    """Raises ValueError: It is no number, or not below 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < 1.0:
        raise ValueError("must be a number from 0 (off) to less than 1")
    return float(value)
