"""The members of one subscription with key slots: its streams, while its feed is open. Soft state.

The rules are in `fanlog.core.assignment`; here streams join them and leave, and the shares of the
subscription tell what they lease.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from fanlog.core.assignment import GONE, Assignment, MemberStats
from fanlog.core.flow import Credit
from fanlog.core.share import Share


@dataclass(frozen=True, slots=True)
class About:
    """A stream as it is shown."""

    #: Empty if the client does not say one.
    client_id: str = ""
    address: str = ""
    #: Empty on a server that does not authenticate.
    principal: str = ""
    since_s: float = 0.0


class Members:
    """The members of one subscription and their key slots. Lives on the loop."""

    def __init__(
        self, slot_count: int, shares: Iterable[Share], count_moves: Callable[[int], None]
    ) -> None:
        self._assignment = Assignment(slot_count)
        self._about: dict[Credit, About] = {}
        self._count_moves = count_moves
        for share in shares:
            self.add(share)

    def __len__(self) -> int:
        return len(self._about)

    def add(self, share: Share) -> None:
        """Have a share tell what it leases, and ask who may have it."""
        assert share.slots is not None
        share.slots.join(self._assignment)

    def join(self, consumer: Credit, about: About) -> None:
        """Give a consumer its key slots."""
        self._about[consumer] = about
        self._assignment.join(consumer, about.client_id or None)
        self._tell()

    def leave(self, consumer: Credit) -> bool:
        """Give the key slots of a consumer to others; False if it has left before."""
        if self._about.pop(consumer, None) is None:
            return False
        self._assignment.leave(consumer)
        self._tell()
        return True

    def shown(self) -> Iterator[tuple[About, MemberStats]]:
        """Every member, in the order in which they came."""
        for consumer, about in self._about.items():
            yield about, self._assignment.stats(consumer)

    def holder_is_gone(self, slot: int) -> bool:
        """Whether messages of a slot are outstanding, and of no member."""
        holder = self._assignment.holder(slot)
        return holder is GONE or (holder is not None and holder not in self._assignment)

    def _tell(self) -> None:
        moves, self._assignment.moves = self._assignment.moves, 0
        self._count_moves(moves)


def slots_left(shares: Iterable[Share], members: Members | None) -> list[int]:
    """The slots of a subscription whose messages are held by consumers that have left."""
    held = {slot for share in shares if share.slots is not None for slot in share.slots.held}
    return sorted(slot for slot in held if members is None or members.holder_is_gone(slot))
