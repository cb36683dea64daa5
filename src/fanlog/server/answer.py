"""Deliveries as the bytes of an answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

from fanlog.broker.broker import Broker
from fanlog.broker.delivery.delivery import Delivery
from fanlog.model.attributes import KEY_SLOT
from fanlog.model.resources import Offset, Subscription
from fanlog.wire.frame import frame_received


def frame_deliveries(
    broker: Broker, subscription: Subscription, deliveries: Iterable[Delivery]
) -> bytes:
    """The `received_messages` of an answer, unary or streamed."""
    return b"".join(_frame(broker, subscription, delivery) for delivery in deliveries)


def _frame(broker: Broker, subscription: Subscription, delivery: Delivery) -> bytes:
    prefix = broker.ack_id_prefix(subscription, delivery).encode()
    added = broker.added_attributes(subscription, delivery)
    if delivery.slots is not None:
        return _frame_slotted(delivery, delivery.slots, prefix, added or {})
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


def _frame_slotted(
    delivery: Delivery,
    slots: Mapping[Offset, int | None],
    prefix: bytes,
    added: Mapping[str, str],
) -> bytes:
    """Messages that say their key slot: neighbours of one slot are framed together."""
    framed: list[bytes] = []
    for batch, first, end in delivery.runs:
        base = batch.base_offset
        for slot, some in groupby(range(base + first, base + end), slots.__getitem__):
            offsets = list(some)
            framed.append(
                frame_received(
                    batch,
                    range(offsets[0] - base, offsets[-1] + 1 - base),
                    prefix,
                    attempt=delivery.attempt,
                    attempts=delivery.attempts,
                    added={**added, KEY_SLOT: str(slot)},
                )
            )
    return b"".join(framed)
