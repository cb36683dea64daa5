"""Counts of events in the broker, as plain numbers; the server shows them to those who look.

One object for the broker, one small one for each subscription and partition that did anything.
Counting is on the path of every message, so it pays per commit, per answer and per request, and
never per message: times of many messages are observed at once, at the middle of their lease.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fanlog import limits
from fanlog.broker.histogram import Histogram
from fanlog.core.share import Decision
from fanlog.core.watermark import Crossing
from fanlog.log.batch import Body
from fanlog.model.outcomes import CrossingOutcome, Latencies
from fanlog.model.resources import PartitionId, SubscriptionId

COMMIT_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
COMMIT_BYTES = (1e3, 1e4, 1e5, 1e6, 4e6, 16e6, 64e6)
#: Of a publish, from its admission to its commit: a commit, and the wait for it.
PUBLISH_SECONDS = (*COMMIT_SECONDS, 30.0)
#: From a message's publish time: what is read at once takes milliseconds, a backlog days.
AGE_SECONDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
    *(60.0, 300.0, 1_800.0, 7_200.0, 43_200.0, 259_200.0),
)
#: Of an HTTP request or a call to an endpoint; the longest time-out of push is ten minutes.
PUSH_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 600.0)


class Counted(Protocol):
    """A delivery, as far as it is counted."""

    @property
    def count(self) -> int: ...
    @property
    def redelivered(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def published_s(self) -> float: ...


@dataclass(slots=True)
class PartitionMetrics:
    """Messages and bytes that were appended to one partition."""

    messages: int = 0
    size_bytes: int = 0
    #: Publishes, or the parts of them that went to this partition.
    publishes: int = 0


@dataclass(slots=True)
class SubscriptionMetrics:
    delivered: int = 0
    #: Bytes of these messages.
    delivered_bytes: int = 0
    #: Of them, those that were delivered before: after a nack or an expiry.
    redelivered: int = 0
    acknowledged: int = 0
    #: Seconds from publish to acknowledgement, of all acknowledged messages together.
    ack_wait_s: float = 0.0
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
    #: When a message was delivered, acknowledged and dead-lettered last; None for never.
    delivered_s: float | None = None
    acked_s: float | None = None
    letter_s: float | None = None

    def count_letters(self, messages: int, now: float) -> None:
        """Messages became dead letters."""
        if messages:
            self.dead_lettered += messages
            self.letter_s = now

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
    #: Messages of alerts: published, and tries to publish one that failed.
    alerts_told: int = 0
    alerts_failed: int = 0
    #: Messages, and about how many bytes, that only the server's default retention kept, and that
    #: it did not keep as long as it would have.
    default_trimmed: int = 0
    default_trimmed_bytes: int = 0
    batches_damaged: int = 0
    streams: int = 0
    commit_seconds: Histogram = field(default_factory=lambda: Histogram(COMMIT_SECONDS))
    commit_bytes: Histogram = field(default_factory=lambda: Histogram(COMMIT_BYTES))
    publish_seconds: Histogram = field(default_factory=lambda: Histogram(PUBLISH_SECONDS))
    #: From publish to the first delivery, and to the acknowledgement; counts of messages.
    delivery_seconds: Histogram = field(default_factory=lambda: Histogram(AGE_SECONDS))
    ack_seconds: Histogram = field(default_factory=lambda: Histogram(AGE_SECONDS))
    push_seconds: Histogram = field(default_factory=lambda: Histogram(PUSH_SECONDS))
    subscriptions: dict[SubscriptionId, SubscriptionMetrics] = field(default_factory=dict)
    partitions: dict[PartitionId, PartitionMetrics] = field(default_factory=dict)
    #: The machine's clock, which publish times are read from.
    wall_ns: Callable[[], int] = time.time_ns
    #: Messages and bytes published of late, and how long acknowledgements took, for
    #: `OutcomeTelling`, which takes them out again. None where deliveries are not told of.
    published_to: dict[PartitionId, list[int]] | None = None
    latencies: dict[SubscriptionId, Latencies] | None = None
    #: Marks that backlogs crossed of late, for the same, and how many more there were than are
    #: remembered. None where they are not told.
    crossings: list[CrossingOutcome] | None = None
    crossings_left_out: int = 0

    def count_commit(self, size_bytes: int, messages: int, seconds: float) -> None:
        self.commit_seconds.observe(seconds)
        self.commit_bytes.observe(size_bytes)
        self.published += messages
        self.published_bytes += size_bytes

    def note_crossing(self, crossing: CrossingOutcome) -> None:
        """A backlog has crossed a mark, which is told at the end of the minute."""
        if self.crossings is None:
            return
        if len(self.crossings) < limits.OUTCOME_CROSSINGS_MAX:
            self.crossings.append(crossing)
        else:
            self.crossings_left_out += 1

    def count_append(self, partition: PartitionId, messages: int, bodies: Sequence[Body]) -> None:
        """A commit has appended messages to a partition."""
        counts = self.partitions.get(partition)
        if counts is None:
            counts = self.partitions[partition] = PartitionMetrics()
        size_bytes = 0
        for body in bodies:
            size_bytes += len(body.content)
        counts.messages += messages
        counts.size_bytes += size_bytes
        counts.publishes += len(bodies)
        if self.published_to is None:
            return
        found = self.published_to.get(partition)
        if found is None:
            found = self.published_to[partition] = [0, 0]
        found[0] += messages
        found[1] += size_bytes

    def forget_partition(self, partition: PartitionId) -> None:
        """A partition is gone, with its topic."""
        self.partitions.pop(partition, None)

    def count_deliveries(
        self, subscription: SubscriptionId, deliveries: Iterable[Counted], now: float
    ) -> None:
        counts = self.of(subscription)
        now_s = self.wall_ns() / 1e9
        for delivery in deliveries:
            counts.delivered += delivery.count
            counts.delivered_s = now
            counts.delivered_bytes += delivery.size_bytes
            if delivery.redelivered:
                counts.redelivered += delivery.redelivered
            else:
                self.delivery_seconds.observe(now_s - delivery.published_s, delivery.count)

    def count_settling(
        self, subscription: SubscriptionId, decision: Decision, seconds: float | None, now: float
    ) -> None:
        """A request to acknowledge (`seconds` None) or to change deadlines was decided."""
        if decision.is_refused:
            self.of(subscription).refused += len(decision.invalid) + len(decision.early)
        if seconds is None:
            self.count_acks(subscription, decision, now)
        elif seconds == 0:
            self.of(subscription).nacked += decision.count

    def count_acks(self, subscription: SubscriptionId, decision: Decision, now: float) -> None:
        if not decision.count and not decision.ended:
            return
        counts = self.of(subscription)
        if decision.count:
            counts.acknowledged += decision.count
            counts.acked_s = now
        if not decision.ended:
            return
        wall_s = self.wall_ns() / 1e9
        for _, count, published_s in decision.ended:
            counts.ack_wait_s += self.ack_seconds.observe(wall_s - published_s, count)
        if self.latencies is None:
            return
        found = self.latencies.get(subscription)
        if found is None:
            found = self.latencies[subscription] = Latencies()
        for granted_s, count, _ in decision.ended:
            found.observe(now - granted_s, count)

    def of(self, subscription: SubscriptionId) -> SubscriptionMetrics:
        found = self.subscriptions.get(subscription)
        if found is None:
            found = self.subscriptions[subscription] = SubscriptionMetrics()
        return found
