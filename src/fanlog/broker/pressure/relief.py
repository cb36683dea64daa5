"""Relief: messages are taken out of backlogs that are full, as their policies say.

A publish that makes a backlog too long is the cause of what is dropped for it, so both are one
commit: `relieve` is called with every transaction that appends. What no publish causes is found by
a look at every backlog with limits, about once a second: messages that have become too old, that a
seek has brought back, or that a filter has judged since.

A message that somebody has, because it is leased, is never dropped: another one is. A dropped
message is acknowledged; how many were, and why, is hard state in the same commit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from pyroaring import BitMap64

from fanlog.broker.clock import Clock
from fanlog.broker.delivery.decisions import Decisions
from fanlog.broker.delivery.filtering import Filtering
from fanlog.broker.delivery.shares import Shares
from fanlog.broker.events import Event
from fanlog.broker.metrics import Metrics
from fanlog.broker.ports import Contents
from fanlog.broker.pressure.bounds import Bound, BoundTable
from fanlog.broker.pressure.choice import choose, shared_out
from fanlog.broker.pressure.sampling import Sampling
from fanlog.broker.pressure.summaries import Summaries
from fanlog.broker.transaction import Ledger, Transaction
from fanlog.core.drops import Drops
from fanlog.core.hard_state import HardState
from fanlog.core.recent_events import RecentEvents
from fanlog.core.records import DropRecord
from fanlog.core.share import Share, relief
from fanlog.core.watermark import Crossing
from fanlog.errors import FanlogError, LakeUnavailable
from fanlog.model.outcomes import CrossingOutcome
from fanlog.model.resources import Offset, PartitionId, Subscription

log = logging.getLogger("fanlog.pressure")

#: Between two looks at all backlogs with limits; and while publishers are pushed back on.
LOOK_S = 1.0
LOOK_HIGH_S = 0.1
#: Filters judge so many stretches of a partition in one look.
_JUDGE_STEPS = 20

#: Reasons that are counted.
TOO_MANY, TOO_OLD, SAMPLED, OVERFLOWN = "limit", "age", "sample", "dead-letter"
#: Dead letters of one commit.
LETTERS_MAX = 1_000


class Measured(Protocol):
    """How far behind a subscription is, beyond what its cursors say."""

    @property
    def messages(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def oldest_age_s(self) -> float: ...


#: Measures the backlog of a subscription.
Measure = Callable[[Subscription], Awaitable[Measured]]


class Crossed:
    """A backlog crossed one of its marks."""

    __slots__ = ("bound", "crossing")

    def __init__(self, bound: Bound, crossing: Crossing) -> None:
        self.bound = bound
        self.crossing: Crossing = crossing


class Relief:
    """Makes room in the backlogs of one broker. Lives on the loop."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        metrics: Metrics,
        shares: Shares,
        filtering: Filtering,
        decisions: Decisions,
        measure: Measure,
        recent: RecentEvents,
        contents: Contents | None,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._metrics = metrics
        self._filtering = filtering
        self._decisions = decisions
        self._measure = measure
        self._recent = recent
        self.bounds = BoundTable(ledger)
        self._sampling = Sampling(ledger, clock)
        self._summaries = Summaries(ledger, clock, contents)
        #: A backlog is high, or is low again.
        self.on_cross: Event[Crossed] = Event()
        self._task: asyncio.Task[None] | None = None
        #: Some backlog has limits; and one is to be looked at now.
        self._wanted, self._asked = asyncio.Event(), asyncio.Event()
        shares.on_change.listen(self._change)
        shares.on_join.listen(self._join)
        shares.on_remove.listen(self._remove)
        ledger.on_load.listen(self._load)

    # Life.

    def start(self) -> None:
        for bound in self.bounds:
            # Before the first publish: one that was high must not take it.
            self.bounds.measure(bound)
            self.observe(bound)
        self._task = asyncio.get_running_loop().create_task(self._look_for_ever())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _change(self, subscription: Subscription) -> None:
        bound = self.bounds.put(subscription)
        if bound is not None:
            bound.summary_s = bound.summary_s or self._clock.now()
            self._sampling.begin(bound)
        self._listen()

    def _join(self, share: Share) -> None:
        self.bounds.join(share.settings.id, share.partition)

    def _remove(self, subscription: Subscription) -> None:
        self.bounds.remove(subscription.id)
        self._listen()

    def _load(self, hard: HardState) -> None:
        """Hard state was loaded: backlogs that were high are so until they are seen to be low."""
        high = {bound.id for bound in self.bounds if bound.mark.is_high}
        self.bounds.clear()
        for subscription in hard.catalog.subscriptions():
            if subscription.backlog_policy is not None:
                self._change(subscription)
                bound = self.bounds.find(subscription.id)
                if bound is not None:
                    bound.mark.is_high = subscription.id in high
        self._listen()

    def _listen(self) -> None:
        """Hear of publishes only while some backlog has limits: others pay nothing."""
        self._ledger.relief = self.relieve if len(self.bounds) else None
        if len(self.bounds):
            self._wanted.set()
        else:
            self._wanted.clear()

    # With a publish.

    def relieve(self, transaction: Transaction) -> None:
        """Make room for what a transaction appends, as part of it."""
        touched: dict[Bound, None] = {}
        for _, partition, _, body in transaction.publications:
            for bound in self.bounds.on(partition):
                bound.ceiling += body.count
                bound.size_bytes += len(body.content)
                bound.sized += body.count
                touched[bound] = None
        for bound in touched:
            if bound.policy.way == "sample":
                self._sample(bound, transaction)
            if self.bounds.may_be_full(bound):
                self._make_room(bound, transaction)
            if bound.policy.way == "dead-letter" and bound.fill > 1.0:
                # Its letters are read first: right after this commit.
                self._asked.set()

    def _make_room(self, bound: Bound, transaction: Transaction) -> int:
        """Drop what is too many of one backlog, or of the longest of its group."""
        messages, size_bytes = self.bounds.measure(bound, transaction)
        dropped, policy = 0, bound.policy
        excess = policy.excess(messages, size_bytes)
        if excess:
            members = sorted(self.bounds.members_of(bound), key=lambda one: -one.ceiling)
            for one in members:
                if dropped >= excess:
                    break
                if one.policy.relieves and one.policy.way != "dead-letter":
                    dropped += self._drop_some(one, excess - dropped, transaction)
            if dropped:
                self.bounds.measure(bound, transaction)
        self.observe(bound)
        return dropped

    def _drop_some(self, bound: Bound, count: int, transaction: Transaction) -> int:
        """Drop so many messages of one subscription, if it has so many that nobody has."""
        if bound.policy.way == "sample":
            return self._thin(bound, count, transaction)
        free = {
            share: found
            for share in self._ledger.hard.shares_of(bound.subscription)
            if (found := share.free_offsets(transaction.end(share.partition)))
        }
        dropped = 0
        chosen = choose(
            bound.policy.way,
            free,
            count,
            appended={partition for _, partition, _, _ in transaction.publications},
            agendas=self._ledger.hard.agendas,
        )
        for share, offsets in chosen:
            self.drop(share, offsets, TOO_MANY, transaction)
            dropped += len(offsets)
        return dropped

    def drop(self, share: Share, offsets: BitMap64, reason: str, transaction: Transaction) -> None:
        """Drop some free messages of a share, as part of a transaction."""
        if not offsets:
            return
        owner, now = share.settings.id, self._clock.now()
        decision = share.relieve(offsets)
        transaction.apply(decision.records)
        drops = self._ledger.hard.drops.get((owner, share.partition), Drops())
        drops = drops.with_dropped(now, reason, offsets).trimmed(share.cursor.floor)
        transaction.apply([DropRecord(owner, share.partition, drops)])
        counts = self._metrics.of(owner).dropped
        counts[reason] = counts.get(reason, 0) + len(offsets)
        policy = share.settings.backlog_policy
        why = f"{'keep' if policy is None else policy.way}: {_WHY[reason]}"
        self._recent.note_dropped(now, owner, share.partition, offsets, why)
        self._decisions.follow(share, decision)

    # Samples.

    def _sample(self, bound: Bound, transaction: Transaction) -> None:
        """Leave what is new out of the sample, as far as that is small."""
        for share, offsets in self._sampling.left_out(bound, transaction):
            self._leave_out(bound, share, offsets, transaction)

    def _thin(self, bound: Bound, count: int, transaction: Transaction) -> int:
        """Make the sample smaller until so many have left."""
        dropped = 0
        for share, offsets in self._sampling.thinned(bound, count, transaction):
            self._leave_out(bound, share, offsets, transaction)
            dropped += len(offsets)
        return dropped

    def _leave_out(
        self, bound: Bound, share: Share, offsets: BitMap64, transaction: Transaction
    ) -> None:
        bound.left_out += len(offsets)
        bound.ceiling = max(0, bound.ceiling - len(offsets))
        self.drop(share, offsets, SAMPLED, transaction)

    # Marks.

    def observe(self, bound: Bound) -> None:
        """Tell it when a backlog that was just measured crossed a mark."""
        policy = bound.policy
        crossing = bound.mark.observe(bound.fill, high=policy.high, low=policy.low)
        if crossing is None:
            return
        self._metrics.of(bound.id).count_crossing(crossing)
        log.log(
            logging.WARNING if crossing == "high" else logging.INFO,
            "action=backlog_%s subscription=%s fill=%.3f policy=%s",
            *(crossing, bound.name, bound.fill, policy.way),
        )
        self._metrics.note_crossing(
            CrossingOutcome(
                subscription=bound.name,
                mark=crossing,
                fill=bound.fill,
                time_s=self._clock.wall_ns() / 1e9,
            )
        )
        self.on_cross.tell(Crossed(bound, crossing))

    # Looks.

    async def _look_for_ever(self) -> None:
        while True:
            await self._wanted.wait()
            try:
                await self.look()
            except FanlogError as error:
                log.error("action=backlog_look_failed error=%s; trying again", error)
            is_high = any(one.mark.is_high and one.policy.pushes_back for one in self.bounds)
            await self._wait(LOOK_HIGH_S if is_high else LOOK_S)

    async def _wait(self, seconds: float) -> None:
        """Wait so long, or until a look is asked for."""
        timer = self._clock.call_at(self._clock.now() + seconds, self._asked.set)
        try:
            await self._asked.wait()
        finally:
            timer.cancel()
            self._asked.clear()

    async def look(self) -> None:
        """Look at every backlog with limits, now."""
        for bound in self.bounds:
            if self.bounds.find(bound.id) is bound:
                await self._look_at(bound)

    async def _look_at(self, bound: Bound) -> None:
        if bound.subscription.is_filtered:
            for share in self._ledger.hard.shares_of(bound.subscription):
                await self._filtering.catch_up([share], steps=_JUDGE_STEPS)
        if bound.policy.size_bytes or bound.policy.age_s:
            await self._weigh(bound)
        if bound.policy.way == "sample":
            self._sampling.adapt(bound)
        if bound.policy.way == "dead-letter":
            await self._overflow(bound)
        elif bound.policy.relieves:
            await self._let_go_of_old(bound)
        while self.bounds.find(bound.id) is bound:
            transaction = self._ledger.begin()
            if bound.policy.way == "sample":
                self._sample(bound, transaction)
            dropped = self._make_room(bound, transaction)
            if transaction.is_empty:
                break
            await transaction.commit()
            if not dropped:
                break
        if bound.policy.way == "sample" and self.bounds.find(bound.id) is bound:
            committed = self._summaries.tell(bound)
            if committed is not None:
                await committed

    async def _weigh(self, bound: Bound) -> None:
        """Measure what counts do not say: bytes, and the age of the oldest."""
        try:
            state = await self._measure(bound.subscription)
        except LakeUnavailable:
            return
        bound.age_s = state.oldest_age_s
        if state.messages:
            bound.size_bytes, bound.sized = float(state.size_bytes), state.messages

    async def _let_go_of_old(self, bound: Bound) -> None:
        age_s = bound.policy.age_s
        if not age_s or bound.age_s <= age_s:
            return
        cuts = await self._old_before(bound)
        transaction = self._ledger.begin()
        for share in self._ledger.hard.shares_of(bound.subscription):
            if share.partition in cuts:
                self.drop(share, share.free_offsets(cuts[share.partition]), TOO_OLD, transaction)
        if not transaction.is_empty:
            await transaction.commit()
            await self._weigh(bound)

    async def _old_before(self, bound: Bound) -> dict[PartitionId, Offset]:
        """In each partition, the first message that is not too old."""
        before_ns = int(self._clock.wall_ns() - bound.policy.age_s * 1e9)
        return {
            share.partition: await self._ledger.offset_for_time(share.partition, before_ns)
            for share in self._ledger.hard.shares_of(bound.subscription)
        }

    async def _overflow(self, bound: Bound) -> None:
        """Make dead letters of messages that are too old, and of the oldest that are too many."""
        if bound.policy.age_s and bound.age_s > bound.policy.age_s:
            for partition, cut in (await self._old_before(bound)).items():
                moved = True
                while moved and (share := self._ledger.hard.share(bound.id, partition)) is not None:
                    old = relief.oldest(share.free_offsets(cut), LETTERS_MAX)
                    moved = bool(await self._move(share, old, TOO_OLD))
            await self._weigh(bound)
        while self.bounds.find(bound.id) is bound:
            messages, size_bytes = self.bounds.measure(bound)
            excess = bound.policy.excess(messages, size_bytes)
            free = {
                share: found
                for share in self._ledger.hard.shares_of(bound.subscription)
                if (found := share.free_offsets(self._ledger.end(share.partition)))
            }
            count = 0
            for share, some in shared_out(free, min(excess, LETTERS_MAX)).items():
                count += await self._move(share, relief.oldest(free[share], some), TOO_MANY)
            if not count:
                break

    async def _move(self, share: Share, offsets: BitMap64, why: str) -> int:
        def drop(transaction: Transaction, moved: BitMap64) -> None:
            self.drop(share, moved, OVERFLOWN, transaction)

        return await self._decisions.move(share, offsets, _WHY[why], drop) if offsets else 0


_WHY = {
    OVERFLOWN: "it is a dead letter",
    TOO_MANY: "the backlog was full",
    TOO_OLD: "it was too old",
    SAMPLED: "it is not in the sample",
}
