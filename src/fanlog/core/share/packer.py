"""The packer: fills one answer with runs of offsets, up to its budget. Soft state."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Protocol

from fanlog.core.flow import Credit, LeaseBudget
from fanlog.core.share.lease import LeasedRun
from fanlog.model.resources import Offset


class Slots(Protocol):
    """A batch as the core sees it: where its messages start, and the hashes of their keys."""

    @property
    def base_offset(self) -> Offset: ...
    @property
    def end_offset(self) -> Offset: ...
    @property
    def starts(self) -> Sequence[int]: ...
    @property
    def key_hashes(self) -> Sequence[int] | None: ...


class OffsetSet(Protocol):
    """Offsets of which only membership is known."""

    def __contains__(self, offset: Offset) -> bool: ...


class Packer:
    """Fills one answer to one consumer."""

    __slots__ = ("_budget", "consumer", "count", "limit", "runs", "size_bytes")

    def __init__(self, budget: LeaseBudget, consumer: Credit) -> None:
        self._budget = budget
        self.consumer = consumer
        #: Messages that the whole answer may hold.
        self.limit = budget.messages
        self.runs: list[LeasedRun] = []
        self.count = 0
        self.size_bytes = 0

    @property
    def is_full(self) -> bool:
        return self.count >= self.limit

    def add(self, slots: Slots, start: Offset, end: Offset) -> Offset:
        """Take offsets from `start` on, at most to `end`; return where the budget ended."""
        starts, base = slots.starts, slots.base_offset
        first = start - base
        count = min(end - start, self.limit - self.count)
        # `starts` ascends, so that one bisection finds how many messages the bytes allow: a batch
        # costs the same whether it has one message or a thousand.
        last_byte = starts[first] + self._budget.size_bytes - self.size_bytes
        fitting = bisect_right(starts, last_byte, first, first + count + 1) - 1 - first
        if fitting <= 0:
            if count <= 0 or not self._takes_first(starts[first + 1] - starts[first]):
                return start
            fitting = 1
        run = LeasedRun(start, start + fitting, base, starts)
        previous = self.runs[-1] if self.runs else None
        # Neighbours are framed together: one run for consecutive messages of a batch.
        if previous is not None and previous.end == start and previous.starts is starts:
            run = LeasedRun(previous.start, run.end, base, starts)
            self.size_bytes -= previous.size_bytes
            self.runs.pop()
        self.runs.append(run)
        self.count += fitting
        self.size_bytes += run.size_bytes
        return start + fitting

    def leave_out(self, unwanted: OffsetSet) -> list[Offset]:
        """Take the `unwanted` offsets out of the answer again; return them."""
        kept: list[LeasedRun] = []
        left_out: list[Offset] = []
        for run in self.runs:
            start = run.start
            for offset in range(run.start, run.end):
                if offset in unwanted:
                    left_out.append(offset)
                    if offset > start:
                        kept.append(LeasedRun(start, offset, run.base, run.starts))
                    start = offset + 1
            if run.end > start:
                kept.append(LeasedRun(start, run.end, run.base, run.starts))
        self.runs = kept
        return left_out

    def _takes_first(self, size_bytes: int) -> bool:
        """Whether a message too large for the answer goes out all the same, as its first."""
        if self.count > 0:
            return False
        return self._budget.at_least_one or size_bytes <= self._budget.first_bytes
