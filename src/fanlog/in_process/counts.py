"""The counts of a broker in a program, as plain numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fanlog.broker.broker import Broker as Core
from fanlog.broker.pressure.relief import OVERFLOWN
from fanlog.in_process.consumer import CallbackConsumer
from fanlog.model.resources import Subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCounts:
    """Counts since the broker was opened, and how things stand."""

    #: Messages published; one that repeated a dedup id is none.
    published: int
    #: Messages handed to callbacks, each time that they were.
    delivered: int
    #: Messages acknowledged.
    acked: int
    #: Times that a callback raised, or nacked.
    nacked: int
    #: Of those acknowledged, messages that a callable filter did not want.
    filtered: int
    #: Messages that left a subscription without having been delivered: their time-to-live was over,
    #: or a full backlog had no room for them.
    dropped: int
    #: Messages forwarded to a dead letter topic.
    dead_lettered: int
    #: Unacknowledged messages that no callback has, over all subscriptions.
    buffer_size: int
    #: Messages that callbacks have, or are about to get.
    inflight: int
    #: Dead letters that nobody has acknowledged.
    dead_letters: int
    #: Subscriptions there are, those without a callback in this program included.
    subscriptions: int
    #: Whether messages wait for a callback that has as many outstanding as it may.
    backpressure_active: bool


async def count(core: Core, consumers: Iterable[CallbackConsumer]) -> BrokerCounts:
    """Count; the backlogs are those of one moment each."""
    consumers = list(consumers)
    per_subscription = core.metrics.subscriptions.values()
    dead_lettered = sum(one.dead_lettered for one in per_subscription)
    subscriptions = list(core.hard.catalog.subscriptions())
    letter_topics = {
        one.dead_letter.dead_letter_topic for one in subscriptions if one.dead_letter is not None
    }
    waiting = inflight = 0
    letters = dict.fromkeys(letter_topics, 0)
    for subscription in subscriptions:
        state = await core.backlogs.measure(subscription)
        waiting += state.messages - state.outstanding
        inflight += state.outstanding
        if subscription.topic in letters:
            # Several may read one topic: a letter is there until the last of them is done with it.
            letters[subscription.topic] = max(letters[subscription.topic], state.messages)
    return BrokerCounts(
        published=core.metrics.published - dead_lettered,
        delivered=sum(one.delivered for one in per_subscription),
        acked=sum(one.acknowledged for one in per_subscription),
        nacked=sum(one.nacked for one in per_subscription),
        filtered=sum(one.filtered for one in consumers),
        dropped=sum(one.lapsed + _let_go(one.dropped) for one in per_subscription),
        dead_lettered=dead_lettered,
        buffer_size=waiting,
        inflight=inflight + sum(one.claimed for one in consumers),
        dead_letters=sum(letters.values()),
        subscriptions=len(subscriptions),
        backpressure_active=any(one.is_full for one in consumers),
    )


def _let_go(dropped: Mapping[str, int]) -> int:
    """What a full backlog let go of, by reason; those that became dead letters are there still."""
    return sum(count for reason, count in dropped.items() if reason != OVERFLOWN)


async def unacked(core: Core, subscriptions: Iterable[Subscription]) -> int:
    """How many messages these have not acknowledged."""
    return sum([(await core.backlogs.measure(one)).messages for one in subscriptions])
