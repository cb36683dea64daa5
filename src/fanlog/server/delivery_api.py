"""The methods of google.pubsub.v1.Subscriber that deliver messages and settle them."""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf.empty_pb2 import Empty

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.core.ack_requests import NOT_APPLIED
from fanlog.core.redelivery import NACKED, Nack
from fanlog.errors import AckIdsRefused, InvalidArgument
from fanlog.model import names
from fanlog.model.attributes import LABEL_TTL
from fanlog.server.answer import frame_deliveries
from fanlog.server.calls import Call, CallStream, metadata_of
from fanlog.server.methods import Method, StreamingMethod
from fanlog.server.nacks import check_no_nack, nack_of
from fanlog.server.permissions import CONSUME
from fanlog.server.remarks import make_hints
from fanlog.server.streaming_pull import streaming_pull
from fanlog.wire import fields, types
from fanlog.wire.parts import check_fields
from fanlog.wire.status import all_fit

#: Ack ids, the subscription, and room for a few others.
_ACK_FIELDS_MAX = limits.ACK_IDS_MAX + 10

_EMPTY = Empty().SerializeToString()


async def pull(broker: Broker, raw: bytes, call: Call) -> bytes:
    request = fields.parse(types.PullRequest, raw)
    if request.max_messages <= 0:
        raise InvalidArgument(
            f"max_messages: {request.max_messages} is out of range; at least 1 is needed"
        )
    wait_s = 0.0 if request.return_immediately else _wait_s(call)
    name = str(names.parse_subscription(request.subscription))
    call.caller.check(CONSUME, name)
    most = request.max_messages
    if wait_s:
        # A credential or a permission that ends while it waits ends the call, before it has any.
        with call.caller.holding(CONSUME, name, call):
            subscription, deliveries = await broker.pull(name, max_messages=most, wait_s=wait_s)
    else:
        subscription, deliveries = await broker.pull(name, max_messages=most, wait_s=0.0)
    call.caller.check(CONSUME, name)
    ttl = subscription.labels.get(LABEL_TTL)
    if ttl is not None:
        # So that whoever shows the messages can say when they expire.
        call.set_trailing_metadata(((LABEL_TTL, ttl),))
    return frame_deliveries(broker, subscription, deliveries)


async def acknowledge(broker: Broker, raw: bytes, call: Call) -> bytes:
    check_fields(raw, _ACK_FIELDS_MAX, "ack_ids")
    request = fields.parse(types.AcknowledgeRequest, raw)
    ack_ids = _check_ack_ids(request.ack_ids)
    name = str(names.parse_subscription(request.subscription))
    call.caller.check(CONSUME, name)
    check_no_nack(call.invocation_metadata())
    try:
        await broker.acknowledge(name, ack_ids)
    except AckIdsRefused as refused:
        await _settle_the_rest(broker, call, name, ack_ids, None, refused)
    return _EMPTY


async def modify_ack_deadline(broker: Broker, raw: bytes, call: Call) -> bytes:
    check_fields(raw, _ACK_FIELDS_MAX, "ack_ids")
    request = fields.parse(types.ModifyAckDeadlineRequest, raw)
    ack_ids = _check_ack_ids(request.ack_ids)
    seconds = _check_deadline(request.ack_deadline_seconds)
    name = str(names.parse_subscription(request.subscription))
    call.caller.check(CONSUME, name)
    nack = nack_of(call.invocation_metadata(), seconds)
    if seconds == 0 and (hints := broker.hints.of_nack(name)):
        call.set_trailing_metadata(make_hints(hints))
    try:
        await broker.modify_ack_deadline(name, ack_ids, seconds, nack)
    except AckIdsRefused as refused:
        await _settle_the_rest(broker, call, name, ack_ids, seconds, refused, nack)
    return _EMPTY


async def _settle_the_rest(
    broker: Broker,
    call: Call,
    name: str,
    ack_ids: list[str],
    seconds: int | None,
    refused: AckIdsRefused,
    nack: Nack = NACKED,
) -> None:
    """Answer a request that was refused whole so that its client makes the right thing of it.

    Of ids that a refusal has no room to name, most clients think that they failed; Java's thinks
    that they were done. For Java's, then, they are done, and the others are named. When those alone
    are too many, none is named, and every client takes that for a failure of all.
    """
    if all_fit(refused) or not _is_java(call):
        raise refused
    subscription, _ = await broker.subscriptions.get(name)
    stale = {i: why for i, why in refused.failures.items() if why != NOT_APPLIED}
    if all_fit(AckIdsRefused(refused.message, stale)):
        stale = await broker.settle_some(subscription, ack_ids, seconds, nack)
        if not stale:
            return
    answer = AckIdsRefused(
        f"{len(stale)} of {len(ack_ids)} ack ids of {name!r} are stale or not in order", stale
    )
    raise answer if all_fit(answer) else AckIdsRefused(answer.message, {})


def _is_java(call: Call) -> bool:
    """Whether the caller is Java: every gRPC library names itself."""
    return "grpc-java" in str(metadata_of(call).get("user-agent"))


def _check_deadline(seconds: int) -> int:
    if not 0 <= seconds <= limits.ACK_DEADLINE_S_MAX:
        raise InvalidArgument(
            f"ack_deadline_seconds: {seconds} is out of range; "
            f"0 to {limits.ACK_DEADLINE_S_MAX} are allowed"
        )
    return seconds


def _check_ack_ids(ack_ids: Sequence[str]) -> list[str]:
    if not ack_ids:
        raise InvalidArgument("ack_ids: at least one is needed")
    if len(ack_ids) > limits.ACK_IDS_MAX:
        raise InvalidArgument(
            f"ack_ids: {len(ack_ids)} ids; at most {limits.ACK_IDS_MAX} are allowed in a request"
        )
    return list(ack_ids)


def _wait_s(call: Call) -> float:
    remaining_s = call.time_remaining()
    if remaining_s is None:
        return limits.PULL_WAIT_S
    return max(0.0, remaining_s - limits.PULL_MARGIN_S, remaining_s / 2)


async def _pull_stream(broker: Broker, _: bytes, stream: CallStream) -> None:
    await streaming_pull(broker, stream)


METHODS = (
    Method(
        "ModifyAckDeadline",
        types.ModifyAckDeadlineRequest,
        Empty,
        modify_ack_deadline,
        request_bytes_max=limits.ACK_BYTES_MAX,
    ),
    Method(
        "Acknowledge",
        types.AcknowledgeRequest,
        Empty,
        acknowledge,
        request_bytes_max=limits.ACK_BYTES_MAX,
    ),
    Method("Pull", types.PullRequest, types.PullResponse, pull),
)
STREAMS = (
    StreamingMethod(
        "StreamingPull",
        types.StreamingPullRequest,
        types.StreamingPullResponse,
        _pull_stream,
        has_many_requests=True,
        has_many_answers=True,
    ),
)
