"""fanlog.v1.Catalog, for any surface: properties that Google's API has no fields for."""

from __future__ import annotations

from collections.abc import Sequence

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.broker.delivery.members import slots_left
from fanlog.broker.retention.needs import TopicRetention
from fanlog.errors import FailedPrecondition, InvalidArgument
from fanlog.model import names
from fanlog.model.attributes import LABEL_ASSIGNMENT
from fanlog.server.methods import method
from fanlog.v1 import catalog_pb2 as pb
from fanlog.wire.fields import duration, timestamp


async def describe_topics(
    broker: Broker, request: pb.DescribeTopicsRequest
) -> pb.DescribeTopicsResponse:
    _check_count("topics", request.topics)
    answer = pb.DescribeTopicsResponse()
    for index, name in enumerate(request.topics):
        names.parse_topic(name, field=f"topics[{index}]")
        topic = broker.hard.catalog.find_topic(name)
        if topic is not None:
            found = answer.topics.add(name=name, partition_count=len(topic.partitions))
            _set_kept(found, broker.retention.of_topic(topic))
            _set_created(found, topic.created_s)
    await broker.ledger.sync()
    return answer


async def describe_subscriptions(
    broker: Broker, request: pb.DescribeSubscriptionsRequest
) -> pb.DescribeSubscriptionsResponse:
    _check_count("subscriptions", request.subscriptions)
    catalog = broker.hard.catalog
    answer = pb.DescribeSubscriptionsResponse()
    for index, name in enumerate(request.subscriptions):
        names.parse_subscription(name, field=f"subscriptions[{index}]")
        if catalog.has_subscription(name):
            found = answer.subscriptions.add(name=name)
            _set_created(found, catalog.subscription(name).created_s)
    await broker.ledger.sync()
    return answer


async def describe_consumers(
    broker: Broker, request: pb.DescribeConsumersRequest
) -> pb.DescribeConsumersResponse:
    name = str(names.parse_subscription(request.subscription))
    subscription, _ = await broker.subscriptions.get(name)
    if not subscription.key_slots:
        raise FailedPrecondition(
            f"subscription {name!r} has no key slots: any consumer may have any message; the "
            f"label {LABEL_ASSIGNMENT} gives it some when it is created"
        )
    answer = pb.DescribeConsumersResponse(slot_count=subscription.key_slots)
    members = broker.feeds.members_of(subscription)
    for about, stats in members.shown() if members is not None else ():
        answer.consumers.add(
            client_id=about.client_id,
            address=about.address,
            principal=about.principal,
            connected_at=timestamp(about.since_s),
            slots=stats.slots,
            moving_slots=stats.moving,
            outstanding=stats.outstanding,
        )
    answer.left_slots.extend(slots_left(broker.hard.shares_of(subscription), members))
    return answer


async def describe_schema(
    broker: Broker, request: pb.DescribeSchemaRequest
) -> pb.SchemaDescription:
    name = str(names.parse_schema(request.name, field="name"))
    schema, revisions = await broker.schemas.revisions(name)
    answer = pb.SchemaDescription(name=schema.name, compatibility=schema.compatibility)
    for one in revisions:
        _set_created(answer.revisions.add(id=one.id, number=one.number), one.created_s)
    return answer


def _check_count(field: str, found: Sequence[str]) -> None:
    if not 1 <= len(found) <= limits.DESCRIBED_MAX:
        raise InvalidArgument(
            f"{field}: {len(found)} names; 1 to {limits.DESCRIBED_MAX} are allowed"
        )


def _set_kept(found: pb.TopicDescription, kept: TopicRetention) -> None:
    found.retention_by = kept.by
    if kept.seconds is not None:
        found.effective_retention.CopyFrom(duration(kept.seconds))


def _set_created(
    found: pb.TopicDescription | pb.SubscriptionDescription | pb.RevisionDescription,
    created_s: float | None,
) -> None:
    # Subscriptions of the first builds have zero.
    if created_s:
        found.created_at.CopyFrom(timestamp(created_s))


METHODS = (
    method(
        "DescribeConsumers",
        pb.DescribeConsumersRequest,
        pb.DescribeConsumersResponse,
        describe_consumers,
    ),
    method("DescribeTopics", pb.DescribeTopicsRequest, pb.DescribeTopicsResponse, describe_topics),
    method(
        "DescribeSubscriptions",
        pb.DescribeSubscriptionsRequest,
        pb.DescribeSubscriptionsResponse,
        describe_subscriptions,
    ),
    method("DescribeSchema", pb.DescribeSchemaRequest, pb.SchemaDescription, describe_schema),
)
