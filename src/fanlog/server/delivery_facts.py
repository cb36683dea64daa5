"""How a subscription delivers, as fanlog.v1.Inspection shows it: consumers, endpoint, counts."""

from __future__ import annotations

from urllib.parse import urlsplit

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.broker.delivery.movers import MoverHealth
from fanlog.broker.verbs.survey import mode_of
from fanlog.core.flow import Credit
from fanlog.model import endpoints, names
from fanlog.model.resources import Subscription
from fanlog.v1 import inspection_pb2 as pb
from fanlog.wire.fields import timestamp


async def get_delivery(broker: Broker, request: pb.GetDeliveryRequest) -> pb.Delivery:
    name = str(names.parse_subscription(request.subscription))
    subscription, _ = await broker.subscriptions.get(name)
    counts = broker.survey.counts_of(subscription)
    answer = pb.Delivery(
        subscription=name,
        mode=mode_of(subscription),
        outstanding=sum(len(s.leased) for s in broker.hard.shares_of(subscription)),
        counts=pb.DeliveryCounts(
            delivered=counts.delivered,
            redelivered=counts.redelivered,
            acknowledged=counts.acknowledged,
            nacked=counts.nacked,
            expired=counts.expired,
            dead_lettered=counts.dead_lettered,
            filtered_out=counts.passed_over,
            lapsed=counts.lapsed,
        ),
    )
    if counts.acked_s is not None:
        answer.last_acknowledged.CopyFrom(timestamp(counts.acked_s))
    if counts.delivered_s is not None:
        answer.last_delivered.CopyFrom(timestamp(counts.delivered_s))
    _add_consumers(broker, subscription, answer)
    if subscription.push is not None:
        _fill_push(broker, subscription, answer.push)
    return answer


def _add_consumers(broker: Broker, subscription: Subscription, answer: pb.Delivery) -> None:
    feed = broker.feeds.find(subscription)
    if feed is None:
        return
    staying = list(feed.staying.items())
    held: dict[Credit, int] = {}
    for credit, about in staying[: limits.CONSUMERS_SHOWN_MAX]:
        held[credit] = credit.messages
        answer.consumers.add(
            client_id=about.client_id,
            address=about.address,
            principal=about.principal,
            connected_at=timestamp(about.since_s),
            outstanding=credit.messages,
            max_outstanding=credit.max_messages,
            outstanding_bytes=credit.size_bytes,
            max_outstanding_bytes=credit.max_bytes,
        )
    answer.consumers_left_off = max(0, len(staying) - limits.CONSUMERS_SHOWN_MAX)
    movers = int(broker.movers.has(subscription))
    answer.waiting_pulls = max(0, feed.users - len(staying) - movers)


def _fill_push(broker: Broker, subscription: Subscription, push: pb.PushHealth) -> None:
    assert subscription.push is not None
    push.endpoint = _shown(subscription.push.endpoint)
    push.trouble = broker.movers.trouble(subscription)
    health = broker.movers.health(subscription) or MoverHealth()
    push.breaker = "off" if subscription.push_off else health.breaker
    if health.next_try_s is not None and push.breaker in ("open", "half-open"):
        push.next_try.CopyFrom(timestamp(health.next_try_s))
    push.window, push.under_way, push.attempts = health.window, health.under_way, health.attempts
    push.outcomes.update(health.outcomes)
    for one in health.failures:
        push.failures.add(
            time=timestamp(one.time_s),
            reason=one.reason,
            messages=one.messages,
            message_id=one.message_id,
        )


def _shown(endpoint: str) -> str:
    """The endpoint without its query: that is where some have their secrets."""
    if endpoint.startswith(endpoints.TOPIC_SCHEME):
        return endpoint
    return urlsplit(endpoint)._replace(query="", fragment="").geturl()
