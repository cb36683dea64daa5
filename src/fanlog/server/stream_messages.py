"""The messages of a StreamingPull: its requests read and checked, its answers beside deliveries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from fanlog import limits
from fanlog.core.ack_requests import INVALID_ACK_ID, UNORDERED_ACK_ID
from fanlog.errors import InvalidArgument
from fanlog.model import specs
from fanlog.model.resources import Subscription
from fanlog.server.request_bounds import check_size
from fanlog.wire import fields, types
from fanlog.wire.parts import check_fields

#: Fields that only the first request of a stream may set.
_OPENING = (
    "subscription",
    "client_id",
    "max_outstanding_messages",
    "max_outstanding_bytes",
    "protocol_version",
)


def read_request(raw: object) -> types.StreamingPullRequest | None:
    """The next request of a stream; None after the last one. Raises InvalidArgument."""
    if not isinstance(raw, bytes):
        return None
    check_size(raw, limits.ACK_BYTES_MAX)
    check_fields(raw, 2 * limits.ACK_IDS_MAX + 20, "ack_ids")
    request = fields.parse(types.StreamingPullRequest, raw)
    for name in ("ack_ids", "modify_deadline_ack_ids", "modify_deadline_seconds"):
        count = len(getattr(request, name))
        if count > limits.ACK_IDS_MAX:
            raise InvalidArgument(
                f"{name}: {count} values; at most {limits.ACK_IDS_MAX} are allowed in a request"
            )
    return request


def check_later(request: types.StreamingPullRequest) -> None:
    """Only the first request of a stream opens it; Google refuses these later, and so do we."""
    for name in _OPENING:
        if getattr(request, name):
            raise InvalidArgument(f"{name}: must be set on the first request of a stream only")


def check_deadline(seconds: int) -> int:
    """Raises InvalidArgument: No deadline that a stream may have."""
    specs.check_ack_deadline(seconds, field="stream_ack_deadline_seconds")
    return seconds


def properties_answer(subscription: Subscription) -> bytes:
    """The part of every answer that has the subscription's properties; empty for none."""
    if not (subscription.enable_exactly_once or subscription.enable_message_ordering):
        return b""
    properties = types.StreamingPullResponse.SubscriptionProperties(
        exactly_once_delivery_enabled=subscription.enable_exactly_once,
        message_ordering_enabled=subscription.enable_message_ordering,
    )
    response = types.StreamingPullResponse(subscription_properties=properties)
    return response.SerializeToString()


def confirmation_answer(ack_ids: Sequence[str], failures: dict[str, str], *, is_ack: bool) -> bytes:
    """The answer that confirms a request to settle `ack_ids`."""
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for ack_id in ack_ids:
        by_reason[failures.get(ack_id, "")].append(ack_id)
    done, invalid = by_reason[""], by_reason[INVALID_ACK_ID]
    response = types.StreamingPullResponse()
    if is_ack:
        confirmation = types.StreamingPullResponse.AcknowledgeConfirmation(
            ack_ids=done,
            invalid_ack_ids=invalid,
            unordered_ack_ids=by_reason[UNORDERED_ACK_ID],
        )
        response.acknowledge_confirmation.CopyFrom(confirmation)
    else:
        modified = types.StreamingPullResponse.ModifyAckDeadlineConfirmation(
            ack_ids=done, invalid_ack_ids=invalid
        )
        response.modify_ack_deadline_confirmation.CopyFrom(modified)
    return response.SerializeToString()
