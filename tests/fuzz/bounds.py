"""What every input must keep to, whatever a target makes of it: a time, and an amount of memory.

Time is the processor's, so that a busy machine does not fail a test; an input that waits for ever
without working is for the target to notice. Memory is what Python allocates while the target runs,
against a fixed allowance and one that grows with the input.
"""

from __future__ import annotations

import signal
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from fanlog.errors import FanlogError

#: Bytes of memory that each byte of input may cost.
MEMORY_PER_BYTE = 400


#: Longest sentence an error may have: nobody reads more, and most travel in trailers.
SENTENCE_MAX = 12_000


def refusal(error: FanlogError) -> None:
    """What any refusal must be: a sentence, and not an endless one."""
    assert 0 < len(error.message) <= SENTENCE_MAX, len(error.message)


class TooSlow(BaseException):
    """An input took too long. Not an Exception: nobody's `except` may swallow it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One fuzz target: `run` returns, or raises what is wrong with the product."""

    name: str
    run: Callable[[bytes], None]
    #: Longer inputs are not tried.
    size_max: int = 4_096
    #: Processor time one input may take. Good inputs take a thousandth of it.
    seconds_max: float = 2.0
    #: Memory one input may take, however short it is.
    memory_max: int = 2 * 1024 * 1024


def check(target: Target, data: bytes, *, slowness: float = 1.0, memory: bool = True) -> None:
    """Run one input within its bounds.

    Args:
        slowness: How much slower than usual the code runs, being instrumented.
        memory: Whether to weigh memory too, which takes about three times as long.

    Raises:
        TooSlow: It took longer than it may.
        AssertionError: It took more memory than it may, or what the target found.
    """
    if not memory:
        with _limited(target.seconds_max * slowness):
            target.run(data)
        return
    tracemalloc.start()
    try:
        with _limited(target.seconds_max * slowness * 4):
            target.run(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    allowed = target.memory_max + MEMORY_PER_BYTE * len(data)
    assert peak <= allowed, f"{peak} bytes of memory for {len(data)} of input; {allowed} allowed"


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooSlow(f"more than {seconds:g} s of processor time")

    # Not SIGALRM: pytest's own time limit has it.
    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
