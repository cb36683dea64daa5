"""The life of a node: it follows the shard's log, owns it for a term, and follows again.

    following ──► taking over ──► owning ──► following
        ▲              │                         │
        └──────────────┴─────────────────────────┘

While it follows, calls go to the owner. When the owner has been silent for a session, or has left
the shard to this node, the node takes over: it builds the shard's broker on the log and serves. It
gives the shard up when its term is over, when it is told to move it, and before it ends. The rules
are in `fanlog.cluster.ownership`, a term is in `fanlog.cluster.term`.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Generic, Literal, TypeVar

from fanlog.cluster.announcements import Announcement, KnownOwner
from fanlog.cluster.bearings import Bearings, Switch, is_behind
from fanlog.cluster.cards import NodeCard
from fanlog.cluster.herald import Herald, Peers
from fanlog.cluster.ownership import OwnerSession, Seen, serve_from
from fanlog.cluster.renewing import Renewer
from fanlog.cluster.standbys import Standbys
from fanlog.cluster.tenure import OwnerTenure
from fanlog.cluster.term import OpenShard, OwnerTerm, Shard, pause
from fanlog.cluster.troubles import NO_TROUBLE, NodeTrouble, NodeTroubles
from fanlog.errors import FailedPrecondition
from fanlog.log.replicated.api import ReplicaClock, ReplicatedEngine, Standing

log = logging.getLogger("fanlog.cluster")

T = TypeVar("T")

#: Looks at the log in each session.
LOOKS: Final = 24
#: After a term in which the shard could not be served here, other nodes have so many sessions.
REST_SESSIONS: Final = 5

#: `starting`: it has not read all of the log yet; `failed`: it cannot follow, and says why.
Part = Literal["starting", "standby", "taking over", "owner", "failed"]


class ClusterNode(Generic[Shard]):
    """Lives on the loop. `await run()` it; `leave` ends that gently."""

    def __init__(
        self,
        engine: ReplicatedEngine,
        card: NodeCard,
        session: OwnerSession,
        clock: ReplicaClock,
        *,
        switch: Switch[Shard],
        peers: Peers,
        open_shard: OpenShard[Shard],
        changed: asyncio.Event,
        hold_s: float,
    ) -> None:
        """`changed` is set whenever the engine's role or term changes; calls wait for `hold_s`."""
        self._engine = engine
        self.card = card
        self.session = session
        self._clock = clock
        self._switch = switch
        self._open_shard = open_shard
        self._changed = changed
        self._hold_s = hold_s
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="fanlog-node")
        self._bearings = Bearings(
            card,
            session,
            switch,
            standing=lambda: engine.standing,
            boottime_s=clock.boottime_s,
        )
        self._herald = Herald(
            session, peers, learn=self._bearings.learn, boottime_s=clock.boottime_s
        )
        self.standbys = Standbys(session)
        self.part: Part = "starting"
        self._troubles = NodeTroubles(card.name)
        self._rest_until_s = -math.inf
        #: Why it leaves the shard to others until then.
        self._rest_trouble = NO_TROUBLE
        self._term: OwnerTerm[Shard] | None = None
        #: Of the last term; its thread may still wait for the partition.
        self._renewer: Renewer | None = None
        self._is_ending = False
        #: Whether it owned when it began to end.
        self._has_left = False
        self._ease_s = 0.0
        # For metrics.
        self.take_overs = 0
        self._late = 0
        self._held = 0

    # Life.

    async def run(self) -> None:
        """Follow and own in turn, until `leave`."""
        try:
            while not self._is_ending:
                await self._in_thread(self._engine.start_following)
                tenure = await self._follow()
                if tenure is not None:
                    await self._own(tenure)
            await self._take_leave()
        finally:
            self._bearings.hold()
            await self._herald.stop()
            await self._in_thread(self._engine.stop_following)
            await self._join_renewer()
            self._threads.shutdown(wait=False)

    def leave(self, ease_s: float) -> None:
        """End `run`; an owner hands the shard over first, to the standby that is furthest on.

        Requests of push have so long to be answered before.
        """
        self._is_ending, self._ease_s = True, ease_s
        if self._term is not None:
            self._term.leave(self.standbys.successor(self._now()), ease_s)
        self._changed.set()

    def move(self, name: str) -> str:
        """Begin to hand the shard over to a node, or to the standby that is furthest on.

        Returns:
            The name of the node that is to own.

        Raises:
            FailedPrecondition: This node does not own, or there is no such standby.
        """
        if self._term is None or self.part != "owner" or self._is_ending:
            raise FailedPrecondition(f"node {self.card.name!r} does not own the log")
        now = self._now()
        if name == self.card.name:
            raise FailedPrecondition(f"node {name!r} owns the log already")
        if name and (why_not := self.standbys.check_successor(name, now)):
            raise FailedPrecondition(why_not)
        found = name or self.standbys.successor(now)
        if not found:
            raise FailedPrecondition("no standby is caught up; the log stays where it is")
        self._term.leave(found, self.session.renew_s)
        return found

    # What others ask.

    @property
    def standing(self) -> Standing:
        return self._engine.standing

    @property
    def known_owner(self) -> KnownOwner:
        """The owner, as far as this node can know; an answer to other nodes."""
        if self.part == "owner":
            term = self._engine.standing.term
            return KnownOwner(term=term, card=self.card, is_sure=self.is_sure)
        return self._bearings.known_owner()

    @property
    def trouble(self) -> str:
        """Why this node does not do what it should; empty when it does."""
        return self._troubles.sentence

    @property
    def obstacle(self) -> str:
        """Why calls that come to this node are not served just now; empty when they are."""
        if self.part == "failed":
            return self.trouble or "this node cannot follow the log"
        if self.part == "owner":
            return "" if self.is_sure else "this node owns the log and cannot reach it: calls wait"
        owner = self._bearings.target
        if owner is not None:
            return self._herald.obstacle_at(owner)
        if self.part == "taking over" or self._term is not None:
            return "this node is about to own the log: calls wait"
        if self.part == "starting":
            return "this node has not read all of the log yet, and knows of no owner: calls wait"
        return "no node is known to own the log just now: calls wait"

    async def reached(self) -> None:
        """Return when calls have somewhere to go."""
        await self._bearings.reachable.wait()

    @property
    def is_sure(self) -> bool:
        """Whether this node owns and may answer."""
        return self._term is not None and self._term.tenure.is_sure

    @property
    def late_renewals(self) -> int:
        return self._late + (0 if self._term is None else self._term.renewer.late)

    @property
    def held(self) -> int:
        """Calls that waited because the owner was not sure."""
        return self._held + (0 if self._term is None else self._term.tenure.held)

    def take_announcement(self, said: Announcement) -> KnownOwner:
        """Another node tells of itself.

        Raises:
            FailedPrecondition: It has this node's name.
        """
        if said.card.name == self.card.name:
            raise FailedPrecondition(
                f"two nodes of the cluster have the name {said.card.name!r}; give each its own "
                "(--node)"
            )
        self.standbys.announce(said, self._now())
        return self.known_owner

    # Following.

    async def _follow(self) -> OwnerTenure | None:
        """Follow until this node owns; None when it is to end."""
        while not self._is_ending:
            standing, now = self._engine.standing, self._now()
            seen = self._bearings.look()
            self._judge(standing, seen, now)
            if standing.role == "failed":
                self._bearings.hold()
            else:
                self._announce(seen, now)
                if now >= self._rest_until_s and self._bearings.vigil.is_time(seen, now):
                    tenure = await self._take_over(seen)
                    if tenure is not None:
                        return tenure
            await pause(self._changed, self._tick_s)
        return None

    def _judge(self, standing: Standing, seen: Seen, now: float) -> None:
        """Say what part this node has, and what is in its way."""
        if standing.role == "failed":
            self.part = "failed"
            self._troubles.say(NodeTrouble("following", standing.sentence))
            return
        if not seen.is_whole or (self.part in ("starting", "failed") and is_behind(seen)):
            self.part = "starting"
        else:
            self.part = "standby"
        trouble = self._obstacle_to_own(seen, now)
        if not trouble.sentence:
            trouble = NodeTrouble("announcing", self._herald.trouble)
        self._troubles.say(trouble)

    def _obstacle_to_own(self, seen: Seen, now: float) -> NodeTrouble:
        """Why this node, which may have read all of the log, would leave it to others."""
        if self._bearings.has_twin:
            return NodeTrouble(
                "name",
                f"another node of the cluster has the name {self.card.name!r}; give each its own "
                "(--node)",
            )
        if seen.is_whole and (obstacle := self._bearings.vigil.obstacle(seen)):
            return NodeTrouble("clock", obstacle)
        return self._rest_trouble if now < self._rest_until_s else NO_TROUBLE

    async def _take_over(self, before: Seen) -> OwnerTenure | None:
        await self._join_renewer()
        self.part = "taking over"
        self._bearings.hold()
        log.info("action=take_over node=%s term_before=%d", self.card.name, before.term)
        is_ours = await self._in_thread(self._engine.take_over)
        standing = self._engine.standing
        if not is_ours or standing.role != "owning":
            # Another attempt at once would find the same.
            self._rest(1 / 3, standing.sentence)
            log.warning("action=take_over_failed reason=%s", standing.sentence or "another owns")
            return None
        self.take_overs += 1
        return OwnerTenure(
            self.session,
            from_s=serve_from(self.session, before, standing.term, self._now()),
            renewed_s=lambda: self._engine.standing.renewed_s,
            boottime_s=self._clock.boottime_s,
            hold_s=self._hold_s,
        )

    def _announce(self, seen: Seen, now: float) -> None:
        """Tell the owner of this node."""
        owner = self._bearings.known_owner(seen).card
        if owner is not None and owner.name != self.card.name:
            said = Announcement(
                card=self.card,
                applied_offset=seen.applied_offset,
                is_whole=seen.is_whole,
                obstacle=self._obstacle_to_own(seen, now).sentence,
            )
            self._herald.announce(owner, said)

    # Owning.

    async def _own(self, tenure: OwnerTenure) -> None:
        """Serve for a term; when this returns this node owns no more."""
        term = self._term = OwnerTerm(
            *(self._engine, self.session, self._clock, tenure, self.standbys),
            open_shard=self._open_shard,
            changed=self._changed,
            tick_s=self._tick_s,
        )
        self._renewer = term.renewer
        if self._is_ending:
            term.leave("", 0.0)
        try:
            await term.run(
                serve=self._serve,
                hold=self._hold,
                look=self._look_around,
                look_after=self._bearings.look,
            )
        finally:
            self.part = "standby"
            self._term = None
            self._held += tenure.held
            await self._give_up(term)

    def _serve(self, shard: Shard) -> None:
        self.part = "owner"
        self._troubles.say(NO_TROUBLE)
        self._bearings.note_served_here()
        self._switch.serve_locally(shard)
        log.info("action=owner node=%s term=%d", self.card.name, self._engine.standing.term)

    def _hold(self) -> None:
        self.part = "standby"
        self._bearings.hold(ends_streams=True)

    def _look_around(self) -> None:
        """An owner that has not reached the log for long asks other nodes whether it still owns."""
        now = self._now()
        if self._bearings.is_deposed:
            log.warning("action=deposed node=%s; other nodes say so", self.card.name)
            self._engine.step_down()
            self._changed.set()
        elif now - self._engine.standing.renewed_s >= self.session.length_s:
            self._herald.ask(one.card for one in self.standbys.known)

    async def _give_up(self, term: OwnerTerm[Shard]) -> None:
        """Hand the shard over, unless the owner before may answer still: the next one would not
        wait for it. Without a hand-over it waits for a session.
        """
        if self._engine.standing.role == "owning" and term.tenure.has_begun:
            self._has_left = self._is_ending
            successor = term.successor or ""
            is_there = await self._in_thread(self._engine.hand_over, successor)
            log.info("action=hand_over to=%s written=%s", successor or "any", is_there)
        self._engine.step_down()
        if term.failure:
            log.error("action=shard_failed error=%s; another node may take over", term.failure)
            self._rest(REST_SESSIONS, f"the log could not be served here: {term.failure}")
        elif term.successor is not None:
            self._rest(1, "")
        self._herald.forget()

    async def _take_leave(self) -> None:
        """An owner that left has calls go to the next one; a standby says that it is no more."""
        if self._has_left:
            await self._await_successor()
            return
        owner = self._bearings.target
        if owner is not None:
            seen = self._bearings.seen()
            said = Announcement(
                card=self.card, applied_offset=seen.applied_offset, is_whole=False, is_leaving=True
            )
            await self._herald.take_leave(owner, said)

    async def _await_successor(self) -> None:
        """Calls that wait here are to reach it before this node ends."""
        if not self.standbys.present(self._now()):
            return
        await self._in_thread(self._engine.start_following)
        until_s = self._now() + self.session.length_s
        while self._now() < until_s:
            self._bearings.look()
            if self._bearings.target is not None:
                return
            await pause(self._changed, self._tick_s)

    # Private.

    def _rest(self, sessions: float, why: str) -> None:
        """Leave the shard to other nodes for so long."""
        self._rest_until_s = self._now() + sessions * self.session.length_s
        self._rest_trouble = NodeTrouble("owning", why)
        self._troubles.say(self._rest_trouble)

    async def _join_renewer(self) -> None:
        renewer, self._renewer = self._renewer, None
        if renewer is not None:
            renewer.stop()
            await self._in_thread(renewer.join)
            self._late += renewer.late

    @property
    def _tick_s(self) -> float:
        return self.session.length_s / LOOKS

    def _now(self) -> float:
        return self._clock.boottime_s()

    async def _in_thread(self, work: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *args)
