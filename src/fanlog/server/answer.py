"""Deliveries as the bytes of an answer."""

from __future__ import annotations

from fanlog.broker.broker import Broker
from fanlog.broker.feed import Delivery
from fanlog.model import Subscription
from fanlog.wire.frame import frame_received


def frame_delivery(broker: Broker, subscription: Subscription, delivery: Delivery) -> bytes:
    """The `received_messages` of an answer, unary or streamed."""
    prefix = broker.ack_id_prefix(subscription, delivery).encode()
    return b"".join(
        frame_received(
            batch,
            range(first, end),
            prefix,
            attempt=delivery.attempt,
            attempts=delivery.attempts,
        )
        for batch, first, end in delivery.runs
    )
