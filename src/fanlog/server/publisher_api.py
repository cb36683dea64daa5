"""google.pubsub.v1.Publisher, for any surface."""

from __future__ import annotations

from google.protobuf.empty_pb2 import Empty

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.model import names
from fanlog.server.calls import Call
from fanlog.server.methods import Method, method
from fanlog.wire import paging, resources, types
from fanlog.wire.publish import parse_publish, publish_response, publish_response_of


async def publish(broker: Broker, raw: bytes, _: Call) -> bytes:
    publish = parse_publish(raw, broker.writer.message_bytes_max)
    names.refuse_system(publish.topic)
    if publish.dedup_ids is not None:
        partition, offsets = await broker.publish_once(
            publish.topic, publish.body, publish.dedup_ids
        )
        return publish_response_of(partition, offsets)
    partition, base_offset = await broker.publish(publish.topic, publish.body)
    return publish_response(partition, base_offset, publish.body.count)


async def create_topic(broker: Broker, request: types.Topic) -> types.Topic:
    topic = await broker.admin.create_topic(resources.topic_spec(request))
    return resources.topic_pb(topic)


async def update_topic(broker: Broker, request: types.UpdateTopicRequest) -> types.Topic:
    topic = await broker.admin.update_topic(resources.topic_update(request))
    return resources.topic_pb(topic)


async def get_topic(broker: Broker, request: types.GetTopicRequest) -> types.Topic:
    return resources.topic_pb(await broker.admin.get_topic(_check_topic(request.topic)))


async def list_topics(broker: Broker, request: types.ListTopicsRequest) -> types.ListTopicsResponse:
    project = names.parse_project(request.project)
    page = paging.read_page(f"topics of {request.project}", request)
    found = await broker.admin.list_topics(project, page.after, page.size + 1)
    shown, token = page.fill(found, lambda topic: topic.name, resources.topic_pb)
    return types.ListTopicsResponse(topics=shown, next_page_token=token)


async def list_topic_subscriptions(
    broker: Broker, request: types.ListTopicSubscriptionsRequest
) -> types.ListTopicSubscriptionsResponse:
    page = paging.read_page(f"subscriptions of {request.topic}", request)
    found = await broker.admin.list_topic_subscriptions(
        _check_topic(request.topic), page.after, page.size + 1
    )
    shown, token = page.cut(found, str)
    return types.ListTopicSubscriptionsResponse(subscriptions=shown, next_page_token=token)


async def list_topic_snapshots(
    broker: Broker, request: types.ListTopicSnapshotsRequest
) -> types.ListTopicSnapshotsResponse:
    page = paging.read_page(f"snapshots of {request.topic}", request)
    found = await broker.admin.list_topic_snapshots(
        _check_topic(request.topic), page.after, page.size + 1
    )
    shown, token = page.cut(found, str)
    return types.ListTopicSnapshotsResponse(snapshots=shown, next_page_token=token)


async def delete_topic(broker: Broker, request: types.DeleteTopicRequest) -> Empty:
    await broker.admin.delete_topic(_check_topic(request.topic))
    return Empty()


async def detach_subscription(
    broker: Broker, request: types.DetachSubscriptionRequest
) -> types.DetachSubscriptionResponse:
    name = str(names.parse_subscription(request.subscription))
    await broker.admin.detach_subscription(name)
    return types.DetachSubscriptionResponse()


def _check_topic(name: str) -> str:
    return str(names.parse_topic(name))


METHODS = (
    method("CreateTopic", types.Topic, types.Topic, create_topic, "name"),
    method("UpdateTopic", types.UpdateTopicRequest, types.Topic, update_topic, "topic.name"),
    Method(
        "Publish",
        types.PublishRequest,
        types.PublishResponse,
        publish,
        request_bytes_max=limits.GRPC_RECEIVE_BYTES_MAX,
    ),
    method("GetTopic", types.GetTopicRequest, types.Topic, get_topic),
    method("ListTopics", types.ListTopicsRequest, types.ListTopicsResponse, list_topics),
    method(
        "ListTopicSubscriptions",
        types.ListTopicSubscriptionsRequest,
        types.ListTopicSubscriptionsResponse,
        list_topic_subscriptions,
    ),
    method(
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
