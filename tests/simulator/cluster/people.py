"""The clients of a cluster, and its chronicle: a world of the broker whose lives are terms.

A term begins for them when its owner is sure at first: from then on no earlier one may answer. What
the log has is written down when a record that counts is appended, whoever is told of it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from fanlog.broker.assembly import BrokerSettings, build_broker
from fanlog.broker.broker import Broker
from fanlog.broker.committer import ThreadCommitter
from fanlog.broker.standby_state import ReadyState
from fanlog.broker.transaction import Ledger
from fanlog.cluster.tenure import OwnerTenure
from fanlog.cluster.term_clock import TermClock
from fanlog.errors import FanlogError
from fanlog.log.replicated.replicated import CLOCK_READING_S
from fanlog.wire import contents
from fanlog.wire.candidates import candidates
from fanlog.wire.forward import compose
from simulator import faults, temper
from simulator.chronicle import Op, Outcome, Turn
from simulator.cluster.loops import TurnLoop
from simulator.cluster.owners import HOLD_S, OwningNode
from simulator.cluster.terms import TermGenerations, TermLife, WitnessedTenure
from simulator.cluster.turns import Bystander
from simulator.faults import Odds
from simulator.life import Life
from simulator.push_witness import new_senders
from simulator.temper import Temper
from simulator.world import Lost, World

if TYPE_CHECKING:
    from simulator.cluster.serving import ServingWorld

T = TypeVar("T")

#: How often calls look whether there is an owner again.
_LOOK_S = 0.1


#: As `simulator.clients` has it, without the longest: a drain waits for them, and nodes look at the
#: log all the time.
DEADLINES_S = (10, 10, 30, 60)


#: A node finds the partition's time when it takes over, so precisely; the next one counts the
#: deadlines of leases by what it found itself.
LEASE_SLACK_S = CLOCK_READING_S + 0.1


class People(World):
    """Of one world; `simulator.story` is their plot, too."""

    def __init__(self, cluster: ServingWorld) -> None:
        self.cluster = cluster
        self.process = Bystander("people")
        #: Of the choice of nodes to talk to.
        self._front_rng = random.Random(f"{cluster.seed}: front")
        self._front_s = -1.0
        self._front: OwningNode | None = None
        #: The life that may answer; those before it may not.
        self._present: TermLife | None = None
        super().__init__(cluster.seed, new_senders=new_senders)
        self.chronicle.lease_slack_s = LEASE_SLACK_S

    # What is otherwise than with one process.

    def _drawn(self) -> tuple[Odds, Temper]:
        odds, drawn = temper.drawn(self.seed, self.rng)
        rng = random.Random(f"{self.seed}: people of a cluster")
        odds = replace(
            faults.KIND,
            request_lost=odds.request_lost,
            answer_lost=odds.answer_lost,
            request_repeated=odds.request_repeated,
            call_cut=odds.call_cut,
            stream_slow=odds.stream_slow,
            stream_half_open=odds.stream_half_open,
            answer_crashes=odds.answer_crashes / 3,
        )
        plain = replace(
            drawn,
            steps=rng.choice((60, 120, 240)),
            pace_s=rng.choice((0.1, 0.3, 1.0)),
            retries=rng.choice((0.0, 0.0, drawn.retries)),
            **dict.fromkeys(_ABSENT, 0),  # type: ignore[arg-type]
            **dict.fromkeys(_ABSENT_CHANCES, 0.0),  # type: ignore[arg-type]
            lake=False,
        )
        return odds, plain

    def _new_loop(self) -> asyncio.BaseEventLoop:
        return TurnLoop(self.cluster.turns, self.process)

    @property
    def life(self) -> TermLife | None:
        """Where a call goes that is sent to some node now."""
        if self._front_s != self.cluster.turns.now:
            self._front_s = self.cluster.turns.now
            nodes = [one for one in self.cluster.owners.values() if one.is_alive]
            self._front = self._front_rng.choice(nodes) if nodes else None
        return None if self._front is None else self._behind(self._front)

    def _behind(self, front: OwningNode) -> TermLife | None:
        """The broker behind the gateway of a node."""
        target = front.gateway.target
        node = front if target is None else self.cluster.owners[target.name]
        if not node.is_alive or (node is not front and front.is_apart(node)):
            return None
        shard = node.gateway.local
        return None if shard is None or shard.life.is_dead else shard.life

    @property
    def is_settled(self) -> bool:
        life = self.life
        return (
            life is not None
            and super().is_settled
            and life.log.last_sequence == self.store.last_sequence
        )

    async def start(self) -> None:
        await self.up()

    async def up(self) -> TermLife:
        until_s = self.now + 600.0
        while True:
            # Also at first: a crash comes with the next turn.
            await asyncio.sleep(_LOOK_S)
            life = self.life
            if life is not None and life.is_serving and life.tenure.is_sure:
                return life
            assert self.now < until_s, "J6: nobody serves"

    def crash(self, fault: str = "crash", *, down_s: float | None = None) -> None:
        life = self.life
        if life is not None:
            self.faulted(fault)
            # Not here: this may be a thread of the very node.
            self.cluster.turns.after(0.0, lambda: self.cluster.kill_owner(life.term, down_s))

    async def stop(self) -> None:
        self.faulted("stop")
        self.cluster.move_owner()
        # Until another one owns.
        await asyncio.sleep(2 * self.cluster.temper.session_s)

    async def end_faults(self) -> None:
        self.odds = faults.KIND
        self.cluster.end_faults()
        await asyncio.sleep(self.cluster.recovery_s)

    def excepted(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A task or callback of a node failed."""
        if not getattr(loop, "_is_dead", False):
            self._on_exception(loop, context)

    # Terms.

    def new_life(
        self, node: OwningNode, loop: asyncio.AbstractEventLoop, tenure: OwnerTenure
    ) -> TermLife:
        """The broker of a new term, on the log of a node that has taken over."""
        self.lives += 1
        log = node.engine
        watched = WitnessedTenure(tenure, lambda: self._term_begins(life))
        clock = TermClock(node.clock, log.standing.clock_ahead_s)
        life = TermLife(self.lives, loop, clock, log, watched, self.mistaken)
        life.broker = build_broker(
            log,
            ThreadCommitter(log),
            clock,
            compose=compose,
            candidates=candidates,
            contents=contents,
            jitter=self.rng.random,
            settings=BrokerSettings(),
            new_secret=lambda: bytes(32),
            new_generations=lambda ledger: self._new_generations(life, ledger),
            tenure=watched,
            take_ready=lambda _, latest_s: self._take_ready(node, latest_s),
        )
        return life

    async def _take_ready(self, node: OwningNode, latest_deadline_s: float) -> ReadyState | None:
        """What the node kept ready; the log is loaded where that is nothing."""
        state, accuse = node.standby_state, self.cluster.accuse
        ready = state.take_judged(node.engine, latest_deadline_s, accuse)
        self.faulted("terms_loaded" if ready is None else "terms_ready")
        return ready

    def _new_generations(self, life: TermLife, ledger: Ledger) -> TermGenerations:
        return TermGenerations(ledger, lambda generation: self._decided(life, generation))

    def _decided(self, life: TermLife, generation: int) -> None:
        if life is self._present:
            self.chronicle.decided(generation, self.now)
        else:
            # Nobody is told of it: see `answering`.
            self.chronicle.decided_s[generation] = self.now

    def _term_begins(self, life: TermLife) -> None:
        """Its owner is sure, at first."""
        before = self._present
        if before is not None and before.term > life.term:
            self.broken.append(f"J7: the owner of term {life.term} is sure after {before.term}")
            return
        if before is not None and before is not life:
            self.life_over(before, "crashed")
        self._present = life
        self.chronicle.turn(Turn("starting", life.number), self.now)
        self.chronicle.turn(Turn("started", life.number), self.now)

    def life_over(self, life: TermLife, how: Literal["crashed", "stopped"]) -> None:
        """Nothing of it reaches anybody from now on."""
        if life.is_dead:
            return
        for op, reply in life.running.items():
            if op.begun_s:
                self.chronicle.end(op, "cut", self.now)
            if reply is not None and not reply.done():
                reply.set_exception(Lost("the connection is lost"))
        life.running.clear()
        life.kill()
        self.dedups.life_ended(self.now)
        if life is self._present:
            self._present = None
            self.chronicle.turn(Turn(how, life.number), self.now)

    def answering(self, life: Life) -> None:
        """Nobody answers but the owner of the present term."""
        assert isinstance(life, TermLife)
        if self._present is not None and life is not self._present:
            self.broken.append(
                f"J7: the owner of term {life.term} may answer after that of {self._present.term} "
                f"has begun (at {self.cluster.turns.now:.3f} s)"
            )

    def look(self) -> None:
        """Look at every owner that may answer just now: it is that of the present term."""
        for node in self.cluster.owners.values():
            life = node.life
            if (
                life is not None
                and self.cluster.turns.now >= node.stands_until
                and node.may_answer
                and life.tenure.is_sure
            ):
                self.answering(life)

    # Calls.

    def serve(
        self, op: Op, verb: Callable[[Broker], Awaitable[T]]
    ) -> tuple[asyncio.Task[Any], asyncio.Future[T]]:
        """As with one process; where nobody is known to own, the call waits for a while."""
        life = self.life
        if life is None or not life.is_serving:
            reply: asyncio.Future[T] = self.loop.create_future()
            reply.add_done_callback(_seen)
            return self.loop.create_task(self._hold(op, verb, reply)), reply
        return super().serve(op, lambda _: life.answer(verb))

    async def _hold(
        self, op: Op, verb: Callable[[Broker], Awaitable[T]], reply: asyncio.Future[T]
    ) -> None:
        try:
            for _ in range(int(HOLD_S / _LOOK_S)):
                await asyncio.sleep(_LOOK_S)
                if (life := self.life) is not None and life.is_serving:
                    break
            else:
                raise Lost("nobody owns")
            _, served = super().serve(op, lambda _: life.answer(verb))
            answer = await served
        except (FanlogError, Lost) as error:
            if not reply.done():
                reply.set_exception(error)
        except asyncio.CancelledError:
            if not reply.done():
                reply.set_exception(Lost("the connection is cut"))
            raise
        else:
            if not reply.done():
                reply.set_result(answer)

    def end(self, life: Life, op: Op, outcome: Outcome, answer: Any = None) -> bool:
        if not life.is_dead and op.outcome == "running" and outcome in ("ok", "refused"):
            self.answering(life)
        # An owner that is not sure any more does not know what was done.
        return super().end(life, op, "cut" if outcome == "failed" else outcome, answer)


#: What these worlds have none of.
_ABSENT = (
    "admins",
    "archivers",
    "sinks",
    "singles",
    "sequencers",
    "inspectors",
    "pressers",
    "limiters",
    "schedulers",
    "topic_retention_bytes",
)
_ABSENT_CHANCES = (
    "short_retention",
    "seeks",
    "deletes",
    "updates",
    "long_downs",
    "filter_changes",
    "pushes",
    "forwards",
    "push_changes",
    "schemas",
    "schema_changes",
    "policies",
    "reopens",
    "topic_retention_s",
    "terms",
    "sticky",
    "windows",
    "tenants",
    "lake_troubles",
)


def _seen(reply: asyncio.Future[Any]) -> None:
    with suppress(BaseException):
        reply.exception()
