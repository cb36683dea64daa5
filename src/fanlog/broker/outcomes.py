"""Telling outcomes: once a minute, what became of the deliveries of that minute, as a message.

On for a broker with a lake, where the pipeline makes tables of it; see `fanlog.model.outcomes` for
what is told. Counting is the business of `fanlog.broker.metrics`; here is what was counted since
the last time. What the service does for itself is not counted, or telling would never end.

Soft state only. A broker that stops tells what it has; one that is killed loses the counts since
the last minute, and so does one whose disk takes no message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fanlog import limits
from fanlog.broker.clock import Clock, sleep
from fanlog.broker.writer import Publication
from fanlog.errors import AlreadyExists, FanlogError
from fanlog.log.batch import Body
from fanlog.model import names, outcomes
from fanlog.model.outcomes import MINUTE_S, Latencies, SubscriptionOutcome, TopicOutcome
from fanlog.model.resources import PartitionId, Subscription, SubscriptionId, Topic
from fanlog.model.specs import TopicSpec

if TYPE_CHECKING:
    from fanlog.broker.broker import Broker

log = logging.getLogger("fanlog.broker")

#: Shares looked at before the loop may do something else.
STEP = 200
#: The machine's clock and ours may differ by so much when a minute ends.
SKEW_S = 0.5

_SYSTEM = f"projects/{names.SYSTEM_PROJECT}/"
_NOTHING = (0,) * len(outcomes.COUNTS)


class Outcomes:
    """Tells the outcomes of one broker, once `enable` was called. Lives on the loop."""

    def __init__(self, broker: Broker, clock: Clock) -> None:
        self._broker = broker
        self._clock = clock
        self._body: Callable[[bytes], Body] | None = None
        self._task: asyncio.Task[None] | None = None
        #: Held while a minute is told.
        self._telling = asyncio.Lock()
        #: When the present minute began.
        self._minute = datetime.fromtimestamp(0, UTC)
        #: What was counted and told before, by subscription.
        self._counted: dict[SubscriptionId, tuple[int, ...]] = {}
        self._backlogs: dict[SubscriptionId, int] = {}
        #: Subscriptions that were deleted in this minute.
        self._removed: list[SubscriptionOutcome] = []

    def enable(self, body: Callable[[bytes], Body]) -> None:
        """Have outcomes told, from the start on; `body` makes a message of data."""
        self._body = body
        self._broker.metrics.published_to = {}
        self._broker.metrics.latencies = {}

    async def start(self) -> None:
        if self._body is None:
            return
        self._begin_minute()
        try:
            await self._topic()
        except FanlogError as error:
            log.warning("action=outcomes_topic_failed error=%s; it is made later", error)
        self._task = asyncio.get_running_loop().create_task(self._tell_for_ever())

    async def stop(self) -> None:
        """Tell what there is."""
        if self._task is None:
            return
        async with self._telling:
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.tell()

    def removed(self, subscription: Subscription) -> None:
        """A subscription was deleted: what it did in its last minute is told all the same."""
        if self._body is not None and not _is_own(subscription):
            outcome = self._outcome(subscription, 0)
            if outcome is not None:
                self._removed.append(outcome)
        self._counted.pop(subscription.id, None)
        self._backlogs.pop(subscription.id, None)
        self._broker.metrics.subscriptions.pop(subscription.id, None)

    async def tell(self) -> None:
        """Tell what was counted since the last time, and begin a new minute."""
        async with self._telling:
            told = outcomes.Outcomes(minute=self._minute)
            self._begin_minute()
            published, self._broker.metrics.published_to = self._broker.metrics.published_to, {}
            told.topics = self._topics(published or {})
            told.subscriptions, self._removed = self._removed, []
            await self._look_at_subscriptions(told, published or {})
            try:
                await self._publish(told)
            except FanlogError as error:
                minute = told.minute.isoformat()
                log.warning("action=outcomes_lost minute=%s error=%s", minute, error)

    async def _tell_for_ever(self) -> None:
        while True:
            now_s = self._clock.wall_ns() / 1e9
            left_s = MINUTE_S - (now_s + SKEW_S) % MINUTE_S + SKEW_S
            await sleep(self._clock, left_s)
            await self.tell()

    def _begin_minute(self) -> None:
        now_s = self._clock.wall_ns() / 1e9 + SKEW_S
        self._minute = datetime.fromtimestamp(now_s // MINUTE_S * MINUTE_S, UTC)

    def _topics(self, published: dict[PartitionId, list[int]]) -> list[TopicOutcome]:
        found: list[TopicOutcome] = []
        for partition, (messages, size_bytes) in published.items():
            # Nobody may know the name of one that was deleted meanwhile.
            name = self._broker.hard.catalog.topic_name_of(partition)
            if name and not name.startswith(_SYSTEM):
                found.append(TopicOutcome(topic=name, messages=messages, bytes=size_bytes))
        return found

    async def _look_at_subscriptions(
        self, told: outcomes.Outcomes, published: Iterable[PartitionId]
    ) -> None:
        hard, counted = self._broker.hard, self._broker.metrics.subscriptions
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
                backlog += share.stats(self._broker.writer.end(share.partition)).backlog
                steps += 1
                if steps % STEP == 0:
                    await asyncio.sleep(0)
                    hard = self._broker.hard
            if hard.catalog.subscription_by_id(subscription_id) is None:
                continue
            outcome = self._outcome(subscription, backlog)
            if outcome is not None:
                told.subscriptions.append(outcome)

    def _outcome(self, subscription: Subscription, backlog: int) -> SubscriptionOutcome | None:
        """What a subscription did since the last time; None when that is nothing."""
        metrics = self._broker.metrics
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
        is_large = len(told.topics) + len(told.subscriptions) > STEP
        write = told.to_messages
        messages = await asyncio.to_thread(write) if is_large else write()
        if not messages:
            return
        topic = await self._topic()
        writer = self._broker.writer
        bodies = [self._body(one) for one in messages]
        size_bytes = sum(len(body.content) for body in bodies)
        await self._broker.room.made(size_bytes)
        writer.check_room(size_bytes)
        # In one turn of the loop, and so one commit unless they are very many.
        commits = [
            writer.submit(publication=Publication(topic.id, topic.partitions[0], body))[0]
            for body in bodies
        ]
        await commits[-1]

    async def _topic(self) -> Topic:
        catalog = self._broker.hard.catalog
        if catalog.find_topic(outcomes.TOPIC) is None:
            spec = TopicSpec(name=outcomes.TOPIC, message_retention_s=limits.OUTCOME_RETENTION_S)
            with suppress(AlreadyExists):
                await self._broker.admin.create_topic(spec)
        return self._broker.hard.catalog.topic(outcomes.TOPIC)


def _is_own(subscription: Subscription) -> bool:
    """Whether it is one of the service's own, or reads what the service writes for itself."""
    return subscription.name.startswith(_SYSTEM) or subscription.topic.startswith(_SYSTEM)
