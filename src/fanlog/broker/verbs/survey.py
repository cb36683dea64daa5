"""The survey: how far behind every subscription is, and what is wrong with it, at a bounded cost.

Ten thousand subscriptions are not measured for each sample: a step looks at so many, and reads the
times of so many oldest messages; the next step goes on behind them. Sums are of the latest looks.
The rest of the broker pays nothing while nobody asks. Soft state.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from fanlog import limits
from fanlog.broker.clock import Clock
from fanlog.broker.delivery.movers import Movers
from fanlog.broker.delivery.open_feeds import Feeds
from fanlog.broker.metrics import Metrics, SubscriptionMetrics
from fanlog.broker.pacing import paced
from fanlog.broker.pressure.pressure import Pressure
from fanlog.broker.transaction import Ledger
from fanlog.broker.verbs.exports import Exports
from fanlog.core import problems
from fanlog.core.hard_state import HardState
from fanlog.core.problems import Problem, SubscriptionFacts
from fanlog.core.share import Share
from fanlog.errors import LakeUnavailable
from fanlog.log.api import Damaged, Log
from fanlog.model import endpoints
from fanlog.model.resources import Offset, PartitionId, Subscription, SubscriptionId

_NOTHING = SubscriptionMetrics()


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyed:
    """A subscription as it was when it was looked at last."""

    name: str
    at_s: float
    messages: int
    #: The filter has not judged all of them: it may be fewer.
    is_estimated: bool
    outstanding: int
    delayed: int
    #: Publish time of the oldest message; None when there is none, or it was not read yet.
    oldest_s: float | None
    problems: tuple[Problem, ...]

    def age_s(self, now: float) -> float:
        return 0.0 if self.oldest_s is None else max(0.0, now - self.oldest_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """The backlogs of all subscriptions together, as far as they were looked at."""

    messages: int = 0
    outstanding: int = 0
    #: Subscriptions that have a backlog.
    behind: int = 0
    #: The one with the oldest message; None when there is none.
    oldest: Surveyed | None = None
    #: How old the oldest look is.
    staleness_s: float = 0.0
    #: Not every subscription was looked at yet.
    is_partial: bool = False


class Reads:
    """How many stored batches may still be read."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


