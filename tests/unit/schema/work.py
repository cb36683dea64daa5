"""How much work something is: calls of Python functions, the same number on every machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


class TooMuch(BaseException):
    """More calls than the test waits for. Not an Exception: nobody's `except` may swallow it."""


def calls(work: Callable[[], object], most: int = 2_000_000) -> int:
    """Count the calls that `work` makes, until it returns or raises what a test expects."""
    count = 0

    def seen(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"
        if count > most:
            raise TooMuch(f"more than {most} calls")

    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count
