"""Planted bugs of key slots: slots that move too early, or lose what came back."""

from __future__ import annotations

from typing import Any

from fanlog.core.assignment import GONE, Assignment
from fanlog.core.share.slotted import SlottedBacklog
from simulator.planting import mutant


@mutant(
    "a key slot moves before it is settled",
    60,
    (Assignment, "hold"),
    (Assignment, "settle"),
    needs="sticky",
)
def _(_: Any) -> Any:
    return lambda self, *args: None


@mutant(
    "leases of before a restart hold no key slot",
    150,
    (Assignment, "hold"),
    (Assignment, "settle"),
    needs="sticky exactly_once",
)
def _(verb: Any) -> Any:
    def forgetful(self: Assignment, slot: int, *args: Any) -> None:
        # What is not counted is settled all the same.
        is_known = args[:1] != (GONE,) if verb.__name__ == "hold" else self._counts[slot]
        if is_known:
            verb(self, slot, *args)

    return forgetful


@mutant(
    "what a stream held of a key slot is forgotten when it leaves",
    60,
    (Assignment, "leave"),
    needs="sticky",
)
def _(leave: Any) -> Any:
    def forgetful(self: Assignment, member: object) -> None:
        for slot, holder in enumerate(self._holders):
            if holder is member:
                self._holders[slot] = self._owners[slot] = None
                self._owned[member].discard(slot)
                count, self._counts[slot] = self._counts[slot], 0
                others = [one for one in self._owned if one is not member]
                if others:
                    self._give(slot, others[0])
                # Settled for good: what is settled later is not counted again.
                self._counts[slot] = count
                self._holders[slot] = self._owners[slot]
        leave(self, member)

    return forgetful


@mutant(
    "what came back of a key slot is not looked for",
    60,
    (SlottedBacklog, "_has_returned"),
    needs="sticky nacks",
)
def _(_: Any) -> Any:
    return lambda self, slot, cursor: False
