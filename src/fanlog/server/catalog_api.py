"""fanlog.v1.Catalog, for any surface: what Google's API has no fields for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.broker.retention.needs import TopicRetention
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.server.calls import Unary, parsed
from fanlog.v1 import catalog_pb2 as pb
from fanlog.wire.fields import duration, timestamp

CATALOG = "fanlog.v1.Catalog"


def methods(broker: Broker) -> dict[str, Unary]:
    """Every method of the service: bytes to bytes."""
    api = CatalogApi(broker)
    return {
        "DescribeTopics": parsed(pb.DescribeTopicsRequest, api.describe_topics),
        "DescribeSubscriptions": parsed(
            pb.DescribeSubscriptionsRequest, api.describe_subscriptions
        ),
        "DescribeSchema": parsed(pb.DescribeSchemaRequest, api.describe_schema),
    }


class CatalogApi:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def describe_topics(self, request: Any) -> Any:
        _check_count("topics", request.topics)
        answer = pb.DescribeTopicsResponse()
        for index, name in enumerate(request.topics):
            names.parse_topic(name, field=f"topics[{index}]")
            topic = self._broker.hard.catalog.find_topic(name)
            if topic is not None:
                found = answer.topics.add(name=name, partition_count=len(topic.partitions))
                _set_kept(found, self._broker.retention.of_topic(topic))
                _set_created(found, topic.created_s)
        await self._broker.ledger.sync()
        return answer

    async def describe_subscriptions(self, request: Any) -> Any:
        _check_count("subscriptions", request.subscriptions)
        catalog = self._broker.hard.catalog
        answer = pb.DescribeSubscriptionsResponse()
        for index, name in enumerate(request.subscriptions):
            names.parse_subscription(name, field=f"subscriptions[{index}]")
            if catalog.has_subscription(name):
                found = answer.subscriptions.add(name=name)
                _set_created(found, catalog.subscription(name).created_s)
        await self._broker.ledger.sync()
        return answer

    async def describe_schema(self, request: Any) -> Any:
        name = str(names.parse_schema(request.name, field="name"))
        schema, revisions = await self._broker.schemas.revisions(name)
        answer = pb.SchemaDescription(name=schema.name, compatibility=schema.compatibility)
        for one in revisions:
            _set_created(answer.revisions.add(id=one.id, number=one.number), one.created_s)
        return answer


def _check_count(field: str, found: Sequence[str]) -> None:
    if not 1 <= len(found) <= limits.DESCRIBED_MAX:
        raise InvalidArgument(
            f"{field}: {len(found)} names; 1 to {limits.DESCRIBED_MAX} are allowed"
        )


def _set_kept(found: Any, kept: TopicRetention) -> None:
    found.retention_by = kept.by
    if kept.seconds is not None:
        found.effective_retention.CopyFrom(duration(kept.seconds))


def _set_created(found: Any, created_s: float | None) -> None:
    # Zero is what subscriptions of the first builds have.
    if created_s:
        found.created_at.CopyFrom(timestamp(created_s))
