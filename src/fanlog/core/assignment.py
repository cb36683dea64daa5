"""The assignment: which member of a subscription has which key slots. Soft state.

A *member* is a consumer that stays: a stream. Each key slot has one *owner* among the members, and
one *holder* while messages of it are outstanding. A member may take messages of a slot that it owns
and that no other holds: so a slot moves only when what was outstanding of it is settled or its
lease is over, and no two members ever hold messages of one slot.

1. While there are members every slot has an owner, and no member owns two slots more than another.
2. A member that comes gets its part from those that have the most, one that leaves gives only what
   it had: no more slots change their owner than that needs.
3. Of the slots that could move, those go first that the same client had, the latest first; then
   those that the owner is waiting for itself, then those of which nothing is outstanding.

Messages may also be held by nobody that is here: by a member that left, or under a lease of before
a restart. Then the slot waits for them. The rules know no stream and no clock: members are names
to them, so that members may be on several machines.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Set
from dataclasses import dataclass
from typing import Final

Member = Hashable

#: Holds what is outstanding of consumers that the assignment never knew.
GONE: Final = object()

_NONE: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class MemberStats:
    """The key slots of one member."""

    #: Those that it takes messages of.
    slots: tuple[int, ...]
    #: Those that are to be its own, and wait until another's messages are settled.
    moving: tuple[int, ...]
    #: Messages of any slot that it holds.
    outstanding: int


class Assignment:
    """The key slots of one subscription. Not safe to share between threads."""

    __slots__ = (
        "_clients",
        "_counts",
        "_holders",
        "_last",
        "_open",
        "_owned",
        "_owners",
        "_taken",
        "_takings",
        "moves",
    )

    def __init__(self, slot_count: int) -> None:
        self._owners: list[Member | None] = [None] * slot_count
        self._holders: list[Member | None] = [None] * slot_count
        #: Messages outstanding of each slot.
        self._counts = [0] * slot_count
        #: In the order in which the members came.
        self._owned: dict[Member, set[int]] = {}
        #: The slots that each member may take messages of: owned, and not held by another.
        self._open: dict[Member, set[int]] = {}
        self._clients: dict[Member, Hashable | None] = {}
        #: The client whose member owned a slot before the present owner, and in which order slots
        #: were taken from their owners.
        self._last: list[Hashable | None] = [None] * slot_count
        self._taken = [0] * slot_count
        self._takings = 0
        #: Slots that went from one owner to another, since this was last set to 0.
        self.moves = 0

    def __len__(self) -> int:
        return len(self._owned)

    def __contains__(self, member: Member) -> bool:
        return member in self._owned

    def __iter__(self) -> Iterator[Member]:
        """The members, in the order in which they came."""
        return iter(self._owned)

    @property
    def slot_count(self) -> int:
        return len(self._owners)

    def open_to(self, member: Member) -> Set[int]:
        """The slots that a member may take messages of. Changes with the next call of any other."""
        return self._open.get(member, _NONE)

    def owner(self, slot: int) -> Member | None:
        return self._owners[slot]

    def holder(self, slot: int) -> Member | None:
        """The holder of the outstanding messages of a slot; None when there are none."""
        return self._holders[slot]

    # Members come and go.

    def join(self, member: Member, client: Hashable | None = None) -> None:
        """Give a new member its part. Members of one client like to have the same slots again."""
        assert member not in self._owned
        self._owned[member] = set()
        self._open[member] = set()
        self._clients[member] = client
        if len(self._owned) == 1:
            for slot in range(self.slot_count):
                self._give(slot, member)
            return
        for _ in range(self.slot_count // len(self._owned)):
            # The first of those with the most: the one that has been here longest.
            donor = max(self._owned, key=lambda one: len(self._owned[one]))
            slot = min(self._owned[donor], key=lambda slot: self._reluctance(slot, member))
            self._take_away(slot)
            self._give(slot, member)
            self.moves += 1

    def leave(self, member: Member) -> None:
        """Give what a member had to those that have the least. What it holds stays held."""
        if member not in self._owned:
            return
        slots = sorted(self._owned[member])
        for slot in slots:
            self._take_away(slot)
        del self._owned[member], self._open[member], self._clients[member]
        if not self._owned:
            return
        # Slots that a member is still holding may go back to it, so those choose first.
        for slot in sorted(slots, key=lambda slot: (self._holders[slot] not in self._owned, slot)):
            holder = self._holders[slot]
            receiver = min(self._owned, key=lambda one: (len(self._owned[one]), one is not holder))
            self._give(slot, receiver)
            self.moves += 1

    # Messages come and go.

    def hold(self, slot: int, holder: Member, count: int = 1) -> None:
        """Messages of a slot are leased to `holder`, who may take them; or were before a start."""
        if self._counts[slot] and self._holders[slot] is not holder:
            # Leases of before a start may have been of several consumers, all of them gone.
            assert holder is GONE
        elif self._counts[slot] == 0:
            assert holder is GONE or slot in self.open_to(holder)
        self._counts[slot] += count
        self._holders[slot] = holder
        owner = self._owners[slot]
        if owner is not None and owner is not holder:
            self._open[owner].discard(slot)

    def settle(self, slot: int, count: int = 1) -> None:
        """Messages of a slot are not outstanding any more."""
        self._counts[slot] -= count
        assert self._counts[slot] >= 0
        if self._counts[slot] == 0:
            self._holders[slot] = None
            owner = self._owners[slot]
            if owner is not None:
                self._open[owner].add(slot)

    # Looking.

    def stats(self, member: Member) -> MemberStats:
        open_slots = self._open[member]
        held = [
            n for n, holder in zip(self._counts, self._holders, strict=True) if holder is member
        ]
        return MemberStats(
            slots=tuple(sorted(open_slots)),
            moving=tuple(sorted(self._owned[member] - open_slots)),
            outstanding=sum(held),
        )

    # Private.

    def _reluctance(self, slot: int, taker: Member) -> tuple[int, int, int]:
        client = self._clients[taker]
        if client is not None and self._last[slot] == client:
            return 0, -self._taken[slot], slot
        if self._counts[slot] == 0:
            return 2, 0, slot
        return 1 if self._holders[slot] is not self._owners[slot] else 3, 0, slot

    def _take_away(self, slot: int) -> None:
        owner = self._owners[slot]
        assert owner is not None
        self._owned[owner].discard(slot)
        self._open[owner].discard(slot)
        self._last[slot] = self._clients[owner]
        self._takings += 1
        self._taken[slot] = self._takings
        self._owners[slot] = None

    def _give(self, slot: int, member: Member) -> None:
        self._owners[slot] = member
        self._owned[member].add(slot)
        if self._counts[slot] == 0 or self._holders[slot] is member:
            self._open[member].add(slot)
