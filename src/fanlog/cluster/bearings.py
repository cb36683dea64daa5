"""The bearings of a node: which node owns the shard, as far as it can know, and where calls go."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from typing import Protocol, TypeVar

from fanlog.cluster.announcements import KnownOwner
from fanlog.cluster.cards import NodeCard
from fanlog.cluster.ownership import Announced, OwnerSession, Seen, Vigil
from fanlog.log.replicated.api import Standing

log = logging.getLogger("fanlog.cluster")

Backend = TypeVar("Backend", contravariant=True)


class Switch(Protocol[Backend]):
    """Where calls go; see `fanlog.cluster.gateway`."""

    def serve_locally(self, backend: Backend, /) -> None: ...
    def forward_to(self, card: NodeCard, /) -> None: ...
    def hold(self, *, ends_streams: bool = False) -> None: ...


class Pointing(Protocol):
    """A switch, as far as a node that does not own turns it."""

    def forward_to(self, card: NodeCard, /) -> None: ...
    def hold(self, *, ends_streams: bool = False) -> None: ...


class Bearings:
    """Lives on the loop. `look` several times in a session while this node follows."""

    def __init__(
        self,
        card: NodeCard,
        session: OwnerSession,
        switch: Pointing,
        *,
        standing: Callable[[], Standing],
        boottime_s: Callable[[], float],
    ) -> None:
        self._card = card
        self._session = session
        #: When this node had read to the end for the first time.
        self._caught_up_s = math.inf
        self._switch = switch
        self._standing = standing
        self._boottime_s = boottime_s
        self.vigil = Vigil(session, card.name)
        #: The owner that other nodes know of, where this one cannot read the log.
        self._told = KnownOwner(term=-1, card=None)
        #: Where calls go: another node; None for this one, and for nowhere.
        self.target: NodeCard | None = None
        #: Since when calls wait; None while they need not.
        self.holding_since_s: float | None = None
        #: Set while calls have somewhere to go.
        self.reachable = asyncio.Event()
        self.hold()

    def look(self) -> Seen:
        """Read the log's standing, and send calls to its owner, or let them wait."""
        seen, now = self.seen(), self._boottime_s()
        self.vigil.look(seen, now)
        if self._caught_up_s == math.inf and not is_behind(seen):
            self._caught_up_s = now
        owner = self.known_owner(seen)
        is_there = owner.term > seen.term or self.vigil.is_owner_heard(seen, now)
        if owner.card is None or not is_there or owner.card.name == self._card.name:
            self.hold()
        elif owner.card != self.target:
            log.info("action=forward_to node=%s term=%d", owner.card.name, owner.term)
            self.target, self.holding_since_s = owner.card, None
            self._switch.forward_to(owner.card)
            self.reachable.set()
        return seen

    def hold(self, *, ends_streams: bool = False) -> None:
        """Let calls wait; streams end where the backend that they belong to is over."""
        if self.holding_since_s is None:
            self.target, self.holding_since_s = None, self._boottime_s()
            self.reachable.clear()
            self._switch.hold(ends_streams=ends_streams)

    def note_served_here(self) -> None:
        """Calls are served by this node from now on."""
        self.target = self.holding_since_s = None
        self.reachable.set()

    @property
    def has_twin(self) -> bool:
        """Whether an owner that is heard has this node's name, and is none of its earlier lives."""
        seen = self.seen()
        owner = self.known_owner(seen).card
        return (
            owner is not None
            and owner.name == self._card.name
            and owner != self._card
            and seen.heard_s > self._caught_up_s + self._session.answer_s
        )

    def learn(self, known: KnownOwner) -> None:
        """Another node knows of a term."""
        if known.term > self._told.term:
            self._told = known

    @property
    def is_deposed(self) -> bool:
        """Whether other nodes know of a later term than the log has told this one."""
        return self._told.term > self._standing().term

    def known_owner(self, seen: Seen | None = None) -> KnownOwner:
        """By the log, or by other nodes where those know of a later term."""
        found = seen or self.seen()
        if self._told.term > found.term:
            return self._told
        card = None
        if found.term >= 0 and found.successor is None:
            card = read_card(self._standing().owner)
        return KnownOwner(term=found.term, card=card)

    def seen(self) -> Seen:
        """The standing of the log, with names for cards."""
        found = self._standing()
        return Seen(
            term=found.term,
            owner=_name_of(found.owner),
            successor=found.successor,
            members=tuple(
                Announced(_name_of(one.card), one.applied_offset) for one in found.members
            ),
            applied_offset=found.applied_offset,
            end_offset=found.end_offset,
            is_whole=found.is_whole,
            heard_s=found.heard_s,
            fetched_s=found.fetched_s,
            clock_ahead_s=found.clock_ahead_s,
        )


def is_behind(seen: Seen) -> bool:
    """Whether a node has not read to the end yet."""
    return seen.fetched_s == -math.inf or seen.applied_offset < seen.end_offset


def read_card(raw: bytes | None) -> NodeCard | None:
    """The card of a node; None for none, and for one that cannot be read."""
    if raw is None:
        return None
    try:
        return NodeCard.from_bytes(raw)
    except ValueError:
        return None


def _name_of(raw: bytes | None) -> str:
    card = read_card(raw)
    return "" if card is None else card.name
