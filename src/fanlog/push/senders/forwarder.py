"""A subscription that forwards to a topic: copies and acknowledgements are one commit.

So a message is forwarded exactly once, also over crashes, unless a seek delivers it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import replace

from fanlog import limits
from fanlog.broker import parts
from fanlog.broker.broker import Broker
from fanlog.broker.clock import Clock
from fanlog.broker.delivery.delivery import Delivery
from fanlog.broker.delivery.feed import Feed
from fanlog.broker.delivery.movers import MoverFailure, MoverHealth
from fanlog.core.flow import Credit
from fanlog.core.redelivery import Nack
from fanlog.errors import BacklogFull, ResourceExhausted
from fanlog.log.batch import Batch, Body
from fanlog.log.seal import UNSEALED, Seal
from fanlog.model import endpoints
from fanlog.model.attributes import SOURCE_ID, SOURCE_TOPIC
from fanlog.model.ids import ack_id, message_id
from fanlog.model.resources import Subscription, Topic
from fanlog.push.senders.consumer import Consumer
from fanlog.push.senders.forward_counts import ForwardCounts
from fanlog.wire.forward import compose

log = logging.getLogger("fanlog.push")

#: Messages and bytes of one commit at most.
_MESSAGES_MAX = 1_000
_BYTES_MAX = 4 * 1024 * 1024

#: Messages, each by its batch and its index there.
Places = list[tuple[Batch, int]]


class Forwarder:
    """Forwards for one subscription."""

    def __init__(
        self, broker: Broker, clock: Clock, counts: ForwardCounts, subscription: Subscription
    ) -> None:
        self._broker = broker
        self._clock = clock
        self._counts = counts
        self.consumer = Consumer(broker, subscription, self._take_all)
        #: The last failure; empty when none came since.
        self.last_reason = ""
        #: The latest failures, for those who look; the oldest first.
        self._failed: deque[MoverFailure] = deque(maxlen=limits.PUSH_FAILURES_KEPT)

    def change(self, subscription: Subscription) -> None:
        """The subscription has other settings."""
        self.consumer.change(subscription)

    @property
    def under_way(self) -> set[asyncio.Task[None]]:
        """None: a commit is over soon, and done even if its task is cancelled."""
        return set()

    @property
    def trouble(self) -> str:
        """Why messages are not forwarded just now; empty when they are."""
        return f"forwarding waits: {self.last_reason}" if self.last_reason else ""

    @property
    def health(self) -> MoverHealth:
        return MoverHealth(failures=tuple(reversed(self._failed)))

    @property
    def _subscription(self) -> Subscription:
        return self.consumer.subscription

    async def _take_all(self, feed: Feed, credit: Credit) -> None:
        credit.max_messages = _MESSAGES_MAX
        while not self.consumer.is_over:
            version = feed.version
            deliveries = []
            if feed.has_ready:
                deliveries = await feed.take(
                    credit,
                    max_messages=_MESSAGES_MAX,
                    max_bytes=_BYTES_MAX,
                    deadline_s=self._subscription.ack_deadline_s + limits.PUSH_LEASE_MARGIN_S,
                )
            if not deliveries:
                await feed.wait(version)
                continue
            self._broker.count_deliveries(self._subscription, deliveries)
            for delivery in deliveries:
                await self._forward(delivery)

    async def _forward(self, delivery: Delivery) -> None:
        push = self._subscription.push
        if push is None:
            return
        name = endpoints.forward_topic(push.endpoint, self.consumer.name)
        topic = None if name is None else self._broker.hard.catalog.find_topic(name)
        if topic is None:
            await self._keep(delivery, f"topic {name!r} does not exist")
            return
        denial = self._broker.forward_denial(self._broker.hard, topic.name)
        if denial:
            # No attempt: what an administrator takes away makes no dead letters.
            await self._keep(delivery, denial, is_counted=False)
            return
        try:
            self._broker.pressure.check(topic)
            await self._commit(delivery, topic)
        except BacklogFull as error:
            # No attempt: nothing is wrong with the message.
            await self._keep(delivery, error.message, is_counted=False)
        except ResourceExhausted as error:
            await self._keep(delivery, error.message)

    async def _commit(self, delivery: Delivery, topic: Topic) -> None:
        broker = self._broker
        runs, stopped = self._split(delivery)
        if stopped:
            await self._stop(delivery, stopped)
        if not runs:
            return
        bodies = [self._body(delivery, seal, some) for seal, some in runs]
        size_bytes = sum(len(body.content) for body in bodies)
        await broker.room.make(size_bytes)
        share = broker.hard.share(self._subscription.id, delivery.partition)
        # Its topic may have been deleted meanwhile: then it is tried again, and found to be gone.
        if share is None or broker.hard.catalog.topic_by_id(topic.id) is None:
            return
        # Others may have filled a backlog there meanwhile.
        broker.pressure.check(topic)
        broker.ledger.check_room(size_bytes)
        offsets = [batch.base_offset + index for _, some in runs for batch, index in some]
        now = self._clock.now()
        decision = share.acknowledge(
            now,
            {delivery.generation: offsets},
            partial=True,
            end=broker.ledger.end(delivery.partition),
        )
        if not decision.acked:
            # A seek came between: messages that are unacknowledged again are delivered anew.
            return
        if len(decision.acked) < len(offsets):
            # So may have others that acknowledge, or move messages on: these are copied no more.
            bodies = [
                self._body(delivery, seal, left)
                for seal, some in runs
                if (left := [(b, i) for b, i in some if b.base_offset + i in decision.acked])
            ]
        transaction = broker.ledger.begin()
        transaction.apply(decision.records)
        for body in bodies:
            parts.append(transaction, topic, body)
        committed = transaction.commit()
        broker.metrics.count_acks(self._subscription.id, decision, now)
        broker.decisions.follow(share, decision)
        await committed
        self.last_reason = ""

    def _split(self, delivery: Delivery) -> tuple[list[tuple[Seal, Places]], Places]:
        """The messages by the seal of their copies, in order; and those that go no further."""
        branches = self._counts.of(delivery.partition)
        runs: list[tuple[Seal, Places]] = []
        stopped: Places = []
        for batch, first, end in delivery.runs:
            seal = (batch.seal or UNSEALED).next_hop(branches)
            places = [(batch, index) for index in range(first, end)]
            if seal is None:
                stopped += places
            elif runs and runs[-1][0] == seal:
                runs[-1][1].extend(places)
            else:
                runs.append((seal, places))
        return runs, stopped

    def _body(self, delivery: Delivery, seal: Seal, places: Places) -> Body:
        source = self._subscription.topic
        if self._subscription.is_pattern:
            source = self._broker.hard.catalog.topic_name_of(delivery.partition)
        body = compose(
            [
                (batch, index, _origin(source, delivery, batch.base_offset + index))
                for batch, index in places
            ]
        )
        return replace(body, seal=seal)

    async def _stop(self, delivery: Delivery, places: Places) -> None:
        """Messages came too far: they are dead letters, or acknowledged where there are none."""
        reason = (
            f"not forwarded: more than {limits.FORWARD_HOPS_MAX} forwards, or more than "
            f"{limits.FORWARD_COPIES_MAX} copies, lie behind it"
        )
        log.warning(
            "action=forward_stopped subscription=%s messages=%d reason=%s",
            *(self.consumer.name, len(places), reason),
        )
        self._broker.metrics.of(self._subscription.id).forward_stopped += len(places)
        ack_ids = self._ack_ids(delivery, places)
        if self._subscription.dead_letter is not None:
            nack = Nack(is_terminal=True, reason=reason)
            await self._broker.settle_some(self._subscription, ack_ids, 0, nack)
        else:
            await self._broker.settle_some(self._subscription, ack_ids, None)

    def _ack_ids(self, delivery: Delivery, places: Places) -> list[str]:
        prefix = self._broker.ack_id_prefix(self._subscription, delivery)
        return [ack_id(prefix, batch.base_offset + index) for batch, index in places]

    async def _keep(self, delivery: Delivery, reason: str, *, is_counted: bool = True) -> None:
        """Nothing can be forwarded now: the messages stay, and are tried again later."""
        if reason != self.last_reason:
            log.warning(
                "action=forward_failed subscription=%s reason=%s", self.consumer.name, reason
            )
        self.last_reason = reason
        places = [
            (batch, index) for batch, first, end in delivery.runs for index in range(first, end)
        ]
        batch, index = places[0]
        self._failed.append(
            MoverFailure(
                time_s=self._clock.now(),
                reason=reason,
                messages=len(places),
                message_id=message_id(delivery.partition, batch.base_offset + index),
            )
        )
        self._broker.metrics.of(self._subscription.id).forward_failed += len(places)
        nack = Nack(delay_s=limits.DEAD_LETTER_RETRY_S, reason=reason, is_counted=is_counted)
        ack_ids = self._ack_ids(delivery, places)
        await self._broker.settle_some(self._subscription, ack_ids, 0, nack)


def _origin(topic: str, delivery: Delivery, offset: int) -> dict[str, str]:
    """The attributes of a forwarded message that name its source."""
    return {
        SOURCE_TOPIC: topic,
        SOURCE_ID: message_id(delivery.partition, offset),
    }
