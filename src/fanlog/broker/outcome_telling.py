"""Telling outcomes: once a minute, the outcomes of that minute are published on a system topic.

Those of deliveries are told by a broker with a lake, where the pipeline makes tables of them; marks
that backlogs crossed by any broker, in a minute in which one did. `fanlog.model.outcomes` has their
form. `fanlog.broker.metrics` counts; here the counts since the last time are taken. Topics and
subscriptions of the service itself are not counted, or telling would never end.

Soft state only. A broker that stops tells the counts that it has; one that is killed loses those of
the last minute, and so does one whose disk takes no message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime

from fanlog import limits
from fanlog.broker import parts
from fanlog.broker.clock import Clock, sleep
from fanlog.broker.delivery.shares import Shares
from fanlog.broker.metrics import Metrics
from fanlog.broker.retention.room import Room
from fanlog.broker.transaction import Ledger
from fanlog.broker.verbs.topics import Topics
from fanlog.errors import AlreadyExists, FanlogError
from fanlog.log.batch import Body
from fanlog.model import names, outcomes
from fanlog.model.outcomes import MINUTE_S, Latencies, SubscriptionOutcome, TopicOutcome
from fanlog.model.resources import PartitionId, Subscription, SubscriptionId, Topic
from fanlog.model.specs import TopicSpec

log = logging.getLogger("fanlog.broker")

#: Shares looked at before the loop may do something else.
STEP = 200
#: The machine's clock and ours may differ by so much when a minute ends.
SKEW_S = 0.5

_SYSTEM = f"projects/{names.SYSTEM_PROJECT}/"
_NOTHING = (0,) * len(outcomes.COUNTS)


class OutcomeTelling:
    """Tells the outcomes of one broker. Lives on the loop.

    `body` makes a message of data; without it, no outcomes are told. The topic is made at the
    start where deliveries are told of, and otherwise with the first message.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        metrics: Metrics,
        shares: Shares,
        room: Room,
        topics: Topics,
        body: Callable[[bytes], Body] | None,
        *,
        tells_deliveries: bool,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._metrics = metrics
        self._room = room
        self._topics = topics
        self._body = body
        self._tells_deliveries = tells_deliveries and body is not None
        self._task: asyncio.Task[None] | None = None
        #: Held while a minute is told.
        self._telling = asyncio.Lock()
        #: When the present minute began.
        self._minute = datetime.fromtimestamp(0, UTC)
        #: Counts that were told before, by subscription.
        self._counted: dict[SubscriptionId, tuple[int, ...]] = {}
        self._backlogs: dict[SubscriptionId, int] = {}
        #: Subscriptions that were deleted in this minute.
        self._removed: list[SubscriptionOutcome] = []
        shares.on_remove.listen(self._remove)

    async def start(self) -> None:
        if self._body is None:
            return
        self._begin_minute()
        if self._tells_deliveries:
            try:
                await self._own_topic()
            except FanlogError as error:
                log.warning("action=outcomes_topic_failed error=%s; it is made later", error)
        self._task = asyncio.get_running_loop().create_task(self._tell_for_ever())

    async def stop(self) -> None:
        """Tell the counts that there are."""
        if self._task is None:
            return
        async with self._telling:
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.tell()

    def _remove(self, subscription: Subscription) -> None:
        """A subscription is deleted: the outcomes of its last minute are told all the same."""
        if self._tells_deliveries and not _is_own(subscription):
            outcome = self._outcome(subscription, 0)
            if outcome is not None:
                self._removed.append(outcome)
        self._counted.pop(subscription.id, None)
        self._backlogs.pop(subscription.id, None)
        self._metrics.subscriptions.pop(subscription.id, None)

    async def tell(self) -> None:
        """Tell the counts since the last time, and begin a new minute."""
        async with self._telling:
            told = outcomes.Outcomes(minute=self._minute)
            self._begin_minute()
            metrics = self._metrics
            told.crossings, metrics.crossings = metrics.crossings or [], []
            told.crossings_left_out, metrics.crossings_left_out = metrics.crossings_left_out, 0
            if self._tells_deliveries:
                await self._take_deliveries(told)
            try:
                await self._publish(told)
            except FanlogError as error:
                minute = told.minute.isoformat()
                log.warning("action=outcomes_lost minute=%s error=%s", minute, error)

    async def _take_deliveries(self, told: outcomes.Outcomes) -> None:
        published, self._metrics.published_to = self._metrics.published_to or {}, {}
        told.topics = self._topic_outcomes(published)
        told.subscriptions, self._removed = self._removed, []
        await self._look_at_subscriptions(told, published)

    async def _tell_for_ever(self) -> None:
        while True:
            now_s = self._clock.wall_ns() / 1e9
            left_s = MINUTE_S - (now_s + SKEW_S) % MINUTE_S + SKEW_S
            await sleep(self._clock, left_s)
            await self.tell()

    def _begin_minute(self) -> None:
        now_s = self._clock.wall_ns() / 1e9 + SKEW_S
        self._minute = datetime.fromtimestamp(now_s // MINUTE_S * MINUTE_S, UTC)

    def _topic_outcomes(self, published: dict[PartitionId, list[int]]) -> list[TopicOutcome]:
        found: list[TopicOutcome] = []
        for partition, (messages, size_bytes) in published.items():
            # The name of a topic that was deleted meanwhile may not be known any more.
            name = self._ledger.hard.catalog.topic_name_of(partition)
            if name and not name.startswith(_SYSTEM):
                found.append(TopicOutcome(topic=name, messages=messages, bytes=size_bytes))
        return found

    async def _look_at_subscriptions(
        self, told: outcomes.Outcomes, published: Iterable[PartitionId]
    ) -> None:
        hard, counted = self._ledger.hard, self._metrics.subscriptions
        # Those that did nothing have more to do now.
        readers = {share.settings.id for one in published for share in hard.shares_on(one)}
        steps = 0
        for subscription_id in sorted(readers | counted.keys()):
            subscription = hard.catalog.subscription_by_id(subscription_id)
            if subscription is None or _is_own(subscription):
                continue
            shares = [] if subscription.detached else hard.shares_of(subscription)
            backlog = 0
            for share in shares:
                backlog += share.stats(self._ledger.end(share.partition)).backlog
                steps += 1
                if steps % STEP == 0:
                    await asyncio.sleep(0)
                    hard = self._ledger.hard
            if hard.catalog.subscription_by_id(subscription_id) is None:
                continue
            outcome = self._outcome(subscription, backlog)
            if outcome is not None:
                told.subscriptions.append(outcome)

    def _outcome(self, subscription: Subscription, backlog: int) -> SubscriptionOutcome | None:
        """The outcome of a subscription since the last time; None when it is the same."""
        metrics = self._metrics
        counts = metrics.subscriptions.get(subscription.id)
        before = self._counted.get(subscription.id, _NOTHING)
        after = _NOTHING
        if counts is not None:
            after = tuple(getattr(counts, name) for name in outcomes.COUNTS)
        if after == before and backlog == self._backlogs.get(subscription.id, 0):
            return None
        self._counted[subscription.id] = after
        self._backlogs[subscription.id] = backlog
        latencies = (metrics.latencies or {}).pop(subscription.id, None)
        return SubscriptionOutcome(
            subscription=subscription.name,
            **{
                name: now - then
                for name, then, now in zip(outcomes.COUNTS, before, after, strict=True)
            },
            backlog=backlog,
            latencies=latencies or Latencies(),
        )

    async def _publish(self, told: outcomes.Outcomes) -> None:
        """Publish it; not by the broker's verb, which is closed when it stops."""
        assert self._body is not None
        # Ten thousand subscriptions make megabytes of text: not on the loop.
        is_large = len(told.topics) + len(told.subscriptions) + len(told.crossings) > STEP
        write = told.to_messages
        messages = await asyncio.to_thread(write) if is_large else write()
        if not messages:
            return
        topic = await self._own_topic()
        bodies = [self._body(one) for one in messages]
        size_bytes = sum(len(body.content) for body in bodies)
        await self._room.make(size_bytes)
        self._ledger.check_room(size_bytes)
        # A transaction each: very many need not fit into one commit.
        for body in bodies:
            transaction = self._ledger.begin()
            parts.append(transaction, topic, body)
            committed = transaction.commit()
        await committed

    async def _own_topic(self) -> Topic:
        catalog = self._ledger.hard.catalog
        if catalog.find_topic(outcomes.TOPIC) is None:
            spec = TopicSpec(name=outcomes.TOPIC, message_retention_s=limits.OUTCOME_RETENTION_S)
            with suppress(AlreadyExists):
                await self._topics.create(spec)
        return self._ledger.hard.catalog.topic(outcomes.TOPIC)


def _is_own(subscription: Subscription) -> bool:
    """Whether it is one of the service's own, or reads a topic of the service itself."""
    return subscription.name.startswith(_SYSTEM) or subscription.topic.startswith(_SYSTEM)
