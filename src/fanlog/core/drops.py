"""Drops: the messages of one share that its backlog policy took out, as they are remembered.

Counts by reason since the subscription was made, and the latest stretches of offsets that drops
were in. Drops that follow each other for the same reason are one stretch; beyond the bound the
oldest stretches are forgotten, and their messages are in the counts alone. Values only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyroaring import BitMap64

from fanlog import limits
from fanlog.model.resources import Offset


@dataclass(frozen=True, slots=True)
class DropStretch:
    """Messages that were dropped from one span of offsets, for one reason."""

    reason: str
    start: Offset
    end: Offset
    count: int
    first_s: float
    last_s: float


@dataclass(frozen=True, slots=True)
class Drops:
    """What was dropped of one share."""

    counts: Mapping[str, int] = field(default_factory=dict)
    #: In the order in which they began.
    stretches: tuple[DropStretch, ...] = ()
    #: Where a sample becomes another one: from that offset on, it has one of 2 to that power.
    levels: tuple[tuple[Offset, int], ...] = ()

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def with_dropped(self, now: float, reason: str, offsets: BitMap64) -> Drops:
        """As it is with some more messages dropped."""
        start, end, count = offsets.min(), offsets.max() + 1, len(offsets)
        counts = {**self.counts, reason: self.counts.get(reason, 0) + count}
        kept = list(self.stretches)
        last = kept[-1] if kept else None
        if last is not None and last.reason == reason and now - last.last_s < limits.DROP_PAUSE_S:
            kept[-1] = DropStretch(
                reason,
                min(last.start, start),
                max(last.end, end),
                last.count + count,
                last.first_s,
                now,
            )
        else:
            kept.append(DropStretch(reason, start, end, count, now, now))
        return replace(self, counts=counts, stretches=tuple(kept[-limits.DROP_STRETCHES_MAX :]))

    def among(self, offsets: BitMap64) -> int:
        """How many of some offsets were dropped, at most, as far as that is remembered."""
        found = (
            min(one.count, offsets.range_cardinality(one.start, one.end)) for one in self.stretches
        )
        return min(sum(found), len(offsets))

    def level_at(self, offset: Offset) -> int:
        """How far the message was sampled: it is one of 2 to this power."""
        found = 0
        for start, level in self.levels:
            if start > offset:
                break
            found = level
        return found

    def with_level(self, start: Offset, level: int) -> Drops:
        """As it is with everything from `start` on sampled at a level."""
        kept = [one for one in self.levels if one[0] < start]
        if (kept[-1][1] if kept else 0) != level:
            kept.append((start, level))
        return replace(self, levels=tuple(kept))

    def raised(self, start: Offset, end: Offset, level: int) -> Drops:
        """As it is with the span sampled at `level` at least."""
        edges = sorted({start, end, *(o for o, _ in self.levels)})
        found: list[tuple[Offset, int]] = []
        for edge in edges:
            was = self.level_at(edge)
            now = max(was, level) if start <= edge < end else was
            if (found[-1][1] if found else 0) != now:
                found.append((edge, now))
        return replace(self, levels=tuple(found))

    def trimmed(self, start: Offset) -> Drops:
        """As it is without levels of messages before `start`, which are all acknowledged."""
        below = [one for one in self.levels if one[0] <= start]
        if len(below) < 2:
            return self
        return replace(self, levels=self.levels[len(below) - 1 :])


def told(counts: Mapping[str, int]) -> str:
    """Counts by reason in words: `3 (age: 1, limit: 2)`."""
    parts = ", ".join(f"{reason}: {count}" for reason, count in sorted(counts.items()))
    return f"{sum(counts.values())} ({parts})"
