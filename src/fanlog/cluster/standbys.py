"""The standbys of a shard, as its owner knows them. Pure: times are arguments."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from fanlog.cluster.announcements import Announcement
from fanlog.cluster.cards import NodeCard
from fanlog.cluster.ownership import OwnerSession

#: A standby that said nothing for so many sessions is forgotten.
FORGOTTEN_SESSIONS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Standby:
    """A standby, as the owner heard from it last."""

    card: NodeCard
    applied_offset: int
    is_whole: bool
    #: Why it cannot own, in its own words; empty when it can.
    obstacle: str
    heard_s: float
    #: How far it was behind then, in seconds and in records.
    lag_s: float
    lag_records: int

    @property
    def name(self) -> str:
        return self.card.name


class Standbys:
    """The standbys that announce themselves to the owner."""

    def __init__(self, session: OwnerSession) -> None:
        self._session = session
        self._known: dict[str, Standby] = {}
        #: Where the owner stood at some times of late.
        self._places: deque[tuple[float, int]] = deque()

    def note_place(self, applied_offset: int, now: float) -> None:
        """The owner stands here now; several times in a session."""
        self._places.append((now, applied_offset))
        while self._places and now - self._places[0][0] > 10 * self._session.length_s:
            self._places.popleft()

    def announce(self, said: Announcement, now: float) -> None:
        """A standby says where it stands."""
        bound_s = FORGOTTEN_SESSIONS * self._session.length_s
        self._known = {n: one for n, one in self._known.items() if now - one.heard_s < bound_s}
        if said.is_leaving:
            self._known.pop(said.card.name, None)
            return
        place = self._places[-1][1] if self._places else said.applied_offset
        self._known[said.card.name] = Standby(
            card=said.card,
            applied_offset=said.applied_offset,
            is_whole=said.is_whole,
            obstacle=said.obstacle,
            heard_s=now,
            lag_s=self._lag_s(said.applied_offset, now),
            lag_records=max(0, place - said.applied_offset),
        )

    def present(self, now: float) -> list[Standby]:
        """Those that were heard of within a session, the furthest first."""
        bound_s = self._session.length_s
        found = [one for one in self._known.values() if now - one.heard_s < bound_s]
        return sorted(found, key=lambda one: (-one.applied_offset, one.name))

    @property
    def known(self) -> list[Standby]:
        """Those that were heard of, and may be gone."""
        return list(self._known.values())

    def successor(self, now: float) -> str:
        """The standby that is to own next: the furthest that can; empty for none."""
        ready = (one for one in self.present(now) if not self._why_not(one))
        return next((one.name for one in ready), "")

    def check_successor(self, name: str, now: float) -> str:
        """Why a standby cannot own next, in a sentence; empty when it can."""
        found = next((one for one in self.present(now) if one.name == name), None)
        if found is None:
            known = ", ".join(one.name for one in self.present(now)) or "none"
            return f"{name!r} is not a standby of this cluster just now; known are: {known}"
        return self._why_not(found)

    def _why_not(self, found: Standby) -> str:
        if not found.is_whole:
            return f"{found.name!r} has not read all of the log yet, and would hold up all calls"
        if found.obstacle:
            return f"{found.name!r} cannot own the log: {found.obstacle}"
        if found.lag_s >= self._session.length_s:
            lag = f"{found.lag_records} records behind"
            return f"{found.name!r} is {lag}, and would hold up all calls"
        return ""

    def _lag_s(self, applied_offset: int, now: float) -> float:
        """How long ago the owner went on from where a standby stands."""
        passed_s = next((at for at, place in self._places if place > applied_offset), None)
        return 0.0 if passed_s is None else now - passed_s
