"""Globs of one segment, found by what they are made of rather than tried one after the other.

A glob is text with `*` in it, each any run of characters: `us-*`, `*-eu-*`. What is literal at its
start, at its end, and the longest part between, is its frame; the three lengths are its shape. For
each shape that is there, a segment is cut into the frames of that shape that it could have, and
these are looked up. The work grows with the number of shapes, not of globs: a hundred thousand
`us-…*` of one length cost one lookup.

Only a glob with further parts between has to be tried, against those segments that have its frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

Value = TypeVar("Value")

#: Lengths of what stands first, of the longest part between, and of what stands last.
_Shape = tuple[int, int, int]


class GlobIndex(Generic[Value]):
    """Values by glob. Not safe to share between threads."""

    __slots__ = ("_plain", "_several", "_shapes")

    def __init__(self) -> None:
        #: Globs that are nothing but their frame.
        self._plain: dict[str, Value] = {}
        #: The others: by frame, then by glob.
        self._several: dict[str, dict[str, Value]] = {}
        #: How many globs have a shape.
        self._shapes: dict[_Shape, int] = {}

    def __bool__(self) -> bool:
        return bool(self._shapes)

    def get(self, glob: str) -> Value | None:
        frame, _ = _frame(glob)
        return self._plain.get(glob) if frame == glob else self._several.get(frame, {}).get(glob)

    def add(self, glob: str, value: Value) -> None:
        """Add a glob that is not there."""
        frame, shape = _frame(glob)
        if frame == glob:
            assert glob not in self._plain, glob
            self._plain[glob] = value
        else:
            alike = self._several.setdefault(frame, {})
            assert glob not in alike, glob
            alike[glob] = value
        self._shapes[shape] = self._shapes.get(shape, 0) + 1

    def remove(self, glob: str) -> None:
        """Remove a glob that is there."""
        frame, shape = _frame(glob)
        if frame == glob:
            del self._plain[glob]
        else:
            alike = self._several[frame]
            del alike[glob]
            if not alike:
                del self._several[frame]
        self._shapes[shape] -= 1
        if not self._shapes[shape]:
            del self._shapes[shape]

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

    def frames(self, segment: str) -> Iterator[str]:
        """Cut a segment into the frames it could have, of the shapes that there are."""
        for start, middle, end in self._shapes:
            stop = len(segment) - end
            last = stop - middle
            if last < start:
                continue
            first, final = segment[:start], segment[stop:]
            if not middle:
                yield f"{first}*{final}"
            else:
                between = [segment[at : at + middle] for at in range(start, last + 1)]
                for part in dict.fromkeys(between):
                    yield f"{first}*{part}*{final}"


def fits(segment: str, glob: str) -> bool:
    """Whether a segment is what a glob says. Takes every part where it first comes: never back."""
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


def _frame(glob: str) -> tuple[str, _Shape]:
    first, *between, final = glob.split("*")
    longest = max(between, key=len, default="")
    frame = f"{first}*{longest}*{final}" if longest else f"{first}*{final}"
    return frame, (len(first), len(longest), len(final))
