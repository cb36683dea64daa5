"""Globs of one segment, found by their literal parts rather than tried one after the other.

A glob is text with `*` in it, each any run of characters: `us-*`, `*-eu-*`. Its literal text at the
start, at the end, and the longest part between, is its *frame*; the three lengths are its *shape*.
For each shape in use, a segment is cut into the frames of that shape that it could have, and these
are looked up. The work grows with the number of shapes, not of globs: a hundred thousand `us-…*` of
one length cost one lookup.

Only a glob with further parts between has to be tried, against those segments that have its frame.
"""

from __future__ import annotations

from typing import Generic, TypeVar

Value = TypeVar("Value")
Counted = TypeVar("Counted")

#: Lengths of the first part, of the longest part between, and of the last part.
_Shape = tuple[int, int, int]


class GlobIndex(Generic[Value]):
    """Values by glob. Not safe to share between threads."""

    __slots__ = ("_between", "_plain", "_several", "_shapes")

    def __init__(self) -> None:
        #: Globs that are nothing but their frame.
        self._plain: dict[str, Value] = {}
        #: The others: by frame, then by glob.
        self._several: dict[str, dict[str, Value]] = {}
        #: How many globs have a shape, and how many a longest part between.
        self._shapes: dict[_Shape, int] = {}
        self._between: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._shapes)

    @property
    def shapes(self) -> int:
        return len(self._shapes)

    def has_shape(self, glob: str) -> bool:
        return _frame(glob)[1] in self._shapes

    def get(self, glob: str) -> Value | None:
        frame, _, _ = _frame(glob)
        return self._plain.get(glob) if frame == glob else self._several.get(frame, {}).get(glob)

    def add(self, glob: str, value: Value) -> None:
        """Add a glob that is not there."""
        frame, shape, longest = _frame(glob)
        if frame == glob:
            assert glob not in self._plain, glob
            self._plain[glob] = value
        else:
            alike = self._several.setdefault(frame, {})
            assert glob not in alike, glob
            alike[glob] = value
        _count(self._shapes, shape, 1)
        if longest:
            _count(self._between, longest, 1)

    def remove(self, glob: str) -> None:
        """Remove a glob that is there."""
        frame, shape, longest = _frame(glob)
        if frame == glob:
            del self._plain[glob]
        else:
            alike = self._several[frame]
            del alike[glob]
            if not alike:
                del self._several[frame]
        _count(self._shapes, shape, -1)
        if longest:
            _count(self._between, longest, -1)

    def find(self, segment: str) -> list[Value]:
        """Give the values of all globs that the segment fits, each once and always in one order."""
        found = []
        for frame in self.frames(segment):
            value = self._plain.get(frame)
            if value is not None:
                found.append(value)
            if self._several:
                alike = self._several.get(frame, {}).items()
                found += [value for glob, value in alike if fits(segment, glob)]
        return found

    def frames(self, segment: str) -> list[str]:
        """Cut a segment into the frames it could have, of the shapes and parts that there are."""
        frames = []
        size = len(segment)
        for start, middle, end in self._shapes:
            stop = size - end
            last = stop - middle
            if last < start:
                continue
            first, final = segment[:start], segment[stop:]
            if not middle:
                frames.append(f"{first}*{final}")
            else:
                parts = [segment[at : at + middle] for at in range(start, last + 1)]
                between = dict.fromkeys(part for part in parts if part in self._between)
                frames += [f"{first}*{part}*{final}" for part in between]
        return frames


def fits(segment: str, glob: str) -> bool:
    """Whether a segment matches a glob. Takes every part where it first comes: no backtracking."""
    first, *between, final = glob.split("*")
    stop = len(segment) - len(final)
    if len(first) > stop or not segment.startswith(first) or not segment.endswith(final):
        return False
    at = len(first)
    for part in between:
        at = segment.find(part, at, stop)
        if at < 0:
            return False
        at += len(part)
    return True


def _frame(glob: str) -> tuple[str, _Shape, str]:
    """Give a glob's frame, its shape and the longest part between."""
    first, *between, final = glob.split("*")
    longest = max(between, key=len, default="")
    frame = f"{first}*{longest}*{final}" if longest else f"{first}*{final}"
    return frame, (len(first), len(longest), len(final)), longest


def _count(counts: dict[Counted, int], counted: Counted, change: int) -> None:
    counts[counted] = counts.get(counted, 0) + change
    if not counts[counted]:
        del counts[counted]
