"""Facts about resources beyond Google's fields, such as their age: `fanlog.v1.Catalog`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from google.protobuf.message import Message

from fanlog import limits
from fanlog.client.connection import Connection, ReplyT
from fanlog.client.failures import CallFailed
from fanlog.v1 import catalog_pb2 as pb

_SERVICE: Final = "fanlog.v1.Catalog"


class CatalogClient:
    """Descriptions by full name. A server without this service describes nothing."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def describe_topics(self, names: Sequence[str]) -> dict[str, pb.TopicDescription]:
        """A description of each topic that exists."""
        found: dict[str, pb.TopicDescription] = {}
        for some in _parts(names):
            answer = self._call(
                "DescribeTopics", pb.DescribeTopicsRequest(topics=some), pb.DescribeTopicsResponse
            )
            found |= {one.name: one for one in answer.topics}
        return found

    def describe_subscriptions(self, names: Sequence[str]) -> dict[str, pb.SubscriptionDescription]:
        """A description of each subscription that exists."""
        found: dict[str, pb.SubscriptionDescription] = {}
        for some in _parts(names):
            answer = self._call(
                "DescribeSubscriptions",
                pb.DescribeSubscriptionsRequest(subscriptions=some),
                pb.DescribeSubscriptionsResponse,
            )
            found |= {one.name: one for one in answer.subscriptions}
        return found

    def describe_consumers(self, subscription: str) -> pb.DescribeConsumersResponse:
        """Which stream of a subscription has which key slots."""
        request = pb.DescribeConsumersRequest(subscription=subscription)
        method = f"{_SERVICE}/DescribeConsumers"
        return self._connection.call(method, request, pb.DescribeConsumersResponse)

    def get_revision_numbers(self, schema: str) -> dict[str, int]:
        """The number of each revision of a schema by its id; none of one that is gone by now."""
        request = pb.DescribeSchemaRequest(name=schema)
        answer = self._call("DescribeSchema", request, pb.SchemaDescription)
        return {one.id: one.number for one in answer.revisions}

    def _call(self, method: str, request: Message, reply_type: type[ReplyT]) -> ReplyT:
        try:
            return self._connection.call(f"{_SERVICE}/{method}", request, reply_type)
        except CallFailed as failure:
            if failure.status not in ("UNIMPLEMENTED", "NOT_FOUND"):
                raise
            empty: ReplyT = reply_type()
            return empty


def _parts(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(names), limits.DESCRIBED_MAX):
        yield names[first : first + limits.DESCRIBED_MAX]
