"""Live numbers: one sample a second for all watchers together, and none while nobody watches.

The sampler counts what differs from the sample before. A watcher takes the latest sample when it
has room for one: samples that it was too slow for are not kept for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields

from fanlog import limits
from fanlog.broker.access import Access
from fanlog.broker.clock import Clock, sleep
from fanlog.broker.metrics import Metrics, SubscriptionMetrics
from fanlog.broker.pacing import paced
from fanlog.broker.ports import Node, NodeState
from fanlog.broker.pressure.pressure import Pressure
from fanlog.broker.tiering.tiers import Tiers
from fanlog.broker.transaction import Ledger
from fanlog.broker.verbs.findings import Findings
from fanlog.broker.verbs.pipelines import Pipelines
from fanlog.broker.verbs.rates import RecentRates
from fanlog.broker.verbs.survey import Reads, Sums, Survey, Surveyed
from fanlog.core.catalog import CatalogStats
from fanlog.core.problems import Problem
from fanlog.errors import FanlogError, Internal, ResourceExhausted, Unavailable
from fanlog.log.api import Log, LogStats
from fanlog.model.pipelines import PipelineView
from fanlog.model.resources import Subscription

log = logging.getLogger("fanlog.broker")

#: Messages delivered, acknowledged, and failed.
_Counts = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Counts of the whole server since its start."""

    published: int = 0
    published_bytes: int = 0
    delivered: int = 0
    acknowledged: int = 0
    failed: int = 0
    dead_lettered: int = 0
    commits: int = 0
    calls: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSample:
    name: str
    published: float
    published_total: int
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionSample:
    name: str
    delivered: float
    acknowledged: float
    failed: float
    backlog: int
    is_estimated: bool
    outstanding: int
    delayed: int
    age_s: float
    consumers: int
    pressure: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The server at one moment. Rates are per second, since the sample before."""

    number: int
    time_s: float
    #: None for the first sample, which has no rates.
    rates: Mapping[str, float] | None
    sums: Sums
    disk: LogStats
    degraded: str
    lake_uri: str
    lake_alarm: str
    archived_sequence: int
    sequence: int
    jobs: Mapping[str, int]
    node: NodeState
    cpu: float
    loop_lag_s: float
    streams: int
    watchers: int
    catalog: CatalogStats
    schedules: int
    pipelines: Sequence[PipelineView]
    topics: Mapping[str, TopicSample]
    subscriptions: Mapping[str, SubscriptionSample]
    problems: Sequence[Problem]


@dataclass(eq=False, slots=True)
class Watcher:
    """Waits for samples. Lives on the loop."""

    topics: tuple[str, ...]
    subscriptions: tuple[str, ...]
    only_named: bool
    #: The number of the sample that it had last.
    seen: int = 0
    _error: FanlogError | None = None
    _waiter: asyncio.Future[None] | None = None

    def end(self, error: FanlogError) -> None:
        """Have the watcher told that there are no more."""
        self._error = error
        self.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def check(self) -> None:
        """Raises FanlogError: There are no more samples."""
        if self._error is not None:
            raise self._error

    async def wait(self) -> None:
        """Return when there may be another sample; raises FanlogError."""
        self.check()
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
        self.check()


@dataclass(eq=False)
class Live:
    """The samples of one broker. Lives on the loop."""

    _ledger: Ledger
    _store: Log
    _clock: Clock
    _metrics: Metrics
    _access: Access
    _tiers: Tiers
    _pressure: Pressure
    _survey: Survey
    _findings: Findings
    _rates: RecentRates
    _node: Node
    _pipelines: Pipelines
    _watchers: dict[Watcher, None] = field(default_factory=dict)
    _named: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._sample: Sample | None = None
        self._numbers = 0
        #: Of the sample before: when, the totals, and the counts of those that are named.
        self._before_s = 0.0
        self._totals: Totals | None = None
        self._cpu_s = 0.0
        self._ends: dict[str, int] = {}
        self._counts: dict[str, _Counts] = {}

    @property
    def watchers(self) -> int:
        return len(self._watchers)

    # Watching.

    @contextmanager
    def watching(
        self, topics: Iterable[str], subscriptions: Iterable[str], *, only_named: bool
    ) -> Iterator[Watcher]:
        """Watch within it; `next_sample` gives the samples.

        Raises:
            ResourceExhausted: As many watch as may.
            Unavailable: The broker is stopping.
        """
        self._access.check_serving()
        if len(self._watchers) >= limits.LIVE_WATCHERS_MAX:
            raise ResourceExhausted(
                f"{limits.LIVE_WATCHERS_MAX} watch the live numbers already, as many as may"
            )
        watcher = Watcher(
            tuple(dict.fromkeys(topics)), tuple(dict.fromkeys(subscriptions)), only_named
        )
        named = {*watcher.topics, *watcher.subscriptions}
        if len(named - self._named.keys()) + len(self._named) > limits.LIVE_NAMED_TOTAL_MAX:
            raise ResourceExhausted(
                f"watchers name {limits.LIVE_NAMED_TOTAL_MAX} topics and subscriptions already, as "
                "many as may"
            )
        self._watchers[watcher] = None
        self._named.update(named)
        try:
            yield watcher
        finally:
            del self._watchers[watcher]
            self._named.subtract(named)
            self._named = +self._named
            if not self._watchers and self._task is not None:
                self._task.cancel()
                self._task = None
                self._sample = None

    async def next_sample(self, watcher: Watcher) -> Sample:
        """The latest sample that a watcher did not have; waits for it.

        Raises:
            FanlogError: There are no more: the broker is stopping.
        """
        if self._task is None:
            self._begin()
        while self._sample is None or self._sample.number <= watcher.seen:
            await watcher.wait()
        watcher.check()
        watcher.seen = self._sample.number
        return self._sample

    def drain(self) -> None:
        """Send all watchers away."""
        error = Unavailable("the server is stopping; connect again")
        for watcher in list(self._watchers):
            watcher.end(error)
        if self._task is not None:
            self._task.cancel()

    # Sampling.

    def _begin(self) -> None:
        self._totals, self._counts, self._ends = None, {}, {}
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        """The sampler has ended; if by a mistake of ours, the watchers are told."""
        if task.cancelled() or task is not self._task:
            return
        log.error("action=sampling_failed", exc_info=task.exception())
        self._task = self._sample = None
        for watcher in list(self._watchers):
            watcher.end(Internal("the live numbers ended; the broker's log says more"))

    async def _run(self) -> None:
        due_s = self._clock.now()
        while True:
            now = self._clock.now()
            lag_s = max(0.0, now - due_s)
            self._rates.look()
            await self._survey.step()
            await self._findings.look_at_topics()
            self._sample = await self._take(now, lag_s)
            for watcher in list(self._watchers):
                watcher.wake()
            # Late samples are not caught up with.
            due_s = max(due_s + limits.LIVE_S, self._clock.now())
            await sleep(self._clock, due_s - self._clock.now())

    async def _take(self, now: float, lag_s: float) -> Sample:
        before, elapsed_s = self._totals, now - self._before_s
        node = self._node.state()
        totals = self._total(node)
        seconds = None if before is None or elapsed_s <= 0 else elapsed_s
        rates, cpu = None, 0.0
        if before is not None and seconds is not None:
            rates = _rates(before, totals, seconds)
            cpu = max(0.0, node.cpu_s - self._cpu_s) / seconds
        topics, subscriptions = await self._of_named(seconds)
        self._totals, self._before_s, self._cpu_s = totals, now, node.cpu_s
        self._numbers += 1
        jobs = Counter[str](job.state for job in self._ledger.hard.jobs.values())
        return Sample(
            number=self._numbers,
            time_s=now,
            rates=rates,
            sums=self._survey.sums(),
            disk=self._store.stats(),
            degraded=self._ledger.refusals.degraded(),
            lake_uri=self._tiers.lake_uri,
            lake_alarm=self._tiers.alarm,
            archived_sequence=self._tiers.archived_sequence,
            sequence=self._ledger.committed_sequence,
            jobs=jobs,
            node=node,
            cpu=cpu,
            loop_lag_s=lag_s,
            streams=self._metrics.streams,
            watchers=len(self._watchers),
            catalog=self._ledger.hard.catalog.stats(),
            schedules=len(self._ledger.hard.schedules),
            pipelines=self._pipelines.known(),
            topics=topics,
            subscriptions=subscriptions,
            problems=self._findings.known(),
        )

    def _total(self, node: NodeState) -> Totals:
        metrics = self._metrics
        of_all = metrics.subscriptions.values()
        return Totals(
            published=metrics.published,
            published_bytes=metrics.published_bytes,
            delivered=sum([one.delivered for one in of_all]),
            acknowledged=sum([one.acknowledged for one in of_all]),
            failed=sum([one.nacked + one.expired for one in of_all]),
            dead_lettered=sum([one.dead_lettered for one in of_all]),
            commits=sum(metrics.commit_seconds.counts),
            calls=node.calls,
            refused=sum(self._ledger.refusals.counts.values()),
        )

    async def _of_named(
        self, seconds: float | None
    ) -> tuple[dict[str, TopicSample], dict[str, SubscriptionSample]]:
        """The topics and subscriptions that any watcher names, as far as there are such."""
        topics: dict[str, TopicSample] = {}
        subscriptions: dict[str, SubscriptionSample] = {}
        counts: dict[str, _Counts] = {}
        reads = Reads(limits.SURVEY_READS_MAX)
        async for name in paced(list(self._named)):
            catalog = self._ledger.hard.catalog
            if catalog.find_topic(name) is not None:
                topics[name] = self._topic(name, seconds)
            elif catalog.has_subscription(name):
                subscription = catalog.subscription(name)
                found = await self._survey.look(subscription, reads)
                counts[name] = _counts(self._survey.counts_of(subscription))
                subscriptions[name] = self._subscription(
                    subscription, found, _grown(self._counts.get(name), counts[name], seconds)
                )
        self._ends = {name: one.published_total for name, one in topics.items()}
        self._counts = counts
        return topics, subscriptions

    def _topic(self, name: str, seconds: float | None) -> TopicSample:
        topic = self._ledger.hard.catalog.topic(name)
        total = sum(self._ledger.end(one) for one in topic.partitions)
        start = sum(self._ledger.start_of(one) for one in topic.partitions)
        before = self._ends.get(name)
        rate = 0.0 if seconds is None or before is None else max(0, total - before) / seconds
        return TopicSample(
            name=name, published=rate, published_total=total, messages=max(0, total - start)
        )

    def _subscription(
        self, subscription: Subscription, found: Surveyed, rates: tuple[float, float, float]
    ) -> SubscriptionSample:
        return SubscriptionSample(
            name=subscription.name,
            delivered=rates[0],
            acknowledged=rates[1],
            failed=rates[2],
            backlog=found.messages,
            is_estimated=found.is_estimated,
            outstanding=found.outstanding,
            delayed=found.delayed,
            age_s=found.age_s(self._clock.now()),
            consumers=self._survey.consumers_of(subscription),
            pressure=self._pressure.of_subscription(subscription) or 0.0,
        )


def _counts(metrics: SubscriptionMetrics) -> _Counts:
    return metrics.delivered, metrics.acknowledged, metrics.nacked + metrics.expired


def _grown(
    before: _Counts | None, now: _Counts, seconds: float | None
) -> tuple[float, float, float]:
    """By how much counts have grown, per second."""
    if before is None or seconds is None:
        return 0.0, 0.0, 0.0
    delivered, acked, failed = (max(0, new - old) for new, old in zip(now, before, strict=True))
    return delivered / seconds, acked / seconds, failed / seconds


def _rates(before: Totals, now: Totals, seconds: float) -> dict[str, float]:
    names = [one.name for one in fields(Totals)]
    return {n: max(0, getattr(now, n) - getattr(before, n)) / seconds for n in names}
