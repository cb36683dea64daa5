"""Deliveries as the bytes of an answer."""

from __future__ import annotations

from collections.abc import Iterable

from fanlog.broker.broker import Broker
from fanlog.broker.delivery.delivery import Delivery
from fanlog.model.resources import Subscription
from fanlog.wire.frame import frame_received


def frame_deliveries(
    broker: Broker, subscription: Subscription, deliveries: Iterable[Delivery]
) -> bytes:
    """The `received_messages` of an answer, unary or streamed."""
    return b"".join(_frame(broker, subscription, delivery) for delivery in deliveries)


def _frame(broker: Broker, subscription: Subscription, delivery: Delivery) -> bytes:
    prefix = broker.ack_id_prefix(subscription, delivery).encode()
    added = broker.added_attributes(subscription, delivery)
    return b"".join(
        frame_received(
            batch,
            range(first, end),
            prefix,
            attempt=delivery.attempt,
            attempts=delivery.attempts,
            added=added,
        )
        for batch, first, end in delivery.runs
    )
