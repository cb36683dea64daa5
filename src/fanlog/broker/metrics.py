"""Counts of events in the broker, as plain numbers; the HTTP server shows them.

One object for the broker, one small one for each subscription that did anything.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from fanlog.core.share import Decision
from fanlog.core.watermark import Crossing
from fanlog.log.batch import Body
from fanlog.model.outcomes import CrossingOutcome, Latencies
from fanlog.model.resources import PartitionId, SubscriptionId

COMMIT_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
COMMIT_BYTES = (1e3, 1e4, 1e5, 1e6, 4e6, 16e6, 64e6)


class Histogram:
    """Counts by upper bound, as Prometheus wants them."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        #: One more than bounds: the last counts values above them all.
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Counted(Protocol):
    """A delivery, as far as it is counted."""

    @property
    def count(self) -> int: ...
    @property
    def redelivered(self) -> int: ...


@dataclass(slots=True)
class SubscriptionMetrics:
    delivered: int = 0
    #: Of them, those that were delivered before: after a nack or an expiry.
    redelivered: int = 0
    acknowledged: int = 0
    nacked: int = 0
    expired: int = 0
    dead_lettered: int = 0
    lapsed: int = 0
    #: Messages that waited too long for those that they depend on.
    overdue: int = 0
    #: Times a message stayed because its dead letter topic cannot be published to.
    dead_letter_failed: int = 0
    #: Messages that were not forwarded: too many forwards or copies lie behind them.
    forward_stopped: int = 0
    #: Times a message stayed because it could not be forwarded.
    forward_failed: int = 0
    #: Messages the filter left out, counted when it judged them: again when that is done again.
    passed_over: int = 0
    #: Messages delivered in another revision of their schema than they were written in, and those
    #: that could not be.
    transformed: int = 0
    untransformed: int = 0
    #: Key slots that went from one stream to another.
    slot_moves: int = 0
    #: Times that a consumer got nothing because the subscription's window was full.
    window_full: int = 0
    #: Ack ids refused under exactly-once.
    refused: int = 0
    #: Messages that were acknowledged and then reopened, by themselves or for dead letters.
    reopened: int = 0
    #: Messages that purges acknowledged.
    purged: int = 0
    #: Messages that a full backlog let go of, by reason; and how often it became high, and low.
    dropped: dict[str, int] = field(default_factory=dict)
    backlog_high: int = 0
    backlog_low: int = 0
    #: Publishes refused, or kept waiting, because this backlog was high.
    pushed_back: int = 0
    blocked: int = 0

    def count_crossing(self, crossing: Crossing) -> None:
        """The backlog became high, or is low again."""
        if crossing == "high":
            self.backlog_high += 1
        else:
            self.backlog_low += 1


@dataclass(slots=True)
class Metrics:
    published: int = 0
    published_bytes: int = 0
    publish_requests: int = 0
    #: Messages that repeated one published lately, and so were not appended.
    deduplicated: int = 0
    #: Gaps in the numbers of publishers that were given up.
    gaps_given_up: int = 0
    commits_failed: int = 0
    #: Ticks of schedules: published, given up, and tries to publish one that failed.
    ticks_published: int = 0
    ticks_missed: int = 0
    ticks_failed: int = 0
    #: Messages, and about how many bytes, that only the server's default retention kept, and that
    #: it did not keep as long as it would have.
    default_trimmed: int = 0
    default_trimmed_bytes: int = 0
    batches_damaged: int = 0
    streams: int = 0
    commit_seconds: Histogram = field(default_factory=lambda: Histogram(COMMIT_SECONDS))
    commit_bytes: Histogram = field(default_factory=lambda: Histogram(COMMIT_BYTES))
    subscriptions: dict[SubscriptionId, SubscriptionMetrics] = field(default_factory=dict)
    #: Messages and bytes published of late, and how long acknowledgements took, for
    #: `OutcomeTelling`, which takes them out again. None where outcomes are not told.
    published_to: dict[PartitionId, list[int]] | None = None
    latencies: dict[SubscriptionId, Latencies] | None = None
    #: Marks that backlogs crossed of late, for the same.
    crossings: list[CrossingOutcome] | None = None

    def count_commit(self, size_bytes: int, messages: int, seconds: float) -> None:
        self.commit_seconds.observe(seconds)
        self.commit_bytes.observe(size_bytes)
        self.published += messages
        self.published_bytes += size_bytes

    def count_append(self, partition: PartitionId, messages: int, bodies: Iterable[Body]) -> None:
        """A commit has appended messages to a partition."""
        if self.published_to is None:
            return
        found = self.published_to.get(partition)
        if found is None:
            found = self.published_to[partition] = [0, 0]
        found[0] += messages
        found[1] += sum(len(body.content) for body in bodies)

    def count_deliveries(self, subscription: SubscriptionId, deliveries: Iterable[Counted]) -> None:
        counts = self.of(subscription)
        for delivery in deliveries:
            counts.delivered += delivery.count
            counts.redelivered += delivery.redelivered

    def count_settling(
        self, subscription: SubscriptionId, decision: Decision, seconds: float | None, now: float
    ) -> None:
        """A request to acknowledge (`seconds` None) or to change deadlines was decided."""
        counts = self.of(subscription)
        counts.refused += len(decision.invalid) + len(decision.early)
        if seconds is None:
            self.count_acks(subscription, decision, now)
        elif seconds == 0:
            counts.nacked += decision.count

    def count_acks(self, subscription: SubscriptionId, decision: Decision, now: float) -> None:
        self.of(subscription).acknowledged += decision.count
        if self.latencies is None or not decision.ended:
            return
        found = self.latencies.get(subscription)
        if found is None:
            found = self.latencies[subscription] = Latencies()
        for granted_s, count in decision.ended:
            found.observe(now - granted_s, count)

    def of(self, subscription: SubscriptionId) -> SubscriptionMetrics:
        found = self.subscriptions.get(subscription)
        if found is None:
            found = self.subscriptions[subscription] = SubscriptionMetrics()
        return found