@dataclass(eq=False)
class Survey:
    """The survey of one broker. Lives on the loop."""

    _ledger: Ledger
    _store: Log
    _clock: Clock
    _metrics: Metrics
    _feeds: Feeds
    _movers: Movers
    _exports: Exports
    _pressure: Pressure

    def __post_init__(self) -> None:
        self._started_s = self._clock.now()
        self._found: dict[SubscriptionId, Surveyed] = {}
        #: Subscriptions with a backlog, and with a problem.
        self._behind: set[SubscriptionId] = set()
        self._troubled: set[SubscriptionId] = set()
        self._messages = self._outstanding = 0
        #: Those that wait for their turn.
        self._queue: deque[SubscriptionId] = deque()
        #: Publish time of the oldest message of each share, and which it was then.
        self._times: dict[tuple[SubscriptionId, PartitionId], tuple[Offset, float]] = {}
        self._whole_at_s: float | None = None
        self._whole = asyncio.Lock()
        self._ledger.on_load.listen(self._load)

    def _load(self, _: HardState) -> None:
        self._forget_all()

    def _forget_all(self) -> None:
        self._found.clear()
        self._behind.clear()
        self._troubled.clear()
        self._times.clear()
        self._queue.clear()
        self._messages = self._outstanding = 0
        self._whole_at_s = None

    # Looking.

    async def step(self) -> None:
        """Look at the subscriptions whose turn it is."""
        catalog = self._ledger.hard.catalog
        if not self._queue:
            self._forget_gone()
            self._queue.extend(one.id for one in catalog.subscriptions())
        reads = Reads(limits.SURVEY_READS_MAX)
        for _ in range(min(limits.SURVEY_STEP, len(self._queue))):
            subscription = catalog.subscription_by_id(self._queue.popleft())
            if subscription is not None:
                await self.look(subscription, reads)

    async def whole(self, most_s: float) -> None:
        """Look at all subscriptions, unless that was done within `most_s`."""
        async with self._whole:
            now = self._clock.now()
            if self._whole_at_s is not None and now - self._whole_at_s < most_s:
                return
            self._forget_gone()
            reads = Reads(limits.SURVEY_WHOLE_READS_MAX)
            async for one in paced(list(self._ledger.hard.catalog.subscriptions())):
                present = self._ledger.hard.catalog.subscription_by_id(one.id)
                if present is not None:
                    await self.look(present, reads)
            self._whole_at_s = now

    async def look(self, subscription: Subscription, reads: Reads) -> Surveyed:
        """Look at one subscription now; its oldest message is read if there is one left to read."""
        now = self._clock.now()
        messages = outstanding = delayed = waiting = 0
        is_estimated = False
        oldest_s: float | None = None
        if not subscription.detached:
            for share in self._ledger.hard.shares_of(subscription):
                end = self._ledger.end(share.partition)
                if share.first_open >= end:
                    continue
                stats = share.stats(end)
                outstanding += stats.outstanding
                if not stats.backlog:
                    continue
                messages += stats.backlog
                delayed += stats.delayed
                waiting += stats.delayed + stats.pending + stats.depending
                is_estimated = is_estimated or share.routed_to < end
                time_s = await self._oldest_s(share, reads)
                if time_s is not None:
                    oldest_s = time_s if oldest_s is None else min(oldest_s, time_s)
        age_s = 0.0 if oldest_s is None else max(0.0, now - oldest_s)
        facts = self._facts(subscription, messages, messages - waiting, age_s)
        found = Surveyed(
            name=subscription.name,
            at_s=now,
            messages=messages,
            is_estimated=is_estimated,
            outstanding=outstanding,
            delayed=delayed,
            oldest_s=oldest_s,
            problems=tuple(problems.of_subscription(facts, now, self._started_s)),
        )
        self._put(subscription.id, found)
        return found

    def consumers_of(self, subscription: Subscription) -> int:
        """Streams, pulls that wait, and consumers inside the server."""
        if subscription.mode == "export":
            # The pipeline, which comes whenever there is a batch.
            return 1
        feed = self._feeds.find(subscription)
        return 0 if feed is None else feed.users

    def counts_of(self, subscription: Subscription) -> SubscriptionMetrics:
        return self._metrics.subscriptions.get(subscription.id, _NOTHING)

    # Answers.

    def found(self, subscription: Subscription) -> Surveyed | None:
        """The latest look at a subscription."""
        return self._found.get(subscription.id)

    def sums(self) -> Sums:
        now = self._clock.now()
        stats = self._ledger.hard.catalog.stats()
        oldest: Surveyed | None = None
        for one in self._behind:
            found = self._found[one]
            if found.oldest_s is not None and (
                oldest is None or oldest.oldest_s is None or found.oldest_s < oldest.oldest_s
            ):
                oldest = found
        # The longest ago is first: a look puts a subscription behind all others.
        first_s = next((one.at_s for one in self._found.values()), now)
        return Sums(
            messages=self._messages,
            outstanding=self._outstanding,
            behind=len(self._behind),
            oldest=oldest,
            staleness_s=max(0.0, now - first_s),
            is_partial=len(self._found) < stats.subscriptions,
        )

    def problems(self) -> Iterable[Problem]:
        """The problems of all subscriptions, as they were looked at last."""
        for one in self._troubled:
            yield from self._found[one].problems

    # Private.

    def _facts(
        self, subscription: Subscription, messages: int, ready: int, age_s: float
    ) -> SubscriptionFacts:
        counts = self.counts_of(subscription)
        policy = subscription.backlog_policy
        trouble = self._movers.trouble(subscription)
        if subscription.mode == "export":
            trouble = self._exports.trouble(subscription).reason
        return SubscriptionFacts(
            name=subscription.name,
            mode=subscription.mode,
            messages=messages,
            ready=ready,
            oldest_age_s=age_s,
            consumers=self.consumers_of(subscription),
            acked_s=counts.acked_s,
            letter_s=counts.letter_s,
            letters=counts.dead_lettered,
            retention_s=subscription.message_retention_s,
            trouble=trouble,
            is_push_off=bool(subscription.push_off),
            is_detached=subscription.detached,
            is_topic_gone=subscription.topic_id is None and not subscription.is_pattern,
            fill=None if policy is None else self._pressure.of_subscription(subscription),
            high=1.0 if policy is None else policy.high,
        )

    def _put(self, id_: SubscriptionId, found: Surveyed | None) -> None:
        before = self._found.pop(id_, None)
        if before is not None:
            self._messages -= before.messages
            self._outstanding -= before.outstanding
            self._behind.discard(id_)
            self._troubled.discard(id_)
        if found is None:
            return
        self._found[id_] = found
        self._messages += found.messages
        self._outstanding += found.outstanding
        if found.messages:
            self._behind.add(id_)
        if found.problems:
            self._troubled.add(id_)

    def _forget_gone(self) -> None:
        hard = self._ledger.hard
        gone = [one for one in self._found if hard.catalog.subscription_by_id(one) is None]
        for one in gone:
            self._put(one, None)
        for key in [key for key in self._times if hard.share(*key) is None]:
            del self._times[key]

    async def _oldest_s(self, share: Share, reads: Reads) -> float | None:
        """Publish time of the oldest message of a share; of an earlier one if it may not read."""
        key, first = (share.settings.id, share.partition), share.first_open
        known = self._times.get(key)
        if known is not None and (known[0] == first or not reads.left):
            return known[1]
        if not reads.left:
            return None
        reads.left -= 1
        try:
            items = await self._store.read(share.partition, first, max_bytes=1)
        except LakeUnavailable:
            # How old the oldest is stands in the lake.
            return None if known is None else known[1]
        if not items or isinstance(items[0], Damaged):
            return None
        time_s = min(items[0].publish_time_ns / 1e9, self._clock.now())
        self._times[key] = first, time_s
        return time_s


def mode_of(subscription: Subscription) -> str:
    """How a subscription delivers: pull, push, forward or export."""
    push = subscription.push
    if push is not None and push.endpoint.startswith(endpoints.TOPIC_SCHEME):
        return "forward"
    return subscription.mode
