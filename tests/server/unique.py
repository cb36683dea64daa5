"""Names that no other test has.

A module of its own: `conftest.py` is loaded twice, by pytest and by those who import it, and two
counters would give the same name twice.
"""

from __future__ import annotations

import itertools

_numbers = itertools.count(1)


def unique(prefix: str) -> str:
    return f"{prefix}-{next(_numbers)}"
