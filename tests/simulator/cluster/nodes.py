"""A node of the world: the product's log, follower, renewals and rules; what joins them is here.

It does what `fanlog.cluster.node` and `fanlog.cluster.term` do, on threads that take turns instead
of a loop. Its writer stands for the broker of a term.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from fanlog.cluster import ownership
from fanlog.cluster.announcements import Announcement
from fanlog.cluster.bearings import Bearings
from fanlog.cluster.cards import NodeCard
from fanlog.cluster.node import LOOKS
from fanlog.cluster.ownership import Seen
from fanlog.cluster.renewing import Renewer
from fanlog.cluster.standbys import Standbys
from fanlog.log.replicated.api import Member
from simulator.cluster.machines import Machine
from simulator.cluster.turns import Turn
from simulator.cluster.writers import Writer

if TYPE_CHECKING:
    from simulator.cluster.writing import WritingWorld

#: How long a stopped writer is waited for at a time.
_TICK_S = 0.02


class Nowhere:
    """Where calls go is not looked at."""

    def forward_to(self, card: NodeCard) -> None:
        pass

    def hold(self, *, ends_streams: bool = False) -> None:
        pass


class SimNode(Machine):
    """A node with a writer, which does what nodes do on a thread."""

    def __init__(self, world: WritingWorld, name: str, place: Path) -> None:
        self.writing_world = world
        super().__init__(world, name, place)

    def _reset(self) -> None:
        super()._reset()
        self.bearings = Bearings(
            self.card,
            self.session,
            Nowhere(),
            standing=lambda: self.engine.standing,
            boottime_s=self.clock.boottime_s,
        )
        self.standbys = Standbys(self.session)
        self.serve_from_s = math.inf
        #: Whether it is to try to own, whatever the rules say; and to whom it is to hand over.
        self.is_rival = False
        self.successor: str | None = None
        self._rest_until_s = -math.inf
        self._renewer: Renewer | None = None
        self.writer: Writer | None = None

    def oust(self) -> None:
        self.is_rival = True

    def move(self) -> None:
        if self.owns:
            self.successor = self.standbys.successor(self.clock.boottime_s())

    @property
    def may_answer(self) -> bool:
        """As `OwnerTenure.is_sure`."""
        return self.owns and ownership.may_answer(
            self.session,
            from_s=self.serve_from_s,
            renewed_s=self.engine.standing.renewed_s,
            now=self.clock.answer_s(),
        )

    # The life of a process.

    def _run(self) -> None:
        while True:
            self.engine.start_following()
            before = self._follow()
            if before is not None:
                self._own(before)

    def _follow(self) -> Seen | None:
        while True:
            standing, now = self.engine.standing, self.clock.boottime_s()
            seen = self.bearings.look()
            if standing.role == "failed":
                self.world.accuse(f"following: {self.name} failed: {standing.sentence}")
                self.world.turns.sleep(math.inf)
            self._announce(seen)
            vigil = self.bearings.vigil
            if self.is_rival and vigil.obstacle(seen) == "":
                self.is_rival = False
                return self._take_over(seen, is_rival=True)
            if now >= self._rest_until_s and vigil.is_time(seen, now):
                return self._take_over(seen, is_rival=False)
            self.world.turns.sleep(self.session.length_s / LOOKS)

    def _take_over(self, before: Seen, *, is_rival: bool) -> Seen | None:
        self._join_renewer()
        self.bearings.hold()
        self.world.judge.note_decision(self, before, is_rival=is_rival)
        is_ours = self.engine.take_over()
        if not is_ours or not self.owns:
            self._rest_until_s = self.clock.boottime_s() + self.session.length_s / 3
            return None
        self.successor = None
        # A rival has not waited for the owner's silence.
        known = before._replace(applied_offset=-1) if is_rival else before
        self.serve_from_s = ownership.serve_from(
            self.session, known, self.engine.standing.term, self.clock.boottime_s()
        )
        self.world.judge.note_term(self)
        return before

    def _own(self, before: Seen) -> None:
        clock, engine = self.clock, self.engine
        renewer = self._renewer = Renewer(
            self.session,
            standing=lambda: engine.standing,
            renew=engine.renew,
            boottime_s=clock.boottime_s,
            on_renewed=lambda: None,
        )
        renewer.start()
        writer = self.writer = Writer(self)
        thread = Turn(self.world.turns, writer.run, self)
        self.threads.append(thread)
        thread.start()
        while self._goes_on(writer):
            self._look(renewer)
            self.world.turns.sleep(self.session.length_s / LOOKS)
        has_begun = clock.boottime_s() >= self.serve_from_s
        self.serve_from_s = math.inf
        renewer.stop()
        writer.is_ending = True
        while not thread.is_over:
            self.world.turns.sleep(_TICK_S)
        self.writer = None
        if engine.standing.role == "owning":
            if has_begun:
                engine.hand_over(self.successor or "")
            engine.step_down()
            self._rest_until_s = clock.boottime_s() + self.session.length_s
        self._join_renewer()

    def _goes_on(self, writer: Writer) -> bool:
        return self.owns and self.successor is None and not writer.is_lost

    def _look(self, renewer: Renewer) -> None:
        now = self.clock.boottime_s()
        renewer.tell_alive()
        self.standbys.note_place(self.engine.standing.applied_offset, now)
        renewer.tell_members(
            [Member(one.card.to_bytes(), one.applied_offset) for one in self.standbys.present(now)]
        )
        if self.bearings.is_deposed:
            self.engine.step_down()

    def _join_renewer(self) -> None:
        renewer, self._renewer = self._renewer, None
        if renewer is not None:
            renewer.stop()
            renewer.join()

    def _announce(self, seen: Seen) -> None:
        """Tell the owner of this node, and learn from it, if both are to be reached."""
        owner = self.bearings.known_owner(seen).card
        if owner is None or owner.name == self.name:
            return
        said = Announcement(
            card=self.card,
            applied_offset=seen.applied_offset,
            is_whole=seen.is_whole,
            obstacle=self.bearings.vigil.obstacle(seen),
        )
        other = self.world.nodes[owner.name]
        assert isinstance(other, SimNode)

        def arrive() -> None:
            if self.is_alive and other.is_alive and not self.is_apart(other):
                other.standbys.announce(said, other.clock.boottime_s())
                self.bearings.learn(other.bearings.known_owner())

        self.world.turns.after(self.world.temper.trip_s, arrive)
