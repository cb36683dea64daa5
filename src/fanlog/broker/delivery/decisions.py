"""Decisions: the decision of a share is applied, committed, and followed by all that comes of it.

Shares decide (`fanlog.core.share`): on a pull, on an acknowledgement, when a lease expires. Here
the records are committed, dead letters are forwarded, the timer of the share is set anew, and the
feed is woken if the share has messages to hand out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from pyroaring import BitMap64

from fanlog.broker.clock import Clock
from fanlog.broker.delivery.dead_lettering import DeadLettering
from fanlog.broker.delivery.open_feeds import Feeds
from fanlog.broker.delivery.timers import Timers
from fanlog.broker.metrics import Metrics
from fanlog.broker.ports import Compose, ForwardDenial
from fanlog.broker.tracing import Tracing
from fanlog.broker.transaction import Ledger, Transaction
from fanlog.core.hard_state import HardState
from fanlog.core.recent_events import RecentEvents
from fanlog.core.share import Decision, Share
from fanlog.log.api import Log

#: See `DeadLettering.move`.
Move = Callable[
    [Share, BitMap64, str, Callable[[Transaction, BitMap64], None]],
    Coroutine[None, None, int],
]


class Decisions:
    """Carries out the decisions of all shares. Lives on the loop."""

    def __init__(
        self,
        ledger: Ledger,
        store: Log,
        clock: Clock,
        metrics: Metrics,
        feeds: Feeds,
        *,
        compose: Compose,
        forward_denial: ForwardDenial,
        jitter: Callable[[], float],
        recent: RecentEvents,
        tracing: Tracing | None,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._metrics = metrics
        self._feeds = feeds
        self._jitter = jitter
        self._recent = recent
        self._tracing = tracing
        self._timers = Timers(clock, self._expire)
        self._dead_lettering = DeadLettering(
            *(ledger, store, clock, metrics),
            *(compose, forward_denial, recent, self.decide),
            tracing,
        )
        ledger.on_load.listen(self._load)

    def decide(
        self, share: Share, decision: Decision, *, can_wait: bool = False, wakes: bool = True
    ) -> asyncio.Future[None] | None:
        """Apply a share's decision and commit it; the future, if there is anything to commit."""
        committed = None
        if decision.records:
            committed = self._ledger.commit(decision.records, can_wait=can_wait)
        elif decision.grant is not None and (share.follows_commits or decision.follows_commits):
            # The commit of a dead letter before it, of its own reopening, or of the acknowledgement
            # that it waited for may be under way.
            committed = self._ledger.pending()
        if self._tracing is not None:
            self._tracing.settled(share, decision, committed)
        self.follow(share, decision, wakes=wakes)
        return committed

    def follow(self, share: Share, decision: Decision, *, wakes: bool = True) -> None:
        """As `decide`, for a decision whose records are part of a transaction already."""
        if decision.lapsed:
            self._metrics.of(share.settings.id).lapsed += decision.lapsed
        if decision.overdue:
            self._metrics.of(share.settings.id).overdue += decision.overdue
        if decision.dead_letters:
            self._dead_lettering.add(share, decision.dead_letters)
        if decision.failed is not None or self._recent.sample_every:
            settings = share.settings
            self._recent.note(self._clock.now(), settings.id, share.partition, decision)
        self._timers.watch(share)
        if wakes:
            end = self._ledger.end(share.partition)
            self._feeds.wake_for(share, has_some=share.has_some(end))
        if share.waited:
            self._wake_let_go(share)

    def _wake_let_go(self, share: Share) -> None:
        """Wake the feed for messages that waited for some of this share, and do so no more."""
        for other in share.take_let_go():
            self._feeds.wake_for(other, has_some=other.has_some(self._ledger.end(other.partition)))

    @property
    def move(self) -> Move:
        """Makes dead letters of messages that nobody has; see `DeadLettering.move`."""
        return self._dead_lettering.move

    async def drain(self) -> None:
        """Wait until all dead letters are forwarded."""
        await self._dead_lettering.drain()

    def stop(self) -> None:
        """Expire no more leases."""
        self._timers.clear()

    def _expire(self, share: Share) -> None:
        if self._ledger.hard.share(share.settings.id, share.partition) is not share:
            return
        decision = share.expire(self._clock.now(), jitter=self._jitter())
        self._metrics.of(share.settings.id).expired += decision.count
        self.decide(share, decision)

    def _load(self, hard: HardState) -> None:
        """All shares are new: forget the old ones, and watch these."""
        self._timers.clear()
        self._dead_lettering.clear()
        self._recent.forget(self._clock.now())
        for share in hard.shares():
            self._timers.watch(share)
