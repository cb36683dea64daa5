"""google.pubsub.v1.Publisher, for any surface."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from google.protobuf.empty_pb2 import Empty

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.broker.parts import Placed
from fanlog.broker.pressure.pressure import TOLD_ABOVE
from fanlog.model import names
from fanlog.model.attributes import PRESSURE
from fanlog.model.spans import TRACEPARENT
from fanlog.server.calls import SHORT_FORM_METADATA, Call, maker_of, metadata_of
from fanlog.server.methods import Method, method, method_with_call
from fanlog.server.permissions import PUBLISH
from fanlog.server.remarks import Remarks
from fanlog.wire import paging, resources, types
from fanlog.wire.publish import parse_publish, publish_response, publish_response_of


async def publish(broker: Broker, raw: bytes, call: Call) -> bytes:
    publish = parse_publish(raw, broker.message_bytes_max)
    call.caller.check(PUBLISH, publish.topic)
    call.caller.spend(publish.topic, publish.body.count, len(publish.body.content))
    names.refuse_system(publish.topic)
    if publish.numbers is not None:
        work = broker.publish_numbered(
            publish.topic, publish.body, publish.numbers, publish.dedup_ids
        )
    elif publish.dedup_ids is not None:
        work = broker.publish_once(publish.topic, publish.body, publish.dedup_ids)
    else:
        work = broker.publish(publish.topic, publish.body)
    if broker.tracing is not None:
        head = str(metadata_of(call).get(TRACEPARENT, ""))
        work = broker.tracing.publishing(publish.topic, publish.body, head, work)
    placed = await work
    if broker.pressure.has_bounds:
        call.set_trailing_metadata(_pressure(broker, publish.topic))
    return _write_answer(placed, publish.body.count)


def _pressure(broker: Broker, topic_name: str) -> Remarks:
    """How full the fullest backlog of a topic is, where that is worth telling."""
    topic = broker.hard.catalog.find_topic(topic_name)
    gauge = None if topic is None else broker.pressure.of_topic(topic)
    if gauge is None or gauge <= TOLD_ABOVE:
        return ()
    return ((PRESSURE, f"{gauge:.3f}"),)


def _write_answer(placed: Sequence[Placed], count: int) -> bytes:
    """The ids of the messages of a request, in its order."""
    if len(placed) == 1:
        partition, offsets, _ = placed[0]
        if isinstance(offsets, range):
            return publish_response(partition, offsets.start, count)
        return publish_response_of(partition, offsets)
    ids = [b""] * count
    for partition, offsets, indexes in placed:
        for index, offset in zip(indexes or range(count), offsets, strict=True):
            ids[index] = publish_response(partition, offset, 1)
    return b"".join(ids)


async def create_topic(broker: Broker, request: types.Topic, call: Call) -> types.Topic:
    spec = replace(resources.topic_spec(request), maker=maker_of(call))
    topic = await broker.topics.create(spec)
    return resources.topic_pb(topic)


async def update_topic(
    broker: Broker, request: types.UpdateTopicRequest, call: Call
) -> types.Topic:
    update = resources.topic_update(request)
    if SHORT_FORM_METADATA in metadata_of(call):
        update = replace(update, keeps_settings=True)
    topic = await broker.topics.update(update)
    return resources.topic_pb(topic)


async def get_topic(broker: Broker, request: types.GetTopicRequest) -> types.Topic:
    return resources.topic_pb(await broker.topics.get(_check_topic(request.topic)))


async def list_topics(broker: Broker, request: types.ListTopicsRequest) -> types.ListTopicsResponse:
    project = names.parse_project(request.project)
    page = paging.read_page(f"topics of {request.project}", request)
    found = await broker.topics.list_all(project, page.after, page.size + 1)
    shown, token = page.fill(found, lambda topic: topic.name, resources.topic_pb)
    return types.ListTopicsResponse(topics=shown, next_page_token=token)


async def list_topic_subscriptions(
    broker: Broker, request: types.ListTopicSubscriptionsRequest, call: Call
) -> types.ListTopicSubscriptionsResponse:
    page = paging.read_page(f"subscriptions of {request.topic}", request)
    listed = partial(broker.topics.list_subscriptions, _check_topic(request.topic))
    # Subscriptions of other projects, too, may be on a topic.
    shown, token = await _visible(
        page, listed, partial(call.caller.may, "pubsub.subscriptions.get")
    )
    return types.ListTopicSubscriptionsResponse(subscriptions=shown, next_page_token=token)


async def list_topic_snapshots(
    broker: Broker, request: types.ListTopicSnapshotsRequest, call: Call
) -> types.ListTopicSnapshotsResponse:
    page = paging.read_page(f"snapshots of {request.topic}", request)
    listed = partial(broker.topics.list_snapshots, _check_topic(request.topic))
    shown, token = await _visible(page, listed, partial(call.caller.may, "pubsub.snapshots.get"))
    return types.ListTopicSnapshotsResponse(snapshots=shown, next_page_token=token)


async def _visible(
    page: paging.Page,
    listed: Callable[[str, int], Awaitable[Sequence[str]]],
    may: Callable[[str], bool],
) -> tuple[Sequence[str], str]:
    """A page of the names that the caller may see, and its token: that, too, has a name in it."""
    found: list[str] = []
    after = page.after
    while len(found) <= page.size:
        some = await listed(after, page.size + 1)
        found += filter(may, some)
        if len(some) <= page.size:
            break
        after = some[-1]
    return page.cut(found, str)


async def delete_topic(broker: Broker, request: types.DeleteTopicRequest) -> Empty:
    await broker.topics.delete(_check_topic(request.topic))
    return Empty()


async def detach_subscription(
    broker: Broker, request: types.DetachSubscriptionRequest
) -> types.DetachSubscriptionResponse:
    name = str(names.parse_subscription(request.subscription))
    await broker.subscriptions.detach(name)
    return types.DetachSubscriptionResponse()


def _check_topic(name: str) -> str:
    return str(names.parse_topic(name))


METHODS = (
    method_with_call("CreateTopic", types.Topic, types.Topic, create_topic, "name"),
    method_with_call(
        "UpdateTopic", types.UpdateTopicRequest, types.Topic, update_topic, "topic.name"
    ),
    Method(
        "Publish",
        types.PublishRequest,
        types.PublishResponse,
        publish,
        request_bytes_max=limits.GRPC_RECEIVE_BYTES_MAX,
    ),
    method("GetTopic", types.GetTopicRequest, types.Topic, get_topic),
    method("ListTopics", types.ListTopicsRequest, types.ListTopicsResponse, list_topics),
    method_with_call(
        "ListTopicSubscriptions",
        types.ListTopicSubscriptionsRequest,
        types.ListTopicSubscriptionsResponse,
        list_topic_subscriptions,
    ),
    method_with_call(
        "ListTopicSnapshots",
        types.ListTopicSnapshotsRequest,
        types.ListTopicSnapshotsResponse,
        list_topic_snapshots,
    ),
    method("DeleteTopic", types.DeleteTopicRequest, Empty, delete_topic, "topic"),
    method(
        "DetachSubscription",
        types.DetachSubscriptionRequest,
        types.DetachSubscriptionResponse,
        detach_subscription,
        "subscription",
    ),
)
