"""The bound of metrics: which topics, or subscriptions, have metrics of their own.

Every resource costs the storage of metrics a few dozen series. Where there are more than the bound,
those are kept that are largest and most active; the others have no metrics. The choice is stable:
it is made anew once in a while, and a resource that is kept goes only for one that is twice as
active. Pure: times are arguments.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Generic, TypeVar

Id = TypeVar("Id", bound=int)

#: How long a choice is good for.
CHOICE_S: Final = 60.0
#: How much of the activity of before counts beside that since the last choice: half of it is
#: forgotten after some seven choices.
_MEMORY: Final = 0.9
#: How much more active a resource must be than one that is kept, to take its place.
_LEAD: Final = 2.0


class Kept(Generic[Id]):
    """The resources of one kind that are kept. All are, up to the bound."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._members: set[Id] = set()
        #: Counts at the last choice, and what is remembered of earlier ones.
        self._counted: dict[Id, int] = {}
        self._activity: dict[Id, float] = {}
        self._chosen_s = float("-inf")
        #: Resources without metrics of their own, as of the last look.
        self.cut = 0

    def is_bounded(self, count: int) -> bool:
        """Whether so many resources are too many; if not, all are kept, and nothing is chosen."""
        self.cut = max(0, count - self._most)
        if not self.cut:
            self._members.clear()
            self._counted.clear()
            self._activity.clear()
            self._chosen_s = float("-inf")
        return bool(self.cut)

    def is_due(self, now: float) -> bool:
        """Whether a new choice is to be made."""
        return now - self._chosen_s >= CHOICE_S

    def choose(self, now: float, counts: Mapping[Id, int], sizes: Mapping[Id, int]) -> None:
        """Choose among resources: `counts` grow with what they do, `sizes` is what waits now."""
        self._chosen_s = now
        before, activity = self._counted, self._activity
        self._activity = {
            one: activity.get(one, 0.0) * _MEMORY + count - before.get(one, 0)
            for one, count in counts.items()
        }
        self._counted = dict(counts)

        def rank(one: Id) -> tuple[float, Id]:
            score = self._activity[one] + sizes.get(one, 0)
            return (-score * (_LEAD if one in self._members else 1.0), one)

        self._members = set(sorted(counts, key=rank)[: self._most])

    def members(self, present: Collection[Id]) -> Collection[Id]:
        """The resources that are kept, of those that there are."""
        if not self.cut:
            return present
        return [one for one in present if one in self._members]
