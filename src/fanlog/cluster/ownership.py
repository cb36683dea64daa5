"""The rules of owning a shard. Pure: times are arguments, in seconds by a clock that never jumps.

The log is the lock. The owner appends something at least every third of a *session*, a renewal if
there is nothing else. A standby that has read to the end, has read successfully all the time, and
has seen nothing of the owner for a session, takes over.

1. The owner answers and delivers until half a session after it *sent* the last record that was
   acknowledged in order: nobody else can have owned before that moment.
2. A successor answers from a session after it read the last record of the term before: it was sent
   earlier than it was read. So two nodes never both think that they may answer, whatever pauses
   they make, as long as neither clock runs twice as fast as the other.
3. Silence of the partition itself counts as nothing: a standby that could not read begins to wait
   anew.
4. A node whose clock seems to be off leaves the shard to others, but not for ever: what it knows
   may be old, and without an owner nothing new is appended. Its take-over tells, and is given up
   at once when the clock is off.
5. An owner that leaves stops answering first, and says in the log who is next; that one need not
   wait. An owner that has not begun to answer itself, since its predecessor may still do, says
   nothing of the kind.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

#: A node whose clock is farther from the partition's does not serve, in seconds.
CLOCK_S_MAX = 5.0


@dataclass(frozen=True, slots=True)
class OwnerSession:
    """How long the owner may be silent, and all that follows from it."""

    length_s: float

    @property
    def renew_s(self) -> float:
        """The owner appends something this often."""
        return self.length_s / 3

    @property
    def answer_s(self) -> float:
        """So long after it was sent, an acknowledged record lets the owner answer."""
        return self.length_s / 2

    @property
    def rank_s(self) -> float:
        """A standby waits so much longer for each one that is before it."""
        return self.length_s / 6

    @property
    def doubt_s(self) -> float:
        """A standby whose clock seemed off waits so much longer before it looks again."""
        return 3 * self.length_s

    @property
    def disturbed_s(self) -> float:
        """A standby that has not read for so long was disturbed."""
        return self.length_s / 2


class Announced(NamedTuple):
    """A standby, by its name, and where it stands in the partition."""

    name: str
    applied_offset: int


class Seen(NamedTuple):
    """What a node knows of the shard, from what it has read."""

    #: Of the present term; negative before the first.
    term: int
    #: Name of the owner; empty before there was one.
    owner: str
    #: Name of the node that the owner left the shard to; empty for any; None while the term lasts.
    successor: str | None
    members: tuple[Announced, ...]
    applied_offset: int
    end_offset: int
    #: Whether it has all of the log.
    is_whole: bool
    #: When a record of the present term was last read.
    heard_s: float
    #: When the partition last answered a read.
    fetched_s: float
    #: How far the node's clock is ahead of the partition's; None when that is not known.
    clock_ahead_s: float | None


# The owner.


def may_answer(session: OwnerSession, *, from_s: float, renewed_s: float, now: float) -> bool:
    """Whether the owner may answer: it serves by now, and its last record is young enough."""
    return from_s <= now < renewed_s + session.answer_s


def renew_at(session: OwnerSession, *, renewed_s: float, told_s: float) -> float:
    """When the owner is to append a renewal; `told_s` is when it last named the members."""
    return min(renewed_s + session.renew_s, told_s + session.length_s)


def serve_from(session: OwnerSession, before: Seen, term: int, now: float) -> float:
    """From when on a node that has taken over answers.

    Args:
        before: What it knew when it decided to.
        term: Its own, the offset of its take-over record.
        now: After it has read that record.
    """
    if term != before.applied_offset:
        # Another node may have begun a term in between, also where the log was free.
        return now + session.length_s
    if before.term < 0 or before.successor is not None:
        return now
    # Nothing came in between: the last record of the term before is the one that it knew.
    return before.heard_s + session.length_s


# A standby.


class Vigil:
    """How long the owner of a shard has been silent, as a standby knows it.

    `look` often, several times in a session; looks that come late count as a disturbance.
    """

    def __init__(self, session: OwnerSession, name: str) -> None:
        self._session = session
        self._name = name
        self._looked_s = -math.inf
        #: Since when it has read without a disturbance; None while it is disturbed.
        self._awake_s: float | None = None
        #: A read before this moment says nothing about now.
        self._disturbed_s = -math.inf

    def look(self, seen: Seen, now: float) -> None:
        bound_s = self._session.disturbed_s
        if now - self._looked_s > bound_s or now - seen.fetched_s > bound_s:
            self._awake_s = None
            self._disturbed_s = now
        self._looked_s = now
        if self._awake_s is None and seen.fetched_s >= self._disturbed_s:
            self._awake_s = seen.fetched_s

    def obstacle(self, seen: Seen) -> str:
        """Why this node cannot own the shard, in a sentence; empty when it can."""
        if not seen.is_whole:
            return "the cache does not have all of the log yet"
        ahead_s = seen.clock_ahead_s
        if ahead_s is not None and abs(ahead_s) > CLOCK_S_MAX:
            where = "ahead of" if ahead_s > 0 else "behind"
            return (
                f"the clock of this node is {abs(ahead_s):.0f} s {where} Kafka's; at most "
                f"{CLOCK_S_MAX:g} s are allowed"
            )
        return ""

    def is_time(self, seen: Seen, now: float) -> bool:
        """Whether this node is to take over now; `look` first."""
        awake_s = self._awake_s
        if awake_s is None or seen.applied_offset < seen.end_offset or not seen.is_whole:
            return False
        rank_s = rank_of(self._name, seen) * self._session.rank_s
        since_s, wait_s = seen.heard_s, 0.0
        if self.obstacle(seen):
            since_s, wait_s = max(seen.heard_s, awake_s), self._session.doubt_s
        if seen.term < 0 or seen.successor == self._name:
            return seen.fetched_s - since_s >= wait_s
        if seen.successor == "":
            return seen.fetched_s - since_s >= wait_s + rank_s
        silent_s = seen.fetched_s - max(seen.heard_s, awake_s)
        return silent_s >= self._session.length_s + wait_s + rank_s

    def is_owner_heard(self, seen: Seen, now: float) -> bool:
        """Whether somebody owns, as far as this node can know.

        A node that cannot read knows of nobody else: calls go to the owner that it knew.
        """
        if seen.term < 0 or seen.successor is not None:
            return False
        return self._awake_s is None or now - seen.heard_s < self._session.length_s


def rank_of(name: str, seen: Seen) -> int:
    """How many standbys take over before this one: those that the owner knew to be further on.

    By the list that the owner left in the log, which all of them have read.
    """
    ranked = sorted(
        (one for one in seen.members if one.name != seen.owner),
        key=lambda one: (-one.applied_offset, one.name),
    )
    names = [one.name for one in ranked]
    return names.index(name) if name in names else len(names)
