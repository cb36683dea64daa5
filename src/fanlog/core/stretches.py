"""How many bytes a partition has between two offsets, and up to when the oldest of many lie.

A `Stretches` remembers the sizes of one partition coarsely: in *stretches* of whole batches that
follow each other, each of about `step_bytes`. Within a stretch, bytes are taken to lie evenly over
its offsets and over its time. So a partition costs a few numbers for each megabyte, and however
large it is, at most `STRETCHES_MAX` times as much.

Pure: nothing here reads a log or a clock.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from math import ceil
from typing import NamedTuple

from fanlog.model.resources import Offset

#: A partition with more stretches than these has every two of them joined.
STRETCHES_MAX = 1_024
#: Messages published within this time of each other are taken to be of one moment.
MOMENT_NS = 1_000_000_000


class StretchPiece(NamedTuple):
    """Bytes that were published between two times, both included."""

    size_bytes: float
    first_ns: int
    last_ns: int


class Stretches:
    """The sizes of one partition, from `start` on. Offsets are added at its end, and cut off."""

    __slots__ = (
        "_ends",
        "_firsts",
        "_lasts",
        "_oldest_ns",
        "_start",
        "_start_sum",
        "_step_bytes",
        "_sums",
    )

    def __init__(self, start: Offset, step_bytes: int) -> None:
        self._start = start
        self._start_sum = 0.0
        self._step_bytes = step_bytes
        #: Of each stretch: where it ends, the bytes up to there, and its first and last time.
        self._ends: list[Offset] = []
        self._sums: list[float] = []
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        #: Of the first stretch as it was added: in one that is cut, times are a guess.
        self._oldest_ns = 0

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def end(self) -> Offset:
        return self._ends[-1] if self._ends else self._start

    @property
    def oldest_ns(self) -> int | None:
        """No message is older than this; None when there is none."""
        return self._oldest_ns if self._firsts else None

    def add(self, end: Offset, size_bytes: int, first_ns: int, last_ns: int) -> None:
        """Add messages behind the last one; such as are there already are passed over."""
        if end <= self.end:
            return
        total = (self._sums[-1] if self._sums else self._start_sum) + size_bytes
        if self._ends and self._tail_bytes() < self._step_bytes:
            self._ends[-1], self._sums[-1], self._lasts[-1] = end, total, last_ns
            return
        if not self._ends:
            self._oldest_ns = first_ns
        self._ends.append(end)
        self._sums.append(total)
        self._firsts.append(first_ns)
        self._lasts.append(last_ns)
        if len(self._ends) > STRETCHES_MAX:
            self._join_pairs()

    def cut(self, before: Offset) -> None:
        """Forget the sizes of messages below an offset."""
        if before <= self._start:
            return
        gone = bisect_right(self._ends, before)
        if gone < len(self._ends):
            self._oldest_ns = self._firsts[gone] if gone else self._oldest_ns
            self._firsts[gone] = self._time_at(gone, before)
        self._start_sum = self._sum_at(before)
        self._start = before
        for column in (self._ends, self._sums, self._firsts, self._lasts):
            del column[:gone]

    def size_bytes(self, low: Offset, high: Offset) -> int:
        """Bytes of the messages from `low` to before `high`, about."""
        return max(0, round(self._sum_at(high) - self._sum_at(low)))

    def pieces(self, low: Offset, high: Offset) -> Iterator[StretchPiece]:
        """The same bytes, with their times."""
        at = bisect_right(self._ends, low)
        while at < len(self._ends) and low < high:
            end = min(self._ends[at], high)
            size_bytes = self._sum_at(end) - self._sum_at(low)
            yield StretchPiece(size_bytes, self._time_at(at, low), self._time_at(at, end))
            low = end
            at += 1

    def _tail_bytes(self) -> float:
        before = self._sums[-2] if len(self._sums) > 1 else self._start_sum
        return self._sums[-1] - before

    def _low_of(self, at: int) -> tuple[Offset, float]:
        """Where a stretch begins, and the bytes up to there."""
        return (self._ends[at - 1], self._sums[at - 1]) if at else (self._start, self._start_sum)

    def _sum_at(self, offset: Offset) -> float:
        at = bisect_left(self._ends, offset)
        if at == len(self._ends):
            return self._sums[-1] if self._sums else self._start_sum
        low, low_sum = self._low_of(at)
        if offset <= low:
            return low_sum
        return low_sum + (self._sums[at] - low_sum) * (offset - low) / (self._ends[at] - low)

    def _time_at(self, at: int, offset: Offset) -> int:
        low, _ = self._low_of(at)
        first, last = self._firsts[at], self._lasts[at]
        return first + (last - first) * (max(low, offset) - low) // (self._ends[at] - low)

    def _join_pairs(self) -> None:
        """Have half as many stretches, twice as large."""
        self._step_bytes *= 2
        # The last of an odd number has no neighbour to be joined with.
        self._firsts = self._firsts[::2]
        for name in ("_ends", "_sums", "_lasts"):
            column = getattr(self, name)
            setattr(self, name, column[1::2] + column[len(column) - len(column) % 2 :])


def cutoff_ns(pieces: Iterable[StretchPiece], size_bytes: float) -> int:
    """The time before which about so many bytes of some partitions lie, all of them together.

    With less than that in them all, a time behind the last.
    """
    # Time, change of the bytes per nanosecond from then on, bytes of that moment.
    edges: list[tuple[int, float, float]] = []
    for piece in pieces:
        span_ns = piece.last_ns + 1 - piece.first_ns
        if span_ns <= MOMENT_NS:
            edges.append((piece.last_ns + 1, 0.0, piece.size_bytes))
        else:
            rate = piece.size_bytes / span_ns
            edges.append((piece.first_ns, rate, 0.0))
            edges.append((piece.last_ns + 1, -rate, 0.0))
    edges.sort()
    at, rate, gone = 0, 0.0, 0.0
    for time_ns, change, moment_bytes in edges:
        step_bytes = rate * (time_ns - at)
        if rate > 0.0 and gone + step_bytes >= size_bytes:
            return min(time_ns, at + ceil((size_bytes - gone) / rate))
        gone += step_bytes + moment_bytes
        if gone >= size_bytes:
            return time_ns
        rate, at = rate + change, time_ns
    return at
