"""fanlog.v1.Inspection, for any surface."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from google.protobuf.timestamp_pb2 import Timestamp

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.broker.verbs.backlogs import BacklogState
from fanlog.broker.verbs.letter_search import EVERYTHING
from fanlog.broker.verbs.peeks import Peeked, PeekPlace
from fanlog.broker.verbs.traces import MessageTrace, SubscriptionTrace
from fanlog.core.prospects import Prospects
from fanlog.core.publishers import Gap
from fanlog.core.recent_events import Happened
from fanlog.core.share import Look, State
from fanlog.errors import InvalidArgument, SubscriptionNotFound
from fanlog.model import attributes, names
from fanlog.model.ids import message_id, parse_message_id
from fanlog.model.resources import PartitionId, Subscription
from fanlog.server.calls import Call
from fanlog.server.delivery_facts import get_delivery
from fanlog.server.estimate_api import estimate
from fanlog.server.methods import method, method_with_call
from fanlog.v1 import inspection_pb2 as pb
from fanlog.wire import fields, paging
from fanlog.wire.candidates import candidates


async def peek(broker: Broker, request: pb.PeekRequest) -> pb.PeekResponse:
    name = str(names.parse_subscription(request.subscription))
    if not 0 <= request.max_messages <= limits.PEEK_MESSAGES_MAX:
        raise InvalidArgument(
            f"max_messages: {request.max_messages} is out of range; 0 to {limits.PEEK_MESSAGES_MAX}"
        )
    scope = f"messages of {name}"
    page = paging.parse_page(scope, 0, request.page_token)
    start_ns = None
    place = PeekPlace.parse(page.after) if page.after else None
    match request.WhichOneof("start"):
        case "message_id" if place is None:
            place = PeekPlace(*_parse_id(request.message_id, "message_id"), is_alone=True)
        case "time":
            start_ns = fields.time_ns_of(request.time, "time")
    most = request.max_messages or limits.PEEK_MESSAGES_DEFAULT
    subscription, found, after = await broker.peeks.peek(name, place, start_ns, most)
    return pb.PeekResponse(
        messages=[_peeked_pb(broker, subscription, one) for one in found],
        next_page_token="" if after is None else paging.token(scope, str(after)),
    )


async def get_backlog(broker: Broker, request: pb.GetBacklogRequest) -> pb.Backlog:
    name = str(names.parse_subscription(request.subscription))
    subscription, state = await broker.backlogs.describe(name)
    answer = _backlog_pb(broker, subscription, state)
    if request.by_topic:
        _add_topics(broker, answer, state)
    return answer


async def list_backlogs(broker: Broker, request: pb.ListBacklogsRequest) -> pb.ListBacklogsResponse:
    project = names.parse_project(request.project)
    page = paging.read_page(f"backlogs of {names.project_name(project)}", request)
    entries = await broker.subscriptions.list_all(project, page.after, page.size + 1)
    shown, token = page.cut(entries, lambda pair: pair[0].name)
    found: list[pb.Backlog] = []
    for one, _ in shown:
        try:
            described = await broker.backlogs.describe(one.name, weighs=False)
            found.append(_backlog_pb(broker, *described))
        except SubscriptionNotFound:
            # Deleted while the others were measured.
            continue
    return pb.ListBacklogsResponse(backlogs=found, next_page_token=token)


async def trace(broker: Broker, request: pb.TraceRequest, call: Call) -> pb.TraceResponse:
    partition, offset = _parse_id(request.message_id, "message_id")
    name = request.subscription and str(names.parse_subscription(request.subscription))
    found = await broker.traces.trace(partition, offset, name)
    # Whoever reads the topic may not see every subscription on it.
    may = partial(call.caller.may, "pubsub.subscriptions.get")
    subscriptions = [one for one in found.subscriptions if name or may(one.subscription)]
    answer = pb.TraceResponse(
        message_id=message_id(partition, offset),
        topic=found.topic,
        offset=offset,
        size_bytes=found.size_bytes,
        tier=found.tier,
        hint=found.hint,
        copy_of_message_id=found.copy_of,
        addressee=found.addressee,
        subscriptions=[_traced_pb(found, one) for one in subscriptions],
        subscriptions_left_off=found.left_off,
        remembered_since=_timestamp(found.since_s),
        sampled=found.is_sampled,
        due_at=_timestamp_ns(found.prospects.due_ns),
        priority=found.prospects.priority,
    )
    if found.batch is not None:
        answer.publish_time.FromNanoseconds(found.batch.publish_time_ns)
    if request.attributes:
        answer.attributes.update(found.attributes)
        answer.ordering_key = found.ordering_key
    if found.letter is not None:
        answer.letter_of_message_id = found.letter.source_id
        answer.letter_of_topic = found.letter.source_topic
        answer.letter_of_subscription = found.letter.source_subscription
        answer.letter_reason = found.letter.reason
    return answer


async def purge(broker: Broker, request: pb.PurgeRequest) -> pb.PurgeResponse:
    name = str(names.parse_subscription(request.subscription))
    is_dry = request.dry_run
    match request.WhichOneof("before"):
        case "time":
            time_ns = fields.time_ns_of(request.time, "time")
            done = await broker.purges.to_time(name, time_ns, dry_run=is_dry)
        case "message_id":
            place = _parse_id(request.message_id, "message_id")
            done = await broker.purges.to_message(name, *place, dry_run=is_dry)
        case _:
            done = await broker.purges.to_now(name, dry_run=is_dry)
    return pb.PurgeResponse(purged=done.purged, outstanding=done.outstanding, dry_run=is_dry)


def _parse_id(text: str, field: str) -> tuple[PartitionId, int]:
    if not text:
        raise InvalidArgument(f"{field}: is empty; it needs the id of a message")
    partition, offset = parse_message_id(text)
    return PartitionId(partition), offset


def _timestamp(time_s: float | None) -> Timestamp | None:
    if time_s is None:
        return None
    found = Timestamp()
    found.FromMicroseconds(round(time_s * 1e6))
    return found


def _timestamp_ns(time_ns: int | None) -> Timestamp | None:
    if time_ns is None:
        return None
    found = Timestamp()
    found.FromNanoseconds(time_ns)
    return found


def _until(look: Look, expected: Prospects, gap: Gap | None) -> Timestamp | None:
    """When its lease or its wait ends, or it is due, or the gap before it is given up."""
    if look.state is State.PENDING:
        times = [] if expected.due_ns is None else [expected.due_ns]
        times += [] if gap is None else [round(gap.until_s * 1e9)]
        return _timestamp_ns(max(times, default=None))
    return _timestamp(look.until_s)


def _waits_for(gap: Gap | None, said: Mapping[str, str]) -> str:
    """What a message that is held back waits for, in words."""
    if gap is None:
        return ""
    return f"number {gap.number} of publisher {names.shown(said.get(attributes.PUBLISHER, ''))}"


def _peeked_pb(broker: Broker, subscription: Subscription, one: Peeked) -> pb.PeekedMessage:
    batch, partition = one.batch, one.batch.partition
    [message] = candidates(batch, one.index, one.index + 1, "", EVERYTHING)
    topic = broker.hard.catalog.topic_name_of(partition) or subscription.topic
    found = pb.PeekedMessage(
        topic=topic,
        state=one.look.state.value,
        until=_until(one.look, one.prospects, one.gap),
        waits_for=_waits_for(one.gap, message.attributes),
        expires_at=_timestamp_ns(one.prospects.expires_ns),
        lapsed=one.has_lapsed,
        priority=one.prospects.priority,
        failed_deliveries=one.look.failures,
    )
    if one.behind is not None and one.look.state is State.BACKLOG:
        found.behind_message_id = message_id(partition, one.behind)
    shown = found.message
    shown.data, shown.ordering_key = message.data, message.ordering_key
    shown.message_id = message.message_id
    shown.attributes.update(message.attributes)
    if subscription.is_pattern:
        shown.attributes[attributes.TOPIC] = topic
    shown.publish_time.FromNanoseconds(batch.publish_time_ns)
    return found


def _backlog_pb(broker: Broker, subscription: Subscription, state: BacklogState) -> pb.Backlog:
    answer = pb.Backlog(
        subscription=subscription.name,
        messages=state.messages,
        messages_estimated=state.is_estimated,
        bytes=state.size_bytes,
        bytes_estimated=state.weighed_bytes is None,
        outstanding=state.outstanding,
        delayed=state.delayed,
        forwarding=state.forwarding,
        pending=state.pending,
        depending=state.depending,
        lag_messages=state.lag_messages,
        detached=subscription.detached,
    )
    answer.oldest_unacked_age.FromMicroseconds(round(state.oldest_age_s * 1e6))
    answer.lag.FromMicroseconds(round(state.lag_s * 1e6))
    answer.pressure = broker.pressure.of_subscription(subscription) or 0.0
    if broker.hard.drops:
        _add_drops(broker, answer, subscription)
    return answer


def _add_drops(broker: Broker, answer: pb.Backlog, subscription: Subscription) -> None:
    hard = broker.hard
    for share in hard.shares_of(subscription):
        drops = hard.drops.get((subscription.id, share.partition))
        if drops is None:
            continue
        topic = hard.catalog.topic_name_of(share.partition)
        for reason, count in drops.counts.items():
            answer.dropped[reason] += count
        for one in drops.stretches:
            span = answer.dropped_spans.add(
                topic=topic,
                reason=one.reason,
                first_message_id=message_id(share.partition, one.start),
                last_message_id=message_id(share.partition, one.end - 1),
                messages=one.count,
            )
            span.first_time.FromMicroseconds(round(one.first_s * 1e6))
            span.last_time.FromMicroseconds(round(one.last_s * 1e6))


def _add_topics(broker: Broker, answer: pb.Backlog, state: BacklogState) -> None:
    order = sorted(enumerate(state.shares), key=lambda pair: (-pair[1].messages, pair[0]))
    answer.topics_left_off = max(0, len(order) - limits.BACKLOG_TOPICS_MAX)
    for number, share in order[: limits.BACKLOG_TOPICS_MAX]:
        one = answer.topics.add(
            topic=broker.hard.catalog.topic_name_of(share.partition),
            messages=share.messages,
            bytes=share.size_bytes,
            outstanding=share.outstanding,
            delayed=share.delayed,
            pending=share.pending,
            depending=share.depending,
            lag_messages=share.lag_messages,
        )
        one.oldest_unacked_age.FromMicroseconds(round(state.age_s(share) * 1e6))
        one.lag.FromMicroseconds(round(state.share_lag_s(number) * 1e6))


def _traced_pb(found: MessageTrace, one: SubscriptionTrace) -> pb.SubscriptionTrace:
    look: Look = one.look
    return pb.SubscriptionTrace(
        subscription=one.subscription,
        state=one.state,
        until=_until(look, one.prospects, one.gap),
        waits_for=_waits_for(one.gap, found.attributes),
        expires_at=_timestamp_ns(one.prospects.expires_ns),
        lapsed=one.has_lapsed,
        delivered_at=_timestamp(look.granted_s),
        client_id=look.client_id,
        failed_deliveries=look.failures,
        next_delivery=one.next_delivery,
        behind_message_id=("" if one.behind is None else message_id(found.partition, one.behind)),
        letter_message_id=one.letter_id,
        events=map(_event_pb, one.events),
    )


def _event_pb(one: Happened) -> pb.TraceEvent:
    return pb.TraceEvent(
        time=_timestamp(one.time_s), what=one.what, reason=one.reason, message_id=one.message_id
    )


METHODS = (
    method("Peek", pb.PeekRequest, pb.PeekResponse, peek),
    method("GetBacklog", pb.GetBacklogRequest, pb.Backlog, get_backlog),
    method("ListBacklogs", pb.ListBacklogsRequest, pb.ListBacklogsResponse, list_backlogs),
    method_with_call("Trace", pb.TraceRequest, pb.TraceResponse, trace),
    method("GetDelivery", pb.GetDeliveryRequest, pb.Delivery, get_delivery),
    method("Estimate", pb.EstimateRequest, pb.EstimateResponse, estimate),
    method("Purge", pb.PurgeRequest, pb.PurgeResponse, purge, "subscription"),
)
