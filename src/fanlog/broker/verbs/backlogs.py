"""Backlogs: how far subscriptions are behind."""

from __future__ import annotations

from dataclasses import dataclass

from fanlog.broker.clock import Clock
from fanlog.broker.transaction import Ledger
from fanlog.core.share import Share
from fanlog.log.api import Damaged, Log
from fanlog.model.resources import Subscription


@dataclass(frozen=True, slots=True)
class BacklogState:
    """How far behind a subscription is; counts are of messages."""

    messages: int
    outstanding: int
    oldest_age_s: float


@dataclass(eq=False)
class Backlogs:
    """Measures the backlogs of one broker's subscriptions."""

    _ledger: Ledger
    _store: Log
    _clock: Clock

    async def measure(self, subscription: Subscription) -> BacklogState:
        """The backlog of a subscription; one that is detached has none."""
        if subscription.detached:
            return BacklogState(messages=0, outstanding=0, oldest_age_s=0.0)
        shares = self._ledger.hard.shares_of(subscription)
        stats = [share.stats(self._ledger.end(share.partition)) for share in shares]
        oldest_s = [
            await self.oldest_unacked_s(share)
            for share, state in zip(shares, stats, strict=True)
            if state.backlog
        ]
        now = self._clock.now()
        return BacklogState(
            messages=sum(state.backlog for state in stats),
            outstanding=sum(state.outstanding for state in stats),
            oldest_age_s=max(0.0, now - min(oldest_s, default=now)),
        )

    async def oldest_unacked_s(self, share: Share) -> float:
        """Publish time of a share's oldest unacknowledged message; now if it has none."""
        first = share.first_open
        if first < self._ledger.end(share.partition):
            for item in await self._store.read(share.partition, first, max_bytes=1):
                if not isinstance(item, Damaged):
                    return min(item.publish_time_ns / 1e9, self._clock.now())
        return self._clock.now()
