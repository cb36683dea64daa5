"""Requests to acknowledge, or to change deadlines: the ack ids of one, over all their shares.

A subscription on a pattern has many shares, and one request may name messages of any of them; under
exactly-once it is done whole or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fanlog.core.ack_ids import AckIds, ParsedAckIds
from fanlog.core.hard_state import HardState
from fanlog.core.redelivery import NACKED, Nack
from fanlog.core.share import ByGeneration, Decision, Share
from fanlog.errors import AckIdsRefused, FailedPrecondition, InvalidArgument, SubscriptionNotFound
from fanlog.model.ids import ack_id
from fanlog.model.resources import PartitionId, Subscription

INVALID_ACK_ID = "PERMANENT_FAILURE_INVALID_ACK_ID"
UNORDERED_ACK_ID = "TRANSIENT_FAILURE_UNORDERED_ACK_ID"
#: For ids that were fine in a request that was refused for others: send them again.
NOT_APPLIED = "TRANSIENT_FAILURE_REQUEST_NOT_APPLIED"


def check_form(subscription: Subscription, parsed: ParsedAckIds) -> None:
    """Raises InvalidArgument: at least once, and an id is none of this service's."""
    if parsed.malformed and not subscription.enable_exactly_once:
        raise InvalidArgument(
            f"ack_ids: {parsed.malformed[0][:80]!r} is not an ack id of this service"
            + (f" ({len(parsed.malformed)} such ids)" if len(parsed.malformed) > 1 else "")
        )


def check_nack(subscription: Subscription, nack: Nack) -> None:
    """Check a nack that says more than others.

    Raises:
        FailedPrecondition: It is terminal, and there is nowhere for dead letters to go; or what it
            says can have no effect, because messages are acknowledged when they are sent.
    """
    if subscription.is_at_most_once and nack != NACKED:
        raise FailedPrecondition(
            f"subscription {subscription.name!r} delivers at most once: its messages are "
            "acknowledged when they are sent; a nack can say nothing about them"
        )
    if nack.is_terminal and subscription.dead_letter is None:
        raise FailedPrecondition(
            f"subscription {subscription.name!r} has no dead letter policy; without one a message "
            "can only be requeued, or acknowledged"
        )


def shares_of(
    hard: HardState, subscription: Subscription, parsed: ParsedAckIds
) -> dict[PartitionId, Share | None]:
    """The share in each partition that ids name; None where a pattern has left a deleted topic.

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
        refusal = (
            nothing_left(ids) if share is None else share.find_refusals(now, ids, is_ack=is_ack)
        )
        found.append((partition, refusal))
    return found if any(refusal.is_refused for _, refusal in found) else []


def nothing_left(by_generation: ByGeneration) -> Decision:
    """The answer to ids of a topic that is gone: all messages that they could name are settled."""
    return Decision(invalid=[(g, o) for g, offsets in by_generation.items() for o in offsets])


def raise_refused(
    subscription: Subscription,
    names: AckIds,
    ack_ids: Sequence[str],
    parsed: ParsedAckIds,
    decisions: Sequence[tuple[PartitionId, Decision]],
) -> None:
    """Raises AckIdsRefused: Exactly-once, and some ids were refused, so nothing was done."""
    if not subscription.enable_exactly_once:
        return
    refused = failures(subscription, names, parsed, decisions)
    if refused:
        raise AckIdsRefused(
            f"{len(refused)} of {len(ack_ids)} ack ids of {subscription.name!r} are stale or not "
            "in order; nothing of the request was applied",
            # Those first: a status has room for a few ids, and clients send the rest again.
            refused | {ack_id: NOT_APPLIED for ack_id in ack_ids if ack_id not in refused},
        )


def failures(
    subscription: Subscription,
    names: AckIds,
    parsed: ParsedAckIds,
    decisions: Sequence[tuple[PartitionId, Decision]],
) -> dict[str, str]:
    """Why each refused id was refused."""
    found = dict.fromkeys([*parsed.malformed, *parsed.foreign], INVALID_ACK_ID)
    for partition, decision in decisions:
        for refused, why in (
            (decision.invalid, INVALID_ACK_ID),
            (decision.early, UNORDERED_ACK_ID),
        ):
            for generation, offset in refused:
                prefix = names.prefix(subscription.id, partition, generation)
                found[ack_id(prefix, offset)] = why
    return found
