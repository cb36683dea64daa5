"""Priorities: messages that are handed out before older ones. Soft state.

Of the messages that a consumer may have, those with the highest priority go first, and the oldest
of them before the others. So that low ones never starve, a part of each answer goes to the oldest
messages, whatever their priority (`limits.PRIORITY_FLOOR_PART`): at its end where it has room for
all, and at its beginning when the answers before it had none for them. A message with an ordering
key has no priority, and none goes past one of its key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from pyroaring import BitMap64

from fanlog.core.cursor import Range
from fanlog.core.share.backlog import AgendaView, Openness
from fanlog.core.share.packer import Packer, Slots
from fanlog.limits import OFFSET_MAX, PRIORITY_FLOOR_PART
from fanlog.model.resources import Offset


class Turns:
    """Whose turn it is on one share: that of urgent messages, or of the oldest."""

    __slots__ = ("_owed",)

    def __init__(self) -> None:
        #: Urgent messages handed out since an older one was.
        self._owed = 0

    @property
    def begins_with_oldest(self) -> bool:
        return self._owed >= PRIORITY_FLOOR_PART - 1

    def ranges(
        self, urgent: Sequence[Offset], ordinary: Sequence[Range], limit: int
    ) -> list[Range]:
        """Ranges worth reading, in the order in which `fill` takes them."""
        first: list[Range] = [(offset, offset + 1) for offset in urgent]
        if not self.begins_with_oldest:
            return [*first, *ordinary]
        oldest: list[Range] = []
        most = _part(limit)
        for start, stop in ordinary:
            if most <= 0:
                break
            oldest.append((start, min(stop, start + most)))
            most -= stop - start
        return [*oldest, *first, *ordinary]

    def fill(
        self,
        packer: Packer,
        take_urgent: Callable[[], None],
        take_ordinary: Callable[[], None],
    ) -> None:
        """Fill an answer: `take_urgent` and `take_ordinary` take as much as the packer allows."""
        limit, part = packer.limit, _part(packer.limit)
        oldest = 0
        if self.begins_with_oldest:
            packer.limit = part
            take_ordinary()
            oldest = packer.count
        packer.limit = limit if oldest or limit < PRIORITY_FLOOR_PART else limit - part
        take_urgent()
        urgent = packer.count - oldest
        packer.limit = limit
        take_ordinary()
        self._owed = 0 if packer.count > urgent else self._owed + urgent


def urgent_offsets(
    agenda: AgendaView,
    cursor: Openness,
    end: Offset,
    *,
    back: BitMap64,
    next_offset: Offset,
    withheld: Sequence[BitMap64],
    most: int,
) -> list[Offset]:
    """The urgent messages that may be handed out, the most urgent first.

    Args:
        back: Messages before `next_offset` that may be handed out.
        withheld: Messages that may not.
    """
    found: list[Offset] = []
    for bits in agenda.urgent.values():
        some = bits & back
        if bits.max() >= next_offset:
            fresh = bits.copy()
            fresh.remove_range(0, next_offset)
            fresh.remove_range(end, OFFSET_MAX + 1)
            fresh -= agenda.pending
            fresh -= cursor.acknowledged(fresh)
            some |= fresh
        for held in withheld:
            some -= held
        found += islice(some, most - len(found))
        if len(found) >= most:
            break
    return found


def in_order(views: Sequence[Slots]) -> list[Slots]:
    """Views in the order of their offsets, each once: urgent ones were read first."""
    return [view for _, view in sorted({view.base_offset: view for view in views}.items())]


def _part(limit: int) -> int:
    return max(1, limit // PRIORITY_FLOOR_PART)
