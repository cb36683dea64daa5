"""The ack ids of one request, over all the shares they are of.

A subscription on a pattern has many shares, and one request may speak of any of them; under
exactly-once it is done whole or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping

from fanlog.broker.hard_state import HardState
from fanlog.core.ack_ids import ParsedAckIds
from fanlog.core.share import ByGeneration, Decision, Share
from fanlog.errors import SubscriptionNotFound
from fanlog.model import PartitionId, Subscription


def shares_of(
    hard: HardState, subscription: Subscription, parsed: ParsedAckIds
) -> dict[PartitionId, Share | None]:
    """The share of each partition that ids are of; None where a pattern was through with a topic.

    Raises:
        SubscriptionNotFound: It was deleted meanwhile.
    """
    if hard.catalog.subscription_by_id(subscription.id) is None:
        raise SubscriptionNotFound(f"subscription {subscription.name!r} was deleted")
    return {partition: hard.share(subscription.id, partition) for partition in parsed.offsets}


def refused_by_any(
    now: float,
    shares: Mapping[PartitionId, Share | None],
    parsed: ParsedAckIds,
    *,
    is_ack: bool,
) -> list[tuple[PartitionId, Decision]]:
    """Why a request is refused under exactly-once; empty when it is not. Nothing is done."""
    found: list[tuple[PartitionId, Decision]] = []
    for partition, share in shares.items():
        ids = parsed.offsets[partition]
        refusal = nothing_left(ids) if share is None else share.refused(now, ids, is_ack=is_ack)
        found.append((partition, refusal))
    return found if any(refusal.is_refused for _, refusal in found) else []


def nothing_left(by_generation: ByGeneration) -> Decision:
    """The answer to ids of a topic that is gone: all was acknowledged that they could speak of."""
    return Decision(invalid=[(g, o) for g, offsets in by_generation.items() for o in offsets])
